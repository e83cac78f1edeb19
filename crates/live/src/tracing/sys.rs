//! System calls that the standard library lacks: ptrace and related ones.

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::time::Duration;

/// Standard output of measured runs. It discards output like `/dev/null`, but programs do less when they detect that
/// one: grep stops at the first match, tar reads no file.
pub const NOWHERE: &CStr = c"/dev/zero";

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// A process or thread id.
pub type Pid = i32;

/// Numbers of system calls on x86-64.
#[allow(missing_docs)]
pub mod number {
    pub const CLOSE: u64 = 3;
    pub const MMAP: u64 = 9;
    pub const MPROTECT: u64 = 10;
    pub const MUNMAP: u64 = 11;
    pub const BRK: u64 = 12;
    pub const IOCTL: u64 = 16;
    pub const PREAD64: u64 = 17;
    pub const PWRITE64: u64 = 18;
    pub const MREMAP: u64 = 25;
    pub const MADVISE: u64 = 28;
    pub const CLONE: u64 = 56;
    pub const FORK: u64 = 57;
    pub const WAIT4: u64 = 61;
    pub const KILL: u64 = 62;
    pub const MLOCK: u64 = 149;
    pub const MUNLOCK: u64 = 150;
    pub const MLOCKALL: u64 = 151;
    pub const MUNLOCKALL: u64 = 152;
    pub const PTRACE: u64 = 101;
    pub const PERSONALITY: u64 = 135;
    pub const PRCTL: u64 = 157;
    pub const TKILL: u64 = 200;
    pub const FUTEX: u64 = 202;
    pub const SCHED_SETAFFINITY: u64 = 203;
    pub const SCHED_GETAFFINITY: u64 = 204;
    pub const SET_TID_ADDRESS: u64 = 218;
    pub const GET_ROBUST_LIST: u64 = 274;
    pub const FALLOCATE: u64 = 285;
    pub const WAITID: u64 = 247;
    pub const PRLIMIT64: u64 = 302;
    pub const SECCOMP: u64 = 317;
    pub const USERFAULTFD: u64 = 323;
    pub const MLOCK2: u64 = 325;
    pub const RSEQ: u64 = 334;
    pub const CLONE3: u64 = 435;
    pub const PROCESS_MADVISE: u64 = 440;
    pub const MSEAL: u64 = 462;
}

/// Flags of `mmap` and of protections.
#[allow(missing_docs)]
pub mod map {
    pub const READ: u64 = 1;
    pub const WRITE: u64 = 2;
    pub const EXEC: u64 = 4;
    pub const SHARED: u64 = 0x1;
    pub const PRIVATE: u64 = 0x2;
    pub const TYPE: u64 = 0xf;
    pub const FIXED: u64 = 0x10;
    pub const ANONYMOUS: u64 = 0x20;
    pub const BIT32: u64 = 0x40;
    pub const GROWSDOWN: u64 = 0x100;
    pub const LOCKED: u64 = 0x2000;
    pub const NORESERVE: u64 = 0x4000;
    pub const POPULATE: u64 = 0x8000;
    pub const NONBLOCK: u64 = 0x1_0000;
    pub const STACK: u64 = 0x2_0000;
    pub const HUGETLB: u64 = 0x40000;
    pub const FIXED_NOREPLACE: u64 = 0x10_0000;
}

/// Error numbers.
#[allow(missing_docs)]
pub mod errno {
    pub const EPERM: i64 = 1;
    pub const EAGAIN: i64 = 11;
    pub const ENOMEM: i64 = 12;
    pub const EFAULT: i64 = 14;
    pub const EINVAL: i64 = 22;
}

/// Makes a system call.
///
/// # Safety
/// As the system call asks: pointers among the arguments are valid for what it does with them.
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> io::Result<u64> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's promise; the C library passes seven words through.
    let result = unsafe { syscall(number as c_long, a, b, c, d, e, f) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result as u64) }
}

/// A call without pointers.
fn plain(number: u64, arguments: [u64; 6]) -> io::Result<u64> {
    // SAFETY: no argument is a pointer.
    unsafe { call(number, arguments) }
}

/// The registers of a stopped thread, as the kernel lays them out.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub ds: u64,
    pub es: u64,
    pub fs: u64,
    pub gs: u64,
}

impl Registers {
    /// The arguments of the system call that the thread is in.
    pub fn arguments(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }
}

/// How a stopped thread resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// To the next event.
    On = 7,
    /// To the next event or the next end of a system call.
    ToCall = 24,
    /// Stay stopped with its group until that is continued.
    Listen = 0x4208,
    /// Detached.
    Alone = 17,
}

const SEIZE: u64 = 0x4206;
const INTERRUPT: u64 = 0x4207;
const GETREGS: u64 = 12;
const SETREGS: u64 = 13;
const GETEVENTMSG: u64 = 0x4201;
const GETSIGMASK: u64 = 0x420a;
const SETSIGMASK: u64 = 0x420b;

/// Tracing options.
pub mod option {
    /// Distinguish system call stops from signals.
    pub const CALLS_APART: u64 = 0x1;
    /// Children made by `fork`.
    pub const FORK: u64 = 0x2;
    /// Children made by `vfork`.
    pub const VFORK: u64 = 0x4;
    /// New threads, and children of `clone` with a non-standard exit signal.
    pub const CLONE: u64 = 0x8;
    /// New programs.
    pub const EXEC: u64 = 0x10;
    /// Threads about to exit.
    pub const EXIT: u64 = 0x40;
    /// All: TRACESECCOMP too; and EXITKILL.
    pub const ALL: u64 = CALLS_APART | FORK | VFORK | CLONE | EXEC | EXIT | 0x80 | 0x10_0000;
}

fn ptrace(request: u64, pid: Pid, address: u64, data: u64) -> io::Result<u64> {
    // SAFETY: the callers below give addresses of their own locals, of the size that the request writes or reads.
    unsafe { call(number::PTRACE, [request, pid as u64, address, data, 0, 0]) }
}

/// Starts tracing a process, and what it will start according to `options`.
pub fn seize(pid: Pid, options: u64) -> io::Result<()> {
    ptrace(SEIZE, pid, 0, options).map(drop)
}

/// Stops a running thread.
pub fn interrupt(pid: Pid) -> io::Result<()> {
    ptrace(INTERRUPT, pid, 0, 0).map(drop)
}

/// Resumes a stopped thread, delivering `signal` unless 0.
pub fn go(pid: Pid, how: Resume, signal: i32) -> io::Result<()> {
    ptrace(how as u64, pid, 0, signal as u64).map(drop)
}

pub fn registers(pid: Pid) -> io::Result<Registers> {
    let mut registers = Registers::default();
    ptrace(GETREGS, pid, 0, &raw mut registers as u64)?;
    Ok(registers)
}

pub fn set_registers(pid: Pid, registers: &Registers) -> io::Result<()> {
    ptrace(SETREGS, pid, 0, &raw const *registers as u64).map(drop)
}

/// The message of the last event: the new child's id, or the former thread id.
pub fn event_message(pid: Pid) -> io::Result<u64> {
    let mut message = 0u64;
    ptrace(GETEVENTMSG, pid, 0, &raw mut message as u64)?;
    Ok(message)
}

pub fn signal_mask(pid: Pid) -> io::Result<u64> {
    let mut mask = 0u64;
    ptrace(GETSIGMASK, pid, 8, &raw mut mask as u64)?;
    Ok(mask)
}

pub fn set_signal_mask(pid: Pid, mask: u64) -> io::Result<()> {
    ptrace(SETSIGMASK, pid, 8, &raw const mask as u64).map(drop)
}

pub fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    plain(number::KILL, [pid as u64, signal as u64, 0, 0, 0, 0]).map(drop)
}

pub fn kill_thread(pid: Pid, signal: i32) -> io::Result<()> {
    plain(number::TKILL, [pid as u64, signal as u64, 0, 0, 0, 0]).map(drop)
}

/// Kills a process.
pub const SIGKILL: i32 = 9;
/// Reports that nobody reads a pipe.
pub const SIGPIPE: i32 = 13;
/// Stops a process.
pub const SIGSTOP: i32 = 19;

/// Address of the list of robust mutexes that a thread holds; 0 if it has none.
pub fn robust_list(pid: Pid) -> io::Result<u64> {
    let (mut head, mut bytes) = (0u64, 0u64);
    let pointers = [pid as u64, &raw mut head as u64, &raw mut bytes as u64];
    // SAFETY: both are written to locals.
    unsafe { call(number::GET_ROBUST_LIST, [pointers[0], pointers[1], pointers[2], 0, 0, 0]) }?;
    Ok(head)
}

/// Resource limits.
#[allow(missing_docs)]
pub mod limit {
    pub const DATA: u64 = 2;
    pub const STACK: u64 = 3;
    pub const LOCKED: u64 = 8;
    pub const ADDRESSES: u64 = 9;
}
/// No limit.
pub const UNLIMITED: u64 = u64::MAX;

/// A process's soft and hard [`limit`], in bytes.
pub fn limit_of(pid: Pid, what: u64) -> io::Result<(u64, u64)> {
    let mut limits = [0u64; 2];
    // SAFETY: the limits are written to a local.
    unsafe { call(number::PRLIMIT64, [pid as u64, what, 0, &raw mut limits as u64, 0, 0]) }?;
    Ok((limits[0], limits[1]))
}

/// A process's processor time, in seconds.
pub fn processor_seconds(pid: Pid) -> io::Result<f64> {
    const CLOCK_GETTIME: u64 = 228;
    /// `CPUCLOCK_SCHED`: by the scheduler's own count.
    const EXACT: i32 = 2;
    let mut time = [0u64; 2];
    let clock = (!pid << 3 | EXACT) as u64;
    // SAFETY: the time is written to a local.
    unsafe { call(CLOCK_GETTIME, [clock, &raw mut time as u64, 0, 0, 0, 0]) }?;
    Ok(time[0] as f64 + time[1] as f64 * 1e-9)
}

/// Punches a hole in a file: the range then reads as zeros.
pub fn punch(file: &impl std::os::fd::AsRawFd, offset: u64, bytes: u64) -> io::Result<()> {
    const KEEP_SIZE_AND_PUNCH: u64 = 3;
    plain(number::FALLOCATE, [file.as_raw_fd() as u64, KEEP_SIZE_AND_PUNCH, offset, bytes, 0, 0]).map(drop)
}

/// The next data (no hole) of the file in `[from, end)`.
pub fn next_data(file: &impl std::os::fd::AsRawFd, from: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    const LSEEK: u64 = 8;
    const DATA: u64 = 3;
    const HOLE: u64 = 4;
    const ENXIO: i32 = 6;
    let seek = |offset, what| plain(LSEEK, [file.as_raw_fd() as u64, offset, what, 0, 0, 0]);
    if from >= end {
        return Ok(None);
    }
    match seek(from, DATA) {
        Ok(data) if data < end => Ok(Some((data, seek(data, HOLE)?.min(end)))),
        Ok(_) => Ok(None),
        Err(error) if error.raw_os_error() == Some(ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes this process the parent of its orphaned descendants.
pub fn adopt_orphans() -> io::Result<()> {
    const SET_CHILD_SUBREAPER: u64 = 36;
    plain(number::PRCTL, [SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0]).map(drop)
}

/// The process group of this process.
pub fn own_group() -> Pid {
    const GETPGRP: u64 = 111;
    plain(GETPGRP, [0; 6]).map_or(0, |group| group as Pid)
}

/// Moves this process into a process group of its session; 0: a new one. Allocates nothing.
pub fn join_group(group: Pid) -> io::Result<()> {
    const SETPGID: u64 = 109;
    plain(SETPGID, [0, group as u64, 0, 0, 0, 0]).map(drop)
}

/// Sets the name of this process in listings.
pub fn set_name(name: &std::ffi::CStr) -> io::Result<()> {
    const SET_NAME: u64 = 15;
    // SAFETY: a C string.
    unsafe { call(number::PRCTL, [SET_NAME, name.as_ptr() as u64, 0, 0, 0, 0]) }.map(drop)
}

/// Disables address randomisation for this process and what it executes. Allocates nothing.
pub fn switch_off_randomisation() -> io::Result<()> {
    const ADDR_NO_RANDOMIZE: u64 = 0x004_0000;
    const ASK: u64 = 0xffff_ffff;
    let now = plain(number::PERSONALITY, [ASK, 0, 0, 0, 0, 0])?;
    plain(number::PERSONALITY, [now | ADDR_NO_RANDOMIZE, 0, 0, 0, 0, 0]).map(drop)
}

/// Redirects standard input to this file and drops standard output. Allocates nothing.
pub fn leave_streams(input: &CStr) -> io::Result<()> {
    const OPEN: u64 = 2;
    const DUP2: u64 = 33;
    const CLOSED_AT_EXEC: u64 = 0x8_0000;
    const READ: u64 = CLOSED_AT_EXEC;
    const WRITE: u64 = CLOSED_AT_EXEC | 1;
    for (stream, path, way) in [(0, input, READ), (1, NOWHERE, WRITE)] {
        // SAFETY: the path is a C string, and the other arguments are no pointers.
        let file = unsafe { call(OPEN, [path.as_ptr() as u64, way, 0, 0, 0, 0]) }?;
        plain(DUP2, [file, stream, 0, 0, 0, 0])?;
    }
    Ok(())
}

/// Resource usage of an ended process and its reaped children.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// The same in the kernel.
    pub system: Duration,
    /// Peak resident memory of any of them; at least what the parent had at fork.
    pub resident_bytes: u64,
}

impl Usage {
    /// Words of the kernel's `struct rusage` on x86-64.
    pub const WORDS: usize = 18;

    /// From the first words: user and system seconds and microseconds, and the most KiB resident.
    pub fn of(words: &[u64; Usage::WORDS]) -> Usage {
        let time = |at: usize| Duration::new(words[at], 1000 * words[at + 1] as u32);
        Usage { user: time(0), system: time(2), resident_bytes: words[4] << 10 }
    }
}

/// Opens a userfaultfd that also serves kernel faults.
pub fn try_userfaultfd(flags: c_int) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    let file = plain(number::USERFAULTFD, [flags as u64, 0, 0, 0, 0, 0])?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(file as c_int) })
}

/// The same through the device.
pub fn new_userfaultfd(device: &impl std::os::fd::AsRawFd, flags: c_int) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    const USERFAULTFD_IOC_NEW: u64 = 0xaa00;
    let file = plain(number::IOCTL, [device.as_raw_fd() as u64, USERFAULTFD_IOC_NEW, flags as u64, 0, 0, 0])?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(file as c_int) })
}

/// `ioctl` with a pointer to `argument`.
pub fn ioctl<T>(file: &impl std::os::fd::AsRawFd, request: u64, argument: &mut T) -> io::Result<u64> {
    // SAFETY: the argument is what the request reads and writes: the callers take both from one place of the
    // kernel's headers.
    unsafe { call(number::IOCTL, [file.as_raw_fd() as u64, request, &raw mut *argument as u64, 0, 0, 0]) }
}
