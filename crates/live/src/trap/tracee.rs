//! Makes a stopped thread execute our system calls.

use super::shared::TEXT_BASE;
use crate::tracing::maps;
use crate::tracing::stops::{self, StopEvent, WaitStatus};
use crate::tracing::sys::{self, Pid, Registers, Resume};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Where a stopped thread finds a `syscall` instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallSite {
    /// At its own place: the instruction is written there during the call. Only for a thread that is alone.
    Here,
    /// In the agent's code.
    Agent,
}

const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Injects system calls into a stopped thread, with its signals held back.
pub struct Injection {
    pid: Pid,
    /// Its memory.
    pub memory: File,
    saved: Registers,
    saved_mask: u64,
    /// The bytes that the instruction replaced, if it did.
    covered: Option<[u8; 2]>,
    site: u64,
    /// A stop signal that arrived meanwhile, to be sent again.
    stop_signal: bool,
}

impl Injection {
    /// Begins at a stop outside a system call.
    pub fn begin(pid: Pid, site: SyscallSite) -> io::Result<Injection> {
        let (saved, saved_mask) = (sys::registers(pid)?, sys::signal_mask(pid)?);
        Injection::with(pid, site, saved, saved_mask)
    }

    /// Begins where the filter stopped a system call; the call is skipped, and restarted at the end.
    pub fn begin_at_call(pid: Pid, site: SyscallSite) -> io::Result<Injection> {
        const CALL_BYTES: u64 = 2;
        let (now, saved_mask) = (sys::registers(pid)?, sys::signal_mask(pid)?);
        let saved = Registers { rip: now.rip - CALL_BYTES, rax: now.orig_rax, orig_rax: u64::MAX, ..now };
        let mut stop_signal = false;
        let begun = skip_call(pid, now, &mut stop_signal)
            .and_then(|()| Injection::with(pid, site, saved, saved_mask))
            .map(|injection| Injection { stop_signal, ..injection });
        if begun.is_err() {
            // The call restarts all the same. On failure the thread has just been killed.
            let _ = put_back(pid, &saved, saved_mask, stop_signal);
        }
        begun
    }

    fn with(pid: Pid, site: SyscallSite, saved: Registers, saved_mask: u64) -> io::Result<Injection> {
        let memory = maps::memory(pid)?;
        let (mut covered, mut place) = (None, TEXT_BASE);
        if site == SyscallSite::Here {
            place = saved.rip;
            let mut bytes = SYSCALL;
            memory.read_exact_at(&mut bytes, place)?;
            memory.write_all_at(&SYSCALL, place)?;
            covered = Some(bytes);
        }
        sys::set_signal_mask(pid, u64::MAX)?;
        Ok(Injection { pid, memory, saved, saved_mask, covered, site: place, stop_signal: false })
    }

    /// From now on uses the instruction in the agent's code.
    pub fn move_to_agent(&mut self) -> io::Result<()> {
        self.site = TEXT_BASE;
        self.uncover()
    }

    /// Makes a system call; returns its result, an error as a number below 0.
    pub fn call(&mut self, number: u64, [a, b, c, d, e, f]: [u64; 6]) -> io::Result<i64> {
        let registers = Registers {
            rip: self.site,
            rax: number,
            // Prevents restarting a system call.
            orig_rax: u64::MAX,
            rdi: a,
            rsi: b,
            rdx: c,
            r10: d,
            r8: e,
            r9: f,
            ..self.saved
        };
        sys::set_registers(self.pid, &registers)?;
        run_to_call(self.pid, &mut self.stop_signal)?; // its beginning
        run_to_call(self.pid, &mut self.stop_signal)?; // its end
        Ok(sys::registers(self.pid)?.rax as i64)
    }

    /// Where its stack is.
    pub fn stack_pointer(&self) -> u64 {
        self.saved.rsp
    }

    fn uncover(&mut self) -> io::Result<()> {
        if let Some(bytes) = self.covered {
            self.memory.write_all_at(&bytes, self.saved.rip)?;
            self.covered = None;
        }
        Ok(())
    }

    /// Restores everything.
    pub fn end(mut self) -> io::Result<()> {
        self.uncover()?;
        let saved = Registers { orig_rax: u64::MAX, ..self.saved };
        put_back(self.pid, &saved, self.saved_mask, self.stop_signal)
    }

    /// The same if it began at a stop that may be inside a system call, which continues. The thread is at a stop of its
    /// own again; returns how to resume it.
    pub fn end_amid(mut self) -> io::Result<Resume> {
        self.uncover()?;
        put_back(self.pid, &self.saved, self.saved_mask, self.stop_signal)?;
        // Passing through the kernel's signal handling restarts an interrupted call.
        sys::interrupt(self.pid)?;
        let mut signal = 0;
        loop {
            sys::go(self.pid, Resume::On, signal)?;
            signal = match stops::next(self.pid)? {
                Some(WaitStatus::Event(StopEvent::Stop, signal)) => return Ok(stops::after_stop(signal)),
                Some(WaitStatus::Event(StopEvent::Exit, _)) | None => return Err(gone_error()),
                Some(WaitStatus::Signal(signal)) => signal,
                Some(_) => 0,
            }
        }
    }
}

/// Skips the call at which the filter stopped a thread, and holds back its signals from then on.
fn skip_call(pid: Pid, now: Registers, stop_signal: &mut bool) -> io::Result<()> {
    sys::set_signal_mask(pid, u64::MAX)?;
    sys::set_registers(pid, &Registers { orig_rax: u64::MAX, ..now })?;
    run_to_call(pid, stop_signal)
}

/// Restores a thread's state, and sends again a stop signal that arrived meanwhile.
fn put_back(pid: Pid, registers: &Registers, mask: u64, stop_signal: bool) -> io::Result<()> {
    sys::set_registers(pid, registers)?;
    sys::set_signal_mask(pid, mask)?;
    if stop_signal { sys::kill_thread(pid, sys::SIGSTOP) } else { Ok(()) }
}

/// Runs to the next beginning or end of a system call; notes whether its group is to be stopped.
fn run_to_call(pid: Pid, stop_signal: &mut bool) -> io::Result<()> {
    loop {
        sys::go(pid, Resume::ToCall, 0)?;
        match stops::next(pid)? {
            Some(WaitStatus::Call) => return Ok(()),
            Some(WaitStatus::Event(StopEvent::Seccomp, _)) => {}
            // Its group stops or continues.
            Some(WaitStatus::Event(StopEvent::Stop, signal)) => *stop_signal = stops::is_group_stop(signal),
            // All blockable signals are held back; what is left is a stop.
            Some(WaitStatus::Signal(_)) => *stop_signal = true,
            _ => return Err(gone_error()),
        }
    }
}

/// Runs from an exec stop to the end of that system call, where others can be made.
pub fn finish_exec(pid: Pid) -> io::Result<()> {
    loop {
        sys::go(pid, Resume::ToCall, 0)?;
        match stops::next(pid)? {
            Some(WaitStatus::Call) => return Ok(()),
            Some(WaitStatus::Event(StopEvent::Exit, _)) | None => return Err(gone_error()),
            Some(_) => {}
        }
    }
}

/// It is exiting or has ended, which the main loop will find.
fn gone_error() -> io::Error {
    io::Error::other("it ended as it began")
}
