//! A live Tapeworm: a program whose page faults are the misses of a simulated TLB.
//!
//! Pages that the simulated array holds are present in the program's page table and run at full speed; all others of
//! its private writable memory are absent, and the first reference to one faults. The fault is the miss: the page
//! comes, and what the array replaces goes. So time is paid for each miss, and none for a hit.
//!
//! How: the program's memory becomes shared memory of a file (contents and places stay), so that dropping a page's
//! table entry loses nothing. userfaultfd hands each fault to an *agent*, a task of ours in the program's address space
//! (`agent`, `agent/agent.c`); faults of system calls too, which simply wait. A tracer stops the few system calls
//! that change mappings (`filter`, `calls`), forks (`separate`), execs and ends (`tracer`, `ending`).
//!
//! Source: the tool Tapeworm in Uhlig, Nagle, Stanley, Mudge, Sechrest, Brown, "Design Tradeoffs for Software-Managed
//! TLBs", ACM TOCS 12 (3), 1994, section 3.2. There the traps were the TLB's own; its rule is the same: what is present
//! must be in the simulated TLB, so replacement cannot depend on hits.

mod agent;
mod array;
mod calls;
mod check;
mod ending;
mod filter;
mod host;
mod image;
pub(crate) mod launch;
pub(crate) mod maps;
mod processors;
mod remap;
mod report;
mod separate;
mod shared;
mod space;
mod stack;
pub(crate) mod sys;
mod tracee;
mod tracer;

pub use array::{ArrayError, Changes, TrapArray};
pub use check::Checked;
pub use host::{HostError, check_host};
pub use launch::LaunchError;
pub use report::{Began, ImageReport, Kind, MappingReport};

use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a program is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether every decision is replayed through the arrays of `setassoc`.
    pub check: bool,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The end of the first process.
    pub end: End,
    /// All process images, in order of start.
    pub images: Vec<ImageReport>,
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrapError {
    /// Not on this host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The program did not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
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

    pub(crate) fn began(&self, thread: sys::Pid) {
        let mut state = self.state();
        state.threads.insert(thread);
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
            // It may be about to end by itself.
            let _ = sys::kill_thread(thread, sys::SIGKILL);
        }
    }
}

/// Runs a program, and all that it starts, to the end.
///
/// Must be called on the thread that is to trace them; it waits for them there. This process becomes the parent of
/// orphans among them.
///
/// # Errors
/// If this host does not permit it, or the program cannot be started.
pub fn run(
    command: &[OsString],
    array: &TrapArray,
    options: Options,
    interrupt: &Interrupt,
) -> Result<Run, TrapError> {
    check_host()?;
    let traced = tracer::trace(command, array, options, interrupt)?;
    let end = match traced.status {
        sys::Status::Killed(signal) => End::Signal(signal),
        sys::Status::Exited(status) => End::Exit(status),
        _ => unreachable!("a run goes on until its first process has ended"),
    };
    Ok(Run { end, images: traced.images })
}
