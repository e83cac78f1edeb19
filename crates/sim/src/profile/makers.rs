//! Who made a piece of memory: the functions that the call which mapped or grew it returned to, one after the other.
//!
//! `malloc` calls `mmap`, and the program calls `malloc`. A stream has no stacks, but control returns the way it came,
//! and blocks say whether they end in calls or returns: once returns exceed calls, the thread is in the caller of where
//! it was. So the callers show one by one, until there are enough. A tail call leaves no caller, as on a real stack;
//! callers that `longjmp` skips are missing.

use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_trace::{Batch, Block, BlockEnd, Event, Mapping, MappingKind};
use pagewalk_units::{BlockId, PAGE_BYTES, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Most callers recorded for a call.
const CALLERS_MAX: usize = 12;
/// Blocks after which the search in a thread ends.
const FOLLOWED_MAX: usize = 1 << 14;
/// Most calls followed in all threads.
const CALLS_MAX: usize = 1 << 16;
/// Makers of one piece of memory that are told apart.
const MAKERS_MAX: usize = 32;

/// The place where a call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePlace {
    /// Its address in the traced process.
    pub address: VirtAddr,
    /// Its mapping.
    pub mapping: MappingId,
    /// Its offset in the mapping's file, if it has one.
    pub file_offset: u64,
}

/// Code that caused memory to be mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    /// Its callers, the innermost first.
    pub callers: Vec<CodePlace>,
    /// Bytes that it had mapped of the piece in question.
    pub bytes: u64,
}

/// A thread after a call.
#[derive(Debug)]
struct Return<Id> {
    made: Vec<(Id, u64)>,
    callers: Vec<CodePlace>,
    /// Calls minus returns since, and their minimum.
    depth: i64,
    lowest: i64,
    /// How the last block ended.
    last: Option<BlockEnd>,
    followed: usize,
}

impl<Id> Default for Return<Id> {
    fn default() -> Return<Id> {
        Return { made: Vec::new(), callers: Vec::new(), depth: 0, lowest: 0, last: None, followed: 0 }
    }
}

impl<Id> Return<Id> {
    /// Takes a block that ran, which `start` finds the start of; whether enough is known.
    fn ran(&mut self, calls: BlockCalls, start: impl FnOnce() -> VirtAddr, space: &AddressSpace) -> bool {
        self.depth += match self.last.replace(calls.end) {
            Some(BlockEnd::Call) => 1,
            Some(BlockEnd::Return) => -1,
            _ => 0,
        };
        if self.depth < self.lowest {
            self.lowest = self.depth;
            self.callers.extend(place(start(), space));
        }
        self.depth += i64::from(calls.within);
        self.followed += 1;
        self.callers.len() == CALLERS_MAX || self.followed == FOLLOWED_MAX
    }
}

/// The makers of pieces of memory: of mappings, or of what else `Id` numbers.
#[derive(Debug)]
pub struct Makers<Id> {
    has_run: bool,
    running: ThreadId,
    calls: usize,
    returns: FxHashMap<ThreadId, Return<Id>>,
    makers: BTreeMap<Id, PieceMakers>,
    /// Of each block, once a thread was followed.
    blocks: Vec<BlockCalls>,
}

impl<Id> Default for Makers<Id> {
    fn default() -> Makers<Id> {
        let (returns, makers) = (FxHashMap::default(), BTreeMap::new());
        Makers { has_run: false, running: ThreadId::default(), calls: 0, returns, makers, blocks: Vec::new() }
    }
}

/// What was made of one piece.
#[derive(Clone, Debug, Default)]
struct PieceMakers {
    makers: Vec<Maker>,
    /// Bytes of the piece, with known makers or not.
    bytes: u64,
}

impl PieceMakers {
    /// Adds bytes that these callers caused. If there are too many makers, drops those with fewest bytes.
    fn add(&mut self, callers: &[CodePlace], bytes: u64) {
        let PieceMakers { makers, .. } = self;
        if let Some(known) = makers.iter_mut().find(|maker| maker.callers == callers) {
            known.bytes = known.bytes.saturating_add(bytes);
            return;
        }
        let maker = Maker { callers: callers.to_vec(), bytes };
        let least = (0..makers.len()).min_by_key(|&at| makers[at].bytes);
        match least.filter(|_| makers.len() == MAKERS_MAX) {
            Some(least) if makers[least].bytes < bytes => makers[least] = maker,
            Some(_) => {}
            None => makers.push(maker),
        }
    }
}

impl<Id: Copy + Ord> Makers<Id> {
    /// Takes what ran.
    pub fn ran(&mut self, batch: &Batch<'_>, space: &AddressSpace) {
        if batch.spans.is_empty() {
            // Outside the region of interest, where nobody sees what returns.
            return;
        }
        (self.has_run, self.running) = (true, batch.thread);
        let Some(after) = self.returns.get_mut(&batch.thread) else { return };
        self.blocks.extend(batch.blocks.since(self.blocks.len()).map(BlockCalls::of));
        let mut ran =
            |block: BlockId| after.ran(self.blocks[block.index()], || batch.blocks.get(block).start(), space);
        if batch.spans.iter().any(|span| ran(span.block)) {
            self.settle(batch.thread);
        }
    }

    /// Takes an event. `of` says which piece has this address after it, if somebody asked for that.
    pub fn happened(&mut self, event: &Event, of: impl FnOnce(u64) -> Option<Id>) {
        if let Some(thread) = event.switches_to() {
            self.running = thread;
        }
        let Some((start, bytes)) = grown(event) else { return };
        if !self.has_run {
            return;
        }
        let Some(piece) = of(start) else { return };
        let made = self.makers.entry(piece).or_default();
        made.bytes = made.bytes.saturating_add(bytes);
        if self.calls == CALLS_MAX {
            return;
        }
        let thread = self.running;
        if self.returns.get(&thread).is_some_and(|after| after.last.is_some()) {
            self.settle(thread);
        }
        self.calls += 1;
        self.returns.entry(thread).or_default().made.push((piece, bytes));
    }

    /// Ends following a thread.
    fn settle(&mut self, thread: ThreadId) {
        let Some(Return { made, callers, .. }) = self.returns.remove(&thread) else { return };
        for (piece, bytes) in made.into_iter().filter(|_| !callers.is_empty()) {
            self.makers.entry(piece).or_default().add(&callers, bytes);
        }
    }

    /// Ends following all threads.
    pub fn finish(&mut self) {
        let mut threads: Vec<ThreadId> = self.returns.keys().copied().collect();
        threads.sort_unstable();
        threads.into_iter().for_each(|thread| self.settle(thread));
    }

    /// Those of a piece, and the bytes that were mapped of it in all.
    pub fn of(&self, piece: Id) -> (&[Maker], u64) {
        self.makers.get(&piece).map_or((&[], 0), |made| (&made.makers, made.bytes))
    }
}

/// The mapping that has this address, unless it is a file's.
pub(crate) fn nameless(space: &AddressSpace, address: u64) -> Option<MappingId> {
    let mapping = space.mapping_of(address..address.saturating_add(PAGE_BYTES));
    let kind = space.info(mapping).kind;
    (!matches!(kind, Some(MappingKind::File | MappingKind::SharedFile))).then_some(mapping)
}

/// The memory without a file that an event adds: an address in it, and how much.
fn grown(event: &Event) -> Option<(u64, u64)> {
    match event {
        Event::Map(Mapping { start, bytes, kind, .. }) => {
            let is_nameless =
                matches!(kind, MappingKind::Anonymous | MappingKind::SharedAnonymous | MappingKind::Heap);
            is_nameless.then_some((start.0, *bytes))
        }
        Event::Break { old_end, new_end } => {
            let bytes = new_end.0.checked_sub(old_end.0).filter(|&bytes| bytes > 0)?;
            Some(((new_end.0 - 1) & !(PAGE_BYTES - 1), bytes))
        }
        Event::Remap { new_start, old_bytes, new_bytes, .. } => {
            let bytes = new_bytes.checked_sub(*old_bytes).filter(|&bytes| bytes > 0)?;
            Some((new_start.0, bytes))
        }
        _ => None,
    }
}

/// The calls of a block.
#[derive(Clone, Copy, Debug)]
struct BlockCalls {
    end: BlockEnd,
    /// Calls that it continues into.
    within: u32,
}

impl BlockCalls {
    fn of(block: &Block) -> BlockCalls {
        BlockCalls { end: block.end, within: calls_within(block) }
    }
}

/// Calls that the block continues into.
fn calls_within(block: &Block) -> u32 {
    let mut byte = 0;
    let mut calls = 0;
    for (one, next) in block.instructions.iter().zip(block.instructions.iter().skip(1)) {
        let end = byte + usize::from(one.length);
        let goes_on_elsewhere = one.address.0.checked_add(u64::from(one.length)) != Some(next.address.0);
        if goes_on_elsewhere && block.code.get(byte..end).is_some_and(is_call) {
            calls += 1;
        }
        byte = end;
    }
    calls
}

/// Whether this is `call rel32`, with any prefixes.
fn is_call(instruction: &[u8]) -> bool {
    let is_prefix = |byte: &&u8| matches!(byte, 0x2e | 0x3e | 0x40..=0x4f | 0x66 | 0x67 | 0xf2 | 0xf3);
    instruction.iter().find(|byte| !is_prefix(byte)) == Some(&0xe8)
}

fn place(address: VirtAddr, space: &AddressSpace) -> Option<CodePlace> {
    let vma = space.vma(address)?;
    // The offset is untrusted and may overflow.
    let file_offset = vma.file_offset.wrapping_add(address.0 - vma.start);
    Some(CodePlace { address, mapping: vma.mapping, file_offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_trace::{Dictionary, Instruction, Span};
    use pagewalk_units::{RefIndex, SpaceId};

    fn block(start: u64, end: BlockEnd, code: &[&[u8]], jumps: bool) -> Block {
        let mut address = start;
        let instruction = |bytes: &&[u8]| {
            let one = Instruction { address: VirtAddr(address), length: bytes.len() as u8 };
            address += bytes.len() as u64 + u64::from(jumps) * 0x100;
            one
        };
        Block {
            instructions: code.iter().map(instruction).collect(),
            sites: Box::default(),
            code: code.concat().into(),
            end,
        }
    }

    /// Callers show where returns exceed calls.
    #[test]
    fn callers_are_where_more_was_returned_from_than_called() {
        let space = AddressSpace::default();
        let mut after = Return::<MappingId>::default();
        let nop: &[&[u8]] = &[&[0x90]];
        let call: &[&[u8]] = &[&[0xf2, 0xe8, 0, 0, 0, 0], &[0x90]];
        let blocks = [
            (block(1, BlockEnd::Return, nop, false), 0),
            // In the caller, which calls another function and returns from it.
            (block(2, BlockEnd::Call, nop, false), -1),
            (block(3, BlockEnd::Return, nop, false), -1),
            // The engine may continue into a called function: the return is from that.
            (block(4, BlockEnd::Return, call, true), -1),
            (block(5, BlockEnd::Jump, nop, false), -1),
            (block(6, BlockEnd::Return, call, false), -1),
            (block(7, BlockEnd::Jump, nop, false), -2),
        ];
        for (block, lowest) in blocks {
            after.ran(BlockCalls::of(&block), || block.start(), &space);
            assert_eq!(after.lowest, lowest, "after {}", block.start().0);
        }
    }

    /// Before a region of interest, batches are empty: what is mapped there has no makers.
    #[test]
    fn memory_from_before_a_region_has_no_makers() {
        let (space, mut blocks) = (AddressSpace::default(), Dictionary::default());
        let ret = blocks.intern(block(1, BlockEnd::Return, &[&[0x90]], false));
        let grow = Event::Break { old_end: VirtAddr(0), new_end: VirtAddr(4096) };
        let made = |spans: &[Span]| {
            let batch = Batch {
                space: SpaceId(0),
                thread: ThreadId(1),
                first: RefIndex(0),
                first_instruction: 0,
                refs: &[],
                spans,
                wide: false,
                blocks: &blocks,
            };
            let mut makers = Makers::default();
            makers.ran(&batch, &space);
            makers.happened(&grow, |_| Some(1));
            makers.of(1).1
        };
        assert_eq!(made(&[]), 0);
        assert_eq!(made(&[Span { block: ret, first: 0 }]), 4096);
    }

    #[test]
    fn direct_calls_are_known_by_their_code() {
        assert!(is_call(&[0xe8, 1, 2, 3, 4]) && is_call(&[0x66, 0x48, 0xe8, 1, 2, 3, 4]));
        assert!(!is_call(&[0xe9, 0xe8, 2, 3, 4]) && !is_call(&[]));
    }
}
