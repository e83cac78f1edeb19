//! Walks by the instruction that caused them.

use crate::attribution::Walk;
use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_units::VirtAddr;
use rustc_hash::FxHashMap;

/// Walks caused by one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionWalks {
    /// Its address in the traced process.
    pub instruction: VirtAddr,
    /// The mapping that holds the code.
    pub mapping: MappingId,
    /// Offset of the instruction in the mapping's file, where that is a file.
    pub file_offset: u64,
    /// Walks by its fetches.
    pub walks_fetch: u64,
    /// Walks by its data references.
    pub walks_data: u64,
    /// Page-table entries that they read.
    pub walk_references: u64,
    /// Their modelled cycles.
    pub walk_cycles: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Functions {
    current: FxHashMap<VirtAddr, FunctionWalks>,
    /// Rows of code that has been unmapped since.
    unmapped: Vec<FunctionWalks>,
}

impl Functions {
    pub fn add(&mut self, walk: &Walk, space: &AddressSpace) {
        let row = self.current.entry(walk.instruction).or_insert_with(|| {
            let vma = space.vma(walk.instruction);
            FunctionWalks {
                instruction: walk.instruction,
                mapping: vma.map_or(MappingId::UNKNOWN, |vma| vma.mapping),
                file_offset: vma.map_or(0, |vma| vma.file_offset + (walk.instruction.0 - vma.start)),
                walks_fetch: 0,
                walks_data: 0,
                walk_references: 0,
                walk_cycles: 0,
            }
        });
        let walks = if walk.fetch { &mut row.walks_fetch } else { &mut row.walks_data };
        *walks += 1;
        row.walk_references += u64::from(walk.references);
        row.walk_cycles = row.walk_cycles.saturating_add(walk.cycles);
    }

    /// Code in this range may be something else from now on.
    pub fn forget(&mut self, range: std::ops::Range<u64>) {
        let gone = self.current.extract_if(|address, _| range.contains(&address.0)).map(|(_, row)| row);
        self.unmapped.extend(gone);
    }

    /// All rows, by ascending address.
    pub fn rows(&self) -> Vec<FunctionWalks> {
        let mut rows: Vec<FunctionWalks> =
            self.unmapped.iter().chain(self.current.values()).cloned().collect();
        rows.sort_by_key(|row| (row.instruction, row.mapping, row.walk_references, row.walks_data));
        rows
    }
}
