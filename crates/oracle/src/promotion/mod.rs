//! Reference model of memory under policies that build superpages, with one entry per page. The rules of each policy
//! are in a separate file.

mod hawkeye;
mod linux;

pub use hawkeye::HawkEye;
pub use linux::{Linux, ScanSettings};

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Attributes of pages: neighbours with equal attributes are in one area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// 0 for private anonymous memory, whose mappings merge; else a unique number per mapping.
    pub piece: u64,
    /// Whether it may be written.
    pub write: bool,
    /// 14 if huge pages were advised, 15 if they were advised against, else 0.
    pub advice: i32,
}

/// The policy.
#[derive(Clone, Debug)]
pub enum Rules {
    /// Linux.
    Linux(Linux),
    /// FreeBSD.
    Reservations {
        /// Whether freeing a page breaks the reservation of its block.
        broken_by_gaps: bool,
    },
    /// Ingens.
    Ingens {
        /// Least number of backed pages of a block.
        threshold: u64,
        /// Time between runs of the promotion thread.
        period: u64,
    },
    /// HawkEye.
    HawkEye(HawkEye),
}

/// The memory of one process.
#[derive(Clone, Debug)]
pub struct PromotionModel {
    /// The policy.
    pub rules: Rules,
    /// The order of superpages.
    pub huge: u8,
    /// The mapped pages with their attributes.
    pub memory: BTreeMap<u64, Attributes>,
    /// The backed pages, with the order of the page that maps them.
    pub mapped: BTreeMap<u64, u8>,
    /// Pages that the program has touched.
    pub touched: BTreeSet<u64>,
    /// The time of the last use of each page.
    pub used: BTreeMap<u64, u64>,
    /// Base pages of hugetlb memory, whose pages are as large as blocks.
    pub hugetlb: BTreeSet<u64>,
    /// 1 if all huge pages are forbidden, 2 if those that were not advised are.
    pub forbidden: u8,
    /// The current time.
    pub now: u64,
    /// Linux: blocks that have a lowest-level page table.
    tables: BTreeSet<u64>,
    /// Linux: pages that were part of a superpage, with its order.
    remains: BTreeMap<u64, u8>,
    /// FreeBSD: blocks whose reservation is broken.
    broken: BTreeSet<u64>,
    /// Ingens: blocks requested for promotion.
    asked: Vec<u64>,
}

impl PromotionModel {
    /// A model with nothing mapped.
    pub fn new(rules: Rules, huge: u8) -> PromotionModel {
        PromotionModel {
            rules,
            huge,
            memory: BTreeMap::new(),
            mapped: BTreeMap::new(),
            touched: BTreeSet::new(),
            used: BTreeMap::new(),
            hugetlb: BTreeSet::new(),
            forbidden: 0,
            now: 0,
            tables: BTreeSet::new(),
            remains: BTreeMap::new(),
            broken: BTreeSet::new(),
            asked: Vec::new(),
        }
    }

    fn around(page: u64, order: u8) -> Range<u64> {
        let size = 1 << order;
        page / size * size..page / size * size + size
    }

    fn block(&self, number: u64) -> Range<u64> {
        number << self.huge..(number + 1) << self.huge
    }

    fn number(&self, page: u64) -> u64 {
        page >> self.huge
    }

    /// The attributes of the pages of a range, if they are all the same.
    fn one_area(&self, pages: Range<u64>) -> Option<Attributes> {
        let first = *self.memory.get(&pages.start)?;
        let alike = self.memory.range(pages.clone()).filter(|&(_, &attributes)| attributes == first).count();
        (alike as u64 == pages.end - pages.start).then_some(first)
    }

    fn backed(&self, pages: Range<u64>) -> u64 {
        self.mapped.range(pages).count() as u64
    }

    /// Whether memory with these attributes may have superpages.
    fn takes(&self, attributes: Attributes) -> bool {
        match self.rules {
            Rules::Reservations { .. } => true,
            _ => attributes.piece == 0 && attributes.advice != 15,
        }
    }

    /// Whether a block is partly or fully mapped by smaller pages, in memory that may have superpages.
    fn is_candidate(&self, number: u64) -> bool {
        let block = self.block(number);
        let is_huge = self.mapped.get(&block.start) == Some(&self.huge);
        let fits = self.one_area(block.clone()).is_some_and(|attributes| self.takes(attributes));
        let fits = fits && !self.hugetlb.contains(&block.start);
        fits && !is_huge && self.backed(block) > 0
    }

    fn promote(&mut self, number: u64) {
        for page in self.block(number) {
            self.mapped.insert(page, self.huge);
            self.remains.remove(&page);
        }
        self.tables.remove(&number);
    }

    /// Splits the page that maps `page` into base pages.
    fn take_apart(&mut self, page: u64) {
        let order = self.mapped[&page];
        for part in Self::around(page, order) {
            self.mapped.insert(part, 0);
            self.remains.insert(part, order);
        }
        self.tables.insert(self.number(page));
    }

    /// Splits superpages that cross the ends of a range.
    fn part_at_ends(&mut self, range: &Range<u64>) {
        for page in [range.start, range.end - 1] {
            let Some(&order) = self.mapped.get(&page) else { continue };
            let unit = Self::around(page, order);
            if unit.start < range.start || range.end < unit.end {
                self.take_apart(page);
            }
        }
    }

    /// Maps pages, replacing what was mapped there.
    pub fn map(&mut self, range: Range<u64>, piece: u64) {
        let before = self.runs(range.clone(), |_| true);
        for page in range {
            self.hugetlb.remove(&page);
            self.memory.insert(page, Attributes { piece, write: true, advice: 0 });
        }
        before.into_iter().for_each(|run| self.lose(run));
    }

    /// Maps whole blocks of hugetlb memory, replacing what was mapped there.
    pub fn map_hugetlb(&mut self, range: Range<u64>, piece: u64) {
        self.map(range.clone(), piece);
        self.hugetlb.extend(range);
    }

    /// The range extended to whole hugetlb blocks.
    pub fn whole(&self, range: Range<u64>) -> Range<u64> {
        let block = |page: u64| self.block(self.number(page));
        let is_hugetlb = |page: u64| self.hugetlb.contains(&page);
        let start = if is_hugetlb(range.start) { block(range.start).start } else { range.start };
        let end = if is_hugetlb(range.end - 1) { block(range.end - 1).end } else { range.end };
        start..end
    }

    /// Unmaps pages.
    pub fn unmap(&mut self, range: Range<u64>) {
        let before = self.runs(range.clone(), |_| true);
        self.memory.retain(|page, _| !range.contains(page));
        self.hugetlb.retain(|page| !range.contains(page));
        before.into_iter().for_each(|run| self.lose(run));
    }

    /// Discards pages.
    pub fn discard(&mut self, range: Range<u64>) {
        self.lose(range);
    }

    /// Changes the write permission.
    pub fn protect(&mut self, range: Range<u64>, write: bool) {
        let others = self.runs(range.clone(), |attributes| attributes.write != write);
        self.memory.range_mut(range).for_each(|(_, attributes)| attributes.write = write);
        others.iter().for_each(|run| self.part_at_ends(run));
    }

    /// Advises for or against huge pages.
    pub fn advise(&mut self, range: Range<u64>, advice: i32) {
        self.memory.range_mut(range.clone()).for_each(|(_, attributes)| attributes.advice = advice);
        for page in [range.start, range.end - 1] {
            let Some(&order) = self.mapped.get(&page) else { continue };
            if self.one_area(Self::around(page, order)).is_none() {
                self.take_apart(page);
            }
        }
    }

    /// Runs of adjacent mapped pages in a range whose attributes are `wanted`.
    fn runs(&self, range: Range<u64>, wanted: impl Fn(&Attributes) -> bool) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (&page, _) in self.memory.range(range).filter(|(_, attributes)| wanted(attributes)) {
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }

    /// Removes the backing of a range.
    fn lose(&mut self, range: Range<u64>) {
        self.part_at_ends(&range);
        for page in range.clone() {
            self.mapped.remove(&page);
            self.remains.remove(&page);
            self.used.remove(&page);
            if self.touched.remove(&page)
                && matches!(self.rules, Rules::Reservations { broken_by_gaps: true })
            {
                self.broken.insert(self.number(page));
            }
        }
        for number in self.number(range.start)..=self.number(range.end - 1) {
            let block = self.block(number);
            if self.touched.range(block.clone()).next().is_none() {
                self.broken.remove(&number);
            }
            let is_whole = range.start <= block.start && block.end <= range.end;
            let has_memory = self.memory.range(block.clone()).next().is_some();
            if !has_memory || is_whole && self.one_area(block).is_some() {
                self.tables.remove(&number);
            }
        }
    }

    /// References a page.
    pub fn touch(&mut self, page: u64) {
        self.used.insert(page, self.now);
        if self.touched.contains(&page) {
            return;
        }
        if !self.mapped.contains_key(&page) {
            let is_hugetlb = self.hugetlb.contains(&page);
            let order = if is_hugetlb { self.huge } else { self.fault_order(page) };
            for page in Self::around(page, order) {
                self.mapped.insert(page, order);
            }
        }
        self.touched.insert(page);
        let number = self.number(page);
        let block = self.block(number);
        match self.rules {
            Rules::Linux(_) if self.mapped[&page] < self.huge => _ = self.tables.insert(number),
            Rules::Reservations { .. } => {
                let is_full = block.clone().all(|page| self.touched.contains(&page));
                let is_huge = self.mapped[&page] == self.huge;
                if is_full && !is_huge && !self.broken.contains(&number) && self.one_area(block).is_some() {
                    self.promote(number);
                }
            }
            Rules::Ingens { threshold, .. }
                if self.mapped[&page] < self.huge
                    && self.backed(block) >= threshold
                    && !self.asked.contains(&number) =>
            {
                self.asked.push(number);
            }
            _ => {}
        }
    }

    /// The largest possible order that the policy uses for a first touch.
    fn fault_order(&self, page: u64) -> u8 {
        let is_possible = |order: u8| {
            let block = Self::around(page, order);
            let attributes = self.one_area(block.clone());
            let wanted = attributes.is_some_and(|attributes| match &self.rules {
                Rules::Linux(linux) => {
                    let has_table = order == self.huge && self.tables.contains(&self.number(page));
                    linux.allows(order, attributes, self.forbidden) && !has_table
                }
                Rules::HawkEye(hawkeye) => hawkeye.at_fault && order == self.huge && self.takes(attributes),
                _ => false,
            });
            wanted && self.backed(block) == 0
        };
        (1..=self.huge).rev().find(|&order| is_possible(order)).unwrap_or(0)
    }

    /// Lets time pass.
    pub fn wait(&mut self, time: u64) {
        for _ in 0..time {
            self.now += 1;
            match self.rules.clone() {
                Rules::Linux(linux) => self.run_linux(linux),
                Rules::Ingens { threshold, period } if self.now.is_multiple_of(period) => {
                    for number in std::mem::take(&mut self.asked) {
                        if self.is_candidate(number) && self.backed(self.block(number)) >= threshold {
                            self.promote(number);
                        }
                    }
                }
                Rules::HawkEye(hawkeye) => self.run_hawkeye(hawkeye),
                _ => {}
            }
        }
    }

    /// The areas by ascending address, with their pages and attributes.
    fn areas(&self) -> Vec<(Range<u64>, Attributes)> {
        let mut areas: Vec<(Range<u64>, Attributes)> = Vec::new();
        for (&page, &attributes) in &self.memory {
            match areas.last_mut() {
                Some((area, same)) if area.end == page && *same == attributes => area.end += 1,
                _ => areas.push((page..page + 1, attributes)),
            }
        }
        areas
    }
}
