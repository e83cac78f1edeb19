//! khugepaged: Linux's thread that scans memory and collapses base pages into huge ones.
//!
//! Source: Linux 6.18, `mm/khugepaged.c` (`khugepaged_do_scan`, `khugepaged_scan_mm_slot`, `hpage_collapse_scan_pmd`),
//! and `Documentation/admin-guide/mm/transhuge.rst`.
//!
//! The thread serves this process only. Time is instructions plus sleep of the process. Two of the kernel's settings
//! have no meaning here: `max_ptes_swap`, because partly swapped-out regions are not collapsed, and `defrag`, because
//! the memory decides about compaction. Pages count as shared with a child while it lives, as far as the simulation
//! knows, and with a parent until they are copied, because the parent's fate is unknown. If it finds no huge page, the
//! kernel sleeps and continues, and the second failure ends the scan: here a scan continues to its end and the sleep
//! follows. The condition that at least one page was used lately always holds, because only reclaim clears accessed
//! bits.
//!
//! The scan requests collapses to smaller sizes ([`Mthp`]), which happen at its end. If one finds no frames, or a part
//! swapped out, smaller sizes are tried one instruction later.

use super::linux::LinuxError;
use super::mthp::{CollapseSizes, Mthp, SplitRemains};
use super::{PolicyEvent, Request, View};
use crate::{Superpage, Vma};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// The settings in `/sys/kernel/mm/transparent_hugepage/khugepaged`, and those of simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Khugepaged {
    /// Base pages per scan; a skipped area counts as one: 4,096.
    pub pages_to_scan: u64,
    /// Sleep between scans: 10,000. 0 counts as 1, because a scan takes time too.
    pub scan_sleep_millisecs: u64,
    /// Sleep after a scan that found no free huge page: 60,000.
    pub alloc_sleep_millisecs: u64,
    /// Most unbacked base pages of a region: 511, all but one of a huge page.
    pub max_ptes_none: u64,
    /// Most base pages of a region shared with a parent or a child: 256, half of a huge page.
    pub max_ptes_shared: u64,
    /// Collapses to sizes below the huge page: none, as up to Linux 7.1.
    pub mthp: Mthp,
    /// Whether such sizes may collapse remains of split superpages: false, because the kernel skips those.
    pub mthp_remains: bool,
    /// Instructions that the program executes in a millisecond: 1,000,000, chosen.
    pub instructions_per_millisecond: u64,
    /// Cycles to check a base page's entry: 10, chosen.
    pub cycles_per_page: u64,
}

impl Khugepaged {
    /// The kernel's defaults for huge pages of this order.
    pub fn new(huge: u8) -> Khugepaged {
        Khugepaged {
            pages_to_scan: 8 << huge,
            scan_sleep_millisecs: 10_000,
            alloc_sleep_millisecs: 60_000,
            max_ptes_none: (1 << huge) - 1,
            max_ptes_shared: (1 << huge) / 2,
            mthp: Mthp::Never,
            mthp_remains: false,
            instructions_per_millisecond: 1_000_000,
            cycles_per_page: 10,
        }
    }

    pub(super) fn check(&self, huge: u8) -> Result<(), LinuxError> {
        let max = (1 << huge) - 1;
        match self {
            Khugepaged { pages_to_scan: 0, .. } => Err(LinuxError::PagesToScan),
            Khugepaged { instructions_per_millisecond: 0, .. } => Err(LinuxError::Clock),
            Khugepaged { max_ptes_none: given, .. } if *given > max => {
                Err(LinuxError::MaxPtesNone { given: *given, max })
            }
            _ => Ok(()),
        }
    }

    fn sleep(&self) -> u64 {
        self.instructions_per_millisecond.saturating_mul(self.scan_sleep_millisecs.max(1))
    }
}

/// The state of the thread.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    settings: Khugepaged,
    sizes: CollapseSizes,
    /// Order of the huge page.
    huge: u8,
    /// First byte of the next region; `None` at the start of memory.
    position: Option<u64>,
    /// Time of the last scan.
    ran: u64,
    next: u64,
    /// Requests of the last scan without an answer yet.
    asked: FxHashSet<Superpage>,
    /// Its failed requests.
    failures: Failures,
}

/// Failed requests of a scan, and their retry.
#[derive(Clone, Debug, Default)]
struct Failures {
    /// Time of the retry with smaller sizes.
    retry: Option<u64>,
    /// Blocks to retry with smaller sizes.
    blocks: Vec<Superpage>,
    /// First pages of regions that lacked frames.
    without_frames: Vec<u64>,
    /// First pages of regions with a collapse.
    collapsed: FxHashSet<u64>,
}

impl Scan {
    /// A thread that has just gone to sleep.
    pub fn new(settings: Khugepaged, huge: u8) -> Scan {
        let Khugepaged { mthp, max_ptes_none, mthp_remains, .. } = settings;
        let remembers = mthp != Mthp::Never && !mthp_remains;
        let sizes =
            CollapseSizes { huge, mthp, max_ptes_none, remains: remembers.then(|| SplitRemains::new(huge)) };
        let (asked, failures) = (FxHashSet::default(), Failures::default());
        Scan { settings, sizes, huge, position: None, ran: 0, next: settings.sleep(), asked, failures }
    }

    /// Time of the next scan or retry.
    pub fn next(&self) -> u64 {
        self.failures.retry.map_or(self.next, |retry| retry.min(self.next))
    }

    /// Handles an event.
    pub fn on(&mut self, event: PolicyEvent<'_>) {
        match event {
            PolicyEvent::Refused(block) => self.refused(block),
            PolicyEvent::Swapped(block) => self.swapped(block),
            PolicyEvent::Promoted(block) => self.built(block),
            PolicyEvent::Demoted(unit) => self.taken_apart(unit),
            PolicyEvent::Gone(page) => self.gone(page..page + 1),
            PolicyEvent::Lost { pages, .. } => self.gone(pages.clone()),
            _ => {}
        }
    }

    /// A region, of the last scan or another, got no frames.
    fn refused(&mut self, block: Superpage) {
        if !self.asked.remove(&block) {
            return;
        }
        if self.settings.mthp == Mthp::Never {
            self.sleep_longer();
            return;
        }
        self.failures.without_frames.push(self.huge_around(block).first);
        self.try_smaller(block);
    }

    /// A part of a region, of the last scan or another, is swapped out.
    fn swapped(&mut self, block: Superpage) {
        if self.settings.mthp != Mthp::Never && self.asked.remove(&block) {
            self.try_smaller(block);
        }
    }

    /// A superpage split.
    fn taken_apart(&mut self, unit: Superpage) {
        if let Some(remains) = &mut self.sizes.remains {
            remains.add(unit);
        }
    }

    /// These pages are no longer backed.
    fn gone(&mut self, pages: Range<u64>) {
        if let Some(remains) = &mut self.sizes.remains {
            remains.forget(pages);
        }
    }

    /// A superpage was built.
    fn built(&mut self, block: Superpage) {
        self.gone(block.pages());
        if self.settings.mthp != Mthp::Never && self.asked.remove(&block) {
            self.failures.collapsed.insert(self.huge_around(block).first);
        }
    }

    fn huge_around(&self, block: Superpage) -> Superpage {
        Superpage::around(block.first, self.huge)
    }

    fn try_smaller(&mut self, block: Superpage) {
        self.failures.blocks.push(block);
        self.failures.retry.get_or_insert(self.ran.saturating_add(1));
    }

    /// Sleeps longer after finding no free block.
    fn sleep_longer(&mut self) {
        let sleep =
            self.settings.instructions_per_millisecond.saturating_mul(self.settings.alloc_sleep_millisecs);
        self.next = self.next.max(self.ran.saturating_add(sleep));
    }

    /// Does what is due by `now`. `allowed` gives the orders that an area may have, one bit each. Returns the cycles of
    /// scanning.
    pub fn run(
        &mut self,
        now: u64,
        view: &View<'_>,
        allowed: impl Fn(&Vma) -> u32,
        requests: &mut Vec<Request>,
    ) -> u64 {
        let (called, mut cycles) = (requests.len(), 0);
        if self.failures.retry.take_if(|retry| *retry <= now).is_some() {
            self.retry(now, view, &allowed, requests);
        }
        if self.next <= now {
            cycles = self.scan(now, view, &allowed, requests);
        }
        self.asked.extend(requests[called..].iter().map(|request| match request {
            Request::Promote(block) | Request::Trim(block) => *block,
        }));
        cycles
    }

    /// Retries failed regions with smaller sizes. If nothing is left to try, sleeps longer if some region lacked frames
    /// and had no collapse.
    fn retry(
        &mut self,
        now: u64,
        view: &View<'_>,
        allowed: impl Fn(&Vma) -> u32,
        requests: &mut Vec<Request>,
    ) {
        let called = requests.len();
        for block in std::mem::take(&mut self.failures.blocks) {
            let orders = view.area_of(self.huge_around(block)).map_or(0, &allowed);
            if self.sizes.has_smaller(block.order, orders) {
                self.sizes.collapses(block, block.order - 1, orders, view, requests);
            }
        }
        if requests.len() > called {
            self.failures.retry = Some(now.saturating_add(1));
            return;
        }
        let Failures { without_frames, collapsed, .. } = std::mem::take(&mut self.failures);
        if without_frames.iter().any(|first| !collapsed.contains(first)) {
            self.sleep_longer();
        }
    }

    /// One scan.
    fn scan(
        &mut self,
        now: u64,
        view: &View<'_>,
        allowed: impl Fn(&Vma) -> u32,
        requests: &mut Vec<Request>,
    ) -> u64 {
        let (mut progress, mut begun, mut cycles) = (0, 0, 0);
        self.asked.clear();
        self.failures = Failures::default();
        while progress < self.settings.pages_to_scan {
            // It passes the start only once: what follows was just scanned.
            begun += u32::from(self.position.is_none());
            if begun == 2 {
                break;
            }
            cycles += self.go_on(&mut progress, view, &allowed, requests);
        }
        self.ran = now;
        self.next = now.saturating_add(self.settings.sleep());
        cycles
    }

    /// Advances to the next region to examine for collapses, to the end of memory, or to the end of the scan's budget.
    fn go_on(
        &mut self,
        progress: &mut u64,
        view: &View<'_>,
        allowed: impl Fn(&Vma) -> u32,
        requests: &mut Vec<Request>,
    ) -> u64 {
        let Khugepaged { pages_to_scan, cycles_per_page, .. } = self.settings;
        let huge = self.huge;
        let shift = view.base.shift() + u32::from(huge);
        let (mut at, mut cycles) = (self.position.unwrap_or(0), 0);
        *progress += 1;
        for area in view.space.areas_from(at) {
            let orders = self.sizes.possible(area, allowed(area), view);
            let end = area.end >> shift << shift;
            if orders == 0 || at > end {
                *progress += 1;
                continue;
            }
            at = at.max(view.blocks_of(area, huge).start << shift);
            while at < end {
                let block = Superpage { first: at >> view.base.shift(), order: huge };
                // Requests of this scan happen at its end.
                let is_done = requests.contains(&Request::Promote(block));
                let collapsible = !is_done && is_collapsible(block, view);
                cycles += if collapsible { block.len() * cycles_per_page } else { 0 };
                at += 1 << shift;
                *progress += block.len();
                self.position = Some(at);
                if collapsible && self.looks_for_collapses(block, orders, view) {
                    if !has_requests_in(block, requests) {
                        self.sizes.collapses(block, huge, orders, view, requests);
                    }
                    return cycles;
                }
                if *progress >= pages_to_scan {
                    return cycles;
                }
            }
        }
        self.position = None;
        cycles
    }

    /// Whether few enough pages of a region are missing or shared. With sizes below the huge page, those limit missing
    /// pages.
    fn looks_for_collapses(&self, block: Superpage, orders: u32, view: &View<'_>) -> bool {
        let missing = block.len() - view.table.backed_in(block);
        let is_whole = orders == 1 << self.huge;
        (!is_whole || missing <= self.settings.max_ptes_none)
            && view.shared_in(block) <= self.settings.max_ptes_shared
    }
}

fn has_requests_in(block: Superpage, requests: &[Request]) -> bool {
    let is_in = |request: &Request| match request {
        Request::Promote(unit) | Request::Trim(unit) => block.holds(*unit),
    };
    requests.iter().any(is_in)
}

/// Whether some of a region is mapped, but not as one page.
pub(super) fn is_collapsible(block: Superpage, view: &View<'_>) -> bool {
    view.table.mapped(block.first).is_none_or(|unit| !unit.holds(block)) && view.table.backed_in(block) > 0
}
