//! A stopped thread: letting it make a system call of ours.

use super::shared::TEXT_BASE;
use crate::tracing::maps;
use crate::tracing::stops::{self, Event, Status};
use crate::tracing::sys::{self, Go, Pid, Registers};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Where a stopped thread is to find the instruction `syscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Where it stands: the instruction is put there for the time of the call. For a thread that is alone.
    Here,
    /// In the agent's code.
    Agent,
}

const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Lets a stopped thread make system calls, with its signals held back meanwhile.
pub struct Injection {
    pid: Pid,
    /// Its memory.
    pub memory: File,
    saved: Registers,
    saved_mask: u64,
    /// The bytes under the instruction, where it was put.
    covered: Option<[u8; 2]>,
    site: u64,
    /// A stop that came meanwhile, to be sent again.
    stop_signal: bool,
}

impl Injection {
    /// Begins at a stop outside a system call.
    pub fn begin(pid: Pid, site: Site) -> io::Result<Injection> {
        let saved = sys::registers(pid)?;
        let saved_mask = sys::signal_mask(pid)?;
        let memory = maps::memory(pid)?;
        let (mut covered, mut place) = (None, TEXT_BASE);
        if site == Site::Here {
            place = saved.rip;
            let mut bytes = SYSCALL;
            memory.read_exact_at(&mut bytes, place)?;
            memory.write_all_at(&SYSCALL, place)?;
            covered = Some(bytes);
        }
        sys::set_signal_mask(pid, u64::MAX)?;
        Ok(Injection { pid, memory, saved, saved_mask, covered, site: place, stop_signal: false })
    }

    /// From now on the agent's code has the instruction.
    pub fn move_to_agent(&mut self) -> io::Result<()> {
        self.site = TEXT_BASE;
        self.uncover()
    }

    /// Makes a system call; its result, an error number below 0.
    pub fn call(&mut self, number: u64, [a, b, c, d, e, f]: [u64; 6]) -> io::Result<i64> {
        let registers = Registers {
            rip: self.site,
            rax: number,
            // No system call is to be restarted.
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
        self.run_to_call()?; // its beginning
        self.run_to_call()?; // its end
        Ok(sys::registers(self.pid)?.rax as i64)
    }

    fn run_to_call(&mut self) -> io::Result<()> {
        loop {
            sys::go(self.pid, Go::ToCall, 0)?;
            match stops::next(self.pid)? {
                Some(Status::Call) => return Ok(()),
                Some(Status::Event(Event::Seccomp, _)) => {}
                // Its group stops, or goes on.
                Some(Status::Event(Event::Stop, signal)) => self.stop_signal = stops::is_group_stop(signal),
                // All signals that can be are held back; what is left is a stop.
                Some(Status::Signal(_)) => self.stop_signal = true,
                _ => return Err(ended()),
            }
        }
    }

    fn uncover(&mut self) -> io::Result<()> {
        if let Some(bytes) = self.covered {
            self.memory.write_all_at(&bytes, self.saved.rip)?;
            self.covered = None;
        }
        Ok(())
    }

    /// Puts everything back.
    pub fn end(mut self) -> io::Result<()> {
        self.uncover()?;
        sys::set_registers(self.pid, &Registers { orig_rax: u64::MAX, ..self.saved })?;
        sys::set_signal_mask(self.pid, self.saved_mask)?;
        if self.stop_signal {
            sys::kill_thread(self.pid, sys::SIGSTOP)?;
        }
        Ok(())
    }
}

/// Goes from the stop of an exec to the end of that system call, where others can be made.
pub fn finish_exec(pid: Pid) -> io::Result<()> {
    loop {
        sys::go(pid, Go::ToCall, 0)?;
        match stops::next(pid)? {
            Some(Status::Call) => return Ok(()),
            Some(Status::Event(Event::Exit, _)) | None => return Err(ended()),
            Some(_) => {}
        }
    }
}

/// It ends: it may stand at the event of that, or has ended, which the loop over all stops is to find.
fn ended() -> io::Error {
    io::Error::other("it ended as it began")
}
