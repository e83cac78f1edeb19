//! Counts of a data side.

/// Operations of an array with a given number of ways on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Ways that were on.
    pub ways: u32,
    /// Searches.
    pub reads: u64,
    /// Writes of entries.
    pub writes: u64,
}

impl Operations {
    /// Adds another array's operations.
    fn add(all: &mut Vec<Operations>, other: &Operations) {
        match all.iter_mut().find(|of| of.ways == other.ways) {
            Some(of) => {
                of.reads += other.reads;
                of.writes += other.writes;
            }
            None => {
                all.push(*other);
                all.sort_by_key(|of| of.ways);
            }
        }
    }
}

/// One page TLB or page-walk cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrayUse {
    /// Its name in the machine file.
    pub name: String,
    /// TLB level; 0 for page-walk caches.
    pub level: u8,
    /// Sets.
    pub sets: u32,
    /// References that hit it, except those that also hit a range TLB of its level.
    pub hits: u64,
    /// Operations by number of ways on, fewest first.
    pub operations: Vec<Operations>,
}

impl ArrayUse {
    /// Searches with any number of ways.
    pub fn reads(&self) -> u64 {
        self.operations.iter().map(|of| of.reads).sum()
    }

    /// Writes with any number of ways.
    pub fn writes(&self) -> u64 {
        self.operations.iter().map(|of| of.writes).sum()
    }
}

/// One range TLB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeUse {
    /// Its name in the machine file.
    pub name: String,
    /// TLB level.
    pub level: u8,
    /// Its size.
    pub entries: u32,
    /// References that probed it.
    pub lookups: u64,
    /// Lookups that hit.
    pub hits: u64,
    /// Hits by the range used last.
    pub mru_hits: u64,
    /// Searches of all its entries.
    pub reads: u64,
    /// Entries written.
    pub writes: u64,
}

/// An array with anchors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnchorUse {
    /// Lookups of anchors, after a miss of the page.
    pub lookups: u64,
    /// Lookups that hit.
    pub hits: u64,
    /// Pages from one anchor to the next, at the end.
    pub distance: u64,
    /// Changes of the distance.
    pub changes: u64,
}

/// All counts of one design.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataSideCounts {
    /// Translations of data references.
    pub references: u64,
    /// References that missed level 1.
    pub level1_misses: u64,
    /// Page walks.
    pub walks: u64,
    /// Page-table entries that they read.
    pub walk_references: u64,
    /// Walks of the range table.
    pub range_walks: u64,
    /// Nodes of it that they read.
    pub range_nodes: u64,
    /// Page TLBs in the machine's order, then page-walk caches.
    pub arrays: Vec<ArrayUse>,
    /// Range TLBs in the machine's order.
    pub ranges: Vec<RangeUse>,
    /// Counts of an array with anchors.
    pub anchors: Option<AnchorUse>,
    /// With a predictor of page sizes: references that searched for both sizes, at level 1 and at level 2.
    pub searched_again: Option<[u64; 2]>,
    /// Decisions of Lite.
    pub intervals: u64,
    /// Decisions that switched all ways on: at random, and because misses rose.
    pub reactivations: [u64; 2],
}

impl DataSideCounts {
    /// Adds another core's counts. The distance of anchors is a state, and stays the first core's.
    pub fn add(&mut self, other: &DataSideCounts) {
        self.references += other.references;
        self.level1_misses += other.level1_misses;
        self.walks += other.walks;
        self.walk_references += other.walk_references;
        self.range_walks += other.range_walks;
        self.range_nodes += other.range_nodes;
        for (sum, own) in self.arrays.iter_mut().zip(&other.arrays) {
            sum.hits += own.hits;
            own.operations.iter().for_each(|of| Operations::add(&mut sum.operations, of));
        }
        for (sum, own) in self.ranges.iter_mut().zip(&other.ranges) {
            sum.lookups += own.lookups;
            sum.hits += own.hits;
            sum.mru_hits += own.mru_hits;
            sum.reads += own.reads;
            sum.writes += own.writes;
        }
        if let (Some(sum), Some(own)) = (&mut self.anchors, &other.anchors) {
            sum.lookups += own.lookups;
            sum.hits += own.hits;
            sum.changes += own.changes;
        }
        if let (Some(sum), Some(own)) = (&mut self.searched_again, &other.searched_again) {
            sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        self.intervals += other.intervals;
        self.reactivations.iter_mut().zip(&other.reactivations).for_each(|(sum, own)| *sum += own);
    }
}
