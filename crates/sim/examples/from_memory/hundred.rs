//! A hundred different two-level machines: ten realistic first levels, each with ten second levels.

use pagewalk_setassoc::{Geometry, Replacement};
use pagewalk_translate::MachineSpec;
use pagewalk_units::PageSize;

/// Entries and ways; no ways: fully associative.
const FIRST: [(u32, Option<u32>); 10] = [
    (32, Some(4)),
    (32, None),
    (48, None),
    (64, Some(4)),
    (64, Some(8)),
    (64, None),
    (72, None),
    (96, Some(6)),
    (128, Some(8)),
    (160, Some(5)),
];
const SECOND: [(u32, u32); 10] = [
    (256, 4),
    (512, 4),
    (512, 8),
    (1024, 4),
    (1024, 8),
    (1536, 12),
    (2048, 8),
    (2048, 16),
    (4096, 8),
    (4096, 16),
];

/// `machine` with its arrays of small pages in a hundred shapes, all least recently used.
pub fn machines(machine: &MachineSpec) -> Vec<MachineSpec> {
    let shape = |entries, ways| Geometry::new(entries, ways).expect("the shapes above are possible");
    let mut machines = Vec::new();
    for (first, first_ways) in FIRST {
        for (second, second_ways) in SECOND {
            let mut machine = machine.clone();
            for tlb in machine.tlbs.iter_mut().filter(|tlb| tlb.holds(PageSize::FOUR_KIB)) {
                tlb.replacement = Replacement::Lru;
                tlb.geometry = match tlb.level {
                    1 => shape(first, first_ways),
                    _ => shape(second, Some(second_ways)),
                };
            }
            machine.name = format!("{first}-{first_ways:?}-{second}-{second_ways}");
            machines.push(machine);
        }
    }
    machines
}
