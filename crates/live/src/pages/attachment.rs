//! Changes the planned ranges of a running process from outside, without stopping or altering it.

use super::collapse::ProcessHandle;
use super::host::{HUGE_BYTES, HostConditions};
use super::inspection::{RangeSnapshot, measure};
use super::recognition::recognised;
use super::rights::{OldKernel, check_kernel};
use crate::tracing::maps;
use crate::tracing::sys::Pid;
use pagewalk_plan::Plan;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What to do with ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeAction {
    /// Put their pages on huge pages.
    Collapse,
    /// Split their huge pages.
    Split,
}

/// The effect on a range.
#[derive(Debug)]
pub struct RangeChange {
    /// Where it lies, as starts and lengths; empty if it was not recognised.
    pub spans: Vec<(u64, u64)>,
    /// Before.
    pub before: RangeSnapshot,
    /// After; equal to `before` if nothing was done.
    pub after: RangeSnapshot,
    /// The last error of a block.
    pub error: Option<io::Error>,
}

/// The effect on a process.
#[derive(Debug)]
pub struct Process {
    /// The requested action.
    pub act: RangeAction,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Why this user may not do it; none for a changed process.
    pub forbidden: Option<AttachError>,
    /// The effect on each range of the plan.
    pub ranges: Vec<RangeChange>,
    /// Whether it switched huge pages off by `prctl`, so that none of its memory can be collapsed.
    pub disabled: bool,
    /// Its tracer; 0 without one. A tracer does not matter here.
    pub tracer: Pid,
}

/// Why nothing could be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No such process.
    #[error("there is no process {0}")]
    NoProcess(Pid),
    /// Another program than the plan's.
    #[error("process {pid} runs {found}, and the plan is for {planned}")]
    OtherProgram {
        /// The process.
        pid: Pid,
        /// What it runs.
        found: String,
        /// What the plan is for.
        planned: String,
    },
    /// Not permitted.
    #[error("this user may not change the memory of process {pid}: {error}")]
    Forbidden {
        /// The process.
        pid: Pid,
        /// The reason.
        error: io::Error,
    },
    /// The kernel is too old.
    #[error(transparent)]
    Kernel(#[from] OldKernel),
    /// It ended meanwhile.
    #[error("process {0} ended, or became another program, while it was worked on")]
    Ended(Pid),
    /// Anything else.
    #[error("reading process {pid}: {error}")]
    Read {
        /// The process.
        pid: Pid,
        /// The reason.
        error: io::Error,
    },
}

impl AttachError {
    /// How to enable it.
    pub fn enable(&self) -> &'static str {
        match self {
            AttachError::Forbidden { .. } => {
                "be root, or have the capabilities CAP_SYS_NICE and CAP_SYS_PTRACE, outside of all user namespaces; \
                 the process's own user needs CAP_SYS_NICE only"
            }
            AttachError::Kernel(_) => "a newer kernel",
            AttachError::NoProcess(_) | AttachError::Ended(_) => {
                "`ps -e` lists the processes; in a container only its own"
            }
            AttachError::OtherProgram { .. } => {
                "choose a process of that program, or make a plan for this one"
            }
            AttachError::Read { .. } => "try it again",
        }
    }
}

/// Changes the ranges of a plan in process `pid`, which must run `program`; a dry run only examines them. Anonymous
/// mappings are recognised by length, up to a MiB more as the kernel merges neighbours, and equal ones by order: the
/// kernel assigns addresses downwards, so the first has the highest.
///
/// # Errors
/// If there is no such process, it runs another program, or this user may not. A dry run succeeds if this user may
/// examine the process.
pub fn attach(
    pid: Pid,
    program: &Path,
    plan: &Plan,
    act: RangeAction,
    dry_run: bool,
) -> Result<Process, AttachError> {
    let found = executable(pid)?;
    if found != program {
        let (found, planned) = (found.display().to_string(), program.display().to_string());
        return Err(AttachError::OtherProgram { pid, found, planned });
    }
    check_kernel()?;
    let named = |error: io::Error| named(pid, error);
    let handle = ProcessHandle::open(pid).map_err(named)?;
    let forbidden = match handle.permits().map_err(named) {
        Err(error @ AttachError::Forbidden { .. }) if dry_run => Some(error),
        outcome => outcome.map(|()| None)?,
    };
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).map_err(named)?;
    let mappings = maps::detailed_mappings(pid).map_err(named)?;
    let mut ranges = Vec::new();
    for range in &plan.ranges {
        let spans = recognised(pid, &range.what, &mappings);
        let before = measure(&pagemap, &mappings, &spans).map_err(named)?;
        let (mut after, mut error) = (before, None);
        // hugetlb memory is on huge pages already and stays there.
        if !dry_run && !before.is_pool() {
            let worked = spans.iter().map(|&span| work(&handle, span, act));
            error = worked.fold(None, |before, outcome| outcome.err().or(before));
            after =
                measure(&pagemap, &maps::detailed_mappings(pid).map_err(named)?, &spans).map_err(named)?;
        }
        ranges.push(RangeChange { spans, before, after, error });
    }
    let (disabled, tracer) = (HostConditions::of(pid).disabled, tracer(pid));
    // The id may have been reused.
    if executable(pid).map_err(|_| AttachError::Ended(pid))? != program {
        return Err(AttachError::Ended(pid));
    }
    Ok(Process { act, dry_run, forbidden, ranges, disabled, tracer })
}

fn executable(pid: Pid) -> Result<PathBuf, AttachError> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => AttachError::NoProcess(pid),
        _ => named(pid, error),
    })?;
    Ok(fs::canonicalize(&path).unwrap_or(path))
}

fn named(pid: Pid, error: io::Error) -> AttachError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => AttachError::Forbidden { pid, error },
        io::ErrorKind::NotFound => AttachError::Ended(pid),
        _ if Errno::from_io_error(&error) == Some(Errno::SRCH) => AttachError::Ended(pid),
        _ => AttachError::Read { pid, error },
    }
}

fn tracer(pid: Pid) -> Pid {
    let text = maps::proc_text(pid, "status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Changes each whole block of a span; a split includes blocks that reach beyond it. Returns the last error.
fn work(handle: &ProcessHandle, (start, bytes): (u64, u64), act: RangeAction) -> io::Result<()> {
    let mut outcome = Ok(());
    let end = start + bytes;
    let mut at = if act == RangeAction::Split { start } else { start.next_multiple_of(HUGE_BYTES) };
    while at < end {
        let worked = match act {
            RangeAction::Split => handle.split(at),
            RangeAction::Collapse if at + HUGE_BYTES <= end => handle.collapse(at, HUGE_BYTES),
            RangeAction::Collapse => Ok(()),
        };
        outcome = worked.and(outcome);
        at = (at + 1).next_multiple_of(HUGE_BYTES);
    }
    outcome
}
