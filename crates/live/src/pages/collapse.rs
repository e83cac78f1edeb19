//! Building huge pages in another process, at once: `process_madvise(MADV_COLLAPSE)`.

use crate::tracing::sys::{self, Pid};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

const PIDFD_OPEN: u64 = 434;
const PROCESS_MADVISE: u64 = 440;
const MADV_COLLAPSE: u64 = 25;

/// A process, whatever becomes of its number.
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
        let vector = [start, bytes];
        let arguments = [self.0.as_raw_fd() as u64, vector.as_ptr() as u64, 1, MADV_COLLAPSE, 0, 0];
        // SAFETY: the vector is one pair of address and length, which the kernel reads; the addresses are another
        // process's.
        unsafe { sys::call(PROCESS_MADVISE, arguments) }.map(drop)
    }
}
