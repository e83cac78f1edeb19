//! HawkEye: promotes the regions with most pages in use first, and recovers memory that huge pages waste (Panwar,
//! Bansal and Gopinath 2019, "HawkEye: efficient fine-grained OS support for huge pages"). Gaps of the paper follow the
//! authors' kernel (`mm/ohp.c` of github.com/apanwariisc/HawkEye), which itself has buckets that double instead of the
//! paper's equal ones.
//!
//! A sample clears the accessed bits of base pages, and after a window counts the used ones of each region: its
//! *coverage*, a moving average. Regions are in buckets by coverage. A thread promotes a number of regions at a time,
//! from the highest bucket down. If the process backs too much memory, huge pages with many untouched base pages (the
//! paper's "filled with zeros") split, and those pages are freed.
//!
//! Modelled: one process. Not modelled: sharing among processes by measured overhead; clearing pages ahead of faults,
//! so all clearing is charged at the fault; touched pages that hold zeros, since traces have no data.

use super::khugepaged::is_collapsible;
use super::setting::{SettingError, Settings};
use super::{Actions, Policy, PolicyEvent, Request, Rules, View, may_be_huge};
use crate::{Superpage, Vma};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Settings of HawkEye.
// Many fields: one for each key of `[os]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HawkEyeSettings {
    /// Order of the huge page: 9 for 2 MiB of 4 KiB.
    pub order: u8,
    /// Whether faults map huge pages if possible, as in the paper while there are free ones: true. False is the paper's
    /// case of fragmented memory.
    pub at_fault: bool,
    /// Time between the starts of samples: 30,000. More than the window.
    pub sample_millisecs: u64,
    /// Length of a sample: 1,000.
    pub window_millisecs: u64,
    /// Coverage per bucket: 50 base pages of 512.
    pub bucket_pages: u64,
    /// Number of buckets: 10; the last is for 450 pages and more.
    pub buckets: usize,
    /// Weight of a new sample in the moving average, in percent: 60, as in the authors' kernel. Averages begin at 0.
    pub sample_weight: u64,
    /// Time between runs of the promoting thread: 10,000, khugepaged's, as in the authors' kernel.
    pub promote_sleep_millisecs: u64,
    /// Promotions per run: 8, khugepaged's, as in the authors' kernel.
    pub promotions: usize,
    /// Bytes that the process may back, for the watermarks. `None`: the physical memory, including frames of others, or
    /// no limit if there is none.
    pub memory: Option<u64>,
    /// Percent of it above which recovery of wasted memory starts: 85.
    pub high_watermark: u64,
    /// Percent of it at which recovery stops: 70. No promotions during recovery, which is chosen.
    pub low_watermark: u64,
    /// Untouched base pages that make recovery split a huge page: 256 of 512, chosen.
    pub wasted_pages: u64,
    /// Instructions that the program executes in a millisecond: 1,000,000, chosen.
    pub instructions_per_millisecond: u64,
    /// Cycles to check a base page: 10, chosen.
    pub cycles_per_page: u64,
}

impl HawkEyeSettings {
    /// The paper's settings for huge pages of this order.
    pub fn new(order: u8) -> HawkEyeSettings {
        HawkEyeSettings {
            order,
            at_fault: true,
            sample_millisecs: 30_000,
            window_millisecs: 1000,
            bucket_pages: ((50 << order) / 512).max(1),
            buckets: 10.min(1 << order),
            sample_weight: 60,
            promote_sleep_millisecs: 10_000,
            promotions: 8,
            memory: None,
            high_watermark: 85,
            low_watermark: 70,
            wasted_pages: (1 << order) / 2,
            instructions_per_millisecond: 1_000_000,
            cycles_per_page: 10,
        }
    }

    fn check(&self) -> Result<(), SettingError> {
        let settings = Settings("hawkeye");
        settings.order(self.order)?;
        settings.within("window_millisecs", self.window_millisecs, 1..=u64::MAX - 1)?;
        settings.within("sample_millisecs", self.sample_millisecs, self.window_millisecs + 1..=u64::MAX)?;
        settings.within("bucket_pages", self.bucket_pages, 1..=1 << self.order)?;
        settings.within("buckets", self.buckets, 1..=1 << self.order)?;
        settings.within("sample_weight", self.sample_weight, 0..=100)?;
        settings.within("promote_sleep_millisecs", self.promote_sleep_millisecs, 1..=u64::MAX)?;
        settings.within("high_watermark", self.high_watermark, 1..=100)?;
        settings.within("low_watermark", self.low_watermark, 1..=self.high_watermark)?;
        settings.within("wasted_pages", self.wasted_pages, 1..=1 << self.order)?;
        settings.clock(self.instructions_per_millisecond)
    }

    fn time(&self, millisecs: u64) -> u64 {
        self.instructions_per_millisecond.saturating_mul(millisecs)
    }
}

/// HawkEye's policy.
#[derive(Clone, Debug)]
pub struct HawkEye {
    settings: HawkEyeSettings,
    next_sample: u64,
    /// The start of the open window, if any.
    window: Option<u64>,
    next_run: u64,
    coverage: FxHashMap<u64, u64>,
    /// Block numbers by bucket; the first is promoted first.
    buckets: Vec<VecDeque<u64>>,
    /// Whether recovery is in progress.
    recovers: bool,
    /// Used and total frames of the physical memory.
    physical: Option<[u64; 2]>,
}

impl HawkEye {
    /// A policy with these settings.
    pub fn new(settings: HawkEyeSettings) -> Result<HawkEye, SettingError> {
        settings.check()?;
        Ok(HawkEye {
            settings,
            next_sample: settings.time(settings.sample_millisecs),
            window: None,
            next_run: settings.time(settings.promote_sleep_millisecs),
            coverage: FxHashMap::default(),
            buckets: vec![VecDeque::new(); settings.buckets],
            recovers: false,
            physical: None,
        })
    }

    fn closes(&self) -> Option<u64> {
        self.window.map(|start| start.saturating_add(self.settings.time(self.settings.window_millisecs)))
    }

    fn bucket(&self, coverage: u64) -> usize {
        ((coverage / self.settings.bucket_pages) as usize).min(self.buckets.len() - 1)
    }

    /// Ends a sample that began at `start`; returns its cycles.
    fn sample(&mut self, start: u64, view: &View<'_>) -> u64 {
        let mut cycles = 0;
        let order = self.settings.order;
        let areas = view.space.areas().filter(|area| self.takes(area));
        let blocks: Vec<u64> = areas.flat_map(|area| view.blocks_of(area, order)).collect();
        for number in blocks {
            let block = Superpage { first: number << order, order };
            if !is_collapsible(block, view) {
                continue;
            }
            cycles += block.len() * self.settings.cycles_per_page;
            let is_used = |page: &u64| view.uses.last_use(*page).is_some_and(|at| at >= start);
            let used = block.pages().filter(is_used).count() as u64;
            self.note(number, used);
        }
        cycles
    }

    /// Adds a sample to a region's coverage. A region that rises to a bucket goes to its head, one that falls to its
    /// tail.
    fn note(&mut self, number: u64, used: u64) {
        let weight = self.settings.sample_weight;
        let before = self.coverage.get(&number).copied();
        let coverage = (before.unwrap_or(0) * (100 - weight) + used * weight) / 100;
        self.coverage.insert(number, coverage);
        let (from, to) = (before.map(|before| self.bucket(before)), self.bucket(coverage));
        if from == Some(to) {
            return;
        }
        if let Some(from) = from {
            self.buckets[from].retain(|&other| other != number);
        }
        if from.is_some_and(|from| from > to) {
            self.buckets[to].push_back(number);
        } else {
            self.buckets[to].push_front(number);
        }
    }

    /// Promotes from the highest bucket down, except regions unused in the last samples.
    fn promote(&mut self, view: &View<'_>, requests: &mut Vec<Request>) {
        let mut left = self.settings.promotions;
        for bucket in (0..self.buckets.len()).rev() {
            let mut kept = VecDeque::new();
            while let Some(number) = self.buckets[bucket].pop_front() {
                let block = Superpage { first: number << self.settings.order, order: self.settings.order };
                let fits = view.area_of(block).is_some_and(|area| self.takes(area));
                if !fits || !is_collapsible(block, view) {
                    self.coverage.remove(&number);
                } else if left == 0 || self.coverage[&number] == 0 {
                    kept.push_back(number);
                } else {
                    self.coverage.remove(&number);
                    requests.push(Request::Promote(block));
                    left -= 1;
                }
            }
            self.buckets[bucket] = kept;
        }
    }

    /// Recovers wasted memory by ascending address, if too much is backed. True while recovery is in progress.
    fn recover(&mut self, view: &View<'_>, requests: &mut Vec<Request>, cycles: &mut u64) -> bool {
        let bytes = |pages: u64| pages << view.base.shift();
        let (mut backed, memory) = match (self.settings.memory, self.physical) {
            (Some(memory), _) => (bytes(view.table.backed()), memory),
            (None, Some([used, frames])) => (bytes(used), bytes(frames)),
            (None, None) => return false,
        };
        let above =
            |backed: u64, percent: u64| u128::from(backed) * 100 > u128::from(memory) * u128::from(percent);
        let watermark =
            if self.recovers { self.settings.low_watermark } else { self.settings.high_watermark };
        self.recovers = above(backed, watermark);
        if !self.recovers {
            return false;
        }
        let pages = |area: &Vma| area.start >> view.base.shift()..area.end.div_ceil(view.base.bytes());
        let own = view.space.areas().filter(|area| !area.is_hugetlb());
        let units = own.flat_map(|area| view.table.units_in(pages(area)));
        let is_huge =
            |unit: &Superpage| unit.order == self.settings.order && !view.table.is_foreign(unit.first);
        for unit in units.filter(is_huge) {
            if !above(backed, self.settings.low_watermark) {
                break;
            }
            *cycles += unit.len() * self.settings.cycles_per_page;
            let wasted = unit.len() - view.table.touched_in(unit);
            if wasted >= self.settings.wasted_pages {
                requests.push(Request::Trim(unit));
                backed -= bytes(wasted);
            }
        }
        true
    }
}

impl Policy for HawkEye {
    fn rules(&self) -> Rules {
        let instructions_per_millisecond = self.settings.instructions_per_millisecond;
        Rules {
            reads_uses: true,
            instructions_per_millisecond,
            ..Rules::new(1 << self.settings.order).to_base_pages()
        }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Memory(memory) => self.physical = Some([memory.used_frames(), memory.frames()]),
            PolicyEvent::Wake { now, view } => self.look(now, view, actions),
            _ => {}
        }
    }

    fn takes(&self, area: &Vma) -> bool {
        may_be_huge(area)
    }

    fn fault_orders(&self, _page: u64, area: Option<&Vma>) -> u32 {
        let huge = self.settings.at_fault && area.is_some_and(|area| self.takes(area));
        u32::from(huge) << self.settings.order
    }

    fn wakes(&self) -> Option<u64> {
        Some(self.closes().unwrap_or(self.next_sample).min(self.next_run))
    }
}

impl HawkEye {
    fn look(&mut self, now: u64, view: &View<'_>, actions: &mut Actions) {
        let Actions { requests, cycles, .. } = actions;
        if let Some(start) = self.window
            && self.closes().is_some_and(|at| at <= now)
        {
            *cycles += self.sample(start, view);
            self.window = None;
            self.next_sample =
                start.saturating_add(self.settings.time(self.settings.sample_millisecs)).max(now + 1);
        } else if self.window.is_none() && self.next_sample <= now {
            self.window = Some(now);
        }
        if self.next_run <= now {
            self.next_run = now.saturating_add(self.settings.time(self.settings.promote_sleep_millisecs));
            if !self.recover(view, requests, cycles) {
                self.promote(view, requests);
            }
        }
    }
}
