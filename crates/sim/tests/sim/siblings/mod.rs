//! Random machines that a pass simulates together.

use crate::random::{self, Pages, Random};
use pagewalk_setassoc::{Replacement, SetIndex};
use pagewalk_translate::{Fills, MachineSpec};

/// A machine with the first level of `first`, and often with one plain array below it: what a pass simulates together.
pub fn sibling(random: &mut Random, index: usize, pages: Pages, first: &MachineSpec) -> MachineSpec {
    let mut other = random::machine(random, index, pages);
    other.tlbs.retain(|tlb| tlb.level > 1);
    other.tlbs.iter_mut().for_each(|tlb| (tlb.fills, tlb.prefetch) = (Fills::Walks, None));
    if random.below(2) == 0 {
        other.tlbs.truncate(1);
        for tlb in &mut other.tlbs {
            tlb.page_sizes = vec![first.paging.base(), first.paging.huge()];
            (tlb.replacement, tlb.index) = (Replacement::Lru, SetIndex::Modulo.into());
        }
    }
    // Before or after the others: the order in a file is independent of levels.
    let at = if random.below(2) == 0 { 0 } else { other.tlbs.len() };
    other.tlbs.splice(at..at, first.level(1).map(|(_, tlb)| tlb.clone()));
    other
}
