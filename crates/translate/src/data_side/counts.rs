//! What a data side counts.

/// Operations of one array with so many ways on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Ways that were on.
    pub ways: u32,
    /// Times that it was searched.
    pub reads: u64,
    /// Times that an entry was written.
    pub writes: u64,
}

impl Operations {
    /// Adds those of another array of the kind.
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
    /// References that hit it. Those that hit a range TLB of its level too count there.
    pub hits: u64,
    /// By the ways that were on, fewest first.
    pub operations: Vec<Operations>,
}

impl ArrayUse {
    /// Times that it was searched, whatever its ways.
    pub fn reads(&self) -> u64 {
        self.operations.iter().map(|of| of.reads).sum()
    }

    /// Entries written, whatever its ways.
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
    /// Those that hit.
    pub hits: u64,
    /// Hits by the range used last.
    pub mru_hits: u64,
    /// Times that all its entries were searched.
    pub reads: u64,
    /// Entries written.
    pub writes: u64,
}

/// An array with anchors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnchorUse {
    /// Lookups of anchors: what was not found as a page.
    pub lookups: u64,
    /// Those that hit.
    pub hits: u64,
    /// Pages from one anchor to the next, at the end.
    pub distance: u64,
    /// Times that it has changed.
    pub changes: u64,
}

/// All counts of one design.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataSideCounts {
    /// Translations of data references.
    pub references: u64,
    /// Those that no array of level 1 served.
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
    /// Where an array has anchors.
    pub anchors: Option<AnchorUse>,
    /// Where page sizes are predicted: references that were searched for at both sizes, at level 1 and at level 2.
    pub searched_again: Option<[u64; 2]>,
    /// Decisions of Lite.
    pub intervals: u64,
    /// Those that switched all ways on: by chance, and as misses had grown.
    pub reactivations: [u64; 2],
}

impl DataSideCounts {
    /// Adds those of another core. Of what is a state, the distance of anchors, that of the first is told.
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
