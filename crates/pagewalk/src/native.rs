//! Programs that run at their own speed: signals meanwhile, and their ends.

use crate::error::Error;
use crate::listener::{HandOn, Listener, SIGINT, Watch};
use pagewalk_live::tracing::{End, Interrupt, Relay};
use pagewalk_report::documents;
use std::sync::Arc;

/// Hands signals on to a program that this process follows.
pub fn relay_signals(relay: &'static Relay, listener: &dyn Listener) -> Result<Watch, Error> {
    listener.relay(HandOn { signal: Box::new(|signal| relay.send(signal)), of_terminal: Box::new(|_| {}) })
}

/// Hands signals on to a program that another process of ours follows. A second Ctrl-C kills it and all that it
/// started.
pub fn relay_to_followed(interrupt: Arc<Interrupt>, listener: &dyn Listener) -> Result<Watch, Error> {
    let of_terminal = Arc::clone(&interrupt);
    listener.relay(HandOn {
        signal: Box::new(move |signal| interrupt.hand_on(signal)),
        of_terminal: Box::new(move |signal| {
            if signal == SIGINT {
                of_terminal.interrupt();
            }
        }),
    })
}

/// A program that traces others was let go, as a process has one tracer.
pub fn traces_others(program: &String) -> String {
    format!(
        "{program} traces processes itself (ptrace): nobody else can trace those, so what it started ran without us"
    )
}

/// How a program ended, in words.
pub fn tell(end: End) -> String {
    match end {
        End::Exit(status) => format!("exit {status}"),
        End::Signal(signal) => format!("signal {signal}"),
    }
}

/// How a program ended, as results have it.
pub fn end(end: End) -> documents::End {
    match end {
        End::Exit(status) => documents::End::Exit(status),
        End::Signal(signal) => documents::End::Signal(signal),
    }
}
