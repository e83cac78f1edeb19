//! All counts of a data side.

use super::{ClassCounts, DesignCounts, RangeTotals, prices};
use pagewalk_cost::Cycles;
use pagewalk_translate::{ArrayUse, DataSideCounts, MachineSpec};

/// All counts of a data side.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSideTotals {
    /// The machine.
    pub machine: MachineSpec,
    /// Counts of the hardware.
    pub counts: DataSideCounts,
    /// Instructions executed.
    pub instructions: u64,
    /// Data references; one on two pages makes two translations.
    pub data_references: u64,
    /// Walks that the ideal direct segment serves, if the machine has one; the walks no longer include them.
    pub segment_hits: Option<u64>,
    /// Walks for pages that found no frame, if frames come from the design's own memory.
    pub unbacked_walks: Option<u64>,
    /// Blocks that got a huge page in the background, if the host's kernel does that.
    pub collapses: Option<u64>,
    /// The ranges at the end, if the machine has range TLBs.
    pub ranges: Option<RangeTotals>,
}

impl DesignCounts {
    /// The counts of a data side whose walks took `walk_cycles`. Fetches do not look it up, and each level-1 miss costs
    /// a level-2 hit, whatever serves it.
    pub(crate) fn of_data_side(name: String, totals: DataSideTotals, walk_cycles: u64) -> DesignCounts {
        let (machine, counts) = (&totals.machine, &totals.counts);
        let lookups = |array: &ArrayUse| match array.level {
            0 => array.reads(),
            1 => counts.references,
            _ => counts.level1_misses,
        };
        let class = |array: &ArrayUse| ClassCounts {
            name: array.name.clone(),
            level: array.level,
            lookups: lookups(array),
            hits: array.hits,
        };
        let (walk_caches, arrays) = counts.arrays.iter().map(class).partition(|array| array.level == 0);
        let last_level = (machine.last_level() == 2).then_some(counts.walks);
        let made = counts.walks + totals.segment_hits.unwrap_or(0);
        DesignCounts {
            name,
            instructions: totals.instructions,
            data_references: totals.data_references,
            translations: [0, counts.references],
            arrays,
            level_misses: std::iter::once(counts.level1_misses).chain(last_level).collect(),
            lower_hits: counts.level1_misses - made,
            walks_data: counts.walks,
            walk_references: counts.walk_references,
            walk_caches,
            cycles: Cycles {
                walk: walk_cycles,
                ..Cycles::new(&prices(&machine.cost), totals.instructions, counts.level1_misses)
            },
            data_side: Some(Box::new(totals)),
            ..DesignCounts::default()
        }
    }
}
