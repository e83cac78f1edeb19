//! Lets the filtered calls of detached processes pass.
//!
//! A process that the program traces itself is no longer traced here, so calls stopped by its filter would fail; no
//! filter can be removed. So it gets a second filter, which takes precedence, and a thread of ours answers each call
//! with "continue" (`SECCOMP_USER_NOTIF_FLAG_CONTINUE`).

use super::filter;
use super::shared::{STACK_BASE, STARTER_STACK};
use super::tracee::{Injection, SyscallSite};
use crate::tracing::sys::{self, Pid, number};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{self, Sender};

/// Where to put the filter in a process with an agent: below what its starter used, which is gone.
const PLACE: u64 = STACK_BASE + 0x100;
/// Leaf functions may use this much below the stack pointer.
const RED_ZONE: u64 = 128;

/// Installs the filter on all threads of a process, through one that makes our system calls; returns the listener.
///
/// # Errors
/// If the kernel refuses; the process is unchanged, except that it may have given up gaining privileges.
pub fn install(injection: &mut Injection, process: Pid, site: SyscallSite) -> io::Result<OwnedFd> {
    const SET_NO_NEW_PRIVS: u64 = 38;
    const EACCES: i64 = 13;
    let room = filter::passing(0).len() as u64;
    let at = match site {
        SyscallSite::Agent => PLACE,
        SyscallSite::Here => (injection.stack_pointer() - RED_ZONE - room) & !15,
    };
    debug_assert!(PLACE + room < STARTER_STACK);
    let mut covered = vec![0; room as usize];
    injection.memory.read_exact_at(&mut covered, at)?;
    injection.memory.write_all_at(&filter::passing(at), at)?;
    let mut put = put(injection, at)?;
    if put == -EACCES {
        injection.call(number::PRCTL, [SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0])?;
        put = self::put(injection, at)?;
    }
    injection.memory.write_all_at(&covered, at)?;
    let descriptor = u64::try_from(put).map_err(|_| io::Error::from_raw_os_error(-put as i32))?;
    let listener = fetched(process, descriptor);
    injection.call(number::CLOSE, [descriptor, 0, 0, 0, 0, 0])?;
    listener
}

fn put(injection: &mut Injection, at: u64) -> io::Result<i64> {
    const MODE_FILTER: u64 = 1;
    /// All threads; return a listener; report failure as an error.
    const FLAGS: u64 = 1 | 1 << 3 | 1 << 4;
    /// A received call waits for its answer whatever signals come (Linux 5.19).
    const WAIT_KILLABLE: u64 = 1 << 5;
    const EINVAL: i64 = 22;
    match injection.call(number::SECCOMP, [MODE_FILTER, FLAGS | WAIT_KILLABLE, at, 0, 0, 0])? {
        error if error == -EINVAL => injection.call(number::SECCOMP, [MODE_FILTER, FLAGS, at, 0, 0, 0]),
        put => Ok(put),
    }
}

/// Whether we may fetch a process's files: without the filter's listener, its calls would wait forever.
///
/// # Errors
/// If not: then do not install the filter.
pub fn may_install(process: Pid) -> io::Result<()> {
    const NO_FILE: u64 = i32::MAX as u64;
    const NOT_OPEN: i32 = 9;
    match fetched(process, NO_FILE) {
        Err(error) if error.raw_os_error() != Some(NOT_OPEN) => Err(error),
        _ => Ok(()),
    }
}

/// Duplicates a process's file with this descriptor.
fn fetched(process: Pid, descriptor: u64) -> io::Result<OwnedFd> {
    const PIDFD_OPEN: u64 = 434;
    const PIDFD_GETFD: u64 = 438;
    // SAFETY: no pointers.
    let handle = unsafe { sys::call(PIDFD_OPEN, [process as u64, 0, 0, 0, 0, 0]) }?;
    // SAFETY: no pointers.
    let file = unsafe { sys::call(PIDFD_GETFD, [handle, descriptor, 0, 0, 0, 0]) };
    // SAFETY: the kernel has just made it for us.
    drop(unsafe { OwnedFd::from_raw_fd(handle as i32) });
    // SAFETY: the same.
    file.map(|file| unsafe { OwnedFd::from_raw_fd(file as i32) })
}

/// A thread that lets calls pass. It starts before the filter is installed, which could not be undone.
pub struct PassThrough(Sender<OwnedFd>);

/// Starts it.
///
/// # Errors
/// If no thread can be started.
pub fn begin() -> io::Result<PassThrough> {
    const STACK_BYTES: usize = 64 << 10;
    let (to, listeners) = mpsc::channel::<OwnedFd>();
    let thread = std::thread::Builder::new().name("passing".to_owned()).stack_size(STACK_BYTES);
    let passes = move || {
        // None arrives if installing the filter failed.
        let Ok(listener) = listeners.recv() else { return };
        // Kernels before 6.6 lack it.
        let _ = wake_where_the_caller_is(&listener);
        // Not everyone may.
        let _ = run_first();
        while pass_next(&listener).is_ok() {}
    };
    thread.spawn(passes)?;
    Ok(PassThrough(to))
}

impl PassThrough {
    /// Lets all calls pass until the last process with the filter has ended.
    ///
    /// A signal before a call is received aborts it (`EINTR` if the handler does not restart calls), so receiving must
    /// be quick: the thread runs where the caller just ran, and before all others if permitted.
    pub fn serve(self, listener: OwnedFd) {
        // The thread waits for it, and for nothing else.
        let _ = self.0.send(listener);
    }
}

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`.
fn wake_where_the_caller_is(listener: &OwnedFd) -> io::Result<()> {
    const SET_FLAGS: u64 = 0x4008_2104;
    // SAFETY: no pointers.
    unsafe { sys::call(number::IOCTL, [listener.as_raw_fd() as u64, SET_FLAGS, 1, 0, 0, 0]) }.map(drop)
}

/// Gives this thread real-time priority.
fn run_first() -> io::Result<()> {
    const SCHED_SETSCHEDULER: u64 = 144;
    const FIFO: u64 = 1;
    let priority = 1i32;
    // SAFETY: the priority is read from a local.
    unsafe { sys::call(SCHED_SETSCHEDULER, [0, FIFO, &raw const priority as u64, 0, 0, 0]) }.map(drop)
}

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Default)]
struct Call {
    number: u64,
    process: u32,
    flags: u32,
    data: [u64; 8],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Answer {
    number: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// Waits for a call, and lets it pass.
///
/// # Errors
/// If none can come or be received any more.
fn pass_next(listener: &OwnedFd) -> io::Result<()> {
    const RECEIVE: u64 = 0xc050_2100;
    const SEND: u64 = 0xc018_2101;
    const CONTINUE: u32 = 1;
    const NOBODY: i32 = 2;
    const INTERRUPTED: i32 = 4;
    let mut call = Call::default();
    if let Err(error) = sys::ioctl(listener, RECEIVE, &mut call) {
        return match error.raw_os_error() {
            Some(INTERRUPTED) => Ok(()),
            // The caller was killed, or all have ended.
            Some(NOBODY) if has_users(listener)? => Ok(()),
            _ => Err(error),
        };
    }
    let mut answer = Answer { number: call.number, value: 0, error: 0, flags: CONTINUE };
    // A caller killed meanwhile waits for nothing.
    let _ = sys::ioctl(listener, SEND, &mut answer);
    Ok(())
}

/// Whether some process still has the filter.
fn has_users(listener: &OwnedFd) -> io::Result<bool> {
    let mut state = [PollFd::new(listener, PollFlags::empty())];
    retry_on_intr(|| poll(&mut state, Some(&Timespec::default())))?;
    Ok(!state[0].revents().contains(PollFlags::HUP))
}
