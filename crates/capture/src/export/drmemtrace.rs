//! A final offline trace of DynamoRIO's drmemtrace, as the importer of that name reads it: a zip archive whose members
//! `chunk.00000000`, `chunk.00000001` … are one sequence of records (`import/drmemtrace/record.rs`).
//!
//! - Version 4: instructions have their bytes, which each chunk repeats. Later versions promise where each branch goes,
//!   which a stream does not always know.
//! - All threads are in one file, told apart by records, as the header `trace_entry.h` defines it. DynamoRIO itself
//!   writes a file for each thread.
//! - A stream has no clock: a timestamp counts a microsecond for a thousand instructions, and the time asleep.
//! - A jump of unknown bytes is a conditional one, which may be taken or not.
//! - A modify is a read and a write.

use super::flow::{Facts, Flow, MAX_BYTES};
use super::instructions::{Executed, accesses, each_instruction};
use super::omissions::Omission;
use super::{Encoder, Exporter, Omissions, Out};
use crate::import::drmemtrace::record::{Record, file_type, kind, marker};
use pagewalk_trace::{Batch, Event, Instruction, StreamHeader};
use pagewalk_units::{Kind, PAGE_BYTES};
use std::collections::BTreeSet;
use std::io::{self, Write};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

const VERSION: u64 = 4;
/// Instructions of a chunk, as DynamoRIO has them.
const CHUNK_INSTRUCTIONS: u64 = 10_000_000;
const CACHE_LINE_BYTES: u64 = 64;
/// Bytes of an instruction in one record.
const ENCODING_BYTES: usize = 8;
/// Instructions in a microsecond of a timestamp.
const INSTRUCTIONS_PER_MICROSECOND: u64 = 1000;
/// Bytes to hand to the archive at a time.
const PIECE_BYTES: usize = 1 << 16;
/// Level of deflate: traces are long.
const LEVEL: i64 = 3;
/// DynamoRIO knows no process 0.
const UNKNOWN_PROCESS: u32 = 1;

/// The format, for the registry.
pub(super) const FORMAT: Exporter = Exporter {
    name: "drmemtrace",
    about: "DynamoRIO's offline trace, a zip archive: name it FILE.trace.zip and give its tools `-infile \
            FILE.trace.zip`",
    begin: |header, out| Ok(Box::new(Drmemtrace::new(header, out, CHUNK_INSTRUCTIONS)?)),
};

pub(super) struct Drmemtrace {
    chunks: Chunks,
    process: u32,
    /// The thread that the next records are of, and the one that the last records were of.
    thread: u32,
    named: Option<u32>,
    alive: BTreeSet<u32>,
    /// Instructions of known bytes.
    codes: Facts<Code>,
    /// Whether the header is written; if so, whether instructions have their bytes.
    has_codes: Option<bool>,
    /// For timestamps.
    clock: Clock,
}

#[derive(Clone, Copy)]
struct Code {
    flow: Flow,
    /// The number, from 1, of the last chunk that has its bytes.
    chunk: u64,
}

#[derive(Default)]
struct Clock {
    instructions: u64,
    microseconds_asleep: u64,
}

impl Clock {
    fn now(&self) -> u64 {
        (1 + self.instructions / INSTRUCTIONS_PER_MICROSECOND).saturating_add(self.microseconds_asleep)
    }
}

/// The archive.
struct Chunks {
    archive: ZipWriter<StreamWriter<UntilError>>,
    piece: Vec<u8>,
    /// Chunks so far, instructions of the last one, and most instructions of one.
    count: u64,
    instructions: u64,
    most_instructions: u64,
    /// Records so far that DynamoRIO's tools see.
    visible: u64,
}

impl Chunks {
    fn open(&mut self) -> io::Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(LEVEL))
            .large_file(true);
        self.archive.start_file(format!("chunk.{:08}", self.count), options)?;
        (self.count, self.instructions) = (self.count + 1, 0);
        Ok(())
    }

    fn put(&mut self, kind: u16, size: u16, value: u64) -> io::Result<()> {
        let is_hidden =
            matches!(kind, kind::HEADER | kind::FOOTER | kind::THREAD | kind::PID | kind::ENCODING)
                || (kind, size) == (kind::MARKER, marker::RECORD_ORDINAL);
        self.visible += u64::from(!is_hidden);
        self.piece.extend_from_slice(&Record { kind, size, value }.to_bytes());
        if self.piece.len() >= PIECE_BYTES { self.hand_on() } else { Ok(()) }
    }

    fn mark(&mut self, marker: u16, value: u64) -> io::Result<()> {
        self.put(kind::MARKER, marker, value)
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.archive.write_all(&self.piece)?;
        self.piece.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.hand_on()?;
        self.archive.finish()?.into_inner().out.finish()
    }
}

/// Takes everything after its first error: an archive that is given up tries to write its end, and says so on standard
/// error if it cannot.
struct UntilError {
    out: Out,
    has_failed: bool,
}

impl Write for UntilError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.has_failed {
            return Ok(bytes.len());
        }
        self.out.write(bytes).inspect_err(|_| self.has_failed = true)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.has_failed { Ok(()) } else { self.out.flush() }
    }
}

impl Drmemtrace {
    pub fn new(header: &StreamHeader, out: Out, chunk_instructions: u64) -> io::Result<Drmemtrace> {
        let mut chunks = Chunks {
            archive: ZipWriter::new_stream(UntilError { out, has_failed: false }),
            piece: Vec::with_capacity(2 * PIECE_BYTES),
            count: 0,
            instructions: 0,
            most_instructions: chunk_instructions,
            visible: 0,
        };
        chunks.open()?;
        Ok(Drmemtrace {
            chunks,
            process: if header.pid == 0 { UNKNOWN_PROCESS } else { header.pid },
            thread: 1,
            named: None,
            alive: BTreeSet::new(),
            codes: Facts::default(),
            has_codes: None,
            clock: Clock::default(),
        })
    }

    /// Writes what stands before the first instruction.
    fn begin(&mut self, has_codes: bool) -> io::Result<()> {
        self.has_codes = Some(has_codes);
        let codes = if has_codes { file_type::ENCODINGS } else { 0 };
        self.chunks.put(kind::HEADER, 0, VERSION)?;
        self.chunks.mark(marker::VERSION, VERSION)?;
        self.chunks.mark(marker::FILETYPE, file_type::X86_64 | file_type::SYSCALL_NUMBERS | codes)?;
        self.name_thread()?;
        self.chunks.mark(marker::CACHE_LINE_SIZE, CACHE_LINE_BYTES)?;
        self.chunks.mark(marker::CHUNK_INSTR_COUNT, self.chunks.most_instructions)?;
        self.chunks.mark(marker::PAGE_SIZE, PAGE_BYTES)?;
        self.write_time()
    }

    /// Names the thread and the process of the next records.
    fn name_thread(&mut self) -> io::Result<()> {
        self.named = Some(self.thread);
        self.alive.insert(self.thread);
        self.chunks.put(kind::THREAD, 4, self.thread.into())?;
        self.chunks.put(kind::PID, 4, self.process.into())
    }

    fn write_time(&mut self) -> io::Result<()> {
        self.chunks.mark(marker::TIMESTAMP, self.clock.now())?;
        self.chunks.mark(marker::CPU_ID, 0)
    }

    /// Prepares for records of the present thread.
    fn turn(&mut self) -> io::Result<()> {
        if self.named == Some(self.thread) {
            return Ok(());
        }
        self.name_thread()?;
        self.write_time()
    }

    /// Begins a chunk, if the last one is full.
    fn roll(&mut self) -> io::Result<()> {
        if self.chunks.instructions < self.chunks.most_instructions {
            return Ok(());
        }
        self.chunks.mark(marker::CHUNK_FOOTER, self.chunks.count - 1)?;
        self.chunks.hand_on()?;
        self.chunks.open()?;
        self.chunks.mark(marker::RECORD_ORDINAL, self.chunks.visible)?;
        self.name_thread()?;
        self.write_time()
    }

    fn executed(&mut self, executed: &Executed<'_>, omissions: &mut Omissions) -> io::Result<()> {
        if let Some(instruction) = executed.instruction {
            self.roll()?;
            self.instruction(instruction, executed, omissions)?;
        }
        for reference in executed.references {
            let (address, bytes) = (reference.address().0, reference.size().bytes() as u16);
            omissions.add(Omission::Modifies, u64::from(reference.kind() == Kind::Modify));
            omissions.add(Omission::Fetches, u64::from(reference.kind() == Kind::Fetch));
            for access in accesses(reference.kind()) {
                match access {
                    Kind::Fetch => {}
                    Kind::Load => self.chunks.put(kind::READ, bytes, address)?,
                    Kind::Store | Kind::Modify => self.chunks.put(kind::WRITE, bytes, address)?,
                }
            }
        }
        Ok(())
    }

    fn instruction(
        &mut self,
        instruction: Instruction,
        executed: &Executed<'_>,
        omissions: &mut Omissions,
    ) -> io::Result<()> {
        let length = usize::from(instruction.length);
        omissions.add(Omission::Sizes, u64::from(length > MAX_BYTES));
        let code = executed.code;
        let is_known = !code.is_empty() && code.len() == length && length <= MAX_BYTES;
        let flow = if is_known {
            let known = self
                .codes
                .on(instruction.address.0, code, |decoded| Code { flow: Flow::of(decoded), chunk: 0 });
            let is_due = self.has_codes == Some(true) && known.chunk < self.chunks.count;
            known.chunk = self.chunks.count;
            if is_due {
                for piece in code.chunks(ENCODING_BYTES) {
                    let mut bytes = [0; ENCODING_BYTES];
                    bytes[..piece.len()].copy_from_slice(piece);
                    self.chunks.put(kind::ENCODING, piece.len() as u16, u64::from_le_bytes(bytes))?;
                }
            }
            known.flow
        } else {
            omissions.add(Omission::UnknownBytes, 1);
            Flow::of_end(executed.end)
        };
        self.clock.instructions += 1;
        self.chunks.instructions += 1;
        self.chunks.put(record_kind(flow), length.clamp(1, MAX_BYTES) as u16, instruction.address.0)
    }
}

fn record_kind(flow: Flow) -> u16 {
    match flow {
        Flow::Plain => kind::INSTR,
        Flow::Jump => kind::DIRECT_JUMP,
        Flow::IndirectJump => kind::INDIRECT_JUMP,
        Flow::ConditionalJump | Flow::Unknown => kind::CONDITIONAL_JUMP,
        Flow::Call => kind::DIRECT_CALL,
        Flow::IndirectCall => kind::INDIRECT_CALL,
        Flow::Return => kind::RETURN,
    }
}

impl Encoder for Drmemtrace {
    fn batch(&mut self, batch: &Batch<'_>, omissions: &mut Omissions) -> io::Result<()> {
        self.thread = batch.thread.0;
        if self.has_codes.is_none() {
            let mut blocks = batch.spans.iter().map(|span| batch.blocks.get(span.block));
            self.begin(blocks.any(|block| !block.code.is_empty()))?;
        }
        self.turn()?;
        each_instruction(batch, |executed| self.executed(&executed, omissions))
    }

    fn event(&mut self, event: &Event) -> io::Result<bool> {
        match *event {
            // The thread is named with what it does next.
            Event::Switch { thread } => self.thread = thread,
            Event::ThreadStart { .. } => {}
            // Nothing ran yet.
            _ if self.has_codes.is_none() => return Ok(false),
            Event::ThreadEnd { thread } => {
                if self.alive.remove(&thread) {
                    self.chunks.put(kind::THREAD_EXIT, 4, thread.into())?;
                    self.named = None;
                }
            }
            Event::Syscall { number, result } => {
                self.turn()?;
                self.chunks.mark(marker::SYSCALL, number.into())?;
                if result < 0 {
                    self.chunks.mark(marker::SYSCALL_FAILED, result.unsigned_abs())?;
                }
            }
            Event::Marker { id } => match u16::try_from(id) {
                Ok(id @ marker::RESERVED_END..) => {
                    self.turn()?;
                    self.chunks.mark(id, 0)?;
                }
                _ => return Ok(false),
            },
            Event::Idle { nanoseconds } => {
                let asleep = &mut self.clock.microseconds_asleep;
                *asleep = asleep.saturating_add(nanoseconds / 1000);
                self.turn()?;
                self.write_time()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.has_codes.is_none() {
            self.begin(false)?;
        }
        for thread in std::mem::take(&mut self.alive) {
            self.chunks.put(kind::THREAD_EXIT, 4, thread.into())?;
        }
        self.chunks.put(kind::FOOTER, 0, 0)?;
        self.chunks.finish()
    }
}
