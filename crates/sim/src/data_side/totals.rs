//! All counts of a data side, from a pass or from a system's cores and processes.

use super::memory::DesignMemory;
use super::segment::Segments;
use crate::counts::{DataSideTotals, RangeTotals};
use pagewalk_mm::AddressSpace;
use pagewalk_translate::{DataSideCounts, MachineSpec};

/// A process's memory, address space and areas, and its executed instructions.
pub(crate) type SideOf<'a> = (&'a DesignMemory, &'a AddressSpace, &'a Segments, u64);

impl DataSideTotals {
    /// The totals of a machine and its processes.
    pub(crate) fn new(
        machine: &MachineSpec,
        mut counts: DataSideCounts,
        (instructions, data_references): (u64, u64),
        processes: &[SideOf<'_>],
    ) -> DataSideTotals {
        let side = machine.data_side.as_deref().expect("the design's check ensures it");
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

/// The sum; none if all are none.
fn sum(all: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    all.flatten().reduce(|sum, one| sum + one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;
    use crate::counts::DesignCounts;

    /// Prices too large for any counter.
    #[test]
    fn cycles_end_at_the_most_that_there_can_be() {
        let mut machine = Library::get("karakostas_4k").expect("it is in the library");
        machine.cost.l2_hit = u64::MAX / 2;
        let counts = DataSideCounts { level1_misses: 3, walks: 3, ..DataSideCounts::default() };
        let totals = DataSideTotals::new(&machine, counts, (0, 0), &[]);
        let cycles = DesignCounts::of_data_side(String::new(), totals, u64::MAX).cycles;
        assert_eq!((cycles.lower_hit, cycles.total()), (u64::MAX, 2.0 * u64::MAX as f64));
    }
}
