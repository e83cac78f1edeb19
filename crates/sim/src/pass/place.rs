//! Where in the code a reference stands.

use pagewalk_trace::{Dictionary, Ref};
use pagewalk_units::{BlockId, VirtAddr};

/// Where in the code a reference stands.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub blocks: &'a Dictionary,
    pub block: BlockId,
    pub at: At,
    /// Data references that come after this and were taken already, as hits: see [`crate::pass::folded`].
    pub ahead: &'a [Ref],
}

#[derive(Clone, Copy)]
pub(crate) enum At {
    Instruction(u32),
    Site(usize),
}

impl Place<'_> {
    /// The instruction; 0 where the stream has no code.
    pub fn instruction(&self) -> VirtAddr {
        let block = self.blocks.get(self.block);
        let found = match self.at {
            At::Instruction(i) => block.instructions.get(i as usize).copied(),
            At::Site(site) => block.instruction_of(site),
        };
        found.map_or(VirtAddr(0), |instruction| instruction.address)
    }
}
