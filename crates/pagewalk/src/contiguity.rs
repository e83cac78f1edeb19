//! The page map of a live process, and how TLB designs fit its memory.

mod colors;
mod frame_list;
mod result;

pub use colors::CacheColors;
pub use frame_list::list_frames;

use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::native::relay_to_followed;
use pagewalk_capture::check_program;
use pagewalk_live::pagemap::{self, ENABLE_FRAMES, PagemapError, PeakSnapshot, Snapshot, SnapshotTime};
use pagewalk_live::tracing::{Interrupt, LaunchError, ProcessEnd};
use pagewalk_report::contiguity::ContiguityResult;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Instant;

/// One reading of a process.
pub struct PagemapReading {
    pid: i32,
    program: String,
    command_line: Vec<String>,
    snapshot: Snapshot,
    /// None if we did not start the process.
    moment: Option<SnapshotTime>,
    seconds: f64,
    peak_resident_bytes: Option<u64>,
}

impl PagemapReading {
    /// How TLB designs fit the memory, and how it spreads over the colors of a cache.
    pub fn result(&self, colors: Option<&CacheColors>) -> ContiguityResult {
        result::build(self, colors)
    }
}

/// Checks that a program can run.
///
/// # Errors
/// If it cannot.
pub fn check(program: &OsStr) -> Result<(), Error> {
    check_program(program).map(drop).map_err(|error| Error::new(Fault::Usage, error))
}

/// Reads a running process.
///
/// # Errors
/// If there is none, or reading is not permitted.
pub fn read(pid: i32) -> Result<PagemapReading, Error> {
    // Both are gone once the process ends.
    let (program, command_line) = (pagemap::program(pid), pagemap::command_line(pid));
    let begun = Instant::now();
    let snapshot = pagemap::snapshot(pid).map_err(cannot_read)?;
    let seconds = begun.elapsed().as_secs_f64();
    let peak_resident_bytes = pagemap::peak_resident_bytes(pid);
    Ok(PagemapReading { pid, program, command_line, snapshot, moment: None, seconds, peak_resident_bytes })
}

/// Runs a program to its end; returns the reading with most memory, and how the program ended.
///
/// # Errors
/// If it cannot run or be followed.
pub fn run(command: &[OsString], listener: &dyn Listener) -> Result<(PagemapReading, ProcessEnd), Error> {
    let interrupt = Arc::new(Interrupt::new());
    let signals = relay_to_followed(Arc::clone(&interrupt), listener)?;
    let run = pagemap::run_to_exit(command, &interrupt);
    drop(signals);
    let run = run.map_err(|error| match error {
        LaunchError::Trace(_) => Error::new(Fault::HostCannot, error).or(
            "allow ptrace (sysctl kernel.yama.ptrace_scope=1; in a container its seccomp profile), or read a process \
             that runs: --pid PID",
        ),
        error => Error::new(Fault::Failed, error),
    })?;
    let kept = run.kept.ok_or_else(|| {
        Error::new(Fault::Failed, "the program was killed before its memory could be read")
            .or("read it while it runs: --pid PID")
    })?;
    let PeakSnapshot { snapshot, moment, seconds, program, command_line } = kept;
    let (pid, peak_resident_bytes) = (run.pid, run.peak_resident_bytes);
    let moment = Some(moment);
    let reading =
        PagemapReading { pid, program, command_line, snapshot, moment, seconds, peak_resident_bytes };
    Ok((reading, run.end))
}

/// The error for a user who may not read frame numbers. `why` says what needs them.
fn frames_needed(why: &str) -> Error {
    let why = format!(
        "{why}, and this user may not read frame numbers: the kernel shows zeros without CAP_SYS_ADMIN"
    );
    Error::new(Fault::HostCannot, why).or(ENABLE_FRAMES)
}

fn cannot_read(error: PagemapError) -> Error {
    let fault = match &error {
        PagemapError::NoProcess(_) | PagemapError::NoMemory(_) => Fault::Usage,
        PagemapError::Forbidden { .. } | PagemapError::NoPagemap => Fault::HostCannot,
        _ => Fault::Failed,
    };
    let next = error.enable();
    Error::new(fault, error).or(next)
}
