//! The stream of one or more files.

use super::super::notes::Notes;
use super::blocks::{Assembly, Flow, MAX_INSTRUCTION_BYTES};
use super::file::{FileHeader, TraceFile};
use super::record::{RECORD_BYTES, Record, file_type, kind, marker};
use super::tallies::{self, Tallies};
use pagewalk_trace::{BlockEnd, Event, Item, Origin, Ref, Source, SourceError, StreamHeader};
use pagewalk_units::{Access, Kind, PAGE_SHIFT, Size, ThreadId, VirtAddr};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};

/// Reads the files' records in the order of their timestamps.
pub(super) struct DrmemtraceSource {
    header: StreamHeader,
    parts: Vec<Part>,
    /// Parts that wait, by the time at which they continue; equal ones in the order of files.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The part being read.
    current: Option<usize>,
    assembly: Assembly,
    threads: Threads,
    /// What comes next, after the batch.
    events: VecDeque<Event>,
    tallies: Tallies,
    ended: bool,
    /// The first error of a file, for the end of the stream.
    error: Option<SourceError>,
}

/// A file, and what its next records depend on.
struct Part {
    file: TraceFile,
    state: State,
}

struct State {
    thread: u32,
    /// The process, once it is named.
    process: Option<u64>,
    /// Whether system calls have the numbers of x86-64.
    is_x86_64: bool,
    /// The system call that has not returned yet.
    call: Option<u32>,
    window: Option<u64>,
    /// Whether the last instruction was the kernel's.
    in_kernel: bool,
    /// Bytes of the next instruction.
    code: [u8; MAX_INSTRUCTION_BYTES],
    code_len: usize,
}

/// The threads met so far.
struct Threads {
    first: u32,
    running: u32,
    alive: HashSet<u32>,
    /// Whether a batch or an event has named the first one.
    is_first_named: bool,
}

/// Why reading common records stopped.
enum Stop {
    /// The records at hand are read.
    Used,
    /// The batch must be yielded first.
    Full,
    /// The next record is another.
    Other,
}

impl DrmemtraceSource {
    /// A source for opened files: at least one, all of one process.
    pub fn new(files: Vec<(TraceFile, FileHeader)>) -> DrmemtraceSource {
        let first = files.first().map(|(_, header)| *header).unwrap_or_default();
        let mut header = StreamHeader {
            engine: format!("drmemtrace (version {})", first.version),
            ..StreamHeader::unknown(Origin::Import)
        };
        header.pid = first.process.and_then(|process| u32::try_from(process).ok()).unwrap_or(0);
        let mut tallies = Tallies::new();
        let mut waiting = BinaryHeap::new();
        let mut parts = Vec::new();
        for (index, (file, header)) in files.into_iter().enumerate() {
            if header.file_type & (file_type::FILTERED | file_type::INSTRUCTION_ONLY) != 0 {
                tallies.add(tallies::FILTERED, file.number());
            }
            waiting.push(Reverse((header.time, index)));
            parts.push(Part { file, state: State::new(&header, index) });
        }
        let first = waiting.peek().map_or(1, |Reverse((_, index))| parts[*index].state.thread);
        DrmemtraceSource {
            header,
            parts,
            waiting,
            current: None,
            assembly: Assembly::new(ThreadId(first)),
            threads: Threads { first, running: first, alive: HashSet::from([first]), is_first_named: false },
            events: VecDeque::new(),
            tallies,
            ended: false,
            error: None,
        }
    }

    /// Notes on the files, complete at the end of the stream.
    pub fn notes(&self) -> Notes {
        self.tallies.notes()
    }

    /// Reads records until there is a full batch or an event, or all files end.
    fn fill(&mut self) -> Result<(), SourceError> {
        while self.events.is_empty() && !self.assembly.is_full() {
            let Some(index) = self.current else {
                match self.waiting.pop() {
                    Some(Reverse((_, index))) => {
                        self.current = Some(index);
                        self.switch_to(self.parts[index].state.thread);
                        continue;
                    }
                    None => {
                        self.ended = true;
                        return Ok(());
                    }
                }
            };
            let Part { file, state } = &mut self.parts[index];
            if state.call.is_some() {
                match file.peek()?.map(|next| next.kind) {
                    Some(kind::MARKER) => {}
                    // It did not return.
                    None | Some(kind::THREAD_EXIT | kind::FOOTER) => state.call = None,
                    Some(_) => {
                        self.events.extend(state.returned(0));
                        continue;
                    }
                }
            }
            let records = file.records()?;
            if records.is_empty() {
                self.assembly.close(None);
                self.current = None;
                continue;
            }
            let (used, stop) = state.read(records, &mut self.assembly);
            file.consume(used);
            if self.assembly.is_exhausted() {
                return Err(file.malformed("needs more memory for different blocks than is allowed"));
            }
            match stop {
                Stop::Used => {}
                Stop::Full => return Ok(()),
                Stop::Other => self.read_other(index)?,
            }
        }
        Ok(())
    }

    /// Reads one record of another kind than reads, writes, instructions and their bytes; or an odd one of these.
    fn read_other(&mut self, index: usize) -> Result<(), SourceError> {
        let Part { file, state } = &mut self.parts[index];
        let Some(record) = file.peek()? else { return Ok(()) };
        let number = file.number();
        match record.kind {
            kind::READ | kind::WRITE => {
                let (reference, sort) = odd_reference(record);
                let is_kernel = state.in_kernel || reference.is_none();
                if let (Some(reference), false) = (reference, is_kernel)
                    && !self.assembly.reference(reference)
                {
                    return Ok(());
                }
                self.tallies.add(if is_kernel { tallies::KERNEL } else { sort }, number);
            }
            kind::NO_FETCH => {
                self.tallies.add(tallies::NO_FETCH, number);
                state.code_len = 0;
                self.assembly.repeat(record.value);
            }
            kind::PREFETCH..=kind::PREFETCH_LAST
            | kind::HARDWARE_PREFETCH
            | kind::LATER_PREFETCH..=kind::LATER_PREFETCH_LAST => {
                self.tallies.add(tallies::PREFETCHES, number)
            }
            kind::FLUSH..=kind::FLUSH_LAST => self.tallies.add(tallies::FLUSHES, number),
            kind::MARKER => self.read_marker(index, record)?,
            kind::PID | kind::THREAD | kind::THREAD_EXIT => self.read_identity(index, record)?,
            kind::FOOTER => {
                self.assembly.close(None);
                self.current = None;
                return file.read_footer();
            }
            kind::BUNDLE | kind::MAYBE_FETCH | kind::HEADER => {
                return Err(
                    file.malformed(&format!("is of type {}, which is not in such a file", record.kind))
                );
            }
            kind::ENCODING if record.size > 8 => {
                return Err(file.malformed("gives more than 8 bytes of an instruction"));
            }
            // Longer than any instruction of x86: code of another architecture, or none (DynamoRIO's "regdeps").
            kind::ENCODING => state.code_len = 0,
            _ if flow(record.kind).is_none() => {
                return Err(file.malformed(&format!("is of the unknown type {}", record.kind)));
            }
            _ if !is_instruction_length(record.size) => {
                return Err(
                    file.malformed(&format!("has an instruction of {} bytes, not 1 to 15", record.size))
                );
            }
            _ => {
                // An instruction of the kernel.
                self.assembly.close(None);
                self.tallies.add(tallies::KERNEL, number);
                (state.in_kernel, state.code_len) = (true, 0);
            }
        }
        self.parts[index].file.consume(RECORD_BYTES);
        Ok(())
    }

    fn read_marker(&mut self, index: usize, record: Record) -> Result<(), SourceError> {
        let Part { file, state } = &mut self.parts[index];
        let number = file.number();
        match record.size {
            marker::TIMESTAMP => {
                let here = (record.value, index);
                if self.waiting.peek().is_some_and(|Reverse(next)| *next < here) {
                    self.assembly.close(None);
                    self.waiting.push(Reverse(here));
                    self.current = None;
                }
            }
            marker::SYSCALL => {
                self.assembly.close(Some(BlockEnd::Syscall));
                self.events.extend(state.returned(0));
                state.call = u32::try_from(record.value).ok().filter(|_| state.is_x86_64);
            }
            marker::SYSCALL_FAILED => {
                let error = i64::try_from(record.value).unwrap_or(0);
                self.events.extend(state.returned(-error));
            }
            marker::KERNEL_EVENT => {
                self.assembly.close(Some(BlockEnd::Other));
                self.tallies.add(tallies::TRANSFERS, number);
            }
            marker::KERNEL_XFER => self.tallies.add(tallies::TRANSFERS, number),
            marker::FUNC_ID..=marker::FUNC_RETVAL => self.tallies.add(tallies::FUNCTIONS, number),
            marker::PHYSICAL_ADDRESS..=marker::VIRTUAL_ADDRESS => self.tallies.add(tallies::PHYSICAL, number),
            marker::WINDOW_ID => {
                let before = state.window.replace(record.value).unwrap_or(record.value);
                if before != record.value {
                    self.tallies.add(tallies::WINDOWS, number);
                }
            }
            marker::RESERVED_END.. => {
                self.assembly.close(None);
                // The program runs again.
                self.events.extend(state.returned(0));
                self.events.push_back(Event::Marker { id: record.size.into() });
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads which process or thread the next records are of, or that a thread ends.
    fn read_identity(&mut self, index: usize, record: Record) -> Result<(), SourceError> {
        let Part { file, state } = &mut self.parts[index];
        if record.kind == kind::PID {
            if state.process.replace(record.value).is_some_and(|before| before != record.value) {
                return Err(file.malformed("is of another process: a stream is one process's"));
            }
            return Ok(());
        }
        let Ok(thread) = u32::try_from(record.value) else {
            return Err(
                file.malformed(&format!("names thread {}, a number of more than 32 bits", record.value))
            );
        };
        if record.kind == kind::THREAD {
            state.thread = thread;
            self.switch_to(thread);
        } else {
            self.assembly.close(None);
            if self.threads.alive.remove(&thread) {
                self.name_first();
                self.events.push_back(Event::ThreadEnd { thread });
            }
        }
        Ok(())
    }

    /// Before an event about threads: names the first one, unless a batch does.
    fn name_first(&mut self) {
        if !std::mem::replace(&mut self.threads.is_first_named, true) && self.assembly.has_nothing() {
            self.events.push_back(Event::Switch { thread: self.threads.first });
        }
    }

    fn switch_to(&mut self, thread: u32) {
        let is_new = self.threads.alive.insert(thread);
        if thread == self.threads.running && !is_new {
            return;
        }
        self.assembly.close(None);
        self.name_first();
        if is_new {
            self.events.push_back(Event::ThreadStart { thread, parent: self.threads.first });
        }
        self.events.push_back(Event::Switch { thread });
        self.threads.running = thread;
    }
}

impl Source for DrmemtraceSource {
    fn header(&self) -> &StreamHeader {
        &self.header
    }

    fn next_item(&mut self) -> Result<Option<Item<'_>>, SourceError> {
        self.assembly.retire();
        loop {
            let is_due = self.assembly.is_full() || self.ended || !self.events.is_empty();
            if is_due && !self.assembly.is_empty() {
                return Ok(Some(Item::Batch(self.assembly.batch())));
            }
            if let Some(event) = self.events.pop_front() {
                if let Event::Switch { thread } = event {
                    self.assembly.thread = ThreadId(thread);
                }
                return Ok(Some(Item::Event { at: self.assembly.place(), event }));
            }
            if self.ended {
                self.tallies.publish();
                return self.error.take().map_or(Ok(None), Err);
            }
            if let Err(error) = self.fill() {
                // The other files go on: their threads are whole.
                self.assembly.close(None);
                self.current = None;
                self.ended = self.assembly.is_exhausted();
                self.error.get_or_insert(error);
            }
        }
    }
}

impl State {
    fn new(header: &FileHeader, index: usize) -> State {
        let architectures = header.file_type & file_type::ARCHITECTURES;
        State {
            thread: header.thread.and_then(|thread| u32::try_from(thread).ok()).unwrap_or(index as u32 + 1),
            process: header.process,
            is_x86_64: architectures == 0 || architectures == file_type::X86_64,
            call: None,
            window: None,
            in_kernel: false,
            code: [0; MAX_INSTRUCTION_BYTES],
            code_len: 0,
        }
    }

    /// Reads common records; returns the bytes read. Hot.
    fn read(&mut self, records: &[u8], to: &mut Assembly) -> (usize, Stop) {
        let (records, _) = records.as_chunks::<RECORD_BYTES>();
        for (index, record) in records.iter().enumerate() {
            let record = Record::from_bytes(record);
            let is_taken = if record.kind <= kind::WRITE {
                match usual_reference(record) {
                    Some(reference) if !self.in_kernel => to.reference(reference),
                    _ => return (index * RECORD_BYTES, Stop::Other),
                }
            } else if record.kind == kind::ENCODING && self.add_code(record) {
                true
            } else if let Some(flow) = flow(record.kind)
                && is_instruction_length(record.size)
                && record.value < Ref::ADDRESS_END
            {
                let code = &self.code[..std::mem::take(&mut self.code_len)];
                if !code.is_empty() && self.is_x86_64 {
                    to.learn(record.value, code);
                }
                self.in_kernel = false;
                to.instruction(record.value, record.size as u8, flow)
            } else {
                return (index * RECORD_BYTES, Stop::Other);
            };
            if !is_taken {
                return (index * RECORD_BYTES, Stop::Full);
            }
        }
        (records.len() * RECORD_BYTES, Stop::Used)
    }

    /// Keeps bytes of the next instruction; false if they are too many.
    fn add_code(&mut self, record: Record) -> bool {
        let bytes = record.value.to_le_bytes();
        let bytes = bytes.get(..usize::from(record.size));
        let end = self.code_len + usize::from(record.size);
        let (Some(bytes), Some(room)) = (bytes, self.code.get_mut(self.code_len..end)) else { return false };
        room.copy_from_slice(bytes);
        self.code_len = end;
        true
    }

    /// The return of the last system call, if it is outstanding.
    fn returned(&mut self, result: i64) -> Option<Event> {
        self.call.take().map(|number| Event::Syscall { number, result })
    }
}

fn is_instruction_length(bytes: u16) -> bool {
    (1..=MAX_INSTRUCTION_BYTES).contains(&usize::from(bytes))
}

/// What an instruction of this kind does; `None` for other records.
#[inline(always)]
fn flow(of: u16) -> Option<Flow> {
    static FLOWS: [Option<Flow>; 50] = {
        let mut flows = [None; 50];
        flows[kind::INSTR as usize] = Some(Flow::Plain);
        flows[kind::DIRECT_JUMP as usize] = Some(Flow::Jump);
        flows[kind::INDIRECT_JUMP as usize] = Some(Flow::Jump);
        flows[kind::CONDITIONAL_JUMP as usize] = Some(Flow::Jump);
        flows[kind::TAKEN_JUMP as usize] = Some(Flow::Jump);
        flows[kind::UNTAKEN_JUMP as usize] = Some(Flow::Jump);
        flows[kind::DIRECT_CALL as usize] = Some(Flow::Call);
        flows[kind::INDIRECT_CALL as usize] = Some(Flow::Call);
        flows[kind::RETURN as usize] = Some(Flow::Return);
        flows[kind::SYSENTER as usize] = Some(Flow::Syscall);
        flows
    };
    FLOWS.get(usize::from(of)).copied().flatten()
}

/// Low bits of references of powers of two up to 64 bytes, by kind and size; 0 for other sizes.
static USUAL: [[u8; 65]; 2] = {
    let mut usual = [[0; 65]; 2];
    let mut code = 0;
    while code <= 6 {
        let size = Size::from_code(code);
        usual[0][size.bytes() as usize] = Ref::meta(Access { kind: Kind::Load, size });
        usual[1][size.bytes() as usize] = Ref::meta(Access { kind: Kind::Store, size });
        code += 1;
    }
    usual
};

/// A read or write of a usual size at a user address.
#[inline(always)]
fn usual_reference(record: Record) -> Option<Ref> {
    let meta = *USUAL[usize::from(record.kind & 1)].get(usize::from(record.size))?;
    (meta != 0 && record.value < Ref::ADDRESS_END).then(|| Ref::from_parts(record.value, meta))
}

/// The next larger size that traces here know, or the next smaller one if the larger one would reach another page.
fn known_size(address: u64, bytes: u32) -> Size {
    let page_of_end = |bytes: u32| address.saturating_add(u64::from(bytes) - 1) >> PAGE_SHIFT;
    Size::at_least(bytes)
        .filter(|size| page_of_end(size.bytes()) == page_of_end(bytes))
        .or(Size::at_most(bytes))
        .unwrap_or(Size::from_code(0))
}

/// A read or write of any size, unless it is the kernel's, and what is odd about its size.
fn odd_reference(record: Record) -> (Option<Ref>, usize) {
    let kind = if record.kind == kind::WRITE { Kind::Store } else { Kind::Load };
    let bytes = u32::from(record.size).max(1);
    let size = known_size(record.value, bytes);
    let sort = if record.size == 0 { tallies::UNKNOWN_SIZE } else { tallies::OTHER_SIZE };
    let reference = Ref::new(VirtAddr(record.value), Access { kind, size });
    ((record.value < Ref::ADDRESS_END).then_some(reference), sort)
}
