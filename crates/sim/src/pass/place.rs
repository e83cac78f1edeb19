//! The place of a reference in the code.

use pagewalk_trace::{Batch, Dictionary, Ref, Span};
use pagewalk_units::{BlockId, VirtAddr};

/// The place of a reference in the code.
#[derive(Clone, Copy)]
pub(crate) struct ReferencePlace<'a> {
    pub blocks: &'a Dictionary,
    pub block: BlockId,
    pub at: CodePosition,
    /// Later data references that were counted ahead as hits: see `folded_order`.
    pub ahead: &'a [Ref],
}

#[derive(Clone, Copy)]
pub(crate) enum CodePosition {
    Instruction(u32),
    Site(usize),
}

/// The place of a data reference of a span.
pub(crate) fn site<'a>(batch: &Batch<'a>, span: usize, index: usize) -> ReferencePlace<'a> {
    let Span { block, first } = batch.spans[span];
    let at = CodePosition::Site(index - first as usize);
    ReferencePlace { blocks: batch.blocks, block, at, ahead: &[] }
}

impl ReferencePlace<'_> {
    /// The instruction; 0 if the stream has no code.
    pub fn instruction(&self) -> VirtAddr {
        let block = self.blocks.get(self.block);
        let found = match self.at {
            CodePosition::Instruction(i) => block.instructions.get(i as usize).copied(),
            CodePosition::Site(site) => block.instruction_of(site),
        };
        found.map_or(VirtAddr(0), |instruction| instruction.address)
    }
}
