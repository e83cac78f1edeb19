//! APPROX-ONLINE: builds a superpage once the misses that it would have prevented have paid for it (Romer 1998,
//! sections 3.4.3 and 3.5.2).

use super::tlb_counts::TlbCounts;
use super::{Actions, Policy, PolicyEvent, Rules, up_to};
use crate::Superpage;
use crate::kernel::tree::Tree;
use pagewalk_units::PageSize;

/// The break-even point of superpages (section 3.3.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakEven {
    /// Size of a base page.
    pub base: PageSize,
    /// Cycles to build a superpage, per KiB. 3,000 in the source.
    pub copy_per_kib: u64,
    /// Cycles of a TLB miss, without bookkeeping. 30 in the source.
    pub miss_cycles: u64,
}

impl BreakEven {
    /// The misses that cost as much as building a superpage of this order: the source's R.
    pub fn even(&self, order: u8) -> f64 {
        let kib = (self.base.bytes() << order) / 1024;
        self.copy_per_kib as f64 * kib as f64 / self.miss_cycles as f64
    }

    /// A share of break-even by order, in whole misses, at least one.
    pub(crate) fn thresholds(&self, top: u8, share: f64) -> Vec<u64> {
        (0..=top).map(|order| (self.even(order) * share).ceil().max(1.0) as u64).collect()
    }
}

/// Settings of deferred charges: blocks pass charges on to larger blocks in batches (section 3.5.2), because large
/// superpages are rarely due. Building a superpage counts waiting charges; until then, superpages above the eager size
/// may be built late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deferral {
    /// Order up to which every miss is charged immediately: 64 KiB in the source.
    pub eager: u8,
    /// A block passes its charges on when they reach this share of the next size's threshold. The source only says that
    /// the larger block cannot be due before: 0.5, chosen, because the other half may have as much.
    pub batch: f64,
}

/// Charges waiting to be passed on.
#[derive(Clone, Debug)]
struct DeferredCharges {
    eager: u8,
    /// Charges per batch, by order.
    batches: Vec<u64>,
    /// Waiting charges by block, from the eager size up.
    charges: Tree<u64>,
}

/// Charges each miss to every block around the page with an entry in the TLB: as one page, it would have prevented the
/// miss. Builds blocks whose charges reach the threshold.
///
/// Each TLB has its own counts; charges are common. If several sizes are due at one miss, the smallest is built first.
/// A block that cannot be built keeps its charges, and is tried again at its next miss.
#[derive(Clone, Debug)]
pub struct ApproxOnline {
    top: u8,
    orders: u32,
    /// Thresholds by order.
    thresholds: Vec<u64>,
    bookkeeping: u64,
    tlbs: Vec<TlbCounts>,
    /// Charges, without those waiting in blocks inside.
    prefetch: Tree<u64>,
    deferred: Option<DeferredCharges>,
}

impl ApproxOnline {
    /// A policy for superpages up to order `top`, at the share `threshold` of break-even (0.125 in the source); a miss
    /// costs `bookkeeping` cycles (100).
    pub fn new(top: u8, prices: &BreakEven, threshold: f64, bookkeeping: u64) -> ApproxOnline {
        ApproxOnline {
            top,
            orders: up_to(top),
            thresholds: prices.thresholds(top, threshold),
            bookkeeping,
            tlbs: Vec::new(),
            prefetch: Tree::from_order(1, top),
            deferred: None,
        }
    }

    /// Defers charges.
    pub fn deferring(self, Deferral { eager, batch }: Deferral) -> ApproxOnline {
        let eager = eager.max(1);
        let of_next = |order: usize| self.thresholds.get(order + 1).map_or(u64::MAX, |&of_next| of_next);
        let batches = (0..=usize::from(self.top)).map(of_next);
        let batches = batches.map(|of_next| ((of_next as f64 * batch) as u64).max(1)).collect();
        let deferred = (eager < self.top).then(|| DeferredCharges {
            eager,
            batches,
            charges: Tree::from_order(eager, self.top),
        });
        ApproxOnline { deferred, ..self }
    }

    /// Restricts superpages to these orders, one bit each, none above the largest.
    pub fn only(mut self, orders: u32) -> ApproxOnline {
        self.orders &= orders;
        self
    }

    /// The charges of a block, including waiting ones.
    pub fn charges(&self, block: Superpage) -> u64 {
        self.prefetch.get(block) + self.waiting(block)
    }

    /// The charges of a block without waiting ones, which decide.
    pub fn known_charges(&self, block: Superpage) -> u64 {
        self.prefetch.get(block)
    }

    /// The number of counters in use.
    pub fn counters(&self) -> usize {
        let deferred = self.deferred.as_ref().map_or(0, |deferred| deferred.charges.len());
        self.prefetch.len() + deferred + self.tlbs.iter().map(TlbCounts::len).sum::<usize>()
    }

    /// Charges of a block waiting in blocks inside it.
    fn waiting(&self, block: Superpage) -> u64 {
        let Some(DeferredCharges { eager, charges, .. }) = &self.deferred else { return 0 };
        let of_order = |order: u8| {
            let inside = block.pages().step_by(1 << order);
            inside.map(|first| charges.get(Superpage { first, order })).sum::<u64>()
        };
        (*eager..block.order).map(of_order).sum()
    }

    /// Charges a miss. Returns the order of the smallest charged block; all blocks around it are charged too.
    pub(super) fn charge(&mut self, tlb: usize, unit: Superpage) -> Option<u8> {
        let first = self.tlbs[tlb].first_held(unit)?;
        // The largest block to charge now.
        let last = self.deferred.as_ref().map_or(self.top, |deferred| deferred.eager.max(first));
        self.prefetch.climb(unit.first, first, |order, charges| {
            *charges += 1;
            order < last
        });
        if let Some(DeferredCharges { batches, charges, .. }) = &mut self.deferred {
            let (top, prefetch, mut passed_on) = (self.top, &mut self.prefetch, 1);
            charges.climb(unit.first, last, |order, waiting| {
                *waiting += passed_on;
                if order == top || *waiting < batches[usize::from(order)] {
                    return false;
                }
                passed_on = std::mem::take(waiting);
                *prefetch.get_mut(Superpage::around(unit.first, order + 1)) += passed_on;
                true
            });
        }
        Some(first)
    }

    /// Passes waiting charges in a block on to the blocks around it.
    fn settle(&mut self, block: Superpage) {
        let waiting = self.waiting(block);
        let Some(deferred) = &mut self.deferred else { return };
        *self.prefetch.get_mut(block) += waiting;
        deferred.charges.fill_inside(block, 0);
        let (prefetch, mut passed_on) = (&mut self.prefetch, waiting);
        deferred.charges.climb(block.first, block.order, |order, waiting| {
            if order > block.order {
                *prefetch.get_mut(Superpage::around(block.first, order)) += passed_on;
            }
            passed_on += std::mem::take(waiting);
            true
        });
    }

    /// A superpage was built, and translations of its parts have left all TLBs. Charges stay.
    pub(super) fn built(&mut self, block: Superpage) {
        self.tlbs.iter_mut().for_each(|tlb| tlb.promote(block));
    }

    pub(super) fn is_due(&self, block: Superpage) -> bool {
        self.suffices(block.order, self.prefetch.get(block))
    }

    /// Whether a block of this order with so many charges is due.
    fn suffices(&self, order: u8, charges: u64) -> bool {
        self.orders >> order & 1 == 1 && charges >= self.thresholds[usize::from(order)]
    }
}

impl Policy for ApproxOnline {
    fn rules(&self) -> Rules {
        Rules { watches_tlbs: true, ..Rules::new(self.orders) }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Tlbs(entries) => {
                self.tlbs = entries.iter().map(|_| TlbCounts::new(self.top)).collect()
            }
            PolicyEvent::Missed { miss, .. } => {
                self.charge(miss.tlb, miss.unit);
                actions.cycles += self.bookkeeping;
            }
            PolicyEvent::Entered { tlb, entry } => self.tlbs[tlb].enter(entry),
            PolicyEvent::Left { tlb, entry, .. } => self.tlbs[tlb].leave(entry),
            PolicyEvent::Promoted(block) => self.promoted(block),
            PolicyEvent::Demoted(block) => self.tlbs.iter_mut().for_each(|tlb| tlb.demote(block)),
            _ => {}
        }
    }

    fn due(&mut self, unit: Superpage) -> Option<Superpage> {
        let is_due = |order, charges| self.suffices(order, charges);
        let order = self.prefetch.smallest(unit.first, unit.order + 1, is_due)?;
        Some(Superpage::around(unit.first, order))
    }
}

impl ApproxOnline {
    fn promoted(&mut self, block: Superpage) {
        self.settle(block);
        // The blocks around it have charges for the same misses, which are now prevented.
        let gained = std::mem::take(self.prefetch.get_mut(block));
        self.prefetch.climb(block.first, block.order + 1, |_, charges| {
            *charges -= gained;
            true
        });
        // If it splits later, its parts start from 0.
        self.prefetch.fill_inside(block, 0);
        self.built(block);
    }
}
