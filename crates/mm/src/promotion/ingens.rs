//! Ingens: promotes regions in the background once enough of them is in use (Kwon, Yu, Peter, Rossbach and Witchel
//! 2016, "Coordinated and efficient huge page management with Ingens", section 4).
//!
//! Faults map base pages only. A fault that brings a region to the threshold requests a huge page; a thread serves the
//! requests since its last run, in order. The threshold is a share of the region if memory is fragmented, and otherwise
//! one page.
//!
//! Modelled: utilisation, the two thresholds, the thread. Not modelled: access frequency, which Ingens uses to share
//! huge pages fairly among processes and to choose demotions when memory runs short; sharing of equal pages; compaction
//! in advance.

use super::khugepaged::is_collapsible;
use super::setting::{SettingError, Settings};
use super::{Actions, Policy, PolicyEvent, Request, Rules, View, may_be_huge};
use crate::kernel::PageTable;
use crate::{Superpage, Vma};

/// Settings of Ingens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IngensSettings {
    /// Order of the huge page: 9 for 2 MiB of 4 KiB.
    pub order: u8,
    /// Share of a region's base pages that must be backed if memory is fragmented: 0.9.
    pub utilisation: f64,
    /// Fragmentation of free memory, from 0 to 1 (Gorman's index for a huge page): 1, chosen, because the paper's
    /// policy matters there. A physical memory overrides it.
    pub fragmentation: f64,
    /// Fragmentation below which one page is enough: 0.5.
    pub fragmentation_limit: f64,
    /// Time between runs of the thread: 100, chosen.
    pub promote_sleep_millisecs: u64,
    /// Instructions that the program executes in a millisecond: 1,000,000, chosen.
    pub instructions_per_millisecond: u64,
    /// Cycles to check a request: 1,000, chosen.
    pub cycles_per_request: u64,
}

impl IngensSettings {
    /// The paper's settings for huge pages of this order.
    pub fn new(order: u8) -> IngensSettings {
        IngensSettings {
            order,
            utilisation: 0.9,
            fragmentation: 1.0,
            fragmentation_limit: 0.5,
            promote_sleep_millisecs: 100,
            instructions_per_millisecond: 1_000_000,
            cycles_per_request: 1000,
        }
    }

    fn check(&self) -> Result<(), SettingError> {
        let settings = Settings("ingens");
        settings.order(self.order)?;
        settings.within("utilisation", self.utilisation, 0.0..=1.0)?;
        settings.within("fragmentation", self.fragmentation, 0.0..=1.0)?;
        settings.within("fragmentation_limit", self.fragmentation_limit, 0.0..=1.0)?;
        settings.within("promote_sleep_millisecs", self.promote_sleep_millisecs, 1..=u64::MAX)?;
        settings.clock(self.instructions_per_millisecond)
    }

    /// Base pages that must be backed.
    fn threshold(&self) -> u64 {
        if self.fragmentation < self.fragmentation_limit {
            return 1;
        }
        ((self.utilisation * (1u64 << self.order) as f64).ceil() as u64).max(1)
    }

    fn sleep(&self) -> u64 {
        self.instructions_per_millisecond.saturating_mul(self.promote_sleep_millisecs)
    }
}

/// Ingens' policy.
#[derive(Clone, Debug)]
pub struct Ingens {
    settings: IngensSettings,
    next: u64,
    asked: Vec<Superpage>,
}

impl Ingens {
    /// A policy with these settings.
    pub fn new(settings: IngensSettings) -> Result<Ingens, SettingError> {
        settings.check()?;
        Ok(Ingens { settings, next: settings.sleep(), asked: Vec::new() })
    }
}

impl Policy for Ingens {
    fn rules(&self) -> Rules {
        let instructions_per_millisecond = self.settings.instructions_per_millisecond;
        Rules { instructions_per_millisecond, ..Rules::new(1 << self.settings.order).to_base_pages() }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Touched { page, table, .. } => self.touched(page, table),
            PolicyEvent::Memory(memory) => {
                self.settings.fragmentation = memory.unusable_index(self.settings.order.into());
            }
            PolicyEvent::Wake { now, view } => self.look(now, view, actions),
            _ => {}
        }
    }

    fn takes(&self, area: &Vma) -> bool {
        may_be_huge(area)
    }

    fn wakes(&self) -> Option<u64> {
        Some(self.next)
    }
}

impl Ingens {
    fn touched(&mut self, page: u64, table: &PageTable) {
        let block = Superpage::around(page, self.settings.order);
        let is_huge = table.mapped(page).is_some_and(|unit| unit.holds(block));
        if !is_huge
            && table.backed_in(block) >= self.settings.threshold()
            && self.asked.last() != Some(&block)
        {
            self.asked.push(block);
        }
    }

    fn look(&mut self, now: u64, view: &View<'_>, Actions { requests, cycles, .. }: &mut Actions) {
        self.next = now.saturating_add(self.settings.sleep());
        *cycles += self.asked.len() as u64 * self.settings.cycles_per_request;
        for block in std::mem::take(&mut self.asked) {
            let enough = view.table.backed_in(block) >= self.settings.threshold();
            let fits = view.area_of(block).is_some_and(|area| self.takes(area));
            // A region may have two requests: skip the second.
            if enough && fits && is_collapsible(block, view) && !requests.contains(&Request::Promote(block)) {
                requests.push(Request::Promote(block));
            }
        }
    }
}
