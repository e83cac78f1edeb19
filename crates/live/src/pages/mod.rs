//! Huge pages by range for an unmodified program.
//!
//! When the loader of a planned program is done, its calls of `mmap`, `munmap`, `mremap` and `brk` are led through a
//! piece of code in a page of its own (`install`, `code`, `sites`): the call is made as it was, and what the plan has
//! of the memory that it gave is marked with `madvise(MADV_HUGEPAGE)`. The code keeps count in a table (`table`). Then
//! nothing stops any more; what became of each range is looked at now and then, and at the end (`watch`, `look`), and
//! why it is not on huge pages follows from the facts (`reason`).
//!
//! Nothing needs us once the code is there, and at no moment before would the program fare worse if we were killed.

mod attachment;
mod code;
mod collapse;
mod host;
mod inspection;
mod install;
pub mod plan;
mod reason;
mod recognition;
mod rights;
mod run;
pub mod settings;
mod sites;
mod table;
mod watch;

pub(crate) use collapse::Handle;
pub(crate) use inspection::look;

pub use attachment::{AttachError, Process, RangeAction, RangeChange, attach};
pub use host::{EXCEPT_ADVISED_SINCE, HUGE_BYTES, HostConditions, Mode, is_since, kernel, mode};
pub(crate) use host::{is_disabled, room_in_groups};
pub use inspection::RangeSnapshot;
pub use reason::Reason;
pub use recognition::{NamedMemory, named};
pub(crate) use rights::check_kernel;
pub use rights::{HostError, OldKernel, check_host};
pub use run::run;

use crate::timing::TimedRun;
use crate::tracing::LaunchError;
use crate::tracing::image::ROOM_BYTES;
use crate::tracing::sys::Pid;
use plan::Caller;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;

/// How a program is run under a plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The planned program's file; images of other programs run as they are.
    pub program: PathBuf,
    /// Whether memory that is not planned is kept on small pages by `PR_SET_THP_DISABLE`: for hosts whose mode is
    /// `always`.
    pub keep_small: bool,
    /// Whether a program that cannot have the plan runs without.
    pub or_default: bool,
    /// Whether each process is let go when the code is in place: its ranges are looked at while it runs, not at its
    /// end, and programs that it starts have no plan.
    pub release: bool,
    /// The file that the program reads, while its standard output goes nowhere; none: its streams are this process's.
    pub input: Option<CString>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the first process took. Its processor time has nothing of what following it took.
    pub timed: TimedRun,
    /// Process images of the planned program, in order of their execs.
    pub images: Vec<Image>,
    /// Programs that were started and are not the planned one.
    pub others: Vec<String>,
    /// Programs that trace others, with all that they started: they were let go.
    pub tracers: Vec<String>,
}

/// A process image of the planned program.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its process.
    pub process: Pid,
    /// Path of its program.
    pub program: String,
    /// Why it ran without the plan, if it did.
    pub obstacle: Option<String>,
    /// What became of each range of the plan; empty if it ran without.
    pub ranges: Vec<RangeOutcome>,
}

/// What became of a range.
#[derive(Clone, Debug)]
pub struct RangeOutcome {
    /// Where it began, when it was last known.
    pub start: Option<u64>,
    /// Where the call came from that mapped it.
    pub caller: Option<Caller>,
    /// Bytes that were marked, all in all.
    pub marked_bytes: u64,
    /// Bytes that pagewalk collapsed itself, as the kernel does not by marks alone.
    pub collapsed_bytes: u64,
    /// The moment with most of it on huge pages.
    pub best: Option<RangeSnapshot>,
    /// The last moment that it was looked at.
    pub last: Option<RangeSnapshot>,
    /// Why not all of it was on huge pages; none if it was.
    pub reason: Option<Reason>,
}

/// Why a process image cannot have the plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Not x86-64.
    #[error("it is no 64-bit program")]
    Not64Bit,
    /// A filter could end it for a call that it does not expect.
    #[error("a seccomp filter is on its system calls, which may forbid madvise")]
    Filtered,
    /// Not the code that is known.
    #[error("neither it nor its libraries have calls of mmap or brk of a known form (glibc's, Go's)")]
    NoSites,
    /// No bytes free.
    #[error("neither its loader nor it has {ROOM_BYTES} unused bytes behind its code")]
    NoRoom,
    /// No free memory near its code.
    #[error("there is no free place within 2 GiB of its code")]
    NoPlace,
    /// Something else.
    #[error("its memory cannot be changed: {0}")]
    Io(#[from] io::Error),
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagesError {
    /// The program did not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A file of the plan.
    #[error("{file} of the plan cannot be found: {error}")]
    File {
        /// Its path.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// The program cannot have the plan. It did not begin.
    #[error("{program} cannot have its huge pages planned: {obstacle}")]
    Program {
        /// Its path.
        program: String,
        /// Why.
        obstacle: Obstacle,
    },
}
