//! The place of a reference in the code.

use crate::moment::CodePosition;
use pagewalk_trace::{Batch, Block, Ref};
use pagewalk_units::VirtAddr;

/// The place of a reference in the code.
#[derive(Clone, Copy)]
pub(crate) struct ReferencePlace<'a> {
    pub batch: &'a Batch<'a>,
    pub span: usize,
    pub at: CodePosition,
    /// Later data references that were counted ahead as hits: see `folded_order`.
    pub ahead: &'a [Ref],
}

/// The place of a data reference of a span.
pub(crate) fn site<'a>(batch: &'a Batch<'a>, span: usize, index: usize) -> ReferencePlace<'a> {
    let at = CodePosition::Site(index - batch.spans[span].first as usize);
    ReferencePlace { batch, span, at, ahead: &[] }
}

impl<'a> ReferencePlace<'a> {
    /// Its block.
    pub fn block(&self) -> &'a Block {
        self.batch.blocks.get(self.batch.spans[self.span].block)
    }

    /// The instruction; 0 if the stream has no code.
    pub fn instruction(&self) -> VirtAddr {
        let block = self.block();
        let found = match self.at {
            CodePosition::Instruction(i) => block.instructions.get(i as usize).copied(),
            CodePosition::Site(site) => block.instruction_of(site),
        };
        found.map_or(VirtAddr(0), |instruction| instruction.address)
    }
}
