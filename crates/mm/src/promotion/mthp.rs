//! Which sizes khugepaged collapses parts of a block to: automatic multi-size huge pages.
//!
//! Source: Nico Pache, "khugepaged: add mTHP collapse support", version 19 of June 2026, announced for Linux 7.2
//! (`mthp_collapse`, `collapse_max_ptes_none`, `collapse_possible_orders` and `__collapse_huge_page_isolate` of
//! `mm/khugepaged.c`). [`Mthp::Scaled`] is the rule of the versions from February to August 2025.
//!
//! The thread goes forward through a block of the huge page's size. At each place it tries the enabled sizes from the
//! largest that is aligned there down, and goes on behind what it tried last. A part that one page of its size or
//! larger maps is passed over, and so is one with a page that such a page has left when it was taken apart, as its
//! frames stay together until memory runs short. A part with a page that is a parent's or a child's too is tried in
//! smaller parts.

use super::{Request, View};
use crate::{Superpage, Vma};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Order of the smallest pages of anonymous memory but base pages.
const LEAST: u8 = 2;

/// Which sizes below the huge page khugepaged collapses to, and how many pages of a part may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mthp {
    /// None, as up to Linux 7.1.
    #[default]
    Never,
    /// Those that are enabled. All pages of a part but one may be missing where all but one of the huge page may, else
    /// none: other numbers the kernel warns of.
    Strict,
    /// Those that are enabled. As large a share of a part may be missing as of the huge page, rounded down: by more
    /// than a half a part grows from scan to scan, as each collapse fills enough for the next size.
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

/// Base pages that still lie in the frames of a superpage that was taken apart.
#[derive(Clone, Debug)]
pub(super) struct SplitRemains {
    /// Order of the huge page.
    huge: u8,
    /// By number of huge block: the order of what each page was a part of, 0 if of nothing.
    orders: FxHashMap<u64, Vec<u8>>,
}

impl SplitRemains {
    /// None.
    pub fn new(huge: u8) -> SplitRemains {
        SplitRemains { huge, orders: FxHashMap::default() }
    }

    /// A superpage was taken apart.
    pub fn add(&mut self, unit: Superpage) {
        self.set(unit.pages(), unit.order);
    }

    /// Nothing backs these pages any more, or something else does.
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
                // Pages of a range are gone one by one, and then the range: only that is worth a look.
                if end - at > 1 && orders.iter().all(|&order| order == 0) {
                    self.orders.remove(&block.number());
                }
            }
            at = end;
        }
    }

    /// Whether a page of a part lies in the frames of a superpage of the part's size or larger.
    fn reach_into(&self, part: Superpage) -> bool {
        let block = Superpage::around(part.first, self.huge);
        let first = (part.first - block.first) as usize;
        let orders =
            self.orders.get(&block.number()).map(|orders| &orders[first..first + part.len() as usize]);
        orders.is_some_and(|orders| orders.iter().any(|&order| order >= part.order))
    }
}

/// The sizes, and what they need.
#[derive(Clone, Debug)]
pub(super) struct CollapseSizes {
    /// Order of the huge page.
    pub huge: u8,
    pub mthp: Mthp,
    /// Base pages that may be missing of the huge page.
    pub max_ptes_none: u64,
    /// What parts below the huge page are passed over for, if they are.
    pub remains: Option<SplitRemains>,
}

/// What becomes of a part when a size is tried.
enum SizeAttempt {
    Collapse,
    /// Nothing, and no smaller size is tried.
    PassOver,
    Smaller,
}

impl CollapseSizes {
    /// Orders that parts of an area may be collapsed to, a bit each, of those that it may have. Without a whole block
    /// an area has none.
    pub fn possible(&self, area: &Vma, allowed: u32, view: &View<'_>) -> u32 {
        let orders = if self.mthp == Mthp::Never { allowed & 1 << self.huge } else { allowed };
        let fits = |order: &u8| orders >> order & 1 == 1 && !view.blocks_of(area, *order).is_empty();
        (LEAST..=self.huge).filter(fits).fold(0, |orders, order| orders | 1 << order)
    }

    /// Whether there are smaller sizes than one to try.
    pub fn has_smaller(&self, order: u8, orders: u32) -> bool {
        self.mthp != Mthp::Never && order > LEAST && orders & ((1 << order) - 1) != 0
    }

    /// Adds what a block is collapsed to, from pages of order `top` down, which are of the `orders`, a bit each.
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
        // Of the huge page, the scan has looked at what is shared already.
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

    /// Base pages that may be missing of a part of an order.
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
