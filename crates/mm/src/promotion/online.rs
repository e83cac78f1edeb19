//! ONLINE: APPROX-ONLINE with capacity charges, for misses that a superpage would have prevented by freeing TLB entries
//! (Romer 1998, sections 3.3.2, 3.4.2 and 3.5.3).

use super::approx_online::{ApproxOnline, BreakEven};
use super::capacity::Capacity;
use super::{Actions, Miss, Policy, PolicyEvent, Rules};
use crate::Superpage;

/// Prefetch charges and capacity charges, each with its own threshold; one miss may count as both. In the source a
/// charge must exceed its threshold here, but only reach it in APPROX-ONLINE.
///
/// Capacity charges go to blocks anywhere, also around the missing page. After a miss, due blocks around the page are
/// built first, then those elsewhere, smaller ones first. Promotion resets capacity charges of all blocks that overlap
/// the new superpage; the source resets capacity charges without saying which.
#[derive(Clone, Debug)]
pub struct Online {
    inner: ApproxOnline,
    top: u8,
    bookkeeping: u64,
    /// Thresholds by order.
    thresholds: Vec<u64>,
    capacity: Capacity,
    /// The last miss.
    missed: Superpage,
    /// Due blocks that do not contain it, the next one last.
    elsewhere: Vec<Superpage>,
}

impl Online {
    /// A policy for superpages up to order `top`, at these shares of break-even (0.125 and 0.625 in the source); a miss
    /// costs `bookkeeping` cycles (2,570).
    pub fn new(top: u8, prices: &BreakEven, prefetch: f64, capacity: f64, bookkeeping: u64) -> Online {
        Online {
            inner: ApproxOnline::new(top, prices, prefetch, 0),
            top,
            bookkeeping,
            thresholds: prices.thresholds(top, capacity),
            capacity: Capacity::new(top),
            missed: Superpage::around(0, 0),
            elsewhere: Vec::new(),
        }
    }

    /// Restricts superpages to these orders, one bit each, none above the largest.
    pub fn only(mut self, orders: u32) -> Online {
        self.inner = self.inner.only(orders);
        self
    }

    /// The prefetch charges and the capacity charges of a block.
    pub fn charges(&self, block: Superpage) -> [u64; 2] {
        [self.inner.charges(block), self.capacity.of(block)]
    }

    /// The number of counters in use: those of APPROX-ONLINE, and those of capacity charges.
    pub fn counters(&self) -> [usize; 2] {
        [self.inner.counters(), self.capacity.counters()]
    }

    fn exceeds(&self, block: Superpage) -> bool {
        let legal = self.inner.rules().orders >> block.order & 1 == 1;
        legal && self.capacity.of(block) > self.thresholds[block.order as usize]
    }
}

impl Policy for Online {
    fn rules(&self) -> Rules {
        self.inner.rules()
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        if let PolicyEvent::Missed { miss, .. } = event {
            self.missed(miss);
            actions.cycles += self.bookkeeping;
            return;
        }
        self.inner.on(event, actions);
        match event {
            PolicyEvent::Tlbs(entries) => self.capacity.watch(entries),
            PolicyEvent::Entered { tlb, entry } => self.capacity.entered(tlb, entry),
            PolicyEvent::Left { tlb, entry, lost } => self.capacity.left(tlb, entry, lost),
            PolicyEvent::Promoted(block) => {
                self.capacity.forgive(block);
                self.capacity.built(block);
            }
            PolicyEvent::Demoted(block) => self.capacity.demoted(block),
            _ => {}
        }
    }

    fn due(&mut self, unit: Superpage) -> Option<Superpage> {
        let is_due = |&block: &Superpage| self.inner.is_due(block) || self.exceeds(block);
        let around = unit.holds(self.missed).then(|| unit.ancestors(self.top).find(is_due));
        around.flatten().or_else(|| {
            while let Some(block) = self.elsewhere.pop() {
                // A promotion since then may have reset its charges.
                if self.exceeds(block) {
                    return Some(block);
                }
            }
            None
        })
    }
}

impl Online {
    fn missed(&mut self, miss: Miss) {
        self.inner.charge(miss.tlb, miss.unit);
        let Online { capacity, thresholds, elsewhere, .. } = self;
        elsewhere.clear();
        self.missed = miss.unit;
        let told = |block: Superpage, charges| {
            if charges > thresholds[block.order as usize] && !block.holds(miss.unit) {
                elsewhere.push(block);
            }
        };
        capacity.charge(miss.tlb, miss.entry, |_| true, told);
        elsewhere.sort_unstable_by_key(|block| std::cmp::Reverse((block.order, block.first)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_units::PageSize;

    fn miss(page: u64) -> Miss {
        let unit = Superpage::around(page, 0);
        Miss { tlb: 0, unit, entry: unit, page, frame: None, instructions: 0, cycles: 0 }
    }

    /// Romer 1998, figure 3-2: target U1.
    #[test]
    fn the_worked_example_charges_what_the_source_says() {
        let prices = BreakEven { base: PageSize::FOUR_KIB, copy_per_kib: 3000, miss_cycles: 30 };
        let mut online = Online::new(11, &prices, 0.125, 0.625, 2570);
        let hears = |online: &mut Online, event: PolicyEvent<'_>| online.on(event, &mut Actions::default());
        hears(&mut online, PolicyEvent::Tlbs(&[3]));
        let mut tlb: Vec<u64> = Vec::new();
        for page in [8, 1, 7, 6, 5, 0] {
            online.missed(miss(page));
            if tlb.len() == 3 {
                let entry = Superpage::around(tlb.remove(0), 0);
                hears(&mut online, PolicyEvent::Left { tlb: 0, entry, lost: false });
            }
            hears(&mut online, PolicyEvent::Entered { tlb: 0, entry: Superpage::around(page, 0) });
            tlb.push(page);
        }
        let before = online.clone();
        online.missed(miss(1));
        let charged = |first, order| {
            let block = Superpage { first, order };
            let [now, then] = [online.charges(block), before.charges(block)];
            [now[0] - then[0], now[1] - then[1]]
        };
        assert_eq!(charged(0, 1), [1, 0]);
        assert_eq!(charged(4, 2), [0, 1]);
        // Too small, or without anything of the stack.
        for (first, order) in [(4, 1), (6, 1), (2, 1), (8, 1), (8, 2), (8, 3)] {
            assert_eq!(charged(first, order), [0; 2]);
        }
        // Those around them: {0..3} has an entry in the TLB and merges nothing.
        assert_eq!(charged(0, 2), [1, 0]);
        (3..=11).for_each(|order| assert_eq!(charged(0, order), [1, 1], "order {order}"));
    }
}
