//! The first process of a program, as far as signals go that are handed on to it.

use crate::tracing::sys::{self, Pid};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where it is.
#[derive(Debug)]
enum Stage {
    /// Not yet there; what has come for it.
    Coming(Vec<i32>),
    Runs(Pid),
    Ended,
}

/// Hands signals on to the first process.
#[derive(Debug)]
pub struct First(Mutex<Stage>);

impl First {
    /// It is yet to begin.
    pub fn new() -> First {
        First(Mutex::new(Stage::Coming(Vec::new())))
    }

    /// It has begun: it gets what came for it.
    pub fn begin(&self, process: Pid) {
        let mut stage = self.stage();
        if let Stage::Coming(signals) = &*stage {
            // It may have been killed.
            signals.iter().for_each(|&signal| _ = sys::kill(process, signal));
        }
        *stage = Stage::Runs(process);
    }

    /// It has ended, and its number may be another's.
    pub fn end(&self) {
        *self.stage() = Stage::Ended;
    }

    /// Hands a signal on. Whether there is or will be someone to get it.
    pub fn send(&self, signal: i32) -> bool {
        match &mut *self.stage() {
            Stage::Coming(signals) => signals.push(signal),
            // It may be about to end by itself.
            Stage::Runs(process) => _ = sys::kill(*process, signal),
            Stage::Ended => return false,
        }
        true
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
