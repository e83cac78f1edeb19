//! The call graph of a stream by pages: which page of code calls which, and how often.
//!
//! A call is a block's end marked as one ([`BlockEnd::Call`]), from the page of the block's last instruction to that of
//! the next block of its thread. A jump between the code of two files counts as a call too: so linkage stubs call the
//! functions that they stand for, as in Callgrind.
//!
//! Inclusive instructions come from a stack of calls per thread. A return goes to the frame, among the innermost
//! [`SEARCHED_FRAMES`], whose call it returns to, and ends those above it too; a return without such a frame is a jump.
//! A call counts no instructions while the same edge is open further out, so that recursion counts once.
//!
//! Source: S. Konireddygari, MS thesis, NC State University 2008, section 3.3 and figure 3.4.

mod callgrind;
mod graph;

pub use graph::{Call, CallGraph, CodePage, Node};

use crate::objects::{OwnerId, Owners};
use pagewalk_trace::{Analysis, Batch, Block, BlockEnd, Event, StreamHeader};
use pagewalk_units::{RefIndex, ThreadId, VirtAddr};
use rustc_hash::FxHashMap;

/// Frames searched for a return.
pub const SEARCHED_FRAMES: usize = 64;
/// Calls kept per thread. Beyond this, the outer half counts as returned.
const MOST_FRAMES: usize = 1 << 16;
/// No callee yet.
const NONE: u32 = u32::MAX;

/// A block's counts.
#[derive(Clone, Copy, Debug)]
struct BlockState {
    executions: u64,
    start: u64,
    /// The address after its last instruction.
    end: u64,
    instructions: u32,
    leaves_by: BlockEnd,
    /// The code's owner, once it has run.
    owner: Option<OwnerId>,
    /// The last called block, and the edge.
    called: u32,
    edge: u32,
}

impl BlockState {
    fn of(block: &Block) -> BlockState {
        let end = block.instructions.last().map_or(0, |last| last.address.0 + u64::from(last.length));
        BlockState {
            executions: 0,
            start: block.start().0,
            end,
            instructions: block.instructions.len() as u32,
            leaves_by: block.end,
            owner: None,
            called: NONE,
            edge: 0,
        }
    }
}

/// A call edge between blocks.
#[derive(Clone, Copy, Debug)]
struct Edge {
    caller: u32,
    callee: u32,
    calls: u64,
    instructions: u64,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    edge: u32,
    /// Whether the same edge is not open further out.
    is_outermost: bool,
    /// The thread's instructions before it.
    at: u64,
    /// Its return address; none for a jump, which returns with the call below it.
    returns_to: Option<u64>,
}

#[derive(Debug, Default)]
struct Thread {
    /// The last executed block.
    last: Option<u32>,
    frames: Vec<Frame>,
    /// By edge: its open calls.
    open: Vec<u32>,
    instructions: u64,
}

/// A block's code on one page: the file offset of its first byte, and its owner.
#[derive(Clone, Copy, Debug)]
struct Part {
    block: u32,
    start: VirtAddr,
    instructions: u32,
    owner: OwnerId,
    file_offset: Option<u64>,
}

/// Watches one stream's calls.
pub struct Calls {
    owners: Owners,
    blocks: Vec<BlockState>,
    parts: Vec<Part>,
    edges: Vec<Edge>,
    by_blocks: FxHashMap<(u32, u32), u32>,
    threads: FxHashMap<ThreadId, Thread>,
}

impl Calls {
    /// For a stream with this header.
    pub fn new(header: &StreamHeader) -> Calls {
        Calls {
            owners: Owners::new(header),
            blocks: Vec::new(),
            parts: Vec::new(),
            edges: Vec::new(),
            by_blocks: FxHashMap::default(),
            threads: FxHashMap::default(),
        }
    }

    /// The graph so far; open calls count up to here.
    pub fn finish(mut self) -> CallGraph {
        for (_, mut thread) in std::mem::take(&mut self.threads) {
            self.close(&mut thread, 0);
        }
        CallGraph::new(self.owners, &self.blocks, &self.parts, &self.edges)
    }

    /// A block runs for the first time: finds its owner.
    #[cold]
    fn meet(&mut self, id: u32, block: &Block) -> OwnerId {
        let owner = self.owners.at(block.start().0);
        self.blocks[id as usize].owner = Some(owner);
        for instruction in &block.instructions {
            let page = instruction.address.vpn();
            match self.parts.last_mut() {
                Some(part) if part.block == id && part.start.vpn() == page => part.instructions += 1,
                _ => self.parts.push(Part {
                    block: id,
                    start: instruction.address,
                    instructions: 1,
                    owner: self.owners.at(instruction.address.0),
                    file_offset: self.owners.file_offset(instruction.address.0),
                }),
            }
        }
        owner
    }

    /// A thread's block `from` calls `to`.
    fn call(&mut self, thread: &mut Thread, from: u32, to: u32, is_jump: bool) {
        let caller = &mut self.blocks[from as usize];
        if caller.called != to {
            caller.called = to;
            caller.edge = *self.by_blocks.entry((from, to)).or_insert_with(|| {
                self.edges.push(Edge { caller: from, callee: to, calls: 0, instructions: 0 });
                (self.edges.len() - 1) as u32
            });
        }
        let (edge, end) = (caller.edge, caller.end);
        self.edges[edge as usize].calls += 1;
        if thread.frames.len() == MOST_FRAMES {
            let inner = thread.frames.split_off(MOST_FRAMES / 2);
            self.close(thread, 0);
            thread.frames = inner;
        }
        if thread.open.len() < self.edges.len() {
            thread.open.resize(self.edges.len(), 0);
        }
        let open = &mut thread.open[edge as usize];
        let (is_outermost, at) = (*open == 0, thread.instructions);
        *open += 1;
        thread.frames.push(Frame { edge, is_outermost, at, returns_to: (!is_jump).then_some(end) });
    }

    /// A thread returned to `target`.
    fn come_back(&mut self, thread: &mut Thread, target: u64) {
        let from = thread.frames.len().saturating_sub(SEARCHED_FRAMES);
        let found = thread.frames[from..].iter().rposition(|frame| frame.returns_to == Some(target));
        if let Some(found) = found {
            self.close(thread, from + found);
        }
    }

    /// Ends a thread's calls from number `first` on.
    fn close(&mut self, thread: &mut Thread, first: usize) {
        for frame in thread.frames.drain(first..) {
            thread.open[frame.edge as usize] -= 1;
            if frame.is_outermost {
                self.edges[frame.edge as usize].instructions += thread.instructions - frame.at;
            }
        }
    }
}

impl Analysis for Calls {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        // Even if the region of interest was empty.
        self.owners.start_running();
        if batch.spans.is_empty() {
            return;
        }
        self.blocks.extend(batch.blocks.since(self.blocks.len()).map(BlockState::of));
        let mut thread = self.threads.remove(&batch.thread).unwrap_or_default();
        for span in batch.spans {
            let id = span.block.0;
            let block = &mut self.blocks[id as usize];
            block.executions += 1;
            let (instructions, start, owner) = (block.instructions, block.start, block.owner);
            let owner = owner.unwrap_or_else(|| self.meet(id, batch.blocks.get(span.block)));
            if let Some(last) = thread.last {
                let before = &self.blocks[last as usize];
                match before.leaves_by {
                    BlockEnd::Call => self.call(&mut thread, last, id, false),
                    BlockEnd::Return => self.come_back(&mut thread, start),
                    BlockEnd::Jump if before.owner != Some(owner) => self.call(&mut thread, last, id, true),
                    BlockEnd::Jump | BlockEnd::Syscall | BlockEnd::Other => {}
                }
            }
            // Blocks without code hold only references, and are outside the control flow.
            if instructions > 0 {
                thread.last = Some(id);
                thread.instructions += u64::from(instructions);
            }
        }
        self.threads.insert(batch.thread, thread);
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        self.owners.apply(event);
    }
}
