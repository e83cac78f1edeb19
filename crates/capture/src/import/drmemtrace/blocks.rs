//! Folds instructions and their references into blocks and batches.
//!
//! A trie holds all runs of instructions and references seen so far, by the address of their first instruction. Reading
//! a record is one step down in it; where a run ends, its node names its block. So a block is compared with nothing and
//! hashed once, and yet equal runs, and only they, are the same block.

use super::super::open_batch::OpenBatch;
use pagewalk_trace::{Batch, Block, BlockEnd, Dictionary, Instruction, Ref, Site, Span};
use pagewalk_units::{Access, BlockId, Kind, RefIndex, Size, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;

/// Most instructions of a block. It gets no further instruction either once it has as many references.
pub(super) const MAX_BLOCK_LEN: u8 = 64;
/// Most references of a block, which string instructions can reach. Further ones belong to no instruction.
pub(super) const MAX_SITES: u16 = 1024;
/// Longest instruction.
pub(super) const MAX_INSTRUCTION_BYTES: usize = 15;
/// Most instructions and references of all blocks together, and most instructions with known bytes: bounds the memory.
const MAX_PARTS: usize = 1 << 24;

/// Marks a step over an instruction, whose length and [`Flow`] follow; other steps are the low bits of a [`Ref`].
const INSTRUCTION: u16 = 1 << 15;
const FLOW_SHIFT: u32 = 8;

/// There is no node, or the node has no block.
const NONE: u32 = 0;
/// The root of references without an instruction.
const NO_CODE: u32 = 1;

/// What an instruction does with the control flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Flow {
    /// The next one follows.
    Plain = 0,
    Jump = 1,
    Call = 2,
    Return = 3,
    Syscall = 4,
}

impl Flow {
    fn end(self) -> BlockEnd {
        match self {
            Flow::Plain | Flow::Jump => BlockEnd::Jump,
            Flow::Call => BlockEnd::Call,
            Flow::Return => BlockEnd::Return,
            Flow::Syscall => BlockEnd::Syscall,
        }
    }
}

/// A run's place in the trie.
#[derive(Clone, Copy, Default)]
struct Node {
    step: u16,
    parent: u32,
    child: u32,
    sibling: u32,
    /// Id of its block, plus one.
    block: u32,
}

/// The bytes of an instruction; none if they are unknown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Code {
    bytes: [u8; MAX_INSTRUCTION_BYTES],
    len: u8,
}

/// The block being read.
#[derive(Clone, Copy, Default)]
struct OpenBlock {
    /// [`NONE`] between blocks.
    node: u32,
    /// Its first reference in the batch.
    first: u32,
    start: u64,
    /// Its last instruction, and the address behind it.
    last: u64,
    next: u64,
    /// Its last instruction's.
    flow: Option<Flow>,
    instructions: u8,
    sites: u16,
}

/// Collects blocks into a batch.
pub(super) struct Assembly {
    /// The thread of the batch.
    pub thread: ThreadId,
    nodes: Vec<Node>,
    roots: FxHashMap<u64, u32>,
    /// Blocks whose end is another than their last instruction's, by node and end.
    other_ends: FxHashMap<(u32, u8), u32>,
    codes: FxHashMap<u64, Code>,
    dictionary: Dictionary,
    /// Instructions and references in the dictionary.
    parts: usize,
    open: OpenBlock,
    batch: OpenBatch,
}

impl Assembly {
    pub fn new(thread: ThreadId) -> Assembly {
        Assembly {
            thread,
            nodes: vec![Node::default(); NO_CODE as usize + 1],
            roots: FxHashMap::default(),
            other_ends: FxHashMap::default(),
            codes: FxHashMap::default(),
            dictionary: Dictionary::default(),
            parts: 0,
            open: OpenBlock::default(),
            batch: OpenBatch::default(),
        }
    }

    /// Whether the batch is full and no block is open.
    pub fn is_full(&self) -> bool {
        self.open.node == NONE && self.batch.buffer.is_full()
    }

    /// Whether there is nothing to yield.
    pub fn is_empty(&self) -> bool {
        self.batch.buffer.is_empty()
    }

    /// Whether nothing was read yet.
    pub fn has_nothing(&self) -> bool {
        self.dictionary.is_empty()
    }

    /// Whether blocks need more memory than is allowed.
    pub fn is_exhausted(&self) -> bool {
        self.parts > MAX_PARTS || self.codes.len() > MAX_PARTS
    }

    /// Number of references so far.
    pub fn place(&self) -> RefIndex {
        self.batch.place()
    }

    /// The batch, valid until [`Assembly::retire`].
    pub fn batch(&mut self) -> Batch<'_> {
        self.batch.hand_out(self.thread, &self.dictionary)
    }

    /// Makes room after a batch was yielded.
    pub fn retire(&mut self) {
        self.batch.retire();
    }

    /// Adds an instruction; false if the batch must be yielded first. Hot.
    #[inline]
    pub fn instruction(&mut self, address: u64, length: u8, flow: Flow) -> bool {
        let step = INSTRUCTION | (flow as u16) << FLOW_SHIFT | u16::from(length);
        let open = &self.open;
        let continues = open.next == address
            && open.flow == Some(Flow::Plain)
            && open.instructions < MAX_BLOCK_LEN
            && open.sites < u16::from(MAX_BLOCK_LEN)
            && open.node != NONE;
        if !continues && !self.begin(address) {
            return false;
        }
        self.open.node = self.step(self.open.node, step);
        self.open.last = address;
        self.open.next = address.wrapping_add(u64::from(length));
        self.open.flow = Some(flow);
        self.open.instructions += 1;
        true
    }

    /// Adds a reference of the last instruction; false if the batch must be yielded first. Hot.
    #[inline]
    pub fn reference(&mut self, reference: Ref) -> bool {
        let step = reference.bits() as u16 & ((1 << Ref::META_BITS) - 1);
        if self.open.node == NONE || self.open.sites == MAX_SITES {
            self.close(None);
            if self.batch.buffer.is_full() {
                return false;
            }
            self.open = OpenBlock {
                node: NO_CODE,
                first: self.batch.buffer.refs.len() as u32,
                ..OpenBlock::default()
            };
        }
        self.open.node = self.step(self.open.node, step);
        self.open.sites += 1;
        self.batch.push(reference);
        if self.open.instructions == 0 {
            self.close(None);
        }
        true
    }

    /// Prepares for more references of the instruction at this address: without a block that ends with it, they belong
    /// to none.
    pub fn repeat(&mut self, address: u64) {
        if self.open.last != address {
            self.close(None);
        }
    }

    /// Notes an instruction's bytes, from here on.
    pub fn learn(&mut self, address: u64, bytes: &[u8]) {
        let mut code = Code { len: bytes.len() as u8, ..Code::default() };
        let Some(room) = code.bytes.get_mut(..bytes.len()) else { return };
        room.copy_from_slice(bytes);
        if (self.open.start..self.open.next).contains(&address) {
            // The open block has the old bytes, or none.
            self.close(None);
        }
        if self.codes.get(&address).is_some_and(|known| *known != code) {
            // So have the blocks that nodes name.
            self.close(None);
            self.nodes = vec![Node::default(); NO_CODE as usize + 1];
            self.roots = FxHashMap::default();
            self.other_ends = FxHashMap::default();
        }
        self.codes.insert(address, code);
    }

    /// Ends the open block, if there is one: with its last instruction, or in another way.
    pub fn close(&mut self, end: Option<BlockEnd>) {
        let open = std::mem::take(&mut self.open);
        if open.node == NONE {
            return;
        }
        let block = match end {
            None => self.nodes[open.node as usize].block,
            Some(end) => self.other_ends.get(&(open.node, end as u8)).copied().unwrap_or(NONE),
        };
        let block = if block == NONE { self.intern(open, end) } else { block };
        self.batch.buffer.spans.push(Span { block: BlockId(block - 1), first: open.first });
        self.batch.instructions += u64::from(open.instructions);
    }

    /// Begins a block; false if the batch must be yielded first.
    fn begin(&mut self, address: u64) -> bool {
        self.close(None);
        if self.batch.buffer.is_full() {
            return false;
        }
        let node = *self.roots.entry(address).or_insert_with(|| {
            self.nodes.push(Node::default());
            self.nodes.len() as u32 - 1
        });
        self.open = OpenBlock {
            node,
            first: self.batch.buffer.refs.len() as u32,
            start: address,
            ..OpenBlock::default()
        };
        true
    }

    /// The node below, made if it is new. The children of a node are few: there are fewer than a hundred kinds of
    /// references, and instructions only differ in length and flow.
    #[inline]
    fn step(&mut self, parent: u32, step: u16) -> u32 {
        let mut child = self.nodes[parent as usize].child;
        while child != NONE {
            let node = &self.nodes[child as usize];
            if node.step == step {
                return child;
            }
            child = node.sibling;
        }
        self.grow(parent, step)
    }

    #[cold]
    fn grow(&mut self, parent: u32, step: u16) -> u32 {
        let new = self.nodes.len() as u32;
        let sibling = std::mem::replace(&mut self.nodes[parent as usize].child, new);
        self.nodes.push(Node { step, parent, sibling, ..Node::default() });
        new
    }

    /// The block of a run that ends at a node without one; returns its id plus one.
    #[cold]
    fn intern(&mut self, open: OpenBlock, end: Option<BlockEnd>) -> u32 {
        let before = self.dictionary.len();
        let block = self.spell_out(open, end);
        let parts = block.instructions.len() + block.sites.len();
        let block = self.dictionary.intern(block).0 + 1;
        if self.dictionary.len() > before {
            self.parts += parts;
        }
        match end {
            None => self.nodes[open.node as usize].block = block,
            Some(end) => _ = self.other_ends.insert((open.node, end as u8), block),
        }
        block
    }

    fn spell_out(&mut self, open: OpenBlock, end: Option<BlockEnd>) -> Block {
        let mut steps = Vec::new();
        let mut node = self.nodes[open.node as usize];
        while node.step != 0 {
            steps.push(node.step);
            node = self.nodes[node.parent as usize];
        }
        let (mut instructions, mut sites, mut code) = (Vec::new(), Vec::new(), Vec::new());
        let (mut address, mut is_code_known) = (open.start, true);
        for step in steps.into_iter().rev() {
            if step & INSTRUCTION == 0 {
                let access =
                    Access { kind: Kind::from_code(step as u8), size: Size::from_code((step >> 2) as u8) };
                let instruction = instructions.len().saturating_sub(1) as u16;
                sites.push(Site { instruction, access });
                continue;
            }
            let length = step as u8;
            // Unknown bytes are noted too, so that to learn them later is a change.
            let bytes = self.codes.entry(address).or_default();
            is_code_known &= bytes.len == length;
            code.extend_from_slice(&bytes.bytes[..usize::from(bytes.len)]);
            instructions.push(Instruction { address: VirtAddr(address), length });
            address = address.wrapping_add(u64::from(length));
        }
        Block {
            instructions: instructions.into(),
            sites: sites.into(),
            code: if is_code_known { code.into() } else { Box::default() },
            end: end.or(open.flow.map(Flow::end)).unwrap_or(BlockEnd::Other),
        }
    }
}
