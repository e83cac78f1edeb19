//! All counts of a data side, of one pass or of a system's cores and processes.

use super::memory::{DesignMemory, RangeTotals};
use super::segment::Segments;
use crate::counts::{ClassCounts, DesignCounts};
use pagewalk_cost::Cycles;
use pagewalk_mm::AddressSpace;
use pagewalk_translate::{ArrayUse, DataSideCounts, MachineSpec};

/// All counts of a data side.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSideTotals {
    /// What was counted.
    pub machine: MachineSpec,
    /// Of the hardware.
    pub counts: DataSideCounts,
    /// Instructions executed.
    pub instructions: u64,
    /// Data references; those that lie on two pages are two translations.
    pub data_references: u64,
    /// Walks that an ideal direct segment would have served, where the machine has one: they are no longer among the
    /// walks.
    pub segment_hits: Option<u64>,
    /// Walks for pages that found no frame, where frames come from a memory of the design's own.
    pub unbacked_walks: Option<u64>,
    /// Blocks that got a huge page in the background, where the host's kernel makes such.
    pub collapses: Option<u64>,
    /// The ranges at the end, where the machine has range TLBs.
    pub ranges: Option<RangeTotals>,
}

/// What the kernel made of one process, which executed so many instructions.
pub(crate) type SideOf<'a> = (&'a DesignMemory, &'a AddressSpace, &'a Segments, u64);

impl DataSideTotals {
    /// Of a machine's `counts` after so many instructions and data references, and of its processes.
    pub(crate) fn new(
        machine: &MachineSpec,
        mut counts: DataSideCounts,
        (instructions, data_references): (u64, u64),
        processes: &[SideOf<'_>],
    ) -> DataSideTotals {
        let side = machine.data_side.as_deref().expect("checked when the design was");
        let each = || processes.iter();
        let segment_hits = side.segment.map(|alive| {
            each().map(|(memory, _, segments, now)| segments.served(memory.walks(), alive, *now)).sum()
        });
        counts.walks -= segment_hits.unwrap_or(0);
        let ranges = (!side.range_tlbs.is_empty()).then(|| {
            let lengths: Vec<_> = each().map(|(memory, space, ..)| memory.range_lengths(space)).collect();
            RangeTotals::of(&lengths)
        });
        let collapses = |(memory, ..): &SideOf<'_>| Some(memory.collapser.as_ref()?.done);
        DataSideTotals {
            counts,
            instructions,
            data_references,
            segment_hits,
            unbacked_walks: sum(each().map(|(memory, ..)| memory.unbacked_walks())),
            collapses: sum(each().map(collapses)),
            ranges,
            machine: machine.clone(),
        }
    }
}

/// None where none has any.
fn sum(all: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    all.flatten().reduce(|sum, one| sum + one)
}

impl DesignCounts {
    /// Of a data side, whose walks took so many cycles. Fetches pass it by, and each miss of level 1 costs a hit of
    /// level 2, whatever serves it.
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
        let lower_hit = counts.level1_misses.saturating_mul(machine.cost.l2_hit);
        let instructions = totals.instructions as f64 * machine.cost.cycles_per_instruction;
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
                lower_hit,
                traps: 0,
                total: instructions + lower_hit.saturating_add(walk_cycles) as f64,
            },
            data_side: Some(Box::new(totals)),
            ..DesignCounts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;

    /// Prices that no counter has room for.
    #[test]
    fn cycles_end_at_the_most_that_there_can_be() {
        let mut machine = Library::get("karakostas_4k").expect("it is in the library");
        machine.cost.l2_hit = u64::MAX / 2;
        let counts = DataSideCounts { level1_misses: 3, walks: 3, ..DataSideCounts::default() };
        let totals = DataSideTotals::new(&machine, counts, (0, 0), &[]);
        let Cycles { lower_hit, total, .. } =
            DesignCounts::of_data_side(String::new(), totals, u64::MAX).cycles;
        assert_eq!((lower_hit, total), (u64::MAX, u64::MAX as f64));
    }
}
