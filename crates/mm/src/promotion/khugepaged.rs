//! khugepaged: Linux's thread that goes through memory and collapses base pages into huge ones.
//!
//! Source: Linux 6.18, `mm/khugepaged.c` (`khugepaged_do_scan`, `khugepaged_scan_mm_slot`, `hpage_collapse_scan_pmd`),
//! and `Documentation/admin-guide/mm/transhuge.rst`.
//!
//! The thread has this process alone. Time is instructions, and sleep of the process. Of the kernel's settings,
//! these have no meaning here:
//! `max_ptes_swap`, as what is swapped out in part is not collapsed; `defrag`, as whether memory is compacted is the
//! memory's. Pages count as shared with a child while that lives, as far as the simulation knows, and with a parent
//! until they are copied, as nobody tells what became of the parent's. Where no huge page is found, the kernel sleeps
//! and goes on, and the second time in a scan ends the scan: here a scan goes to its end, and the sleep follows. That
//! at least one page must have been used lately always holds, as only reclaim clears accessed bits.

use super::linux::LinuxError;
use super::{Request, View};
use crate::{Superpage, Vma};

/// What is set under `/sys/kernel/mm/transparent_hugepage/khugepaged`, and what stands for time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Khugepaged {
    /// How far one scan goes, in base pages; an area that is passed over counts as one: 4,096.
    pub pages_to_scan: u64,
    /// Sleep between two scans: 10,000. 0 is taken as 1, as a scan takes time too.
    pub scan_sleep_millisecs: u64,
    /// Sleep after a scan that found no free huge page: 60,000.
    pub alloc_sleep_millisecs: u64,
    /// Base pages of a block that nothing need back: 511, all but one of a huge page.
    pub max_ptes_none: u64,
    /// Base pages of a block that may be shared with a parent or a child: 256, half of a huge page.
    pub max_ptes_shared: u64,
    /// Instructions that the program executes in a millisecond: 1,000,000, chosen.
    pub instructions_per_millisecond: u64,
    /// Cycles to look at a base page's entry: 10, chosen.
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

/// The thread: where it is, and when it goes on.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    settings: Khugepaged,
    /// Order of the huge page.
    huge: u8,
    /// First byte of the next block; `None` when it begins anew.
    position: Option<u64>,
    /// Instructions executed at the last scan.
    ran: u64,
    next: u64,
}

impl Scan {
    /// It has just gone to sleep.
    pub fn new(settings: Khugepaged, huge: u8) -> Scan {
        Scan { settings, huge, position: None, ran: 0, next: settings.sleep() }
    }

    /// Instructions executed when it scans again.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A block of the last scan found no free huge page.
    pub fn refused(&mut self) {
        let sleep =
            self.settings.instructions_per_millisecond.saturating_mul(self.settings.alloc_sleep_millisecs);
        self.next = self.next.max(self.ran.saturating_add(sleep));
    }

    /// One scan of areas that `takes` accepts. Returns the cycles of looking.
    pub fn run(
        &mut self,
        now: u64,
        view: &View<'_>,
        takes: impl Fn(&Vma) -> bool,
        requests: &mut Vec<Request>,
    ) -> u64 {
        let (mut progress, mut begun, mut cycles) = (0, 0, 0);
        while progress < self.settings.pages_to_scan {
            // It comes by the beginning once: what follows was scanned just now.
            begun += u32::from(self.position.is_none());
            if begun == 2 {
                break;
            }
            cycles += self.go_on(&mut progress, view, &takes, requests);
        }
        self.ran = now;
        self.next = now.saturating_add(self.settings.sleep());
        cycles
    }

    /// Goes on through the areas to the end, to a collapse, or until it has gone far enough.
    fn go_on(
        &mut self,
        progress: &mut u64,
        view: &View<'_>,
        takes: impl Fn(&Vma) -> bool,
        requests: &mut Vec<Request>,
    ) -> u64 {
        let Khugepaged { pages_to_scan, cycles_per_page, .. } = self.settings;
        let huge = self.huge;
        let shift = view.base.shift() + u32::from(huge);
        let (mut at, mut cycles) = (self.position.unwrap_or(0), 0);
        *progress += 1;
        for area in view.space.areas_from(at) {
            let blocks = view.blocks_of(area, huge);
            if !takes(area) || blocks.is_empty() || at > blocks.end << shift {
                *progress += 1;
                continue;
            }
            at = at.max(blocks.start << shift);
            while at < blocks.end << shift {
                let block = Superpage { first: at >> view.base.shift(), order: huge };
                // What this scan has collapsed already is done when the scan ends.
                let is_done = requests.contains(&Request::Promote(block));
                let collapsible = !is_done && is_collapsible(block, view);
                cycles += if collapsible { block.len() * cycles_per_page } else { 0 };
                at += 1 << shift;
                *progress += block.len();
                self.position = Some(at);
                let missing = block.len() - view.table.backed_in(block);
                let shared = view.shared_in(block);
                let few = missing <= self.settings.max_ptes_none && shared <= self.settings.max_ptes_shared;
                if collapsible && few {
                    requests.push(Request::Promote(block));
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
}

/// Whether some of a block is mapped, and not by one page.
pub(super) fn is_collapsible(block: Superpage, view: &View<'_>) -> bool {
    view.table.mapped(block.first).is_none_or(|unit| !unit.holds(block)) && view.table.backed_in(block) > 0
}
