//! Programs that run at their own speed: the memory that they find, signals meanwhile, and their end as ours.

use crate::error::{CliError, Code};
use crate::signals::{Sender, Watch, watch};
use pagewalk_live::tracing::{End, Interrupt, Relay};
use pagewalk_live::warmth::Warmth;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::process::ExitCode;
use std::sync::Arc;

/// What [`relay_signals`] takes.
pub const RELAYED: [i32; 6] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];

/// Hands signals on to the program.
pub fn relay_signals(relay: &'static Relay) -> Result<Watch, CliError> {
    watch(&RELAYED, |signal, sender| hand_on(relay, signal, sender))
}

/// Hands one on. The terminal sends Ctrl-C and Ctrl-\ to the program as well, which decides what to do.
pub fn hand_on(relay: &Relay, signal: i32, sender: Sender) {
    if !is_of_terminal(signal, sender) {
        relay.send(signal);
    }
}

/// Whether it came from the terminal, of a key or of its end: then the program has been sent it too.
pub fn is_of_terminal(signal: i32, sender: Sender) -> bool {
    [SIGINT, SIGQUIT, SIGHUP].contains(&signal) && sender == Sender::Kernel
}

/// Whether it asks a program to end that does not handle it.
pub fn asks_to_end(signal: i32) -> bool {
    [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal)
}

/// Hands signals on to a program. The terminal sends Ctrl-C to it as well, and it decides how to end; a second one
/// kills it and all that it started.
pub fn relay_to_followed(interrupt: Arc<Interrupt>) -> Result<Watch, CliError> {
    watch(&RELAYED, move |signal, sender| match is_of_terminal(signal, sender) {
        false => interrupt.hand_on(signal),
        true if signal == SIGINT => interrupt.interrupt(),
        true => {}
    })
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
