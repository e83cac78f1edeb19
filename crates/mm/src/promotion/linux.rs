//! Linux: transparent huge pages at faults, including multi-size ones, `MADV_COLLAPSE`, and khugepaged.
//!
//! Sources: Linux 6.18, `Documentation/admin-guide/mm/transhuge.rst`; `alloc_anon_folio` and `do_anonymous_page` in
//! `mm/memory.c`; `__thp_vma_allowable_orders` in `mm/huge_memory.c`; `madvise_collapse` in `mm/khugepaged.c`.
//!
//! A first touch takes the largest enabled size whose aligned piece lies wholly inside one private anonymous area
//! (heap, bss and stack included) and is not mapped at all. A huge page also replaces the region's lowest page table,
//! so it needs that to be absent; the table survives when base pages are discarded piece by piece. Pages split into
//! base pages.
//!
//! `prctl(PR_SET_THP_DISABLE)` forbids new huge pages (`vma_thp_disabled` of `include/linux/huge_mm.h`): all, or from
//! Linux 6.18 on all except for advised memory and `MADV_COLLAPSE`. Existing huge pages stay.
//!
//! Not modelled: huge pages of files and of shared memory, the shared zero page that reads get before the first write.
//! Recordings represent the exclusion by `MAP_STACK` as advice.

use super::khugepaged::{Khugepaged, Scan};
use super::mthp::Mthp;
use super::{Actions, Policy, PolicyEvent, Request, Rules, View, may_be_huge};
use crate::kernel::ORDERS;
use crate::{AddressSpace, HugeAdvice, Superpage, ThpMode, Vma};
use pagewalk_trace::ThpDisable;
use pagewalk_units::{PageSize, VirtAddr};
use rustc_hash::FxHashSet;
use std::ops::Range;
use thiserror::Error;

/// The kernel's number of `MADV_COLLAPSE`.
pub const MADV_COLLAPSE: i32 = 25;

/// The mode of one size, as in `/sys/kernel/mm/transparent_hugepage/hugepages-<size>kB/enabled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeMode {
    /// Everywhere except where advised against.
    Always,
    /// Only where advised.
    Madvise,
    /// The mode of [`LinuxSettings::enabled`].
    Inherit,
    /// Nowhere.
    #[default]
    Never,
}

impl SizeMode {
    /// The mode with this name; an unknown name is `None`.
    pub fn from_name(name: &str) -> Option<SizeMode> {
        match name {
            "always" => Some(SizeMode::Always),
            "madvise" => Some(SizeMode::Madvise),
            "inherit" => Some(SizeMode::Inherit),
            "never" => Some(SizeMode::Never),
            _ => None,
        }
    }
}

/// A simulated call of `MADV_COLLAPSE` by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collapse {
    /// First byte.
    pub start: VirtAddr,
    /// Length in bytes.
    pub bytes: u64,
    /// Instructions executed before the call.
    pub at: u64,
}

/// The settings in `/sys/kernel/mm/transparent_hugepage`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinuxSettings {
    /// Order of the huge page: the largest size, and the only one for collapses unless khugepaged's
    /// [`Mthp`](super::Mthp) adds others. 9 for 2 MiB of 4 KiB.
    pub huge: u8,
    /// The mode of the sizes that inherit it.
    pub enabled: ThpMode,
    /// The mode of each size, by order.
    pub sizes: [SizeMode; ORDERS],
    /// The background thread, if it runs.
    pub khugepaged: Option<Khugepaged>,
    /// Calls of `MADV_COLLAPSE` in addition to the program's.
    pub collapse: Vec<Collapse>,
}

/// Why settings are invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinuxError {
    /// A huge page of an invalid order.
    #[error("huge page of order {0}: expected 2 to {max}", max = ORDERS - 1)]
    Huge(u8),
    /// An enabled size that anonymous memory cannot have.
    #[error("pages of order {order} are enabled: anonymous memory has those of orders 2 to {huge}")]
    Size {
        /// The size.
        order: usize,
        /// The largest.
        huge: u8,
    },
    /// Empty scans would never end.
    #[error("khugepaged's pages_to_scan is 0: expected at least 1")]
    PagesToScan,
    /// More missing pages than a huge page has.
    #[error("khugepaged's max_ptes_none is {given}: expected 0 to {max}")]
    MaxPtesNone {
        /// The value given.
        given: u64,
        /// Base pages of a huge page, minus one.
        max: u64,
    },
    /// The clock would stand still.
    #[error("khugepaged's instructions_per_millisecond is 0: expected at least 1")]
    Clock,
}

impl LinuxSettings {
    /// The kernel's defaults in a mode: the huge page inherits the mode, other sizes are off, khugepaged runs.
    pub fn new(huge: u8, enabled: ThpMode) -> LinuxSettings {
        let mut sizes = [SizeMode::Never; ORDERS];
        if let Some(size) = sizes.get_mut(huge as usize) {
            *size = SizeMode::Inherit;
        }
        let khugepaged = Some(Khugepaged::new(huge));
        LinuxSettings { huge, enabled, sizes, khugepaged, collapse: Vec::new() }
    }

    fn check(&self) -> Result<(), LinuxError> {
        if !(2..ORDERS as u8).contains(&self.huge) {
            return Err(LinuxError::Huge(self.huge));
        }
        let possible = 2..=self.huge as usize;
        let wrong = |&order: &usize| self.sizes[order] != SizeMode::Never && !possible.contains(&order);
        if let Some(order) = (0..ORDERS).find(wrong) {
            return Err(LinuxError::Size { order, huge: self.huge });
        }
        self.khugepaged.as_ref().map_or(Ok(()), |settings| settings.check(self.huge))
    }

    /// Orders that some area could have, one bit each.
    fn orders(&self) -> u32 {
        let enabled = |order: &usize| match self.sizes[*order] {
            SizeMode::Always | SizeMode::Madvise => true,
            SizeMode::Inherit => self.enabled != ThpMode::Never,
            SizeMode::Never => false,
        };
        (0..ORDERS).filter(enabled).fold(0, |orders, order| orders | 1 << order)
    }

    /// Orders that an area may have in a process with this ban, one bit each.
    fn allowed(&self, area: &Vma, forbidden: ThpDisable) -> u32 {
        if !may_be_huge(area) {
            return 0;
        }
        let advised = area.advice == HugeAdvice::HugePage;
        if forbidden == ThpDisable::All || forbidden == ThpDisable::ExceptAdvised && !advised {
            return 0;
        }
        let allows = |order: &usize| match (self.sizes[*order], self.enabled) {
            (SizeMode::Always, _) | (SizeMode::Inherit, ThpMode::Always) => true,
            (SizeMode::Madvise, _) | (SizeMode::Inherit, ThpMode::Madvise) => advised,
            (SizeMode::Never, _) | (SizeMode::Inherit, ThpMode::Never) => false,
        };
        (0..ORDERS).filter(allows).fold(0, |orders, order| orders | 1 << order)
    }
}

/// Linux's policy.
#[derive(Clone, Debug)]
pub struct Linux {
    settings: LinuxSettings,
    scan: Option<Scan>,
    /// Pending calls, the next one last.
    collapse: Vec<Collapse>,
    /// Numbers of regions with a lowest page table, which maps base pages or did.
    tables: FxHashSet<u64>,
    /// The process's ban.
    forbidden: ThpDisable,
}

impl Linux {
    /// A policy with these settings.
    pub fn new(settings: LinuxSettings) -> Result<Linux, LinuxError> {
        settings.check()?;
        let mut collapse = settings.collapse.clone();
        collapse.sort_by_key(|call| std::cmp::Reverse(call.at));
        // khugepaged runs while a size that it collapses to is enabled.
        let (huge, orders) = (settings.huge, settings.orders());
        let has_work = |khugepaged: &Khugepaged| match khugepaged.mthp {
            Mthp::Never => orders >> huge & 1 == 1,
            _ => orders != 0,
        };
        let scan = settings.khugepaged.filter(has_work).map(|khugepaged| Scan::new(khugepaged, huge));
        Ok(Linux { settings, scan, collapse, tables: FxHashSet::default(), forbidden: ThpDisable::Off })
    }

    /// The superpages of `MADV_COLLAPSE`: regions wholly inside the range and inside one area that have a lowest page
    /// table, even an empty one, regardless of modes and khugepaged's limits.
    fn collapse(&self, pages: Range<u64>, view: &View<'_>, requests: &mut Vec<Request>) {
        if self.forbidden == ThpDisable::All {
            return;
        }
        let size = 1 << self.settings.huge;
        for first in (pages.start.next_multiple_of(size)..pages.end).step_by(size as usize) {
            let block = Superpage { first, order: self.settings.huge };
            let is_whole = block.pages().end <= pages.end;
            let fits = view.area_of(block).is_some_and(|area| self.takes(area));
            if is_whole && fits && self.tables.contains(&block.number()) {
                requests.push(Request::Promote(block));
            }
        }
    }
}

impl Policy for Linux {
    fn rules(&self) -> Rules {
        let clock = self.settings.khugepaged.map(|khugepaged| khugepaged.instructions_per_millisecond);
        // MADV_COLLAPSE works in every mode.
        let of_orders = Rules::new(self.settings.orders() | 1 << self.settings.huge).to_base_pages();
        let instructions_per_millisecond = clock.unwrap_or(of_orders.instructions_per_millisecond);
        Rules { goes_without: true, instructions_per_millisecond, ..of_orders }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        if let Some(scan) = &mut self.scan {
            scan.on(event);
        }
        let huge = self.settings.huge;
        match event {
            PolicyEvent::Touched { page, table, .. }
                if table.mapped(page).is_some_and(|unit| unit.order < huge) =>
            {
                self.tables.insert(page >> huge);
            }
            PolicyEvent::Promoted(block) if block.order == huge => _ = self.tables.remove(&block.number()),
            PolicyEvent::Demoted(block) => _ = self.tables.insert(block.first >> huge),
            PolicyEvent::Lost { pages, base, space } => self.lose_tables(pages, base, space),
            PolicyEvent::Forbids(mode) => self.forbidden = mode,
            // Calls come by instructions, so sleep delays them.
            PolicyEvent::Slept(slept) => {
                self.collapse.iter_mut().for_each(|call| call.at = call.at.saturating_add(slept));
            }
            PolicyEvent::Wake { now, view } => self.look(now, view, actions),
            PolicyEvent::Advised { pages, advice: MADV_COLLAPSE, view } => {
                self.collapse(pages.clone(), view, &mut actions.requests);
            }
            _ => {}
        }
    }

    fn takes(&self, area: &Vma) -> bool {
        may_be_huge(area)
    }

    fn fault_orders(&self, page: u64, area: Option<&Vma>) -> u32 {
        let allowed = area.map_or(0, |area| self.settings.allowed(area, self.forbidden));
        let has_table = self.tables.contains(&(page >> self.settings.huge));
        if has_table { allowed & !(1 << self.settings.huge) } else { allowed }
    }

    fn wakes(&self) -> Option<u64> {
        let collapse = self.collapse.last().map(|call| call.at);
        let scan = self.scan.as_ref().map(Scan::next);
        [collapse, scan].into_iter().flatten().min()
    }
}

impl Linux {
    /// Removes tables: with the last area of their region (`free_pgtables` of `mm/memory.c`), and when one call
    /// discards the whole region in one area (`mm/pt_reclaim.c`, since Linux 6.14 on x86-64).
    fn lose_tables(&mut self, pages: &Range<u64>, base: PageSize, space: &AddressSpace) {
        let huge = self.settings.huge;
        for block in pages.start >> huge..=pages.end.saturating_sub(1) >> huge {
            let all = block << huge..(block + 1) << huge;
            let is_whole = pages.start <= all.start && all.end <= pages.end;
            let bytes = all.start << base.shift()..all.end << base.shift();
            let area = space.vma_within(bytes.clone());
            if area.is_none_or(|area| is_whole && area.start <= bytes.start && bytes.end <= area.end) {
                self.tables.remove(&block);
            }
        }
    }

    fn look(&mut self, now: u64, view: &View<'_>, Actions { requests, cycles, .. }: &mut Actions) {
        while let Some(call) = self.collapse.pop_if(|call| call.at <= now) {
            let end = call.start.0.saturating_add(call.bytes);
            let pages = call.start.0.div_ceil(view.base.bytes())..end / view.base.bytes();
            self.collapse(pages, view, requests);
        }
        let Linux { settings, scan, forbidden, .. } = self;
        let allowed = |area: &Vma| settings.allowed(area, *forbidden);
        if let Some(scan) = scan.as_mut().filter(|scan| scan.next() <= now) {
            *cycles += scan.run(now, view, allowed, requests);
        }
    }
}
