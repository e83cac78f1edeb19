//! Linux: THP modes, `MADV_COLLAPSE` and khugepaged.

use super::{Attributes, PromotionModel, Rules};
use std::collections::BTreeSet;
use std::ops::Range;

/// The settings, and the state of khugepaged.
#[derive(Clone, Debug)]
pub struct Linux {
    /// `always`, `madvise` or `never`.
    pub enabled: &'static str,
    /// The mode of each order: `always`, `madvise`, `inherit` or `never`.
    pub sizes: Vec<&'static str>,
    /// khugepaged, if it runs.
    pub scanning: Option<ScanSettings>,
}

/// khugepaged's settings and state.
#[derive(Clone, Debug)]
pub struct ScanSettings {
    /// Time between scans.
    pub period: u64,
    /// Maximum number of pages per scan.
    pub pages_to_scan: u64,
    /// Maximum number of missing pages of a block.
    pub max_none: u64,
    /// The mode of collapses to sizes below the huge page: `never`, `strict` or `scaled`.
    pub mthp: &'static str,
    /// Whether it also collapses the remains of split superpages to those sizes.
    pub mthp_remains: bool,
    /// The next page to scan; `None` at the beginning.
    pub position: Option<u64>,
}

impl Linux {
    /// Whether memory with these attributes may have pages of this order.
    pub fn allows(&self, order: u8, attributes: Attributes, forbidden: u8) -> bool {
        let mode = match self.sizes.get(order as usize) {
            Some(&"inherit") => self.enabled,
            Some(&mode) => mode,
            None => "never",
        };
        let is_forbidden = forbidden == 1 || forbidden == 2 && attributes.advice != 14;
        attributes.piece == 0
            && !is_forbidden
            && match mode {
                "always" => attributes.advice != 15,
                "madvise" => attributes.advice == 14,
                _ => false,
            }
    }
}

impl PromotionModel {
    /// A call of `MADV_COLLAPSE`.
    pub fn collapse(&mut self, range: Range<u64>) {
        if !matches!(self.rules, Rules::Linux(_)) || self.forbidden == 1 {
            return;
        }
        for number in self.number(range.start)..=self.number(range.end) {
            let block = self.block(number);
            let is_whole = range.start <= block.start && block.end <= range.end;
            let fits = self.one_area(block).is_some_and(|attributes| self.takes(attributes));
            if is_whole && fits && self.tables.contains(&number) {
                self.promote(number);
            }
        }
    }

    pub(super) fn run_linux(&mut self, mut linux: Linux) {
        let Some(mut scan) = linux.scanning.clone() else { return };
        if !self.now.is_multiple_of(scan.period) {
            return;
        }
        let (mut progress, mut beginnings) = (0, 0);
        let mut collapsed = BTreeSet::new();
        while progress < scan.pages_to_scan {
            beginnings += u32::from(scan.position.is_none());
            if beginnings == 2 {
                break;
            }
            progress += 1;
            scan.position = self.scan_on(&linux, &scan, &mut progress, &mut collapsed);
        }
        linux.scanning = Some(scan);
        self.rules = Rules::Linux(linux);
    }

    /// Continues the scan until a block was checked for collapses, the page limit is reached, or memory ends. Each
    /// block is collapsed at most once per scan.
    fn scan_on(
        &mut self,
        linux: &Linux,
        scan: &ScanSettings,
        progress: &mut u64,
        collapsed: &mut BTreeSet<u64>,
    ) -> Option<u64> {
        let size = 1u64 << self.huge;
        let mut at = scan.position.unwrap_or(0);
        for (area, attributes) in self.areas() {
            if area.end <= at {
                continue;
            }
            let orders = self.collapse_orders(linux, scan, &area, attributes);
            let (first, end) = (area.start.next_multiple_of(size), area.end / size * size);
            if orders.is_empty() || at > end {
                *progress += 1;
                continue;
            }
            at = at.max(first);
            for number in first / size..end / size {
                if number * size < at {
                    continue;
                }
                at = (number + 1) * size;
                *progress += size;
                let missing = size - self.backed(self.block(number));
                let is_whole = orders == [self.huge];
                if self.is_candidate(number) && (!is_whole || missing <= scan.max_none) {
                    let before = self.mapped.clone();
                    if !collapsed.contains(&number) {
                        self.collapse_parts(scan, &orders, self.block(number), self.huge);
                    }
                    if self.mapped != before {
                        collapsed.insert(number);
                    }
                    return Some(at);
                }
                if *progress >= scan.pages_to_scan {
                    return Some(at);
                }
            }
        }
        None
    }

    /// The orders to which parts of an area are collapsed.
    fn collapse_orders(
        &self,
        linux: &Linux,
        scan: &ScanSettings,
        area: &Range<u64>,
        attributes: Attributes,
    ) -> Vec<u8> {
        let is_possible = |&order: &u8| {
            let size = 1u64 << order;
            (order == self.huge || scan.mthp != "never")
                && linux.allows(order, attributes, self.forbidden)
                && area.start.next_multiple_of(size) < area.end / size * size
        };
        (2..=self.huge).filter(is_possible).collect()
    }

    /// Collapses a part, or else its halves, as in the first versions of the kernel patches.
    fn collapse_parts(&mut self, scan: &ScanSettings, orders: &[u8], part: Range<u64>, order: u8) {
        let size = 1u64 << order;
        let may_miss = match scan.mthp {
            _ if order == self.huge => scan.max_none,
            "scaled" => scan.max_none / (1 << (self.huge - order)),
            _ if scan.max_none == (1 << self.huge) - 1 => size - 1,
            _ => 0,
        };
        if orders.contains(&order) && self.backed(part.clone()) + may_miss >= size {
            let mut units = self.mapped.range(part.clone()).map(|(_, &order)| order);
            let mut remains = self.remains.range(part.clone()).map(|(_, &order)| order);
            let in_way =
                units.any(|unit| unit >= order) || !scan.mthp_remains && remains.any(|unit| unit >= order);
            if order < self.huge && in_way {
                return;
            }
            for page in part.clone() {
                self.mapped.insert(page, order);
                self.remains.remove(&page);
            }
            if order == self.huge {
                self.tables.remove(&self.number(part.start));
            }
        } else if orders.iter().any(|&smaller| smaller < order) {
            let middle = part.start + size / 2;
            self.collapse_parts(scan, orders, part.start..middle, order - 1);
            self.collapse_parts(scan, orders, middle..part.end, order - 1);
        }
    }
}
