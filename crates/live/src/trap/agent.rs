//! The agent of one address space: start, commands, end.

use super::array::TrapArray;
use super::shared::{
    AGENT_END, CONTROL_HEADER, Command, Counters, LogEntry, READY, STACK_BASE, STACK_BYTES, STARTER_STACK,
    Start, TEXT_BASE, TEXT_BYTES, descriptor, order, step_name,
};
use super::space::FILE_BYTES;
use super::tracee::{Injection, SyscallSite};
use crate::tracing::stops;
use crate::tracing::sys::{self, Pid, map, number};
use memmap2::MmapRaw;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The agent's code.
static CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agent.bin"));

/// Why a program runs without an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// Its place is taken.
    #[error("its memory at {TEXT_BASE:#x} to {AGENT_END:#x}, where the agent would lie, is taken: {0}")]
    Place(io::Error),
    /// The agent failed.
    #[error("the agent failed at {step}: {error}")]
    Step {
        /// What it was doing.
        step: &'static str,
        /// The reason.
        error: io::Error,
    },
    /// A file or ptrace operation failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A running agent.
pub struct Agent {
    pid: Pid,
    commands: File,
    replies: File,
    /// The file whose pages are the program's memory.
    pub memory: File,
    control: Control,
}

/// The agent's counters and log, mapped into this process.
pub struct Control(MmapRaw);

/// Offsets in [`Counters`].
const LOG_HEAD: usize = 6;
const LOG_TAIL: usize = 7;

impl Control {
    fn open(agent: Pid) -> io::Result<Control> {
        MmapRaw::map_raw(&opened(agent, descriptor::CONTROL)?).map(Control)
    }

    /// One word of the header. The agent writes it atomically.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= CONTROL_HEADER);
        // SAFETY: in the mapping, which is page-aligned and as long as this value lives; shared words are only ever
        // used as atomics here.
        unsafe { &*self.0.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// A snapshot of all counters.
    pub fn counters(&self) -> Counters {
        let word = |position: usize| self.word(8 * position).load(Ordering::Acquire);
        Counters {
            misses: word(0),
            evictions: word(1),
            refills: word(2),
            zeroed: word(3),
            foreign: word(4),
            forgotten: word(5),
            log_head: word(LOG_HEAD),
            log_tail: word(LOG_TAIL),
        }
    }

    /// Passes every decision logged since the last call to `on_entry`.
    pub fn read_log(&self, log_entries: u64, mut on_entry: impl FnMut(LogEntry)) {
        let (head, tail) = (self.word(8 * LOG_HEAD), self.word(8 * LOG_TAIL));
        let end = head.load(Ordering::Acquire);
        for position in tail.load(Ordering::Relaxed)..end {
            let slot = (position % log_entries) as usize;
            let offset = CONTROL_HEADER + slot * size_of::<LogEntry>();
            // SAFETY: the file is as long as its log; the agent does not write this entry before the tail moves.
            let entry = unsafe { self.0.as_ptr().add(offset).cast::<LogEntry>().read() };
            on_entry(entry);
        }
        tail.store(end, Ordering::Release);
    }
}

fn opened(agent: Pid, descriptor: u32) -> io::Result<File> {
    let path = format!("/proc/{agent}/fd/{descriptor}");
    match descriptor {
        descriptor::COMMANDS_IN => OpenOptions::new().write(true).open(path),
        descriptor::REPLIES_OUT => File::open(path),
        _ => OpenOptions::new().read(true).write(true).open(path),
    }
}

/// How a thread comes to need an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentStart {
    /// A new program, without traces of an agent in its memory.
    Exec,
    /// A copy of another process's memory, including its agent's code.
    Fork,
}

impl Agent {
    /// Starts an agent in the memory of a stopped thread that is alone there.
    pub fn start(
        pid: Pid,
        begin: AgentStart,
        array: &TrapArray,
        log_entries: u64,
    ) -> Result<Agent, AgentError> {
        let site = if begin == AgentStart::Exec { SyscallSite::Here } else { SyscallSite::Agent };
        let mut injection = Injection::begin(pid, site)?;
        let launched = launch(&mut injection, begin, array, log_entries);
        let put_back = injection.end();
        let agent = launched?;
        living().insert(agent);
        put_back.and_then(|()| Agent::attach(agent)).map_err(|error| {
            end(agent);
            error.into()
        })
    }

    fn attach(pid: Pid) -> io::Result<Agent> {
        let mut agent = Agent {
            pid,
            commands: opened(pid, descriptor::COMMANDS_IN)?,
            replies: opened(pid, descriptor::REPLIES_OUT)?,
            memory: opened(pid, descriptor::MEMORY)?,
            control: Control::open(pid)?,
        };
        agent.memory.set_len(FILE_BYTES)?;
        agent.order(order::ATTACHED, 0, [0; 6])?;
        Ok(agent)
    }

    fn order(&mut self, what: u64, number: u64, arguments: [u64; 6]) -> io::Result<i64> {
        let command = Command { what, number, arguments };
        // SAFETY: eight words without padding.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const command).cast::<u8>(), size_of::<Command>()) };
        self.commands.write_all(bytes)?;
        let mut reply = [0; 8];
        // If the agent ends, so does the pipe.
        self.replies.read_exact(&mut reply)?;
        Ok(i64::from_le_bytes(reply))
    }

    /// Makes a system call in the program's address space; returns its result, an error as a number below 0.
    pub fn call(&mut self, number: u64, arguments: [u64; 6]) -> io::Result<i64> {
        self.order(order::CALL, number, arguments)
    }

    /// Maps `bytes` of the memory file from `offset` at `start`, replacing what is there.
    pub fn map(&mut self, start: u64, bytes: u64, protection: u64, offset: u64) -> io::Result<i64> {
        let flags = map::SHARED | map::FIXED;
        self.call(number::MMAP, [start, bytes, protection, flags, descriptor::MEMORY.into(), offset])
    }

    /// Registers a range of the file's memory for faults; all its pages are absent.
    pub fn register(&mut self, start: u64, bytes: u64) -> io::Result<i64> {
        self.order(order::REGISTER, 0, [start, bytes, 0, 0, 0, 0])
    }

    /// Drops a range from the simulated array.
    pub fn forget(&mut self, start: u64, bytes: u64) -> io::Result<()> {
        self.order(order::FORGET, 0, [start, bytes, 0, 0, 0, 0]).map(drop)
    }

    /// Makes all pages absent; whoever touches one waits.
    pub fn freeze(&mut self) -> io::Result<()> {
        self.order(order::FREEZE, 0, [0; 6]).map(drop)
    }

    /// Serves faults again.
    pub fn thaw(&mut self) -> io::Result<()> {
        self.order(order::THAW, 0, [0; 6]).map(drop)
    }

    /// Keeps the page of `address` present whatever the array says. Returns an error number below 0 if that fails:
    /// EAGAIN while too many are kept.
    pub fn keep(&mut self, address: u64) -> io::Result<i64> {
        self.order(order::KEEP, 0, [address, 0, 0, 0, 0, 0])
    }

    /// Undoes [`Agent::keep`].
    pub fn release(&mut self, address: u64) -> io::Result<()> {
        self.order(order::RELEASE, 0, [address, 0, 0, 0, 0, 0]).map(drop)
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its processor time, in seconds.
    pub fn processor_seconds(&self) -> f64 {
        sys::processor_seconds(self.pid).unwrap_or(0.0)
    }

    /// Its counters and log.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Another view of its counters and log, for another thread.
    pub fn another_control(&self) -> io::Result<Control> {
        Control::open(self.pid)
    }

    /// Ends it.
    pub fn end(self) {
        end(self.pid);
    }
}

/// Whether the agent has ended: then its pipes are closed, and it is gone from `/proc`.
pub fn has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, NotFound, UnexpectedEof};
    [BrokenPipe, UnexpectedEof, NotFound].contains(&error.kind())
}

/// All living agents.
static LIVING: Mutex<BTreeSet<Pid>> = Mutex::new(BTreeSet::new());

fn living() -> MutexGuard<'static, BTreeSet<Pid>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process is an agent.
pub fn is_agent(process: Pid) -> bool {
    living().contains(&process)
}

/// Kills an agent, our own task, which may have ended already.
fn end(agent: Pid) {
    living().remove(&agent);
    let _ = sys::kill(agent, sys::SIGKILL);
    let _ = stops::wait_for_child(agent);
}

/// Starts an agent; returns its process id.
fn launch(
    injection: &mut Injection,
    begin: AgentStart,
    array: &TrapArray,
    log_entries: u64,
) -> Result<Pid, AgentError> {
    /// `CLONE_UNTRACED`, `CLONE_VM`; no exit signal.
    const STARTER: u64 = 0x0080_0100;
    const WALL: u64 = 0x4000_0000;
    if begin == AgentStart::Exec {
        place_code(injection)?;
    }
    injection.memory.write_all_at(array.start(log_entries).as_bytes(), STACK_BASE)?;
    let starter = injection.call(number::CLONE, [STARTER, STARTER_STACK, 0, 0, 0, 0])?;
    if starter < 0 {
        let error = io::Error::from_raw_os_error(-starter as i32);
        return Err(AgentError::Step { step: step_name(1), error });
    }
    let waited = injection.call(number::WAIT4, [starter as u64, 0, WALL, 0, 0, 0]);
    let mut start = Start::default();
    injection.memory.read_exact_at(start.as_bytes_mut(), STACK_BASE)?;
    match waited {
        Ok(_) if start.ready == READY => Ok(start.agent),
        Ok(_) => {
            let error = io::Error::from_raw_os_error(start.failure as i32);
            Err(AgentError::Step { step: step_name(start.step), error })
        }
        Err(error) => {
            // The program was killed meanwhile. Neither the agent nor the starter, which waits for it, notices; a
            // starter that has seen it ready is ending, and its id may be reused.
            if start.ready == 0 {
                end(starter as Pid);
            }
            if start.agent > 0 {
                end(start.agent);
            }
            Err(error.into())
        }
    }
}

/// Writes the agent's code, with room for its stacks, into a new program's memory.
fn place_code(injection: &mut Injection) -> Result<(), AgentError> {
    const ANYWHERE_BUT: u64 = map::PRIVATE | map::ANONYMOUS | map::FIXED_NOREPLACE;
    const NO_FILE: u64 = u64::MAX;
    for (start, bytes, protection) in
        [(TEXT_BASE, TEXT_BYTES, map::READ | map::EXEC), (STACK_BASE, STACK_BYTES, map::READ | map::WRITE)]
    {
        let at = injection.call(number::MMAP, [start, bytes, protection, ANYWHERE_BUT, NO_FILE, 0])?;
        if at != start as i64 {
            return Err(AgentError::Place(io::Error::from_raw_os_error(-at as i32)));
        }
    }
    injection.memory.write_all_at(CODE, TEXT_BASE)?;
    Ok(injection.move_to_agent()?)
}
