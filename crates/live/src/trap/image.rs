//! One process image: an address space from its exec or fork to its end, and its taken-over memory.

use super::agent::{self, Agent, AgentError, AgentStart};
use super::array::TrapArray;
use super::check::ReplayChecker;
use super::report::{ImageOrigin, ImageReport, MappingReport};
use super::shared::{AGENT_END, Counters, TEXT_BASE, descriptor};
use super::space::{Lock, PAGE, Space, TakenRange, whole_pages};
use super::stack;
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{self, Pid, limit, map, number};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Instant;

/// Larger private writable file mappings are left alone, since taking over copies them at once.
pub const COPY_BYTES_MAX: u64 = 256 << 20;
/// How far the first thread's stack may grow even if its limit is lower: programs raise their own. Linux keeps more
/// than this free below the stack.
const STACK_BYTES_MIN: u64 = 112 << 20;
/// The most reserved for it.
const STACK_BYTES_MAX: u64 = 16 << 30;

/// One process image.
pub struct Image {
    number: u32,
    process: Pid,
    program: String,
    began: ImageOrigin,
    started: Instant,
    /// Threads, and processes that share the memory.
    pub tasks: usize,
    /// None if the image runs by itself.
    pub agent: Option<Agent>,
    /// Why it runs by itself.
    why_not: Option<String>,
    /// The taken-over memory.
    pub space: Space,
    /// Guard regions in taken-over memory.
    pub guards: Space,
    /// How new memory is locked, if it is.
    pub locks_new: Option<Lock>,
    /// Whether the program serves faults itself.
    pub serves: bool,
    /// Room reserved below the first stack.
    stack: Range<u64>,
    /// The end of the heap.
    pub heap_end: u64,
    /// Mappings that were left alone, in bytes, with the reason.
    pub left_alone: Vec<String>,
    checker: Option<ReplayChecker>,
    /// The agent's counters and seconds when the image was let go.
    counted: Option<(Counters, f64)>,
}

/// What an image needs from its run.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The simulated array.
    pub array: &'a TrapArray,
    /// Whether to replay decisions.
    pub check: bool,
    /// The number of seccomp filters on a program without its own.
    pub filters: u64,
}

/// Capacity of the log, in decisions.
const LOG_ENTRIES: u64 = 1 << 16;

impl Image {
    /// A new image.
    pub fn new(number: u32, process: Pid, began: ImageOrigin) -> Image {
        Image {
            number,
            process,
            program: maps::program(process),
            began,
            started: Instant::now(),
            tasks: 1,
            agent: None,
            why_not: None,
            space: Space::new(),
            guards: Space::new(),
            locks_new: None,
            serves: false,
            stack: 0..0,
            heap_end: 0,
            left_alone: Vec::new(),
            checker: None,
            counted: None,
        }
    }

    /// Leaves the image alone.
    pub fn leave(&mut self, why: impl ToString) {
        self.why_not = Some(why.to_string());
    }

    /// Ends the agent and keeps its counts; the image then runs by itself.
    pub fn end_agent(&mut self, why: impl ToString) {
        if let Some(agent) = self.agent.take() {
            self.counted = Some((agent.control().counters(), agent.processor_seconds()));
            agent.end();
        }
        self.leave(why);
    }

    /// Its first process.
    pub fn process(&self) -> Pid {
        self.process
    }

    /// Notes a call that failed: the agent has ended, or could not do it.
    pub fn note(&mut self, error: &io::Error) {
        if agent::has_ended(error) {
            self.leave(format!("its agent was lost: {error}"));
        } else {
            self.left_alone.push(format!("what a system call changed: {error}"));
        }
    }

    /// Starts its agent, through a thread that is alone there.
    pub fn begin(&mut self, pid: Pid, begin: AgentStart, setting: Setting<'_>) -> Result<(), AgentError> {
        let log_entries = if setting.check { LOG_ENTRIES } else { 0 };
        let agent = Agent::start(pid, begin, setting.array, log_entries)?;
        if setting.check {
            self.checker =
                Some(ReplayChecker::begin(agent.another_control()?, log_entries, setting.array.twin()));
        }
        self.agent = Some(agent);
        Ok(())
    }

    /// Why a new image cannot be followed at all, if so.
    pub fn obstacle(&self, pid: Pid, setting: Setting<'_>) -> Option<String> {
        const CODE_SEGMENT_64: u64 = 0x33;
        match (maps::filters(pid), sys::registers(pid)) {
            (Ok(filters), _) if filters > setting.filters => {
                Some("it has a seccomp filter of its own, which might not let the agent start".to_owned())
            }
            (_, Ok(registers)) if registers.cs != CODE_SEGMENT_64 => {
                Some("it is a 32-bit program".to_owned())
            }
            (Err(error), _) | (_, Err(error)) => Some(error.to_string()),
            _ if !numbers_tasks_as_here(pid) => Some(
                "its agent would not be seen from here: it has a process namespace of its own".to_owned(),
            ),
            _ => None,
        }
    }

    /// Takes over all private writable memory of a program before it starts.
    pub fn take_over_all(&mut self, pid: Pid) -> io::Result<()> {
        let registers = sys::registers(pid)?;
        for mapping in maps::mappings(pid)? {
            let ours = mapping.start >= TEXT_BASE && mapping.end <= AGENT_END;
            if mapping.shared || !mapping.is_writable() || ours {
                continue;
            }
            if mapping.start <= registers.rsp && registers.rsp < mapping.end {
                self.take_over_stack(pid, &mapping)?;
            } else if mapping.inode != 0 {
                self.take_over(mapping.start, mapping.bytes(), mapping.protection)?;
            } else {
                let held = maps::present(pid, mapping.start, mapping.end)?;
                self.take_over_part(mapping.start, mapping.bytes(), mapping.protection, &held)?;
            }
        }
        self.heap_end = self.agent_call(number::BRK, [0; 6])? as u64;
        Ok(())
    }

    /// Takes over the stack with room to grow: file memory does not grow downwards by itself.
    fn take_over_stack(&mut self, pid: Pid, mapping: &Mapping) -> io::Result<()> {
        let (pointer, end) = stack::move_down(pid)?;
        let begin = pointer / PAGE * PAGE;
        let (soft, hard) = maps::limit_of(pid, limit::STACK)?;
        let wanted = soft.max(hard.min(STACK_BYTES_MIN)).min(STACK_BYTES_MAX);
        let below =
            maps::mappings(pid)?.iter().map(|other| other.end).filter(|&end| end <= mapping.start).max();
        // Keeps the distance to lower mappings that the kernel keeps for a growing stack.
        let lowest = below.unwrap_or(0) + (1 << 20);
        let start = whole_pages(end.saturating_sub(wanted)).max(lowest).min(mapping.start).min(begin);
        // The kernel starts with this much of it.
        const STACK_BYTES_AT_FIRST: u64 = 128 << 10;
        self.take_over_part(start, end - start, mapping.protection, &[(begin, end - begin)])?;
        if self.space.touches(start, PAGE) {
            self.stack = start..begin.saturating_sub(STACK_BYTES_AT_FIRST).max(start);
        }
        Ok(())
    }

    /// The room reserved for the first stack, unknown to the program.
    pub fn reserve(&self) -> Range<u64> {
        self.stack.clone()
    }

    /// Bytes of [`Image::reserve`].
    pub fn reserve_bytes(&self) -> u64 {
        self.stack.end - self.stack.start
    }

    /// Copies to a forked child what it inherits.
    pub fn inherit(&mut self, parent: &Image) {
        self.heap_end = parent.heap_end;
        self.guards = parent.guards.clone();
        self.serves = parent.serves;
        self.stack = parent.stack.clone();
    }

    /// Takes over private memory and copies all of it; memory after the end of its file stays as it is.
    pub fn take_over(&mut self, start: u64, bytes: u64, protection: u64) -> io::Result<()> {
        let Some(offset) = self.space.allot(bytes) else { return Ok(()) };
        let (copied, failure) = self.copy_to_file(start, bytes, offset)?;
        let copied = whole_pages(copied);
        if let Some(error) = failure {
            self.left_alone.push(not_copied(bytes - copied, &error));
        }
        if copied > 0 { self.replace(start, copied, protection, offset) } else { Ok(()) }
    }

    /// Takes over private memory and copies only `held`; the rest is zeros.
    fn take_over_part(
        &mut self,
        start: u64,
        bytes: u64,
        protection: u64,
        held: &[(u64, u64)],
    ) -> io::Result<()> {
        let Some(offset) = self.space.allot(bytes) else { return Ok(()) };
        for &(from, length) in held {
            if let (_, Some(error)) = self.copy_to_file(from, length, offset + (from - start))? {
                // Nothing was replaced yet: it stays the program's own.
                self.left_alone.push(not_copied(bytes, &error));
                return Ok(());
            }
        }
        self.replace(start, bytes, protection, offset)
    }

    /// Bytes copied, and why not all, if so.
    fn copy_to_file(&mut self, start: u64, bytes: u64, offset: u64) -> io::Result<(u64, Option<io::Error>)> {
        let mut copied = 0;
        while copied < bytes {
            let rest = [descriptor::MEMORY.into(), start + copied, bytes - copied, offset + copied, 0, 0];
            match self.agent_call(number::PWRITE64, rest)? {
                more @ 1.. => copied += more as u64,
                error => return Ok((copied, Some(io::Error::from_raw_os_error(-error as i32)))),
            }
        }
        Ok((copied, None))
    }

    /// Replaces a range with the file; on failure it stays the program's own.
    fn replace(&mut self, start: u64, bytes: u64, protection: u64, offset: u64) -> io::Result<()> {
        if let Some(error) = self.place(start, bytes, protection, offset)? {
            self.left_alone.push(format!("{} KiB: {error}", bytes / 1024));
        }
        Ok(())
    }

    /// Maps a part of the file at an address and registers it for faults. Returns why it is not there, if so.
    pub fn place(
        &mut self,
        start: u64,
        bytes: u64,
        protection: u64,
        offset: u64,
    ) -> io::Result<Option<io::Error>> {
        let Some(agent) = &mut self.agent else { return Ok(None) };
        let at = agent.map(start, bytes, protection, offset)?;
        if at < 0 {
            return Ok(Some(io::Error::from_raw_os_error(-at as i32)));
        }
        self.space.insert(start, bytes, offset);
        self.register(start, bytes)?;
        Ok(None)
    }

    /// Registers new memory for faults. Memory that the kernel refuses works all the same, unseen.
    pub fn register(&mut self, start: u64, bytes: u64) -> io::Result<()> {
        let Some(agent) = &mut self.agent else { return Ok(()) };
        let result = agent.register(start, bytes)?;
        if result < 0 {
            let error = io::Error::from_raw_os_error(-result as i32);
            self.left_alone.push(format!("{} KiB cannot be made to fault: {error}", bytes / 1024));
        }
        Ok(())
    }

    /// Takes over a new range of the heap.
    pub fn take_over_heap(&mut self, start: u64, end: u64) -> io::Result<()> {
        self.replace(start, end - start, map::READ | map::WRITE, Space::heap_offset(start))
    }

    /// Makes a system call in the image's memory; returns its result.
    pub fn agent_call(&mut self, number: u64, arguments: [u64; 6]) -> io::Result<i64> {
        match &mut self.agent {
            Some(agent) => agent.call(number, arguments),
            None => Err(io::Error::other("no agent")),
        }
    }

    /// Gives up a range: its memory is gone or replaced.
    pub fn give_up(&mut self, start: u64, bytes: u64) -> io::Result<()> {
        let removed = self.space.remove(start, bytes);
        self.guards.remove(start, bytes);
        let Some(agent) = &mut self.agent else { return Ok(()) };
        if !removed.is_empty() {
            agent.forget(start, bytes)?;
        }
        removed.iter().try_for_each(|piece| sys::punch(&agent.memory, piece.offset, piece.bytes()))
    }

    /// Atomically replaces a range with empty memory of the file.
    ///
    /// # Errors
    /// If that fails: nothing has changed.
    pub fn renew(&mut self, start: u64, bytes: u64, protection: u64) -> io::Result<()> {
        let Some(offset) = self.space.allot(bytes) else { return Ok(()) };
        self.place(start, bytes, protection, offset)?.map_or(Ok(()), Err)
    }

    /// The next data of the file in `[from, end)`.
    pub fn next_data(&self, from: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
        self.agent.as_ref().map_or(Ok(None), |agent| sys::next_data(&agent.memory, from, end))
    }

    /// The mappings within `[start, start + bytes)`.
    pub fn parts(&self, start: u64, bytes: u64) -> io::Result<Vec<Mapping>> {
        let Some(agent) = &self.agent else { return Ok(Vec::new()) };
        let mut parts = maps::mappings(agent.pid())?;
        let end = start.saturating_add(bytes);
        parts.retain(|part| part.end > start && part.start < end);
        for part in &mut parts {
            part.start = part.start.max(start);
            part.end = part.end.min(end);
        }
        Ok(parts)
    }

    /// Whether a mapping belongs to the file.
    pub fn owns(&self, mapping: &Mapping) -> bool {
        self.space.touches(mapping.start, mapping.bytes())
    }

    /// Makes a range read as zeros; it stays taken over.
    pub fn empty(&mut self, pieces: &[TakenRange]) -> io::Result<()> {
        let Some(agent) = &mut self.agent else { return Ok(()) };
        for piece in pieces {
            // A page that arrives between the two is in the array, and faults once more. In the other order it would
            // stay present without being in the array, unseen.
            agent.forget(piece.start, piece.bytes())?;
            sys::punch(&agent.memory, piece.offset, piece.bytes())?;
        }
        Ok(())
    }

    /// Reads the image's memory, absent or not.
    pub fn read(&self, pid: Pid, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        match (&self.agent, self.space.within(address, bytes.len() as u64).as_slice()) {
            (Some(agent), [piece]) if piece.bytes() == bytes.len() as u64 => {
                agent.memory.read_exact_at(bytes, piece.offset)
            }
            _ => maps::memory(pid)?.read_exact_at(bytes, address),
        }
    }

    /// Writes one word, absent or not.
    pub fn set_word(&self, pid: Pid, address: u64, word: u64) -> io::Result<()> {
        let bytes = word.to_le_bytes();
        match (&self.agent, self.space.within(address, bytes.len() as u64).as_slice()) {
            (Some(agent), [piece]) if piece.bytes() == bytes.len() as u64 => {
                agent.memory.write_all_at(&bytes, piece.offset)
            }
            _ => maps::memory(pid)?.write_all_at(&bytes, address),
        }
    }

    /// Reads one word.
    pub fn word(&self, pid: Pid, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(pid, address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The inode number of its memory file, as in its mappings.
    pub fn memory_inode(&self) -> io::Result<u64> {
        self.agent.as_ref().map_or(Ok(0), |agent| Ok(agent.memory.metadata()?.ino()))
    }

    /// Ends the image after its last thread; returns its report.
    pub fn end(self) -> ImageReport {
        let run_seconds = self.started.elapsed().as_secs_f64();
        let inode = self.memory_inode().unwrap_or(0);
        let (mut counters, mut agent_seconds) = self.counted.unwrap_or_default();
        let mut mappings = Vec::new();
        let mut taken_over_bytes = 0;
        let mut touched_pages = 0;
        let mut checked = None;
        if let Some(mut agent) = self.agent {
            // The agent has kept the address space alive until now.
            mappings = maps::detailed_mappings(agent.pid()).unwrap_or_default();
            taken_over_bytes = self.space.bytes();
            touched_pages = agent.memory.metadata().map_or(0, |metadata| metadata.blocks() * 512 / PAGE);
            // It may still be serving a killed thread's fault. A lost agent counts no more.
            let _ = agent.freeze();
            counters = agent.control().counters();
            agent_seconds = agent.processor_seconds();
            agent.end();
        }
        if let Some(checker) = self.checker {
            checked = Some(checker.end());
        }
        ImageReport {
            number: self.number,
            process: self.process,
            program: self.program,
            began: self.began,
            run_seconds,
            not_followed: self.why_not,
            misses: counters.misses,
            evictions: counters.evictions,
            refills: counters.refills,
            first_touches: counters.zeroed,
            forgotten: counters.forgotten,
            agent_seconds,
            taken_over_bytes,
            touched_pages,
            mappings: mappings.iter().filter_map(|mapping| MappingReport::of(mapping, inode)).collect(),
            left_alone: self.left_alone,
            checked,
        }
    }
}

fn not_copied(bytes: u64, error: &io::Error) -> String {
    format!("{} KiB that could not be copied: {error}", bytes / 1024)
}

/// Whether a process's tasks have the same ids here: its agent is known by its id.
fn numbers_tasks_as_here(pid: Pid) -> bool {
    let namespace = |path: String| fs::read_link(path).ok();
    namespace("/proc/self/ns/pid".to_owned()) == namespace(format!("/proc/{pid}/ns/pid_for_children"))
}
