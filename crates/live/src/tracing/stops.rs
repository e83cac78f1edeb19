//! Waits for stops of traced threads and ends of processes.

use super::sys::{Pid, Resume, Usage, call, number};
use std::io;
use std::time::{Duration, Instant};

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// Ended with this exit status.
    Exited(i32),
    /// Ended by this signal.
    Killed(i32),
    /// Stopped by a signal before its delivery.
    Signal(i32),
    /// Stopped at the beginning or end of a system call.
    Call,
    /// Stopped at an event, with the signal of a group stop.
    Event(StopEvent, i32),
}

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StopEvent {
    Fork,
    Vfork,
    Clone,
    Exec,
    Exit,
    Seccomp,
    /// First stop of a new thread, or a group stop.
    Stop,
    Other,
}

/// Whether a stop with this signal is a group stop.
pub fn is_group_stop(signal: i32) -> bool {
    const STOPPING: [i32; 4] = [19, 20, 21, 22];
    STOPPING.contains(&signal)
}

/// How to resume from a stop with this signal: in a group stop, the thread stays stopped.
pub fn after_stop(signal: i32) -> Resume {
    if is_group_stop(signal) { Resume::Listen } else { Resume::On }
}

const SIGTRAP: i32 = 5;

fn decoded(status: i32) -> WaitStatus {
    let (low, signal) = (status & 0x7f, status >> 8 & 0xff);
    match (low, signal, status >> 16) {
        (0, _, _) => WaitStatus::Exited(signal),
        (0x7f, _, 0) if signal == SIGTRAP | 0x80 => WaitStatus::Call,
        (0x7f, _, 0) => WaitStatus::Signal(signal),
        (0x7f, _, event) => {
            let event = match event {
                1 => StopEvent::Fork,
                2 => StopEvent::Vfork,
                3 => StopEvent::Clone,
                4 => StopEvent::Exec,
                6 => StopEvent::Exit,
                7 => StopEvent::Seccomp,
                128 => StopEvent::Stop,
                _ => StopEvent::Other,
            };
            WaitStatus::Event(event, signal)
        }
        (killed, _, _) => WaitStatus::Killed(killed),
    }
}

/// Waits for a thread that this thread traces; -1 for any.
pub fn wait(pid: Pid) -> io::Result<(Pid, WaitStatus)> {
    wait_with(pid, ALL | NO_THREAD).map(|(pid, status, _)| (pid, status))
}

/// As [`wait`], but spins while a stop is expected soon: otherwise the stopping thread would have to wake this one,
/// mostly on another processor, at the program's expense.
pub fn wait_awake(pid: Pid) -> io::Result<(Pid, WaitStatus)> {
    wait_used(pid, true).map(|(pid, status, _)| (pid, status))
}

/// Waits, spinning or asleep; at an end, also returns the process's usage.
pub fn wait_used(pid: Pid, awake: bool) -> io::Result<(Pid, WaitStatus, Usage)> {
    const AWAKE: Duration = Duration::from_millis(1);
    let begun = Instant::now();
    while awake && begun.elapsed() < AWAKE {
        match wait_with(pid, ALL | NO_THREAD | NO_HANG)? {
            (0, ..) => std::thread::yield_now(),
            stopped => return Ok(stopped),
        }
    }
    wait_with(pid, ALL | NO_THREAD)
}

/// Waits for the end of a child, of any thread.
pub fn wait_for_child(pid: Pid) -> io::Result<(WaitStatus, Usage)> {
    wait_with(pid, ALL).map(|(_, status, usage)| (status, usage))
}

/// Waits for a child's end without reaping it: its id stays reserved.
pub fn await_end(pid: Pid) -> io::Result<()> {
    wait_id(pid, EXITED | LEAVE).map(drop)
}

/// `__WALL`: whatever signal they end with.
const ALL: u64 = 0x4000_0000;
/// `__WNOTHREAD`: only children traced by this thread.
const NO_THREAD: u64 = 0x2000_0000;
/// `WNOHANG`.
const NO_HANG: u64 = 0x1;
/// `WEXITED`.
const EXITED: u64 = 0x4;
/// `WNOWAIT`.
const LEAVE: u64 = 0x100_0000;

fn wait_with(pid: Pid, options: u64) -> io::Result<(Pid, WaitStatus, Usage)> {
    let (mut status, mut words) = (0i32, [0; Usage::WORDS]);
    loop {
        let arguments = [pid as u64, &raw mut status as u64, options, words.as_mut_ptr() as u64, 0, 0];
        // SAFETY: both are locals as large as the kernel's types on x86-64 Linux.
        match unsafe { call(number::WAIT4, arguments) } {
            Ok(found) => return Ok((found as Pid, decoded(status), Usage::of(&words))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for the next stop of a thread that this thread traces. None if it has ended: [`wait`] reports that.
pub fn next(pid: Pid) -> io::Result<Option<WaitStatus>> {
    const STOPPED: u64 = 0x2;
    loop {
        if let Some(WaitStatus::Exited(_) | WaitStatus::Killed(_)) = wait_id(pid, EXITED | STOPPED | LEAVE)? {
            return Ok(None);
        }
        // It may have been killed since, and so no longer be stopped.
        if let Some(stop) = wait_id(pid, STOPPED | NO_HANG)? {
            return Ok(Some(stop));
        }
    }
}

fn wait_id(pid: Pid, options: u64) -> io::Result<Option<WaitStatus>> {
    const BY_NUMBER: u64 = 1;
    // siginfo_t: signal, error, code; a gap, the process and its user; the status.
    let mut found = [0i32; 32];
    loop {
        let arguments = [BY_NUMBER, pid as u64, found.as_mut_ptr() as u64, options | ALL, 0, 0];
        // SAFETY: a siginfo_t of 128 bytes is written to a local of that size.
        match unsafe { call(number::WAITID, arguments) } {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let status = found[6];
    Ok(match found[2] {
        0 => None,
        1 => Some(WaitStatus::Exited(status)),
        2 | 3 => Some(WaitStatus::Killed(status)),
        _ => Some(decoded(status << 8 | 0x7f)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn whoever_waits_awake_sees_soon_and_late_ends() {
        for seconds in ["0", "0.02"] {
            let mut child = Command::new("sleep").arg(seconds).spawn().expect("sleep starts");
            let pid = child.id() as Pid;
            assert_eq!(wait_awake(pid).expect("it ends"), (pid, WaitStatus::Exited(0)));
            assert!(child.wait().is_err(), "it was waited for");
        }
    }

    #[test]
    fn statuses_are_told_apart() {
        assert_eq!(decoded(3 << 8), WaitStatus::Exited(3));
        assert_eq!(decoded(9), WaitStatus::Killed(9));
        assert_eq!(decoded(0x80 | 11), WaitStatus::Killed(11), "with a core file");
        assert_eq!(decoded(0x7f | 10 << 8), WaitStatus::Signal(10));
        assert_eq!(decoded(0x7f | 0x85 << 8), WaitStatus::Call);
        assert_eq!(decoded(0x7f | 5 << 8 | 4 << 16), WaitStatus::Event(StopEvent::Exec, 5));
        assert_eq!(decoded(0x7f | 19 << 8 | 128 << 16), WaitStatus::Event(StopEvent::Stop, 19));
    }
}
