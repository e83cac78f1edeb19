//! Units and blocks: the scopes of huge pages.

use super::front::SLOTS;
use crate::classes::CLASSES;
use pagewalk_mm::{MappingId, ProcessMapping};
use pagewalk_translate::Asid;

/// The part of one mapping inside one block.
// Many fields: one record of a dense list, read by misses.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub number: u64,
    pub asid: Asid,
    pub mapping: MappingId,
    pub block: u32,
    pub resident: [u64; CLASSES],
    /// Designs that map it as one huge page.
    pub huge: u64,
    /// Those of them whose huge page the host's kernel would give too, and would not have split since. Pages of the
    /// block then keep its mapping's name: areas that merge change names.
    pub kernels: u64,
    /// Designs that have mapped some of it as small pages.
    pub small: u64,
    /// Whether it is a hugetlb page or a part of one, which no kernel splits.
    pub hugetlb: bool,
    /// Whether its area did not hold the whole block at its first touch, and still does not.
    pub early: bool,
    /// Live pages.
    pub pages: u32,
    /// Peak number of live pages.
    pub pages_peak: u32,
    /// Peak number of mapped pages of its mapping inside the block.
    pub extent: u32,
    /// Instruction count at its first touch.
    pub born: u64,
    /// References by class, without those that the front holds.
    pub refs: [u64; CLASSES],
    /// References among them that `huge_refs` includes already.
    pub settled: [u64; CLASSES],
    /// Front slots that hold pages of this unit, by class: a bit per slot.
    pub slots: [[u64; SLOTS / 64]; CLASSES],
}

impl Unit {
    /// Whose mapping it is part of.
    pub fn owner(&self) -> ProcessMapping {
        ProcessMapping { process: self.asid.space(), mapping: self.mapping }
    }
}

/// The scope of a huge page.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub resident: [u64; CLASSES],
    pub units: Vec<u32>,
    /// Live pages.
    pub pages: u32,
    /// Peak number of live pages since it last had none.
    pub pages_peak: u32,
    /// Instruction count at its first touch since it last had no pages.
    pub born: u64,
}
