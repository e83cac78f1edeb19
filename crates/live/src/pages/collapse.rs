//! Builds and splits huge pages in another process immediately: `process_madvise`.

use crate::tracing::sys::{self, Pid};
use pagewalk_units::PAGE_BYTES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

const PIDFD_OPEN: u64 = 434;
const PROCESS_MADVISE: u64 = 440;
/// Attempts at a block that the kernel cannot collapse right now.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);
const MADV_COLD: u64 = 20;
const MADV_COLLAPSE: u64 = 25;

/// A process, safe against reuse of its id.
#[derive(Debug)]
pub struct ProcessHandle(File);

impl ProcessHandle {
    /// Opens an existing process.
    ///
    /// # Errors
    /// The kernel's: `ESRCH` if there is none.
    pub fn open(pid: Pid) -> io::Result<ProcessHandle> {
        // SAFETY: no argument is a pointer.
        let file = unsafe { sys::call(PIDFD_OPEN, [pid as u64, 0, 0, 0, 0, 0]) }?;
        // SAFETY: the kernel has just made it for us.
        Ok(ProcessHandle(unsafe { File::from_raw_fd(file as i32) }))
    }

    /// Collapses a range of whole huge pages, whatever the host's mode.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` for memory that cannot have huge pages, `EAGAIN` and `ENOMEM` if there is none now,
    /// `EPERM` without `CAP_SYS_NICE` or the right to read the process, `ENOSYS` before Linux 5.10.
    pub fn collapse(&self, start: u64, bytes: u64) -> io::Result<()> {
        let mut tries = 0;
        loop {
            let outcome = self.advise(start, bytes, MADV_COLLAPSE);
            tries += 1;
            match outcome {
                // The kernel holds pages briefly, as when moving them to one of its lists.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) && tries < TRIES => {
                    std::thread::sleep(PAUSE)
                }
                other => return other,
            }
        }
    }

    /// Whether this user may collapse the process's memory; collapses nothing.
    ///
    /// # Errors
    /// As [`ProcessHandle::collapse`]; `ESRCH` for a kernel thread.
    pub fn permits(&self) -> io::Result<()> {
        self.advise(0, 0, MADV_COLLAPSE)
    }

    /// Waits at most `most` for the process's end; returns whether it ended. A signal to us ends the wait.
    ///
    /// # Errors
    /// The kernel's; none is known.
    pub fn wait(&self, most: Duration) -> io::Result<bool> {
        let mut files = [PollFd::new(&self.0, PollFlags::IN)];
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        match poll(&mut files, Some(&most)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Splits the huge page at an address, keeping its contents: the kernel splits a page that is marked cold in part.
    /// Memory that is not on a huge page, or shared with a forked copy, stays as it is.
    ///
    /// # Errors
    /// As [`ProcessHandle::collapse`].
    pub fn split(&self, block: u64) -> io::Result<()> {
        self.advise(block, PAGE_BYTES, MADV_COLD)
    }

    fn advise(&self, start: u64, bytes: u64, advice: u64) -> io::Result<()> {
        let vector = [start, bytes];
        let arguments = [self.0.as_raw_fd() as u64, vector.as_ptr() as u64, 1, advice, 0, 0];
        // SAFETY: the kernel reads one pair of address and length; the addresses belong to another process.
        unsafe { sys::call(PROCESS_MADVISE, arguments) }.map(drop)
    }
}
