//! Relays signals to a program's first process.

use super::sys::{self, Pid};

/// The state of the first process.
#[derive(Debug)]
pub enum FirstProcess {
    /// Not started; signals that wait for it.
    Coming(Vec<i32>),
    Runs(Pid),
    Ended,
}

impl Default for FirstProcess {
    fn default() -> FirstProcess {
        FirstProcess::Coming(Vec::new())
    }
}

impl FirstProcess {
    /// It has started: sends it the waiting signals.
    pub fn begin(&mut self, process: Pid) {
        // It may have been killed.
        self.take_waiting().into_iter().for_each(|signal| _ = sys::kill(process, signal));
        *self = FirstProcess::Runs(process);
    }

    /// Takes the waiting signals.
    pub fn take_waiting(&mut self) -> Vec<i32> {
        if let FirstProcess::Coming(signals) = self { std::mem::take(signals) } else { Vec::new() }
    }

    /// Relays a signal; returns whether someone gets or will get it.
    pub fn send(&mut self, signal: i32) -> bool {
        match self {
            FirstProcess::Coming(signals) => signals.push(signal),
            // It may be about to exit.
            FirstProcess::Runs(process) => _ = sys::kill(*process, signal),
            FirstProcess::Ended => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn signals_wait_for_it_and_are_not_sent_to_who_comes_later() {
        let mut first = FirstProcess::default();
        assert!(first.send(15));
        let mut child = Command::new("sleep").arg("100").spawn().expect("sleep starts");
        first.begin(child.id() as Pid);
        assert_eq!(child.wait().expect("it ends").signal(), Some(15));
        first = FirstProcess::Ended;
        assert!(!first.send(15));
    }
}
