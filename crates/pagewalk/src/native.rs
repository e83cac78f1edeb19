//! Programs that run at their own speed: signals meanwhile, and their ends.

use crate::error::Error;
use crate::listener::{Listener, SignalRelay, Watch};
use pagewalk_live::tracing::{End, Interrupt, Relay};
use pagewalk_report::documents;
use rustix::process::Signal;
use std::sync::Arc;

/// Hands signals on to a program that this process follows.
pub fn relay_signals(relay: &'static Relay, listener: &dyn Listener) -> Result<Watch, Error> {
    listener
        .relay(SignalRelay { signal: Box::new(|signal| relay.send(signal)), of_terminal: Box::new(|_| {}) })
}

/// Hands signals on to a program that another process of ours follows. A second Ctrl-C kills it and all that it
/// started.
pub fn relay_to_followed(interrupt: Arc<Interrupt>, listener: &dyn Listener) -> Result<Watch, Error> {
    let of_terminal = Arc::clone(&interrupt);
    listener.relay(SignalRelay {
        signal: Box::new(move |signal| interrupt.hand_on(signal)),
        of_terminal: at_interrupt(move || of_terminal.interrupt()),
    })
}

/// Does this at Ctrl-C, and nothing at other signals of the terminal.
pub fn at_interrupt(does: impl Fn() + Send + 'static) -> Box<dyn Fn(i32) + Send> {
    Box::new(move |signal| {
        if signal == Signal::INT.as_raw() {
            does();
        }
    })
}

/// Whether a signal asks a program to end that does not handle it.
pub fn asks_to_end(signal: i32) -> bool {
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM].iter().any(|asks| asks.as_raw() == signal)
}

/// A program that traces others was let go, as a process has one tracer.
pub fn traces_others(program: &String) -> String {
    format!(
        "{program} traces processes itself (ptrace): nobody else can trace those, so what it started ran without us"
    )
}

/// How a program ended, for people: `exit 0`, `signal 9`.
pub fn tell(end: impl Into<End>) -> String {
    match end.into() {
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
