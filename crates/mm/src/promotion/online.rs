//! ONLINE: APPROX-ONLINE that also charges the misses that a superpage would have prevented by leaving room in the TLB
//! (Romer 1998, sections 3.3.2, 3.4.2 and 3.5.3).

use super::approx_online::{ApproxOnline, Break};
use super::{Miss, Policy};
use crate::Superpage;
use crate::kernel::Accounts;
use crate::kernel::tree::Tree;
use rustc_hash::FxHashMap;

/// Prefetch charges and capacity charges, each with a threshold of its own. The source builds when a charge exceeds its
/// threshold here, and when it reaches it in APPROX-ONLINE.
///
/// Promotion sets the capacity charges of all blocks that overlap the new superpage to 0; the source resets capacity
/// charges and does not say which.
#[derive(Clone, Debug)]
pub struct Online {
    inner: ApproxOnline,
    top: u8,
    bookkeeping: u64,
    /// By order.
    thresholds: Vec<u64>,
    capacity: Tree<u64>,
    tlbs: Vec<Tlb>,
}

/// One TLB's part of the stack of what was used most recently: what it holds comes first, as a set; what it held
/// before follows in order.
#[derive(Clone, Debug)]
struct Tlb {
    entries: u64,
    /// By block: translations inside it that the TLB holds.
    held: Tree<u16>,
    held_in_all: u64,
    stack: Stack,
}

impl Online {
    /// Superpages of orders up to `top`, at these shares of break-even (0.125 and 0.625 in the source); a miss costs
    /// `bookkeeping` cycles (2,570).
    pub fn new(top: u8, prices: &Break, prefetch: f64, capacity: f64, bookkeeping: u64) -> Online {
        Online {
            inner: ApproxOnline::new(top, prices, prefetch, 0),
            top,
            bookkeeping,
            thresholds: prices.thresholds(top, capacity),
            capacity: Tree::new(top),
            tlbs: Vec::new(),
        }
    }

    /// Only superpages of these orders: a bit each, none above the largest.
    pub fn only(mut self, orders: u32) -> Online {
        self.inner = self.inner.only(orders);
        self
    }

    /// The prefetch charges and the capacity charges of a block.
    pub fn charges(&self, block: Superpage) -> [u64; 2] {
        [self.inner.charges(block), self.capacity.get(block)]
    }

    /// Charges a miss to every block that would have kept the unit in the TLB, as one page: without the entries that it
    /// would have merged, the unit would stand no deeper in the stack than the TLB has entries.
    fn charge_capacity(&mut self, miss: Miss) {
        let tlb = &mut self.tlbs[miss.tlb];
        // No block merges more entries than it has pages.
        let most = (1 << self.top) + tlb.entries.saturating_sub(tlb.held_in_all);
        let Some(above) = tlb.stack.above(miss.unit, most as usize) else { return };
        // Its place in the stack, and how much less it must be.
        let depth = tlb.held_in_all + above.len() as u64 + 1;
        let excess = depth.saturating_sub(tlb.entries);
        for block in miss.unit.ancestors(self.top) {
            let among = above.iter().filter(|&&unit| block.holds(unit)).count() as u64;
            let merged = u64::from(tlb.held.get(block)) + among;
            if merged >= 1 && merged > excess {
                *self.capacity.get_mut(block) += 1;
            }
        }
    }
}

impl Tlb {
    fn count(&mut self, unit: Superpage, step: i16) {
        self.held.climb(unit.first, unit.order, |_, held| {
            *held = held.wrapping_add_signed(step);
            true
        });
        self.held_in_all = self.held_in_all.wrapping_add_signed(step.into());
    }
}

impl Policy for Online {
    fn orders(&self) -> u32 {
        self.inner.orders()
    }

    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn watches_tlbs(&self) -> bool {
        true
    }

    fn watch(&mut self, entries: &[u64]) {
        self.inner.watch(entries);
        let tlb = |&entries: &u64| Tlb {
            entries,
            held: Tree::new(self.top),
            held_in_all: 0,
            stack: Stack::default(),
        };
        self.tlbs = entries.iter().map(tlb).collect();
    }

    fn missed(&mut self, miss: Miss, _accounts: &Accounts) -> u64 {
        self.inner.charge(miss.tlb, miss.unit);
        self.charge_capacity(miss);
        self.bookkeeping
    }

    fn entered(&mut self, tlb: usize, unit: Superpage) {
        self.inner.entered(tlb, unit);
        self.tlbs[tlb].count(unit, 1);
        self.tlbs[tlb].stack.remove(unit);
    }

    fn left(&mut self, tlb: usize, unit: Superpage) {
        self.inner.left(tlb, unit);
        self.tlbs[tlb].count(unit, -1);
        self.tlbs[tlb].stack.push(unit);
    }

    fn due(&mut self, unit: Superpage) -> Option<Superpage> {
        let orders = self.inner.orders();
        let exceeds = |block: Superpage| {
            let charges = self.capacity.get(block);
            orders >> block.order & 1 == 1 && charges > self.thresholds[block.order as usize]
        };
        unit.ancestors(self.top).find(|&block| self.inner.is_due(block) || exceeds(block))
    }

    fn promoted(&mut self, block: Superpage) {
        self.inner.promoted(block);
        self.capacity.fill_inside(block, 0);
        self.capacity.climb(block.first, block.order, |_, charges| {
            *charges = 0;
            true
        });
        for tlb in &mut self.tlbs {
            for order in 0..block.order {
                for first in block.pages().step_by(1 << order) {
                    tlb.stack.remove(Superpage { first, order });
                }
            }
            let gone = tlb.held.get(block);
            tlb.held.fill_inside(block, 0);
            tlb.held.climb(block.first, block.order, |_, held| {
                *held -= gone;
                true
            });
            tlb.held_in_all -= u64::from(gone);
        }
    }

    fn demoted(&mut self, block: Superpage) {
        self.inner.demoted(block);
        self.tlbs.iter_mut().for_each(|tlb| tlb.stack.remove(block));
    }
}

/// Units that have left a TLB, the latest first: a list linked through its entries.
#[derive(Clone, Debug, Default)]
struct Stack {
    links: FxHashMap<Superpage, [Option<Superpage>; 2]>,
    top: Option<Superpage>,
}

impl Stack {
    fn push(&mut self, unit: Superpage) {
        self.remove(unit);
        if let Some(below) = self.top.replace(unit) {
            self.links.get_mut(&below).expect("it is in the list")[0] = Some(unit);
            self.links.insert(unit, [None, Some(below)]);
        } else {
            self.links.insert(unit, [None, None]);
        }
    }

    fn remove(&mut self, unit: Superpage) {
        let Some([above, below]) = self.links.remove(&unit) else { return };
        match above {
            Some(above) => self.links.get_mut(&above).expect("it is in the list")[1] = below,
            None => self.top = below,
        }
        if let Some(below) = below {
            self.links.get_mut(&below).expect("it is in the list")[0] = above;
        }
    }

    /// What lies above `unit`, if it is here and no more than `most` do.
    fn above(&self, unit: Superpage, most: usize) -> Option<Vec<Superpage>> {
        if !self.links.contains_key(&unit) {
            return None;
        }
        let mut above = Vec::new();
        let mut at = self.top;
        while let Some(other) = at.filter(|&other| other != unit) {
            if above.len() == most {
                return None;
            }
            above.push(other);
            at = self.links[&other][1];
        }
        Some(above)
    }
}
