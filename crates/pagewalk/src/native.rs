//! Programs at their own speed: relaying signals, and how they end.

use crate::error::Error;
use crate::listener::{Listener, RelayGuard, SignalRelay};
use pagewalk_live::tracing::{Interrupt, ProcessEnd, Relay};
use pagewalk_report::documents;
use rustix::process::Signal;
use std::sync::Arc;

/// Passes signals on to a program that this process traces.
pub fn relay_signals(relay: &'static Relay, listener: &dyn Listener) -> Result<RelayGuard, Error> {
    listener
        .relay(SignalRelay { signal: Box::new(|signal| relay.send(signal)), of_terminal: Box::new(|_| {}) })
}

/// Passes signals on to a program that another of our processes traces. A second Ctrl-C kills it and everything that it
/// started.
pub fn relay_to_followed(interrupt: Arc<Interrupt>, listener: &dyn Listener) -> Result<RelayGuard, Error> {
    let of_terminal = Arc::clone(&interrupt);
    listener.relay(SignalRelay {
        signal: Box::new(move |signal| interrupt.hand_on(signal)),
        of_terminal: at_interrupt(move || of_terminal.interrupt()),
    })
}

/// Runs `does` on Ctrl-C; ignores other terminal signals.
pub fn at_interrupt(does: impl Fn() + Send + 'static) -> Box<dyn Fn(i32) + Send> {
    Box::new(move |signal| {
        if signal == Signal::INT.as_raw() {
            does();
        }
    })
}

/// Whether the default action of a signal is to end the program.
pub fn asks_to_end(signal: i32) -> bool {
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM].iter().any(|asks| asks.as_raw() == signal)
}

/// The note on a program that traces others: it was let go, as a process has only one tracer.
pub fn traces_others(program: &String) -> String {
    format!(
        "{program} traces processes itself (ptrace): nobody else can trace those, so what it started ran without us"
    )
}

/// How a program ended, as text: `exit 0`, `signal 9`.
pub fn describe_end(end: impl Into<ProcessEnd>) -> String {
    match end.into() {
        ProcessEnd::Exit(status) => format!("exit {status}"),
        ProcessEnd::Signal(signal) => format!("signal {signal}"),
    }
}

/// How a program ended, as data.
pub fn end(end: ProcessEnd) -> documents::End {
    match end {
        ProcessEnd::Exit(status) => documents::End::Exit(status),
        ProcessEnd::Signal(signal) => documents::End::Signal(signal),
    }
}
