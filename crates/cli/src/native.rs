//! Programs that run at their own speed, traced by ptrace: signals meanwhile, and their end as ours.

use crate::error::{CliError, Code};
use pagewalk_live::tracing::{End, Interrupt, Relay};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use std::process::ExitCode;
use std::sync::Arc;

/// The terminal sends Ctrl-C to the program as well, which decides how to end; a second one kills it. SIGTERM and
/// SIGHUP came to us alone, so they end the program at once.
pub fn watch_signals(interrupt: Arc<Interrupt>) -> Result<Handle, CliError> {
    let watched = Signals::new([SIGINT, SIGTERM, SIGHUP]);
    let mut signals = watched.map_err(|e| CliError::new(Code::Failed, format!("watching signals: {e}")))?;
    let handle = signals.handle();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGINT { interrupt.interrupt() } else { interrupt.kill() }
        }
    });
    Ok(handle)
}

/// Hands signals on to the program. The terminal sends Ctrl-C and Ctrl-\ to the program as well, which decides what to
/// do.
pub fn relay_signals(relay: &'static Relay) -> Result<Handle, CliError> {
    let watched = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]);
    let mut signals = watched.map_err(|e| CliError::new(Code::Failed, format!("watching signals: {e}")))?;
    let handle = signals.handle();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal != SIGINT && signal != SIGQUIT {
                relay.send(signal);
            }
        }
    });
    Ok(handle)
}

/// The program's own end as our exit code: its status, or 128 and the signal's number.
pub fn exit_code(end: End) -> ExitCode {
    ExitCode::from(match end {
        End::Exit(status) => status as u8,
        End::Signal(signal) => 128 + signal as u8,
    })
}
