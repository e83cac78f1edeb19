//! Runs the library's work on a thread of its own, without the interpreter's lock.
//!
//! Meanwhile the calling thread passes messages on to Python and looks for Ctrl-C. An interrupt ends the work cleanly:
//! programs get SIGINT, reading of traces stops.

use crate::error::{PagewalkWarning, exception};
use pagewalk::{Bar, Error, Fault, Listener, RelayGuard, SignalRelay};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::ffi::CString;
use std::fmt::Display;
use std::fs::File;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// SIGINT's number.
const INTERRUPT: i32 = 2;
/// How often to look for Ctrl-C.
const LOOK: Duration = Duration::from_millis(20);

/// A message of the library, or the work's end.
enum Message {
    Warning(String),
    Note(String),
    End,
}

/// The place of the running program's relay.
type RelaySlot = Arc<Mutex<Option<SignalRelay>>>;

/// The library's caller: hears its messages, and can stop it.
pub struct Caller {
    to: Sender<Message>,
    relay: RelaySlot,
    stop: Arc<AtomicBool>,
}

impl Caller {
    /// Set when the user asks to stop.
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Stops the work. Ctrl-C at a terminal (`is_key`) has reached the program already; for any other exception, the
    /// program gets the signal from here.
    fn interrupt(&self, is_key: bool) {
        let relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(true, Ordering::Relaxed);
        let Some(relay) = &*relay else { return };
        if is_key && is_in_foreground() {
            (relay.of_terminal)(INTERRUPT);
        } else {
            (relay.signal)(INTERRUPT);
        }
    }

    fn tell(&self, message: Message) {
        // Nobody listens after the work's end.
        let _ = self.to.send(message);
    }
}

impl Listener for Caller {
    fn warn(&self, message: &dyn Display) {
        self.tell(Message::Warning(message.to_string()));
    }

    fn note(&self, message: &dyn Display) {
        self.tell(Message::Note(message.to_string()));
    }

    fn bytes(&self, _: u64, _: &str) -> Arc<dyn Bar> {
        Arc::new(StopBar(Arc::clone(&self.stop)))
    }

    fn shares(&self, _: &str) -> Arc<dyn Bar> {
        Arc::new(StopBar(Arc::clone(&self.stop)))
    }

    fn relay(&self, to: SignalRelay) -> Result<RelayGuard, Error> {
        // An interrupt finds the relay, or the flag is seen here.
        let mut relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::new(Fault::Failed, "interrupted"));
        }
        *relay = Some(to);
        Ok(Box::new(OccupiedSlot(Arc::clone(&self.relay))))
    }
}

/// Ends reading and measuring when the user asks to stop.
struct StopBar(Arc<AtomicBool>);

impl Bar for StopBar {
    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Empties the slot when the program has ended.
struct OccupiedSlot(RelaySlot);

impl Drop for OccupiedSlot {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Tells the work's end, also when it panics.
struct EndTeller<'a>(&'a Caller);

impl Drop for EndTeller<'_> {
    fn drop(&mut self) {
        self.0.tell(Message::End);
    }
}

/// Whether this process is in the foreground of its terminal, whose Ctrl-C reaches all of that group.
fn is_in_foreground() -> bool {
    let terminal = File::open("/dev/tty").ok();
    let group = terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    group == Some(rustix::process::getpgrp())
}

/// Does `work`, which may take long.
///
/// # Errors
/// The work's error, or what a signal handler or a warning of Python raised.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce(&Caller) -> Result<T, Error> + Send) -> PyResult<T> {
    let (to, mut from) = channel();
    let caller = Caller { to, relay: RelaySlot::default(), stop: Arc::default() };
    std::thread::scope(|scope| {
        let caller = &caller;
        let working = scope.spawn(move || {
            let _end = EndTeller(caller);
            work(caller)
        });
        let raised = follow(py, &mut from, caller);
        let done = py.detach(|| working.join()).unwrap_or_else(|panic| resume_unwind(panic));
        raised?;
        done.map_err(exception)
    })
}

/// Passes messages on until the work ends. The first exception interrupts it.
fn follow(py: Python<'_>, from: &mut Receiver<Message>, caller: &Caller) -> PyResult<()> {
    let mut raised = Ok(());
    loop {
        let from = &mut *from;
        let next = py.detach(move || from.recv_timeout(LOOK));
        let passed = match next {
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return raised.and(py.check_signals()),
            Ok(Message::Warning(text)) => warn(py, &text),
            Ok(Message::Note(text)) => note(py, &text),
            Err(RecvTimeoutError::Timeout) => Ok(()),
        };
        if let Err(error) = passed.and_then(|()| py.check_signals()) {
            caller.interrupt(error.is_instance_of::<PyKeyboardInterrupt>(py));
            raised = raised.and(Err(error));
        }
    }
}

/// Warns by Python's `warnings`.
fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    PyErr::warn(py, py.get_type::<PagewalkWarning>().as_any(), &text, 1)
}

/// Logs by Python's `logging`, at level INFO.
fn note(py: Python<'_>, text: &str) -> PyResult<()> {
    let logger = py.import("logging")?.call_method1("getLogger", ("pagewalk",))?;
    logger.call_method1("info", ("%s", text)).map(drop)
}
