//! Running a program at its own speed, and how long it took.

use crate::pagemap::peak_resident_bytes;
use crate::tracing::sys::NOWHERE;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
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

/// Words of the kernel's `struct rusage` on x86-64; the first four are user and system time, in seconds and
/// microseconds each, the fifth the most memory resident at a time, in KiB.
const USAGE_WORDS: usize = 18;

/// One run to its end.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// How it ended.
    pub status: ExitStatus,
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

impl Timed {
    /// Processor time in all.
    pub fn processor(&self) -> Duration {
        self.user + self.system
    }
}

/// Runs a command and waits for its end.
///
/// # Errors
/// If it cannot be started or waited for.
pub fn run(command: &mut Command) -> io::Result<Timed> {
    // The peak of this process is what it has now: on kernels that refuse, the peak stays what it was.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let own = peak_resident_bytes(std::process::id() as i32);
    let begun = Instant::now();
    let child = command.spawn()?;
    let (status, usage) = wait(child.id() as i32)?;
    let wall = begun.elapsed();
    let time = |at: usize| Duration::new(usage[at], 1000 * usage[at + 1] as u32);
    let resident_bytes = Some(usage[4] << 10).filter(|&bytes| own.is_some_and(|own| bytes > own));
    Ok(Timed { status, wall, user: time(0), system: time(2), resident_bytes })
}

/// What this thread has had of a processor.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn wait(pid: i32) -> io::Result<(ExitStatus, [u64; USAGE_WORDS])> {
    unsafe extern "C" {
        fn wait4(pid: i32, status: *mut i32, options: i32, usage: *mut u64) -> i32;
    }
    let (mut status, mut usage) = (0, [0; USAGE_WORDS]);
    loop {
        // SAFETY: both are locals as large as the kernel's types on x86-64 Linux.
        if unsafe { wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) } == pid {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
