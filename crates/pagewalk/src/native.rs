//! Programs that run at their own speed: the memory that they find, and signals meanwhile.

use crate::error::{Error, Fault};
use crate::listener::{HandOn, Listener, Watch};
use pagewalk_live::tracing::{End, Interrupt, Relay};
use pagewalk_live::warmth::Warmth;
use pagewalk_report::documents;
use std::sync::Arc;

/// Hands signals on to a program that this process follows.
pub fn relay_signals(relay: &'static Relay, listener: &dyn Listener) -> Result<Watch, Error> {
    listener.relay(HandOn { signal: Box::new(|signal| relay.send(signal)), interrupted: Box::new(|| {}) })
}

/// Hands signals on to a program that another process of ours follows. A second Ctrl-C kills it and all that it
/// started.
pub fn relay_to_followed(interrupt: Arc<Interrupt>, listener: &dyn Listener) -> Result<Watch, Error> {
    let of_terminal = Arc::clone(&interrupt);
    listener.relay(HandOn {
        signal: Box::new(move |signal| interrupt.hand_on(signal)),
        interrupted: Box::new(move || of_terminal.interrupt()),
    })
}

/// A program that traces others was let go, as a process has one tracer.
pub fn traces_others(program: &String) -> String {
    format!(
        "{program} traces processes itself (ptrace): nobody else can trace those, so what it started ran without us"
    )
}

/// Has the next run of a program find memory that is there, where that was asked for.
pub fn warm(warmth: Option<Warmth>) -> Result<(), Error> {
    let failed = |error| Error::new(Fault::Failed, format!("--warm: {error}"));
    warmth.map_or(Ok(()), |warmth| warmth.warm().map_err(failed))
}

/// How a program ended, as results have it.
pub fn end(end: End) -> documents::End {
    match end {
        End::Exit(status) => documents::End::Exit(status),
        End::Signal(signal) => documents::End::Signal(signal),
    }
}
