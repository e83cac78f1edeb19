//! Runs a program at its own speed and times it.

use crate::pagemap::peak_resident_bytes;
use crate::tracing::sys::{NOWHERE, Usage};
use crate::tracing::{ProcessEnd, Relay, stops};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `/dev/zero` as a stream: what is written to it is lost.
///
/// # Errors
/// If it cannot be opened for writing.
pub fn nowhere() -> io::Result<Stdio> {
    let path = Path::new(OsStr::from_bytes(NOWHERE.to_bytes()));
    let file = File::options().write(true).open(path);
    file.map(Stdio::from)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The times of one run.
#[derive(Clone, Copy, Debug)]
pub struct TimedRun {
    /// How it ended.
    pub end: ProcessEnd,
    /// Elapsed time.
    pub wall: Duration,
    /// User time of all its threads and reaped children.
    pub user: Duration,
    /// System time of the same.
    pub system: Duration,
    /// Peak resident memory of the largest of those processes; unknown if not above what this process had when it
    /// started them, which the kernel counts as theirs.
    pub resident_bytes: Option<u64>,
}

impl TimedRun {
    /// A child's run with this usage. This process's peak now bounds what it had when it started the child.
    pub(crate) fn of(end: ProcessEnd, wall: Duration, used: Usage) -> TimedRun {
        let own = peak_resident_bytes(std::process::id() as i32);
        let is_its_own = |&bytes: &u64| own.is_some_and(|own| bytes > own);
        let resident_bytes = Some(used.resident_bytes).filter(is_its_own);
        TimedRun { end, wall, user: used.user, system: used.system, resident_bytes }
    }

    /// User and system time together.
    pub fn processor(&self) -> Duration {
        self.user + self.system
    }
}

/// Runs a command and waits for its end; `relay` passes signals on to it meanwhile.
///
/// # Errors
/// If it cannot be started or waited for.
pub fn run(command: &mut Command, relay: &Relay) -> io::Result<TimedRun> {
    forget_own_peak();
    let begun = Instant::now();
    let pid = command.spawn()?.id() as i32;
    relay.to(pid);
    // Its id stays reserved until it is reaped.
    let ended = stops::await_end(pid);
    relay.to(0);
    ended?;
    let (status, used) = stops::wait_for_child(pid)?;
    let end =
        ProcessEnd::of(status).ok_or_else(|| io::Error::other("it was waited for, and has not ended"))?;
    Ok(TimedRun::of(end, begun.elapsed(), used))
}

/// Resets this process's peak of resident memory, with which the kernel starts a child's, to its present size. Without
/// effect on kernels that refuse.
pub(crate) fn forget_own_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// This thread's processor time.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
