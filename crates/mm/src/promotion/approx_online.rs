//! APPROX-ONLINE: a superpage is built when the misses that it would have prevented have paid for it (Romer 1998,
//! sections 3.4.3 and 3.5.2).

use super::tlb_counts::TlbCounts;
use super::{Miss, Policy, up_to};
use crate::Superpage;
use crate::kernel::Accounts;
use crate::kernel::tree::Tree;
use pagewalk_units::PageSize;

/// When a superpage has paid for itself: the prices, and how much of them is asked (section 3.3.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Break {
    /// Size of a base page.
    pub base: PageSize,
    /// Cycles to build a superpage, for each KiB of it. 3,000 in the source.
    pub copy_per_kib: u64,
    /// Cycles of a TLB miss, without bookkeeping. 30 in the source.
    pub miss_cycles: u64,
}

impl Break {
    /// Misses that building a superpage of this order costs as much as: the source's R.
    pub fn even(&self, order: u8) -> f64 {
        let kib = (self.base.bytes() << order) / 1024;
        self.copy_per_kib as f64 * kib as f64 / self.miss_cycles as f64
    }

    /// A share of that, in whole misses, by order; at least one.
    pub(crate) fn thresholds(&self, top: u8, share: f64) -> Vec<u64> {
        (0..=top).map(|order| (self.even(order) * share).ceil().max(1.0) as u64).collect()
    }
}

/// Charges each miss to every block around the page of which something was in the TLB: as one page, it would have
/// prevented the miss. Builds blocks whose charges reach the threshold.
///
/// Each TLB has counts of its own; the charges are of all together. Where several sizes are due at one miss, the
/// smallest is built first. A block that cannot be built keeps its charges, and is tried again at the next miss in it.
#[derive(Clone, Debug)]
pub struct ApproxOnline {
    top: u8,
    orders: u32,
    /// By order.
    thresholds: Vec<u64>,
    bookkeeping: u64,
    tlbs: Vec<TlbCounts>,
    prefetch: Tree<u64>,
}

impl ApproxOnline {
    /// Superpages of orders up to `top`, at the share `threshold` of break-even (0.125 in the source); a miss costs
    /// `bookkeeping` cycles (100).
    pub fn new(top: u8, prices: &Break, threshold: f64, bookkeeping: u64) -> ApproxOnline {
        let thresholds = prices.thresholds(top, threshold);
        let orders = up_to(top);
        ApproxOnline { top, orders, thresholds, bookkeeping, tlbs: Vec::new(), prefetch: Tree::new(top) }
    }

    /// Only superpages of these orders: a bit each, none above the largest.
    pub fn only(mut self, orders: u32) -> ApproxOnline {
        self.orders &= orders;
        self
    }

    /// One that charges blocks up to this order, and never builds any.
    pub(super) fn charging(top: u8) -> ApproxOnline {
        let thresholds = vec![u64::MAX; usize::from(top) + 1];
        let orders = up_to(top);
        ApproxOnline { top, orders, thresholds, bookkeeping: 0, tlbs: Vec::new(), prefetch: Tree::new(top) }
    }

    /// The charges of a block.
    pub fn charges(&self, block: Superpage) -> u64 {
        self.prefetch.get(block)
    }

    /// Charges a miss. Returns the order of the smallest block that was charged: all around it were.
    pub(super) fn charge(&mut self, tlb: usize, unit: Superpage) -> Option<u8> {
        let first = self.tlbs[tlb].first_held(unit)?;
        self.prefetch.climb(unit.first, first, |_, charges| {
            *charges += 1;
            true
        });
        Some(first)
    }

    /// A superpage was built: translations of its parts have left all TLBs. Charges stay.
    pub(super) fn built(&mut self, block: Superpage) {
        self.tlbs.iter_mut().for_each(|tlb| tlb.promote(block));
    }

    pub(super) fn is_due(&self, block: Superpage) -> bool {
        self.orders >> block.order & 1 == 1
            && self.prefetch.get(block) >= self.thresholds[block.order as usize]
    }
}

impl Policy for ApproxOnline {
    fn orders(&self) -> u32 {
        self.orders
    }

    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn watches_tlbs(&self) -> bool {
        true
    }

    fn watch(&mut self, entries: &[u64]) {
        self.tlbs = entries.iter().map(|_| TlbCounts::new(self.top)).collect();
    }

    fn missed(&mut self, miss: Miss, _accounts: &Accounts) -> u64 {
        self.charge(miss.tlb, miss.unit);
        self.bookkeeping
    }

    fn entered(&mut self, tlb: usize, unit: Superpage) {
        self.tlbs[tlb].enter(unit);
    }

    fn left(&mut self, tlb: usize, unit: Superpage) {
        self.tlbs[tlb].leave(unit);
    }

    fn due(&mut self, unit: Superpage) -> Option<Superpage> {
        unit.ancestors(self.top).find(|&block| self.is_due(block))
    }

    fn promoted(&mut self, block: Superpage) {
        // The blocks around it were charged for the same misses: what is gained is no reason to build them.
        let gained = std::mem::take(self.prefetch.get_mut(block));
        self.prefetch.climb(block.first, block.order + 1, |_, charges| {
            *charges -= gained;
            true
        });
        // Should it be taken apart, its parts start anew, as the blocks around it do.
        self.prefetch.fill_inside(block, 0);
        self.built(block);
    }

    fn demoted(&mut self, block: Superpage) {
        self.tlbs.iter_mut().for_each(|tlb| tlb.demote(block));
    }
}
