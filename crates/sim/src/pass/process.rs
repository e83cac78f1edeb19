//! Address spaces in the pass: the one that runs, and the others.

use crate::attribution::MappingCounts;
use crate::counts::SpaceCounts;
use crate::fetch::FetchTable;
use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_translate::Asid;
use pagewalk_units::PageSize;
use rustc_hash::FxHashMap;

/// What belongs to one address space.
pub(crate) struct Process {
    pub space: AddressSpace,
    pub fetches: FetchTable,
    pub mappings: Vec<MappingCounts>,
    /// Page counts of the first design that outlive their page: page number, mapping, walks.
    pub retired_walks: FxHashMap<(u64, MappingId), [u64; 2]>,
}

impl Process {
    /// One that has done nothing; `in_place`: as its table of fetches has it.
    pub fn new(base: PageSize, in_place: bool) -> Process {
        Process {
            space: AddressSpace::default(),
            fetches: FetchTable::new(base, in_place),
            mappings: Vec::new(),
            retired_walks: FxHashMap::default(),
        }
    }

    /// What a mapping received.
    pub fn counts_of(&mut self, mapping: MappingId) -> &mut MappingCounts {
        if self.mappings.len() <= mapping.index() {
            self.mappings.resize(mapping.index() + 1, MappingCounts::default());
        }
        &mut self.mappings[mapping.index()]
    }
}

/// Those that do not run, and what each did.
#[derive(Default)]
pub(crate) struct Spaces {
    pub parked: FxHashMap<Asid, Process>,
    /// Each space's counts up to its last switch.
    pub counts: FxHashMap<Asid, SpaceCounts>,
    /// The counts of all at that switch.
    pub settled: SpaceCounts,
}
