//! Converts batches to touches of pages or lines: the references that an analysis includes, in program order.
//!
//! A *piece* is what one touch is of: an aligned power of two of bytes, a 4 KiB page for TLBs or a line for caches.

use pagewalk_trace::{Batch, Block, Ref};
use pagewalk_units::{BlockId, Kind, PAGE_SHIFT};

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

/// Splits batches into touches of pieces of 2^`SHIFT` bytes.
pub(crate) struct Feed<const SHIFT: u32 = PAGE_SHIFT> {
    serves: ReferenceKinds,
    /// References so far, counted once for each piece that they touch.
    pub references: u64,
    /// The steps of all blocks, one block after the other.
    steps: Vec<Step>,
    /// For each block, the end of its steps.
    ends: Vec<usize>,
    /// Whether some block has fetches among its data references, as in imported streams without code.
    fetch_records: bool,
}

impl<const SHIFT: u32> Feed<SHIFT> {
    const OFFSET_MASK: u64 = (1 << (SHIFT + Ref::META_BITS)) - 1;
    /// A reference whose offset in its piece is at least this may cross into the next one, unless the batch is wide.
    /// `None` if a piece is no larger than what is not wide.
    const MAY_CROSS: Option<u64> = match (1u64 << SHIFT).checked_sub(Batch::WIDE_BYTES as u64) {
        None | Some(0) => None,
        Some(last) => Some((last + 1) << Ref::META_BITS),
    };

    pub fn new(serves: ReferenceKinds) -> Feed<SHIFT> {
        Feed { serves, references: 0, steps: Vec::new(), ends: Vec::new(), fetch_records: false }
    }

    /// Passes every touch of a batch to `to`.
    #[inline(always)]
    pub fn run(&mut self, batch: &Batch<'_>, to: &mut impl TouchSink) {
        if self.ends.len() < batch.blocks.len() {
            batch.blocks.since(self.ends.len()).for_each(|block| self.learn(block));
        }
        match self.serves {
            ReferenceKinds::Data if !self.fetch_records => self.data(batch.refs, batch.wide, to),
            ReferenceKinds::Fetches if !self.fetch_records => self.fetches(batch, to),
            _ => self.in_order(batch, to),
        }
    }

    fn learn(&mut self, block: &Block) {
        let fetch_records = block.sites.iter().any(|site| site.access.kind == Kind::Fetch);
        self.fetch_records |= fetch_records;
        // If data is not included, it does not separate fetches.
        let counts = u32::from(self.serves != ReferenceKinds::Fetches || fetch_records);
        let first = self.steps.len();
        let mut sites = block.sites.iter().peekable();
        for (index, instruction) in block.instructions.iter().enumerate() {
            let last_byte = instruction.address.0.saturating_add(u64::from(instruction.length.max(1)) - 1);
            for piece in instruction.address.0 >> SHIFT..=last_byte >> SHIFT {
                match self.steps[first..].last_mut() {
                    Some(step) if step.piece == piece && step.data == 0 => step.fetches += 1,
                    _ => self.steps.push(Step { piece, fetches: 1, data: 0 }),
                }
            }
            while sites.next_if(|site| usize::from(site.instruction) == index).is_some() {
                self.steps.last_mut().expect("the instruction's").data += counts;
            }
        }
        // References without code.
        let data = counts * sites.count() as u32;
        if data > 0 {
            self.steps.push(Step { piece: 0, fetches: 0, data });
        }
        self.ends.push(self.steps.len());
    }

    #[inline(always)]
    fn steps_of(&self, block: BlockId) -> &[Step] {
        let block = block.index();
        let start = if block == 0 { 0 } else { self.ends[block - 1] };
        &self.steps[start..self.ends[block]]
    }

    #[inline(always)]
    fn data(&mut self, refs: &[Ref], wide: bool, to: &mut impl TouchSink) {
        self.references += refs.len() as u64;
        for &r in refs {
            self.references += Self::touch_data(r, wide, to);
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
                    references += 1 + Self::touch_data(r, batch.wide, to);
                }
                refs = later;
            }
        }
        self.references += references;
    }

    /// Touches the pieces of a reference; returns how many there are besides the first.
    #[inline(always)]
    fn touch_data(r: Ref, wide: bool, to: &mut impl TouchSink) -> u64 {
        to.touch(r.address().0 >> SHIFT);
        let may_cross = match Self::MAY_CROSS {
            Some(offset) => wide || r.bits() & Self::OFFSET_MASK >= offset,
            None => r.address().0 >> SHIFT != r.last_byte().0 >> SHIFT,
        };
        if may_cross { Self::touch_rest(r, to) } else { 0 }
    }

    #[cold]
    fn touch_rest(r: Ref, to: &mut impl TouchSink) -> u64 {
        let (first, last) = (r.address().0 >> SHIFT, r.last_byte().0 >> SHIFT);
        (first + 1..=last).for_each(|piece| to.touch(piece));
        last - first
    }
}
