//! Executed code: blocks, and the dictionary that numbers them.

use crate::Ref;
use pagewalk_units::{Access, BlockId, VirtAddr};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// One instruction of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Its first byte.
    pub address: VirtAddr,
    /// Its length in bytes (1 to 15 on x86-64).
    pub length: u8,
}

/// One data reference that each execution of the block makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Index of its instruction in the block.
    pub instruction: u16,
    /// Its access.
    pub access: Access,
}

/// How control leaves a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockEnd {
    /// A jump, a branch, or falling through.
    Jump = 0,
    /// A call.
    Call = 1,
    /// A return.
    Return = 2,
    /// A system call.
    Syscall = 3,
    /// Anything else (a client request, an emulation notice, a fault).
    Other = 4,
}

impl BlockEnd {
    /// The end with this code, if any.
    pub fn from_code(code: u8) -> Option<BlockEnd> {
        use BlockEnd::*;
        [Jump, Call, Return, Syscall, Other].get(usize::from(code)).copied()
    }
}

/// A run of instructions executed one after the other, with exactly the data references they made.
///
/// A block left early, or with guarded references that did not happen, is a block of its own: so an execution's numbers
/// of instructions and references need not be stored with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The instructions, in order of execution. May be empty for imported references without code.
    pub instructions: Box<[Instruction]>,
    /// The data references, in program order.
    pub sites: Box<[Site]>,
    /// The instructions' bytes, in order; empty if unknown.
    pub code: Box<[u8]>,
    /// How control leaves it.
    pub end: BlockEnd,
}

impl Block {
    /// Address of the first instruction, or 0 for a block without code.
    pub fn start(&self) -> VirtAddr {
        self.instructions.first().map_or(VirtAddr(0), |i| i.address)
    }

    /// The instruction that makes data reference number `site`.
    pub fn instruction_of(&self, site: usize) -> Option<Instruction> {
        let site = self.sites.get(site)?;
        self.instructions.get(usize::from(site.instruction)).copied()
    }

    /// The low record bits of each site.
    pub fn metas(&self) -> impl Iterator<Item = u8> + '_ {
        self.sites.iter().map(|site| Ref::meta(site.access))
    }
}

/// All blocks of a stream, numbered in order of first appearance. Ids are never reused.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    blocks: Vec<Arc<Block>>,
    ids: FxHashMap<Arc<Block>, BlockId>,
    /// Blocks of which `ids` knows: a copy of another dictionary seldom needs it.
    indexed: usize,
}

impl Dictionary {
    /// The id of `block`, assigned now if it is new.
    pub fn intern(&mut self, block: Block) -> BlockId {
        for number in self.indexed..self.blocks.len() {
            self.ids.insert(Arc::clone(&self.blocks[number]), BlockId(number as u32));
        }
        self.indexed = self.blocks.len();
        if let Some(&id) = self.ids.get(&block) {
            return id;
        }
        let id = BlockId(u32::try_from(self.blocks.len()).expect("fewer than 2^32 blocks"));
        let block = Arc::new(block);
        self.blocks.push(Arc::clone(&block));
        self.ids.insert(block, id);
        self.indexed += 1;
        id
    }

    /// Takes the next blocks of a dictionary of which this one is a copy.
    pub fn extend(&mut self, blocks: &[Arc<Block>]) {
        self.blocks.extend_from_slice(blocks);
    }

    /// The block with this id. Panics if the id is not from this dictionary.
    pub fn get(&self, id: BlockId) -> &Block {
        &self.blocks[id.index()]
    }

    /// Number of blocks: ids are `0..len`.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is no block yet.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The blocks from id `first` on, for other dictionaries.
    pub fn shared_since(&self, first: usize) -> &[Arc<Block>] {
        &self.blocks[first..]
    }

    /// The blocks from id `first` on, for consumers with tables of their own.
    pub fn since(&self, first: usize) -> impl Iterator<Item = &Block> {
        self.shared_since(first).iter().map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u8) -> Block {
        Block { instructions: [].into(), sites: [].into(), code: [number].into(), end: BlockEnd::Jump }
    }

    #[test]
    fn a_copy_numbers_blocks_as_the_original_does() {
        let (mut original, mut copy) = (Dictionary::default(), Dictionary::default());
        let known: Vec<BlockId> = (0..3).map(|number| original.intern(block(number))).collect();
        copy.extend(original.shared_since(0));
        assert_eq!(copy.intern(block(1)), known[1]);
        assert_eq!((copy.intern(block(7)).0, copy.intern(block(8)).0), (3, 4));
        original.intern(block(9));
        original.extend(&copy.shared_since(3)[..1]);
        assert_eq!((original.intern(block(9)).0, original.intern(block(7)).0), (3, 4));
        assert_eq!(original.get(BlockId(4)), &block(7));
    }
}
