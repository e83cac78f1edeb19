//! Converts batches to touches of pages or lines: the references that an analysis includes, in program order.
//!
//! A *piece* is what one touch is of: an aligned power of two of bytes, a 4 KiB page for TLBs or a line for caches.

use pagewalk_trace::{Batch, Block, Ref};
use pagewalk_units::{BlockId, Kind, PAGE_SHIFT, SpaceId};
use std::ops::Range;

/// The kinds of references that an analysis includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReferenceKinds {
    /// Loads, stores and modifies: a data TLB.
    #[default]
    Data,
    /// Instruction fetches, one for each instruction executed: an instruction TLB.
    Fetches,
    /// All references, the fetch of each instruction before its data: a unified TLB.
    Everything,
}

impl ReferenceKinds {
    fn has(self, kind: Kind) -> bool {
        match self {
            ReferenceKinds::Data => kind != Kind::Fetch,
            ReferenceKinds::Fetches => kind == Kind::Fetch,
            ReferenceKinds::Everything => true,
        }
    }
}

/// Receives touches. Another touch of the most recently touched piece changes nothing, so consecutive touches of a
/// piece are reported once.
pub(crate) trait TouchSink {
    /// A touch of the piece with this number: its first address by its size.
    fn touch(&mut self, piece: u64);
}

/// A part of a block's execution: fetches from one piece, followed by data references.
#[derive(Clone, Copy, Debug)]
struct Step {
    piece: u64,
    fetches: u32,
    data: u32,
}

/// Splits batches into touches of pieces of 2^`SHIFT` bytes. Processes that take turns share no piece: the bits of a
/// piece's number above all addresses are its process's.
pub(crate) struct Feed<const SHIFT: u32 = PAGE_SHIFT> {
    serves: ReferenceKinds,
    /// References so far, counted once for each piece that they touch.
    pub references: u64,
    /// The blocks of the process that runs.
    blocks: LearntBlocks,
    /// Those of the others, by process.
    others: Vec<LearntBlocks>,
    /// The process that runs.
    runs: usize,
}

/// The blocks of one process.
#[derive(Default)]
struct LearntBlocks {
    /// The steps of all blocks, one block after the other.
    steps: Vec<Step>,
    /// For each block, the end of its steps.
    ends: Vec<usize>,
    /// Whether some block has fetches among its data references, as in imported streams without code.
    fetch_records: bool,
}

impl<const SHIFT: u32> Feed<SHIFT> {
    /// Bits of a piece's number below its process: one more than addresses have, as the last bytes may lie beyond.
    const OWN_BITS: u32 = Ref::ADDRESS_END.ilog2() + 1 - SHIFT;
    const OFFSET_MASK: u64 = (1 << (SHIFT + Ref::META_BITS)) - 1;
    /// A reference whose offset in its piece is at least this may cross into the next one, unless the batch is wide.
    /// `None` if a piece is no larger than what is not wide.
    const MAY_CROSS: Option<u64> = match (1u64 << SHIFT).checked_sub(Batch::WIDE_BYTES as u64) {
        None | Some(0) => None,
        Some(last) => Some((last + 1) << Ref::META_BITS),
    };

    pub fn new(serves: ReferenceKinds) -> Feed<SHIFT> {
        Feed { serves, references: 0, blocks: LearntBlocks::default(), others: Vec::new(), runs: 0 }
    }

    /// From here on, this process runs. At most 64 can take turns.
    pub fn switch_to(&mut self, process: SpaceId) {
        let last = self.runs;
        self.runs = process.0 as usize;
        let known = self.others.len().max(self.runs.max(last) + 1);
        self.others.resize_with(known, LearntBlocks::default);
        self.others[last] = std::mem::take(&mut self.blocks);
        self.blocks = std::mem::take(&mut self.others[self.runs]);
    }

    /// The number of the piece at 0 of the process that runs.
    fn origin(&self) -> u64 {
        (self.runs as u64) << Self::OWN_BITS
    }

    /// Where pieces of the process that runs lie among those of all.
    pub fn own(&self, pieces: Range<u64>) -> Range<u64> {
        let [start, end] = [pieces.start, pieces.end].map(|piece| piece.min(1 << Self::OWN_BITS));
        self.origin() + start..self.origin() + end
    }

    /// Passes every touch of a batch to `to`.
    #[inline(always)]
    pub fn run(&mut self, batch: &Batch<'_>, to: &mut impl TouchSink) {
        let known = self.blocks.ends.len();
        if known < batch.blocks.len() {
            batch.blocks.since(known).for_each(|block| self.learn(block));
        }
        match self.serves {
            ReferenceKinds::Data if !self.blocks.fetch_records => self.data(batch.refs, batch.wide, to),
            ReferenceKinds::Fetches if !self.blocks.fetch_records => self.fetches(batch, to),
            _ => self.in_order(batch, to),
        }
    }

    fn learn(&mut self, block: &Block) {
        let origin = self.origin();
        let LearntBlocks { steps, ends, fetch_records: any } = &mut self.blocks;
        let fetch_records = block.sites.iter().any(|site| site.access.kind == Kind::Fetch);
        *any |= fetch_records;
        // If data is not included, it does not separate fetches.
        let counts = u32::from(self.serves != ReferenceKinds::Fetches || fetch_records);
        let first = steps.len();
        let mut sites = block.sites.iter().peekable();
        for (index, instruction) in block.instructions.iter().enumerate() {
            let last_byte = instruction.address.0.saturating_add(u64::from(instruction.length.max(1)) - 1);
            for piece in instruction.address.0 >> SHIFT..=last_byte >> SHIFT {
                let piece = origin + piece;
                match steps[first..].last_mut() {
                    Some(step) if step.piece == piece && step.data == 0 => step.fetches += 1,
                    _ => steps.push(Step { piece, fetches: 1, data: 0 }),
                }
            }
            while sites.next_if(|site| usize::from(site.instruction) == index).is_some() {
                steps.last_mut().expect("the instruction's").data += counts;
            }
        }
        // References without code.
        let data = counts * sites.count() as u32;
        if data > 0 {
            steps.push(Step { piece: 0, fetches: 0, data });
        }
        ends.push(steps.len());
    }

    #[inline(always)]
    fn steps_of(&self, block: BlockId) -> &[Step] {
        let block = block.index();
        let LearntBlocks { steps, ends, .. } = &self.blocks;
        let start = if block == 0 { 0 } else { ends[block - 1] };
        &steps[start..ends[block]]
    }

    #[inline(always)]
    fn data(&mut self, refs: &[Ref], wide: bool, to: &mut impl TouchSink) {
        let origin = self.origin();
        self.references += refs.len() as u64;
        for &r in refs {
            self.references += Self::touch_data(origin, r, wide, to);
        }
    }

    #[inline(always)]
    fn fetches(&mut self, batch: &Batch<'_>, to: &mut impl TouchSink) {
        let mut references = 0;
        for span in batch.spans {
            for step in self.steps_of(span.block) {
                references += u64::from(step.fetches);
                to.touch(step.piece);
            }
        }
        self.references += references;
    }

    #[inline(always)]
    fn in_order(&mut self, batch: &Batch<'_>, to: &mut impl TouchSink) {
        let origin = self.origin();
        let mut references = 0;
        for (index, span) in batch.spans.iter().enumerate() {
            let mut refs = &batch.refs[span.first as usize..batch.span_end(index)];
            for step in self.steps_of(span.block) {
                if step.fetches > 0 && self.serves.has(Kind::Fetch) {
                    references += u64::from(step.fetches);
                    to.touch(step.piece);
                }
                let (now, later) = refs.split_at(refs.len().min(step.data as usize));
                for &r in now.iter().filter(|r| self.serves.has(r.kind())) {
                    references += 1 + Self::touch_data(origin, r, batch.wide, to);
                }
                refs = later;
            }
        }
        self.references += references;
    }

    /// Touches the pieces of a reference; returns how many there are besides the first.
    #[inline(always)]
    fn touch_data(origin: u64, r: Ref, wide: bool, to: &mut impl TouchSink) -> u64 {
        to.touch(origin + (r.address().0 >> SHIFT));
        let may_cross = match Self::MAY_CROSS {
            Some(offset) => wide || r.bits() & Self::OFFSET_MASK >= offset,
            None => r.address().0 >> SHIFT != r.last_byte().0 >> SHIFT,
        };
        if may_cross { Self::touch_rest(origin, r, to) } else { 0 }
    }

    #[cold]
    fn touch_rest(origin: u64, r: Ref, to: &mut impl TouchSink) -> u64 {
        let (first, last) = (r.address().0 >> SHIFT, r.last_byte().0 >> SHIFT);
        (first + 1..=last).for_each(|piece| to.touch(origin + piece));
        last - first
    }
}
