//! A live Tapeworm: the program's page faults are the misses of a simulated TLB.
//!
//! Pages in the simulated array are present in the program's page table and run at full speed; all others of its
//! private writable memory are absent, and the first reference to one faults. The fault is the miss: the page becomes
//! present, and the page that the array evicts becomes absent. So only misses cost time, hits cost nothing.
//!
//! The program's memory becomes shared memory of a file (with the same contents and addresses), so that dropping a
//! page's table entry loses nothing. userfaultfd hands each fault to an *agent*, a task of ours in the program's
//! address space (`agent`, `agent/agent.c`); faults in system calls too, which simply wait. A tracer stops the few
//! system calls that change mappings (`filter`, `calls`), forks (`forks`), execs and exits (`tracer`,
//! `resident_pages`). The tracer is a process of its own (`keeper`). Processes that the program traces itself are
//! detached (`tracers`).
//!
//! Source: the tool Tapeworm in Uhlig, Nagle, Stanley, Mudge, Sechrest, Brown, "Design Tradeoffs for Software-Managed
//! TLBs", ACM TOCS 12 (3), 1994, section 3.2. There the traps were the TLB's own; the rule is the same: a present page
//! must be in the simulated TLB, so replacement cannot depend on hits.

mod agent;
mod array;
mod calls;
mod check;
mod children;
mod descriptors;
mod filter;
mod forks;
mod guards;
mod host;
mod image;
mod keeper;
mod limits;
mod locks;
mod pass_through;
mod placement;
mod processors;
mod remap;
mod report;
mod resident_pages;
mod shared;
mod space;
mod stack;
mod tracee;
mod tracer;
mod tracers;
mod verdict;

pub use array::{ArrayError, Changes, TrapArray};
pub use check::ReplayReport;
pub use host::{HostError, check_host};
pub use report::{ImageOrigin, ImageReport, MappingReport, MappingUse};

use crate::tracing::{Interrupt, LaunchError, ProcessEnd};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// How to run a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrapOptions {
    /// Whether to replay every decision through the arrays of `setassoc`.
    pub check: bool,
}

/// The outcome of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrapRun {
    /// The end of the first process.
    pub end: ProcessEnd,
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
    /// It started, but its end was not seen.
    #[error("following the program: {0}")]
    Follow(std::io::Error),
    /// The keeper ended without a message.
    #[error(
        "the process that followed the program (trap-keeper) ended before it ({how}), and the program with it, which \
         cannot go on without: what was counted is lost; run it again, and see who ended it (a kill of all processes, \
         or the kernel for want of memory: dmesg)", how = how(.0)
    )]
    Keeper(ProcessEnd),
}

fn how(end: &ProcessEnd) -> String {
    match end {
        ProcessEnd::Exit(status) => format!("exit code {status}"),
        ProcessEnd::Signal(signal) => format!("signal {signal}"),
    }
}

/// Runs a program and everything it starts to the end. A separate process traces them, and goes on if this one is
/// killed.
///
/// # Errors
/// If this host does not permit it, the program cannot be started, or the tracing process is killed.
pub fn run(
    command: &[OsString],
    array: &TrapArray,
    options: TrapOptions,
    interrupt: &Interrupt,
) -> Result<TrapRun, TrapError> {
    check_host()?;
    keeper::run(command, array, options, interrupt)
}
