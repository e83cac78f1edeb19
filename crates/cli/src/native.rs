//! Programs that run at their own speed: the memory that they find, signals meanwhile, and their end as ours.

use crate::error::{CliError, Code};
use crate::signals::{Sender, Watch, watch};
use pagewalk_live::tracing::{End, Interrupt, Relay};
use pagewalk_live::warmth::Warmth;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::process::ExitCode;
use std::sync::Arc;

/// What is handed on to programs.
const RELAYED: [i32; 6] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

/// Hands signals on to a program, which decides what they do; but not those of the terminal, of a key or of its end:
/// the program has been sent them too. `interrupted` is called for Ctrl-C.
pub fn relay_by(
    hand_on: impl Fn(i32) + Send + 'static,
    interrupted: impl Fn() + Send + 'static,
) -> Result<Watch, CliError> {
    watch(&RELAYED, move |signal, sender| match sender {
        Sender::Kernel if signal == SIGINT => interrupted(),
        Sender::Kernel if signal == SIGQUIT || signal == SIGHUP => {}
        _ => hand_on(signal),
    })
}

/// Hands signals on to a program that this process follows.
pub fn relay_signals(relay: &'static Relay) -> Result<Watch, CliError> {
    relay_by(|signal| relay.send(signal), || {})
}

/// Hands signals on to a program that another process of ours follows. A second Ctrl-C kills it and all that it
/// started.
pub fn relay_to_followed(interrupt: Arc<Interrupt>) -> Result<Watch, CliError> {
    let of_terminal = Arc::clone(&interrupt);
    relay_by(move |signal| interrupt.hand_on(signal), move || of_terminal.interrupt())
}

/// Whether it asks a program to end that does not handle it.
pub fn asks_to_end(signal: i32) -> bool {
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal)
}

/// A program that traces others was let go, as a process has one tracer.
pub fn traces_others(program: &String) -> String {
    format!(
        "{program} traces processes itself (ptrace): nobody else can trace those, so what it started ran without us"
    )
}

/// Has the next run of a program find memory that is there, where that was asked for.
pub fn warm(warmth: Option<Warmth>) -> Result<(), CliError> {
    let failed = |error| CliError::new(Code::Failed, format!("--warm: {error}"));
    warmth.map_or(Ok(()), |warmth| warmth.warm().map_err(failed))
}

/// The program's own end as our exit code: its status, or 128 and the signal's number.
pub fn exit_code(end: End) -> ExitCode {
    ExitCode::from(match end {
        End::Exit(status) => status as u8,
        End::Signal(signal) => 128 + signal as u8,
    })
}
