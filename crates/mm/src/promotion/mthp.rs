//! khugepaged's collapses of parts of a region to smaller sizes: multi-size huge pages.
//!
//! Source: Nico Pache, "khugepaged: add mTHP collapse support", version 19 of June 2026, announced for Linux 7.2
//! (`mthp_collapse`, `collapse_max_ptes_none`, `collapse_possible_orders` and `__collapse_huge_page_isolate` of
//! `mm/khugepaged.c`). [`Mthp::Scaled`] is the rule of the versions from February to August 2025.
//!
//! The thread goes forward through a region. At each place it tries the enabled sizes from the largest aligned one
//! down, and continues after the last try. It skips a part that a page of its size or larger maps, and a part with a
//! page that remains of such a page after a split, because those frames stay together until memory runs short. A part
//! with a page shared with a parent or a child is tried in smaller parts.

use super::{Request, View};
use crate::{Superpage, Vma};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Order of the smallest superpages of anonymous memory.
const LEAST: u8 = 2;

/// The sizes below the huge page that khugepaged collapses to, and the number of pages of a part that may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mthp {
    /// None, as up to Linux 7.1.
    #[default]
    Never,
    /// The enabled sizes. If all pages but one of a huge page may be missing, so may all but one of a part; otherwise
    /// none. The kernel warns about other numbers.
    Strict,
    /// The enabled sizes. The same share of a part may be missing as of the huge page, rounded down. Above one half a
    /// part grows from scan to scan, since each collapse fills enough for the next size.
    Scaled,
}

impl Mthp {
    /// The rule with this name; an unknown name is `None`.
    pub fn from_name(name: &str) -> Option<Mthp> {
        match name {
            "never" => Some(Mthp::Never),
            "strict" => Some(Mthp::Strict),
            "scaled" => Some(Mthp::Scaled),
            _ => None,
        }
    }
}

/// Base pages in the frames of split superpages.
#[derive(Clone, Debug)]
pub(super) struct SplitRemains {
    /// Order of the huge page.
    huge: u8,
    /// By number of region: the order of each page's former superpage, or 0.
    orders: FxHashMap<u64, Vec<u8>>,
}

impl SplitRemains {
    /// No remains.
    pub fn new(huge: u8) -> SplitRemains {
        SplitRemains { huge, orders: FxHashMap::default() }
    }

    /// A superpage split.
    pub fn add(&mut self, unit: Superpage) {
        self.set(unit.pages(), unit.order);
    }

    /// These pages lost their backing or got another.
    pub fn forget(&mut self, pages: Range<u64>) {
        if !self.orders.is_empty() {
            self.set(pages, 0);
        }
    }

    fn set(&mut self, pages: Range<u64>, order: u8) {
        let mut at = pages.start;
        while at < pages.end {
            let block = Superpage::around(at, self.huge);
            let end = pages.end.min(block.pages().end);
            if order > 0 {
                self.orders.entry(block.number()).or_insert_with(|| vec![0; 1 << self.huge]);
            }
            if let Some(orders) = self.orders.get_mut(&block.number()) {
                orders[(at - block.first) as usize..(end - block.first) as usize].fill(order);
                // Pages of a range go one by one before the range itself: check only the latter.
                if end - at > 1 && orders.iter().all(|&order| order == 0) {
                    self.orders.remove(&block.number());
                }
            }
            at = end;
        }
    }

    /// Whether a page of a part remains of a superpage of the part's size or larger.
    fn reach_into(&self, part: Superpage) -> bool {
        let block = Superpage::around(part.first, self.huge);
        let first = (part.first - block.first) as usize;
        let orders =
            self.orders.get(&block.number()).map(|orders| &orders[first..first + part.len() as usize]);
        orders.is_some_and(|orders| orders.iter().any(|&order| order >= part.order))
    }
}

/// The sizes of collapses, and their conditions.
#[derive(Clone, Debug)]
pub(super) struct CollapseSizes {
    /// Order of the huge page.
    pub huge: u8,
    pub mthp: Mthp,
    /// Most missing base pages of a huge page.
    pub max_ptes_none: u64,
    /// Remains of split superpages, if they make the thread skip parts.
    pub remains: Option<SplitRemains>,
}

/// The result of trying a size for a part.
enum SizeAttempt {
    Collapse,
    /// Skip it, without trying smaller sizes.
    PassOver,
    Smaller,
}

impl CollapseSizes {
    /// Orders for collapses in an area, one bit each, of the `allowed` ones. None if it holds no whole region.
    pub fn possible(&self, area: &Vma, allowed: u32, view: &View<'_>) -> u32 {
        let orders = if self.mthp == Mthp::Never { allowed & 1 << self.huge } else { allowed };
        let fits = |order: &u8| orders >> order & 1 == 1 && !view.blocks_of(area, *order).is_empty();
        (LEAST..=self.huge).filter(fits).fold(0, |orders, order| orders | 1 << order)
    }

    /// Whether there are sizes below `order` to try.
    pub fn has_smaller(&self, order: u8, orders: u32) -> bool {
        self.mthp != Mthp::Never && order > LEAST && orders & ((1 << order) - 1) != 0
    }

    /// Requests collapses in a region, from order `top` down, to the `orders` (one bit each).
    pub fn collapses(
        &self,
        block: Superpage,
        top: u8,
        orders: u32,
        view: &View<'_>,
        requests: &mut Vec<Request>,
    ) {
        let mut part = Superpage { first: block.first, order: top };
        while part.first < block.pages().end {
            match self.attempt(part, orders, view) {
                SizeAttempt::Smaller if self.has_smaller(part.order, orders) => {
                    part.order -= 1;
                    continue;
                }
                SizeAttempt::Collapse => requests.push(Request::Promote(part)),
                SizeAttempt::Smaller | SizeAttempt::PassOver => {}
            }
            part.first = part.pages().end;
            part.order = top.min(part.first.trailing_zeros() as u8);
        }
    }

    fn attempt(&self, part: Superpage, orders: u32, view: &View<'_>) -> SizeAttempt {
        let missing = part.len() - view.table.backed_in(part);
        if orders >> part.order & 1 == 0 || missing > self.may_miss(part.order) {
            return SizeAttempt::Smaller;
        }
        // The scan has checked sharing for the huge page.
        if part.order == self.huge {
            return SizeAttempt::Collapse;
        }
        if view.table.mapped(part.first).is_some_and(|unit| unit.holds(part)) {
            return SizeAttempt::PassOver;
        }
        if self.remains.as_ref().is_some_and(|remains| remains.reach_into(part)) {
            return SizeAttempt::PassOver;
        }
        if view.shared_in(part) > 0 { SizeAttempt::Smaller } else { SizeAttempt::Collapse }
    }

    /// Most missing base pages of a part of an order.
    fn may_miss(&self, order: u8) -> u64 {
        match self.mthp {
            _ if order == self.huge => self.max_ptes_none,
            Mthp::Scaled => self.max_ptes_none >> (self.huge - order),
            _ if self.max_ptes_none + 1 == 1 << self.huge => (1 << order) - 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_missing_is_all_but_one_or_nothing_or_the_same_share() {
        let of = |mthp, max_ptes_none| {
            let sizes = CollapseSizes { huge: 9, mthp, max_ptes_none, remains: None };
            [2, 4, 8, 9].map(|order| sizes.may_miss(order))
        };
        assert_eq!(of(Mthp::Strict, 511), [3, 15, 255, 511]);
        assert_eq!(of(Mthp::Strict, 0), [0, 0, 0, 0]);
        // The kernel warns, and takes none below the huge page.
        assert_eq!(of(Mthp::Strict, 510), [0, 0, 0, 510]);
        assert_eq!(of(Mthp::Strict, 255), [0, 0, 0, 255]);
        // 511 / 128 = 3.99, 511 / 32 = 15.97; 255 / 128 = 1.99, 255 / 32 = 7.97; 100 / 128, 100 / 32 = 3.1, 100 / 2.
        assert_eq!(of(Mthp::Scaled, 511), [3, 15, 255, 511]);
        assert_eq!(of(Mthp::Scaled, 255), [1, 7, 127, 255]);
        assert_eq!(of(Mthp::Scaled, 100), [0, 3, 50, 100]);
        assert_eq!(of(Mthp::Scaled, 0), [0, 0, 0, 0]);
    }
}
