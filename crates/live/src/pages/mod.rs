//! Huge pages by range for an unmodified program.
//!
//! When the loader of a planned program is done, its calls of `mmap`, `munmap`, `mremap` and `brk` are redirected
//! through code in a page of its own (`install`, `code`, `sites`): the call is made unchanged, then the planned parts
//! of the returned memory are marked with `madvise(MADV_HUGEPAGE)`. The code keeps a table of ranges (`table`). After
//! that nothing stops; ranges are inspected now and then, and at the end (`watch`, `inspection`). Why a range is not on
//! huge pages follows from these facts (`reason`).
//!
//! The code needs us no longer, and if we are killed at any moment before, the program runs as usual.

mod attachment;
mod code;
mod collapse;
mod host;
mod inspection;
mod install;
mod reason;
mod recognition;
mod rights;
mod run;
pub mod settings;
mod sites;
mod table;
mod watch;

pub(crate) use collapse::ProcessHandle;
pub(crate) use inspection::measure;

pub use attachment::{AttachError, Process, RangeAction, RangeChange, attach};
pub use host::{EXCEPT_ADVISED_SINCE, HUGE_BYTES, HostConditions, Mode, is_since, kernel, mode};
pub(crate) use host::{is_disabled, room_in_groups};
pub use inspection::RangeSnapshot;
pub use reason::Reason;
pub use recognition::{FormerMapping, NamedMemory, named, named_in};
pub(crate) use rights::check_kernel;
pub use rights::{HostError, OldKernel, check_host};
pub use run::run;

use crate::layout::{self, LayoutError};
use crate::timing::TimedRun;
use crate::tracing::LaunchError;
use crate::tracing::image::ROOM_BYTES;
use crate::tracing::sys::Pid;
use pagewalk_layout::files::Object;
use pagewalk_plan::Caller;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;

/// How to run a program under a plan.
#[derive(Clone, Debug, Default)]
pub struct PagesOptions {
    /// The planned program's file; other programs run unchanged.
    pub program: PathBuf,
    /// Whether to keep unplanned memory on small pages by `PR_SET_THP_DISABLE`, for hosts in mode `always`.
    pub keep_small: bool,
    /// Whether a program that cannot have the plan runs without it.
    pub or_default: bool,
    /// Whether to detach from each process when the code is in place: its ranges are inspected while it runs but not at
    /// its end, and programs that it starts have no plan.
    pub release: bool,
    /// Shared objects to place as well.
    pub objects: Vec<Object>,
    /// The program's standard input, with its standard output dropped; none: our own streams.
    pub input: Option<CString>,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct PagesRun {
    /// The first process's times, without the cost of following it.
    pub timed: TimedRun,
    /// Process images of the planned program, in order of their execs.
    pub images: Vec<PagesImage>,
    /// Other programs that were started.
    pub others: Vec<String>,
    /// All images, planned or not, where objects were placed; empty without objects.
    pub placed: Vec<layout::LayoutImage>,
    /// Programs that trace others, with everything they started: we detached from them.
    pub tracers: Vec<String>,
}

/// A process image of the planned program.
#[derive(Clone, Debug)]
pub struct PagesImage {
    /// Its process.
    pub process: Pid,
    /// Path of its program.
    pub program: String,
    /// Why it ran without the plan, if it did.
    pub obstacle: Option<String>,
    /// The outcome of each range of the plan; empty without the plan.
    pub ranges: Vec<RangeOutcome>,
}

/// The outcome of a range.
#[derive(Clone, Debug)]
pub struct RangeOutcome {
    /// Its last known start.
    pub start: Option<u64>,
    /// The call that mapped it.
    pub caller: Option<Caller>,
    /// Bytes marked in total.
    pub marked_bytes: u64,
    /// Bytes that pagewalk collapsed, where marks alone have no effect.
    pub collapsed_bytes: u64,
    /// The inspection with most of it on huge pages.
    pub best: Option<RangeSnapshot>,
    /// The last inspection.
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
    /// A filter could kill it for an unexpected call.
    #[error("a seccomp filter is on its system calls, which may forbid madvise")]
    Filtered,
    /// Unknown code.
    #[error("neither it nor its libraries have calls of mmap or brk of a known form (glibc's, Go's)")]
    NoSites,
    /// No unused bytes.
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
    /// A file of the plan is missing.
    #[error("{file} of the plan cannot be found: {error}")]
    File {
        /// Its path.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// The program cannot have its objects placed. It was not started.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The program cannot have the plan. It was not started.
    #[error("{program} cannot have its huge pages planned: {obstacle}")]
    Program {
        /// Its path.
        program: String,
        /// Why.
        obstacle: Obstacle,
    },
}
