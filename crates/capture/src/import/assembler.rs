//! Assembles references into batches.

use super::open_batch::OpenBatch;
use pagewalk_trace::{Batch, Block, BlockEnd, Dictionary, Instruction, Item, Ref, Site, SourceError, Span};
use pagewalk_units::{Access, BlockId, Kind, Size, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;

/// Most references of one instruction; further ones become blocks without instructions.
const MAX_SITES: usize = 1024;
/// Most different blocks: bounds the memory.
const MAX_BLOCKS: usize = 1 << 24;
/// Most references of an instruction for the fast block look-up.
const SHORT_SITES: usize = 7;
/// Bits of a block's end.
const END_BITS: u32 = 3;
const _: () = assert!(SHORT_SITES as u32 * Ref::META_BITS + 8 + END_BITS <= 64);

/// An instruction or a data reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub kind: Kind,
    pub address: u64,
    pub bytes: u32,
}

/// Address, and low bits of references with an instruction's form, of a short block.
type ShortKey = (u64, u64);

/// A short block.
#[derive(Clone, Copy)]
struct Follower {
    key: ShortKey,
    block: BlockId,
}

impl Follower {
    /// No instruction is at the end of all addresses.
    const NONE: Follower = Follower { key: (u64::MAX, u64::MAX), block: BlockId(0) };
}

/// Collects references into a batch. An instruction's references follow it.
pub(super) struct Assembler {
    /// What the file consists of: `line` or `record`.
    unit: &'static str,
    /// How many of them were read.
    pub done: u64,
    dictionary: Dictionary,
    /// Blocks of one instruction with at most `SHORT_SITES` references, by [`short_key`].
    short_blocks: FxHashMap<ShortKey, BlockId>,
    /// By block, what was executed after it the last time. Programs repeat themselves, so this mostly saves the look-up
    /// in the larger `short_blocks`.
    followers: Vec<Follower>,
    /// The last block.
    last: usize,
    batch: OpenBatch,
    /// The instruction whose references are being read, and their start in the batch.
    open: Option<(Instruction, BlockEnd, usize)>,
}

impl Assembler {
    /// For a file of these.
    pub fn of(unit: &'static str) -> Assembler {
        Assembler {
            unit,
            done: 0,
            dictionary: Dictionary::default(),
            short_blocks: FxHashMap::default(),
            followers: Vec::new(),
            last: 0,
            batch: OpenBatch::default(),
            open: None,
        }
    }

    /// Whether the batch is ready: full, and with all references of its last instruction.
    pub fn is_full(&self) -> bool {
        self.open.is_none() && self.batch.buffer.is_full()
    }

    /// Whether there is nothing to yield.
    fn is_empty(&self) -> bool {
        self.batch.buffer.is_empty()
    }

    /// The batch, valid until [`Assembler::retire`].
    fn batch(&mut self) -> Batch<'_> {
        self.batch.hand_out(ThreadId(1), &self.dictionary)
    }

    /// What a source yields: the batch, if there is something in it; else the error that ends the stream, or the end.
    pub fn item(&mut self, error: &mut Option<SourceError>) -> Result<Option<Item<'_>>, SourceError> {
        match self.is_empty() {
            false => Ok(Some(Item::Batch(self.batch()))),
            true => error.take().map_or(Ok(None), Err),
        }
    }

    /// Makes room after a batch was yielded.
    pub fn retire(&mut self) {
        self.batch.retire();
    }

    /// Adds a reference; false if the batch must be yielded first.
    #[inline]
    pub fn take(&mut self, parts: Reference) -> Result<bool, SourceError> {
        if parts.kind == Kind::Fetch {
            let length = u8::try_from(parts.bytes).ok().filter(|&length| length > 0);
            let length = length.ok_or_else(|| {
                self.malformed(&format!("has an instruction of {} bytes, not 1 to 255", parts.bytes))
            })?;
            return self.begin(Instruction { address: VirtAddr(parts.address), length }, BlockEnd::Other);
        }
        let size = Size::of_bytes(parts.bytes).ok_or_else(|| {
            self.malformed(&format!(
                "has a reference of {} bytes, a size that records do not know",
                parts.bytes
            ))
        })?;
        if parts.address >= Ref::ADDRESS_END {
            let address = parts.address;
            return Err(self
                .malformed(&format!("refers to address {address:#x}, above the 57 bits of a user address")));
        }
        if self.open.is_some_and(|(_, _, first)| self.batch.buffer.refs.len() - first >= MAX_SITES) {
            self.close_block()?;
        }
        if self.open.is_none() && self.batch.buffer.is_full() {
            return Ok(false);
        }
        let access = Access { kind: parts.kind, size };
        self.batch.push(Ref::new(VirtAddr(parts.address), access));
        if self.open.is_none() {
            self.push_block(None, BlockEnd::Other, self.batch.buffer.refs.len() - 1)?;
        }
        Ok(true)
    }

    /// Begins an instruction, whose references follow; false if the batch must be yielded first.
    #[inline]
    pub fn begin(&mut self, instruction: Instruction, end: BlockEnd) -> Result<bool, SourceError> {
        self.close_block()?;
        if self.batch.buffer.is_full() {
            return Ok(false);
        }
        if instruction.address.0.checked_add(u64::from(instruction.length)).is_none() {
            let address = instruction.address.0;
            return Err(
                self.malformed(&format!("has an instruction at {address:#x} that ends above all addresses"))
            );
        }
        self.open = Some((instruction, end, self.batch.buffer.refs.len()));
        Ok(true)
    }

    /// Ends the current instruction.
    pub fn close_block(&mut self) -> Result<(), SourceError> {
        let Some((instruction, end, first)) = self.open.take() else { return Ok(()) };
        self.batch.instructions += 1;
        self.push_block(Some(instruction), end, first)
    }

    /// Adds an execution with the references from `first` on.
    fn push_block(
        &mut self,
        instruction: Option<Instruction>,
        end: BlockEnd,
        first: usize,
    ) -> Result<(), SourceError> {
        let refs = &self.batch.buffer.refs[first..];
        let key = instruction.and_then(|instruction| short_key(instruction, end, refs));
        let follower = self.followers.get(self.last).copied().unwrap_or(Follower::NONE);
        let block = match key {
            Some(key) if key == follower.key => follower.block,
            _ => self.find_block(key, instruction, end, first)?,
        };
        self.last = block.index();
        self.batch.buffer.spans.push(Span { block, first: first as u32 });
        Ok(())
    }

    /// A block that did not follow the last one before, and notes that it does now.
    fn find_block(
        &mut self,
        key: Option<ShortKey>,
        instruction: Option<Instruction>,
        end: BlockEnd,
        first: usize,
    ) -> Result<BlockId, SourceError> {
        let block = match key.and_then(|key| self.short_blocks.get(&key)) {
            Some(&block) => block,
            None if self.dictionary.len() >= MAX_BLOCKS => {
                return Err(self.malformed(&format!("brings more than {MAX_BLOCKS} different blocks")));
            }
            None => {
                let refs = &self.batch.buffer.refs[first..];
                let block = self.dictionary.intern(spell_out(instruction, end, refs));
                self.short_blocks.extend(key.map(|key| (key, block)));
                block
            }
        };
        self.followers.resize(self.dictionary.len(), Follower::NONE);
        if let Some(key) = key {
            self.followers[self.last] = Follower { key, block };
        }
        Ok(block)
    }

    /// The current line or record.
    pub fn place(&self) -> String {
        format!("{} {}", self.unit, self.done + 1)
    }

    /// An error at the current line or record; `what` continues "line N".
    pub fn malformed(&self, what: &str) -> SourceError {
        SourceError::Malformed(format!("{} {what}", self.place()))
    }

    /// Whether any reference was added.
    pub fn has_begun(&self) -> bool {
        self.open.is_some() || !self.dictionary.is_empty()
    }

    /// The error for a file that ends inside a line or record.
    pub fn cut_off(&self) -> SourceError {
        let whole = if self.unit == "line" { "text" } else { "file" };
        SourceError::Truncated(format!("the {whole} ends in the middle of {}", self.place()))
    }
}

/// Distinguishes blocks of one instruction with few references: its length and end, and low bits of each reference.
fn short_key(instruction: Instruction, end: BlockEnd, refs: &[Ref]) -> Option<ShortKey> {
    let meta = |r: &Ref| r.bits() & ((1 << Ref::META_BITS) - 1);
    // No reference has low bits 0 (a fetch of one byte), so the number of references is implied.
    let metas = refs.iter().fold(0, |metas, r| metas << Ref::META_BITS | meta(r));
    let shape = u64::from(instruction.length) << END_BITS | end as u64;
    (refs.len() <= SHORT_SITES).then_some((instruction.address.0, metas << (8 + END_BITS) | shape))
}

fn spell_out(instruction: Option<Instruction>, end: BlockEnd, refs: &[Ref]) -> Block {
    let site = |r: &Ref| Site { instruction: 0, access: Access { kind: r.kind(), size: r.size() } };
    Block {
        instructions: instruction.into_iter().collect(),
        sites: refs.iter().map(site).collect(),
        code: Box::default(),
        end,
    }
}
