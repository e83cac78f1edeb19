//! Running a program at its own speed, and how long it took.

use crate::pagemap::peak_resident_bytes;
use crate::tracing::sys::{NOWHERE, Usage};
use crate::tracing::{End, Relay, stops};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// That as a stream.
///
/// # Errors
/// If it cannot be written to.
pub fn nowhere() -> io::Result<Stdio> {
    let path = Path::new(OsStr::from_bytes(NOWHERE.to_bytes()));
    let file = File::options().write(true).open(path);
    file.map(Stdio::from)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// One run to its end.
#[derive(Clone, Copy, Debug)]
pub struct TimedRun {
    /// How it ended.
    pub end: End,
    /// From its start to its end.
    pub wall: Duration,
    /// Processor time in user mode, of all its threads and of the children that it waited for.
    pub user: Duration,
    /// The same in the kernel.
    pub system: Duration,
    /// Most memory resident at a time, of the largest of those processes; not known if it is no more than what this
    /// process had when it began them, which the kernel counts as theirs.
    pub resident_bytes: Option<u64>,
}

impl TimedRun {
    /// A child's run, which used that. What this process had when it began the child is no more than its peak now.
    pub(crate) fn of(end: End, wall: Duration, used: Usage) -> TimedRun {
        let own = peak_resident_bytes(std::process::id() as i32);
        let is_its_own = |&bytes: &u64| own.is_some_and(|own| bytes > own);
        let resident_bytes = Some(used.resident_bytes).filter(is_its_own);
        TimedRun { end, wall, user: used.user, system: used.system, resident_bytes }
    }

    /// Processor time in all.
    pub fn processor(&self) -> Duration {
        self.user + self.system
    }
}

/// Runs a command and waits for its end; `relay` hands signals on to it meanwhile.
///
/// # Errors
/// If it cannot be started or waited for.
pub fn run(command: &mut Command, relay: &Relay) -> io::Result<TimedRun> {
    forget_own_peak();
    let begun = Instant::now();
    let pid = command.spawn()?.id() as i32;
    relay.to(pid);
    // Its number is its own until it is waited for.
    let ended = stops::await_end(pid);
    relay.to(0);
    ended?;
    let (status, used) = stops::wait_for_child(pid)?;
    let end = End::of(status).ok_or_else(|| io::Error::other("it was waited for, and has not ended"))?;
    Ok(TimedRun::of(end, begun.elapsed(), used))
}

/// From now on this process's peak of resident memory, with which the kernel begins a child's, is what it has now. On
/// kernels that refuse that, it stays what it was.
pub(crate) fn forget_own_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// What this thread has had of a processor.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
