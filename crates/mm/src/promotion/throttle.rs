//! THROTTLE: a policy that is switched off where it does not pay (Romer 1998, section 6.5).

use super::{AtMap, Miss, Policy, Request, Reserve, View};
use crate::frames::Buddy;
use crate::kernel::{Account, Accounts, PageTable};
use crate::{AddressSpace, Superpage, Vma};
use pagewalk_trace::ThpDisable;
use pagewalk_units::PageSize;
use std::ops::Range;

/// When a policy is switched off and on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Instructions after which misses are looked at: 10,000,000 in the source.
    pub window: u64,
    /// Misses per instruction of a window above which the policy is switched off: 0.001.
    pub trip: f64,
    /// Cycles of overhead per instruction below which it is switched on again: 0.02.
    pub target: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { window: 10_000_000, trip: 0.001, target: 0.02 }
    }
}

/// Switches a policy off when misses stay frequent, until its overhead (bookkeeping and copying) is small beside the
/// instructions executed, both counted since it was switched on last; the source does not say from when.
///
/// While it is off, misses are not charged and cost nothing, and nothing is promoted. It still hears of what TLBs hold,
/// as it would find that out by a look at them when it is switched on.
#[derive(Clone)]
pub struct Throttle {
    inner: Box<dyn Policy>,
    limits: Limits,
    on: bool,
    /// Where the window began, and its misses.
    window_start: u64,
    misses: u64,
    /// Instructions and overhead when it was switched on last.
    on_since: u64,
    spent_before: u64,
}

impl Throttle {
    /// `inner` within `limits`.
    pub fn new(inner: Box<dyn Policy>, limits: Limits) -> Throttle {
        Throttle { inner, limits, on: true, window_start: 0, misses: 0, on_since: 0, spent_before: 0 }
    }

    fn spent(accounts: &Accounts) -> u64 {
        accounts.of(Account::Bookkeeping).saturating_add(accounts.of(Account::Copy))
    }

    /// Nothing happens between two misses, so both ends of a window are seen at the miss that follows.
    fn look(&mut self, now: u64, accounts: &Accounts) {
        if self.on && now - self.window_start >= self.limits.window {
            let instructions = (now - self.window_start) as f64;
            self.on = self.misses as f64 / instructions <= self.limits.trip;
            (self.window_start, self.misses) = (now, 0);
        }
        if !self.on {
            let spent = Throttle::spent(accounts);
            let overhead = (spent - self.spent_before) as f64;
            if overhead < self.limits.target * (now - self.on_since) as f64 {
                self.on = true;
                (self.window_start, self.misses) = (now, 0);
                (self.on_since, self.spent_before) = (now, spent);
            }
        }
    }
}

impl Policy for Throttle {
    fn orders(&self) -> u32 {
        self.inner.orders()
    }

    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn takes(&self, area: &Vma) -> bool {
        self.inner.takes(area)
    }

    fn ignores_areas(&self) -> bool {
        self.inner.ignores_areas()
    }

    fn fault_orders(&self, page: u64, area: Option<&Vma>) -> u32 {
        self.inner.fault_orders(page, area)
    }

    fn touched(&mut self, page: u64, table: &PageTable, wishes: &mut Vec<Superpage>) {
        let before = wishes.len();
        self.inner.touched(page, table, wishes);
        if !self.on {
            wishes.truncate(before);
        }
    }

    fn gone(&mut self, page: u64) {
        self.inner.gone(page);
    }

    fn part_orders(&self) -> u32 {
        self.inner.part_orders()
    }

    fn in_place(&self, block: Superpage) -> bool {
        self.inner.in_place(block)
    }

    fn reserves(&self) -> Option<Reserve> {
        self.inner.reserves()
    }

    fn refused(&mut self, block: Superpage) {
        self.inner.refused(block);
    }

    fn swapped(&mut self, block: Superpage) {
        self.inner.swapped(block);
    }

    fn backs_areas(&self) -> bool {
        self.inner.backs_areas()
    }

    fn at_map(&self, area: &Vma, pages: u64) -> AtMap {
        self.inner.at_map(area, pages)
    }

    fn sees(&mut self, memory: &Buddy) {
        self.inner.sees(memory);
    }

    fn forbidden(&mut self, mode: ThpDisable) {
        self.inner.forbidden(mode);
    }

    fn slept(&mut self, nanoseconds: u64) -> u64 {
        self.inner.slept(nanoseconds)
    }

    fn wakes(&self) -> Option<u64> {
        self.inner.wakes()
    }

    fn woken(&mut self, now: u64, view: &View<'_>, requests: &mut Vec<Request>) -> u64 {
        let before = requests.len();
        let cycles = self.inner.woken(now, view, requests);
        if !self.on {
            requests.truncate(before);
        }
        cycles
    }

    fn advised(&mut self, pages: Range<u64>, advice: i32, view: &View<'_>, requests: &mut Vec<Request>) {
        // The program's own wish: no policy's guess of what pays.
        self.inner.advised(pages, advice, view, requests);
    }

    fn lost(&mut self, pages: Range<u64>, base: PageSize, space: &AddressSpace) {
        self.inner.lost(pages, base, space);
    }

    fn walked(&mut self, unit: Superpage) {
        self.inner.walked(unit);
    }

    fn watches_tlbs(&self) -> bool {
        true
    }

    fn watch(&mut self, entries: &[u64]) {
        self.inner.watch(entries);
    }

    fn missed(&mut self, miss: Miss, accounts: &Accounts) -> u64 {
        self.look(miss.instructions, accounts);
        self.misses += u64::from(self.on);
        if self.on { self.inner.missed(miss, accounts) } else { 0 }
    }

    fn entered(&mut self, tlb: usize, unit: Superpage) {
        self.inner.entered(tlb, unit);
    }

    fn left(&mut self, tlb: usize, unit: Superpage) {
        self.inner.left(tlb, unit);
    }

    fn due(&mut self, unit: Superpage) -> Option<Superpage> {
        if self.on { self.inner.due(unit) } else { None }
    }

    fn promoted(&mut self, block: Superpage) {
        self.inner.promoted(block);
    }

    fn demoted(&mut self, block: Superpage) {
        self.inner.demoted(block);
    }
}
