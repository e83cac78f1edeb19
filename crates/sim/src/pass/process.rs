//! Address spaces in the pass.

use crate::attribution::MappingCounts;
use crate::code_lines::CodeLines;
use crate::counts::SpaceCounts;
use crate::fetch::FetchTable;
use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_translate::Asid;
use pagewalk_units::PageSize;
use rustc_hash::FxHashMap;

/// The state of one address space.
pub(crate) struct Process {
    pub space: AddressSpace,
    pub fetches: FetchTable,
    /// What caches of memory see of its code, if there are some.
    pub lines: CodeLines,
    pub mappings: Vec<MappingCounts>,
    /// Walks of the first design for pages that are gone, by page number and mapping.
    pub retired_walks: FxHashMap<(u64, MappingId), [u64; 2]>,
}

impl Process {
    /// A new process; `in_place`: see its table of fetches.
    pub fn new(base: PageSize, in_place: bool) -> Process {
        Process {
            space: AddressSpace::default(),
            fetches: FetchTable::new(base, in_place),
            lines: CodeLines::default(),
            mappings: Vec::new(),
            retired_walks: FxHashMap::default(),
        }
    }

    /// The counts of a mapping.
    pub fn counts_of(&mut self, mapping: MappingId) -> &mut MappingCounts {
        if self.mappings.len() <= mapping.index() {
            self.mappings.resize(mapping.index() + 1, MappingCounts::default());
        }
        &mut self.mappings[mapping.index()]
    }
}

/// The address spaces that do not run, and the counts of all.
#[derive(Default)]
pub(crate) struct Spaces {
    pub parked: FxHashMap<Asid, Process>,
    /// Each space's counts up to its last switch.
    pub counts: FxHashMap<Asid, SpaceCounts>,
    /// The total counts at that switch.
    pub settled: SpaceCounts,
}
