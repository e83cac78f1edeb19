//! Building and splitting huge pages in another process, at once: `process_madvise`.

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
/// How often a block is tried that the kernel cannot collapse at this moment.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);
const MADV_COLD: u64 = 20;
const MADV_COLLAPSE: u64 = 25;

/// A process, whatever becomes of its number.
#[derive(Debug)]
pub struct Handle(File);

impl Handle {
    /// Of a process that there is.
    ///
    /// # Errors
    /// The kernel's: `ESRCH` if there is none.
    pub fn open(pid: Pid) -> io::Result<Handle> {
        // SAFETY: no argument is a pointer.
        let file = unsafe { sys::call(PIDFD_OPEN, [pid as u64, 0, 0, 0, 0, 0]) }?;
        // SAFETY: the kernel has just made it for us.
        Ok(Handle(unsafe { File::from_raw_fd(file as i32) }))
    }

    /// Brings a range of memory, of whole huge pages, onto huge pages, whatever the host's mode is.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` for memory that cannot have them, `EAGAIN` and `ENOMEM` if there is none now, `EPERM`
    /// without `CAP_SYS_NICE` or the right to read the process, `ENOSYS` before Linux 5.10.
    pub fn collapse(&self, start: u64, bytes: u64) -> io::Result<()> {
        let mut tries = 0;
        loop {
            let outcome = self.advise(start, bytes, MADV_COLLAPSE);
            tries += 1;
            match outcome {
                // Pages that the kernel holds for a moment, as when they are on their way to a list of its own.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) && tries < TRIES => {
                    std::thread::sleep(PAUSE)
                }
                other => return other,
            }
        }
    }

    /// Whether this user may collapse the process's memory: nothing is collapsed.
    ///
    /// # Errors
    /// As [`Handle::collapse`]; `ESRCH` for a thread of the kernel.
    pub fn permits(&self) -> io::Result<()> {
        self.advise(0, 0, MADV_COLLAPSE)
    }

    /// Waits for the process's end, not longer than `most`; whether it has ended. A signal to us ends the wait.
    ///
    /// # Errors
    /// The kernel's, and none that is known.
    pub fn wait(&self, most: Duration) -> io::Result<bool> {
        let mut files = [PollFd::new(&self.0, PollFlags::IN)];
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        match poll(&mut files, Some(&most)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Splits the huge page at an address into small ones, with their contents where they are: the kernel splits what
    /// it is asked to count as cold in part. Memory that is not on a huge page, or is shared with a copy that fork
    /// made, stays as it is.
    ///
    /// # Errors
    /// As [`Handle::collapse`].
    pub fn split(&self, block: u64) -> io::Result<()> {
        self.advise(block, PAGE_BYTES, MADV_COLD)
    }

    fn advise(&self, start: u64, bytes: u64, advice: u64) -> io::Result<()> {
        let vector = [start, bytes];
        let arguments = [self.0.as_raw_fd() as u64, vector.as_ptr() as u64, 1, advice, 0, 0];
        // SAFETY: the vector is one pair of address and length, which the kernel reads; the addresses are another
        // process's.
        unsafe { sys::call(PROCESS_MADVISE, arguments) }.map(drop)
    }
}
