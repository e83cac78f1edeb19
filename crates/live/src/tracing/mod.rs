//! Programs that run at their own speed under ptrace: starting them, their stops, their mappings, their end.

pub(crate) mod detour;
pub(crate) mod follow;
pub(crate) mod image;
pub(crate) mod launch;
pub(crate) mod maps;
pub(crate) mod stops;
pub(crate) mod sys;

pub use follow::Relay;
pub use launch::LaunchError;

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io::{PipeWriter, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
pub use sys::children_usage;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// With this exit status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl End {
    /// None of a status that is not the end.
    pub(crate) fn of(status: stops::Status) -> Option<End> {
        match status {
            stops::Status::Exited(status) => Some(End::Exit(status)),
            stops::Status::Killed(signal) => Some(End::Signal(signal)),
            _ => None,
        }
    }
}

/// Ends a run from another thread, as when the user presses Ctrl-C.
#[derive(Debug, Default)]
pub struct Interrupt {
    state: Mutex<Interrupted>,
}

#[derive(Debug, Default)]
struct Interrupted {
    /// Every thread that is traced now.
    threads: HashSet<sys::Pid>,
    times: u32,
    /// Whether all are to end, those that start from now on too.
    killed: bool,
    /// Where another process that traces them hears of it.
    elsewhere: Option<PipeWriter>,
    /// The program's first thread, as long as it is traced here.
    first: Option<sys::Pid>,
    /// Signals that came before there was anyone to get them.
    early: Vec<i32>,
}

impl Interrupt {
    /// Nothing runs yet.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// The first time nothing happens: the terminal has sent the signal to the program as well, which decides how to
    /// end. The second time the program and all that it started is killed.
    pub fn interrupt(&self) {
        let mut state = self.state();
        state.times += 1;
        if state.times > 1 {
            state.kill();
        }
    }

    /// Kills the program and all that it started.
    pub fn kill(&self) {
        self.state().kill();
    }

    /// Hands a signal on to the program; before it has begun, the signal waits for it.
    pub fn hand_on(&self, signal: i32) {
        let mut state = self.state();
        match state.first {
            // It may be about to end by itself.
            Some(first) => _ = sys::kill(first, signal),
            None if state.elsewhere.is_some() => state.order(signal),
            None => state.early.push(signal),
        }
    }

    pub(crate) fn began(&self, thread: sys::Pid) {
        let mut state = self.state();
        state.threads.insert(thread);
        if state.first.is_none() {
            state.first = Some(thread);
            // It may be about to end by itself.
            std::mem::take(&mut state.early).into_iter().for_each(|signal| _ = sys::kill(thread, signal));
        }
        if state.killed {
            state.kill();
        }
    }

    /// Another process traces the threads: it is told to kill them, and which signals come.
    pub(crate) fn tell(&self, to: PipeWriter) {
        let mut state = self.state();
        state.elsewhere = Some(to);
        for signal in std::mem::take(&mut state.early) {
            state.order(signal);
        }
        if state.killed {
            state.kill();
        }
    }

    pub(crate) fn ended(&self, thread: sys::Pid) {
        let mut state = self.state();
        state.threads.remove(&thread);
        // Its number may be another's from now on.
        state.first = state.first.filter(|&first| first != thread);
    }

    fn state(&self) -> MutexGuard<'_, Interrupted> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interrupted {
    fn kill(&mut self) {
        self.killed = true;
        for &thread in &self.threads {
            // It may be about to end by itself.
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
