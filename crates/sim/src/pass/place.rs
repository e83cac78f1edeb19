//! Where in the code a reference stands.

use pagewalk_trace::{Dictionary, Ref};
use pagewalk_units::{BlockId, VirtAddr};

/// Where in the code a reference stands.
#[derive(Clone, Copy)]
pub(crate) struct ReferencePlace<'a> {
    pub blocks: &'a Dictionary,
    pub block: BlockId,
    pub at: CodePosition,
    /// Data references that come after this and were taken already, as hits: see [`crate::pass::folded`].
    pub ahead: &'a [Ref],
}

#[derive(Clone, Copy)]
pub(crate) enum CodePosition {
    Instruction(u32),
    Site(usize),
}

impl ReferencePlace<'_> {
    /// The instruction; 0 where the stream has no code.
    pub fn instruction(&self) -> VirtAddr {
        let block = self.blocks.get(self.block);
        let found = match self.at {
            CodePosition::Instruction(i) => block.instructions.get(i as usize).copied(),
            CodePosition::Site(site) => block.instruction_of(site),
        };
        found.map_or(VirtAddr(0), |instruction| instruction.address)
    }
}
