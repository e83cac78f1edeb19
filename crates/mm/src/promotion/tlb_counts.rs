//! Contents of a TLB, as far as charging misses needs them (Romer 1998, section 3.5.2).

use crate::Superpage;
use crate::kernel::tree::Tree;

/// Part of a larger built superpage.
const INSIDE: i8 = -1;

/// For every block, its entries in the TLB:
///
/// - −1: it lies in a larger built superpage;
/// - 0: neither it nor any part of it;
/// - else: one for each entry of the whole block, and one for each half with an entry inside it. Where pages share an
///   entry, smaller ones may lie inside its block.
///
/// Entering and leaving update only blocks that change, so the TLB is never scanned.
#[derive(Clone, Debug)]
pub(crate) struct TlbCounts {
    counts: Tree<i8>,
}

impl TlbCounts {
    /// An empty TLB for pages up to order `top`.
    pub fn new(top: u8) -> TlbCounts {
        TlbCounts { counts: Tree::new(top) }
    }

    /// The order of the smallest block around `unit`, larger than it, with an entry in the TLB; all blocks around that
    /// one have one too.
    pub fn first_held(&mut self, unit: Superpage) -> Option<u8> {
        let mut first = None;
        self.counts.climb(unit.first, unit.order + 1, |order, count| {
            first = (*count > 0).then_some(order);
            first.is_none()
        });
        first
    }

    /// An entry enters.
    pub fn enter(&mut self, unit: Superpage) {
        self.counts.climb(unit.first, unit.order, |_, count| {
            let held = *count > 0;
            *count = if held { *count + 1 } else { 1 };
            !held
        });
    }

    /// An entry leaves.
    pub fn leave(&mut self, unit: Superpage) {
        self.counts.climb(unit.first, unit.order, |_, count| {
            *count -= 1;
            *count == 0
        });
    }

    /// A superpage was built and translations of its parts dropped.
    pub fn promote(&mut self, block: Superpage) {
        if *self.counts.get_mut(block) > 0 {
            *self.counts.get_mut(block) = 1;
            self.leave(block);
        }
        self.counts.fill_inside(block, INSIDE);
    }

    /// A superpage split or went, after its translation was dropped.
    pub fn demote(&mut self, block: Superpage) {
        self.counts.fill_inside(block, 0);
    }

    /// The number of counts.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    #[cfg(test)]
    fn get(&self, block: Superpage) -> i8 {
        self.counts.get(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const TOP: u8 = 4;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *state >> 33
    }

    /// The slow twin: scans the TLB.
    fn scanned(tlb: &BTreeSet<Superpage>, built: &BTreeSet<Superpage>, block: Superpage) -> i8 {
        if built.iter().any(|unit| unit.order > block.order && unit.holds(block)) {
            return INSIDE;
        }
        if tlb.contains(&block) {
            return 1;
        }
        let half = |first: u64| Superpage { first, order: block.order.wrapping_sub(1) };
        let has = |half: Superpage| tlb.iter().any(|unit| half.holds(*unit));
        match block.order {
            0 => 0,
            _ => i8::from(has(half(block.first))) + i8::from(has(half(block.first + block.len() / 2))),
        }
    }

    #[test]
    fn counts_are_what_a_scan_of_the_tlb_says() {
        for seed in 0..200 {
            let mut state = seed;
            let mut counts = TlbCounts::new(TOP);
            let (mut tlb, mut built) = (BTreeSet::new(), BTreeSet::<Superpage>::new());
            for _ in 0..300 {
                let page = random(&mut state) % 40;
                let unit = built.iter().copied().find(|unit| unit.pages().contains(&page));
                let unit = unit.unwrap_or(Superpage::around(page, 0));
                match random(&mut state) % 8 {
                    0 => {
                        let block = Superpage::around(page, (random(&mut state) % 4) as u8 + 1);
                        if block.order > unit.order {
                            counts.promote(block);
                            tlb.retain(|&unit| !block.holds(unit));
                            built.retain(|&unit| !block.holds(unit));
                            built.insert(block);
                        }
                    }
                    1 if unit.order > 0 => {
                        if tlb.remove(&unit) {
                            counts.leave(unit);
                        }
                        counts.demote(unit);
                        built.remove(&unit);
                    }
                    _ if tlb.contains(&unit) => {
                        tlb.remove(&unit);
                        counts.leave(unit);
                    }
                    _ => {
                        let charged = (unit.order + 1..=TOP)
                            .find(|&order| scanned(&tlb, &built, Superpage::around(page, order)) > 0);
                        assert_eq!(counts.first_held(unit), charged);
                        tlb.insert(unit);
                        counts.enter(unit);
                    }
                }
                for order in 0..=TOP {
                    for first in (0..48).step_by(1 << order) {
                        let block = Superpage { first, order };
                        assert_eq!(counts.get(block), scanned(&tlb, &built, block), "{block:?}");
                    }
                }
            }
        }
    }
}
