//! Runs programs at their own speed under ptrace: start, stops, mappings, end.

pub(crate) mod detour;
mod first_process;
pub(crate) mod follower;
pub(crate) mod image;
pub(crate) mod launch;
pub(crate) mod maps;
pub(crate) mod stops;
pub(crate) mod sys;

pub use follower::Relay;
pub use launch::LaunchError;

use first_process::FirstProcess;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io::{PipeWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessEnd {
    /// With this exit status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl From<ExitStatus> for ProcessEnd {
    fn from(status: ExitStatus) -> ProcessEnd {
        status.signal().map_or(ProcessEnd::Exit(status.code().unwrap_or(0)), ProcessEnd::Signal)
    }
}

impl ProcessEnd {
    /// None if the status is not an end.
    pub(crate) fn of(status: stops::WaitStatus) -> Option<ProcessEnd> {
        match status {
            stops::WaitStatus::Exited(status) => Some(ProcessEnd::Exit(status)),
            stops::WaitStatus::Killed(signal) => Some(ProcessEnd::Signal(signal)),
            _ => None,
        }
    }
}

/// Ends a run from another thread, as on Ctrl-C.
#[derive(Debug, Default)]
pub struct Interrupt {
    state: Mutex<Interrupted>,
}

#[derive(Debug, Default)]
struct Interrupted {
    /// Every traced thread.
    threads: HashSet<sys::Pid>,
    times: u32,
    /// Whether to kill everything, including what starts later.
    killed: bool,
    /// Connection to another tracing process.
    elsewhere: Option<PipeWriter>,
    first: FirstProcess,
}

impl Interrupt {
    /// Nothing runs yet.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// The first call does nothing: the terminal has sent the signal to the program too, which decides how to react.
    /// The second call kills the program and everything it started.
    pub fn interrupt(&self) {
        let mut state = self.state();
        state.times += 1;
        if state.times > 1 {
            state.kill();
        }
    }

    /// Kills the program and everything it started.
    pub fn kill(&self) {
        self.state().kill();
    }

    /// Relays a signal to the program; before its start, keeps it.
    pub fn hand_on(&self, signal: i32) {
        let _ = self.send(signal);
    }

    /// Relays a signal; returns whether someone gets or will get it.
    pub(crate) fn send(&self, signal: i32) -> bool {
        let mut state = self.state();
        if state.elsewhere.is_some() {
            state.order(signal);
            return true;
        }
        state.first.send(signal)
    }

    /// The program's first process has started here.
    pub(crate) fn first_began(&self, process: sys::Pid) {
        self.state().first.begin(process);
    }

    /// It has ended; its id may be reused.
    pub(crate) fn first_ended(&self) {
        self.state().first = FirstProcess::Ended;
    }

    pub(crate) fn began(&self, thread: sys::Pid) {
        let mut state = self.state();
        state.threads.insert(thread);
        if state.killed {
            state.kill();
        }
    }

    /// Another process traces the threads: tell it to kill them, and relay signals to it.
    pub(crate) fn set_remote(&self, to: PipeWriter) {
        let mut state = self.state();
        state.elsewhere = Some(to);
        for signal in state.first.take_waiting() {
            state.order(signal);
        }
        if state.killed {
            state.kill();
        }
    }

    pub(crate) fn ended(&self, thread: sys::Pid) {
        self.state().threads.remove(&thread);
    }

    fn state(&self) -> MutexGuard<'_, Interrupted> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interrupted {
    fn kill(&mut self) {
        self.killed = true;
        for &thread in &self.threads {
            // It may be about to exit.
            let _ = sys::kill_thread(thread, sys::SIGKILL);
        }
        self.order(sys::SIGKILL);
    }

    fn order(&mut self, signal: i32) {
        if let Some(elsewhere) = &mut self.elsewhere {
            // It may have ended.
            let _ = elsewhere.write_all(&[signal as u8]);
        }
    }
}
