//! Blocks out of the text that `valgrind --tool=lackey --trace-mem=yes` writes.
//!
//! Lackey names instructions and references, not blocks. A block ends here where the next instruction is not the next
//! in memory, and after every instruction where that has happened before: close to what an engine's blocks are.

use super::Recording;
use pagewalk_trace::{
    Batch, BatchBuffer, Block, BlockEnd, Dictionary, Instruction, Origin, Ref, Site, Span, StreamHeader,
};
use pagewalk_units::{Access, Kind, RefIndex, Size, SpaceId, ThreadId, VirtAddr};
use std::collections::HashSet;
use std::error::Error;
use std::io::BufRead;

/// Longer straight code is cut.
const MOST_INSTRUCTIONS: usize = 50;

struct Builder {
    recording: Recording,
    dictionary: Dictionary,
    buffer: BatchBuffer,
    instructions: Vec<Instruction>,
    sites: Vec<Site>,
    refs: Vec<Ref>,
    jumps: HashSet<u64>,
    first: u64,
    first_instruction: u64,
    executed: u64,
}

/// Reads up to `most` records.
pub fn read(mut text: impl BufRead, most: usize) -> Result<Recording, Box<dyn Error>> {
    let header = StreamHeader { engine: "lackey".into(), ..StreamHeader::unknown(Origin::Import) };
    let mut builder = Builder {
        recording: Recording::new("lackey".into(), header),
        dictionary: Dictionary::default(),
        buffer: BatchBuffer::default(),
        instructions: vec![],
        sites: vec![],
        refs: vec![],
        jumps: HashSet::new(),
        first: 0,
        first_instruction: 0,
        executed: 0,
    };
    let mut line = Vec::new();
    while builder.recording.records() < most {
        line.clear();
        if text.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if let Some((kind, address, bytes)) = std::str::from_utf8(&line).ok().and_then(parse) {
            builder.line(kind, address, bytes);
        }
    }
    builder.end_block();
    builder.end_batch();
    builder.recording.blocks = builder.dictionary;
    Ok(builder.recording)
}

fn parse(line: &str) -> Option<(Kind, u64, u32)> {
    let kind = match line.get(..3)? {
        "I  " => Kind::Fetch,
        " L " => Kind::Load,
        " S " => Kind::Store,
        " M " => Kind::Modify,
        _ => return None,
    };
    let (address, bytes) = line[3..].trim_end().split_once(',')?;
    Some((kind, u64::from_str_radix(address, 16).ok()?, bytes.parse().ok()?))
}

impl Builder {
    fn line(&mut self, kind: Kind, address: u64, bytes: u32) {
        if kind == Kind::Fetch {
            if let Some(last) = self.instructions.last() {
                let jumped = last.address.0 + u64::from(last.length) != address;
                if jumped {
                    self.jumps.insert(last.address.0);
                }
                let ends = jumped || self.jumps.contains(&last.address.0);
                if ends || self.instructions.len() == MOST_INSTRUCTIONS {
                    self.end_block();
                }
            }
            self.instructions.push(Instruction { address: VirtAddr(address), length: bytes as u8 });
        } else if let Some(instruction) = self.instructions.len().checked_sub(1) {
            let size = Size::of_bytes(bytes).or(Size::of_bytes(8)).expect("8 has a code");
            let access = Access { kind, size };
            self.sites.push(Site { instruction: instruction as u16, access });
            self.refs.push(Ref::new(VirtAddr(address), access));
        }
    }

    fn end_block(&mut self) {
        if self.instructions.is_empty() {
            return;
        }
        self.executed += self.instructions.len() as u64;
        let block = self.dictionary.intern(Block {
            instructions: std::mem::take(&mut self.instructions).into(),
            sites: std::mem::take(&mut self.sites).into(),
            code: Box::default(),
            end: BlockEnd::Jump,
        });
        self.buffer.spans.push(Span { block, first: self.buffer.refs.len() as u32 });
        self.buffer.wide |= self.refs.iter().any(|reference| reference.size().bytes() > Batch::WIDE_BYTES);
        self.buffer.refs.append(&mut self.refs);
        if self.buffer.is_full() {
            self.end_batch();
        }
    }

    fn end_batch(&mut self) {
        self.recording.push(&Batch {
            space: SpaceId(0),
            thread: ThreadId(1),
            first: RefIndex(self.first),
            first_instruction: self.first_instruction,
            refs: &self.buffer.refs,
            spans: &self.buffer.spans,
            wide: self.buffer.wide,
            blocks: &self.dictionary,
        });
        self.first += self.buffer.refs.len() as u64;
        self.first_instruction = self.executed;
        self.buffer.clear();
    }
}
