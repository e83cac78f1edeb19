//! Misses in caches of memory, and waits for them, by page and by mapping.

use pagewalk_mm::MappingId;
use pagewalk_report::schema::WaitCounts;
use pagewalk_sim::Waits;
use pagewalk_translate::MachineSpec;
use pagewalk_units::VirtAddr;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Pages that results list because they wait, at most.
pub(crate) const PAGES_MAX: usize = 200;

/// The waits of a program on the first machine.
pub(crate) struct MachineWaits {
    pages: BTreeMap<(MappingId, VirtAddr), Waits>,
    /// Levels of its caches; 0: it has none.
    levels: usize,
}

impl MachineWaits {
    /// What pages missed in the caches of a machine, by mapping and address.
    pub fn of(pages: BTreeMap<(MappingId, VirtAddr), Waits>, machine: &MachineSpec) -> MachineWaits {
        let levels = machine.caches.iter().map(|cache| usize::from(cache.level));
        MachineWaits { pages, levels: levels.max().unwrap_or(0) }
    }

    /// What pages missed, by mapping and address.
    pub fn pages(&self) -> &BTreeMap<(MappingId, VirtAddr), Waits> {
        &self.pages
    }

    /// No waits yet; `None` without caches.
    pub fn none(&self) -> Option<WaitCounts> {
        self.counts(&Waits::default())
    }

    fn counts(&self, waits: &Waits) -> Option<WaitCounts> {
        let misses = waits.misses[..self.levels].to_vec();
        (self.levels > 0).then_some(WaitCounts { misses, stall_cycles: waits.cycles })
    }

    /// Adds waits to a row's.
    pub fn add(&self, sum: &mut Option<WaitCounts>, waits: &Waits) {
        if let (Some(sum), Some(own)) = (sum, self.counts(waits)) {
            sum.add(&own);
        }
    }

    pub fn of_page(&self, mapping: MappingId, page: VirtAddr) -> Option<WaitCounts> {
        self.counts(self.pages.get(&(mapping, page)).unwrap_or(&Waits::default()))
    }

    pub fn of_mapping(&self, mapping: MappingId) -> Option<WaitCounts> {
        let all = (mapping, VirtAddr(0))..=(mapping, VirtAddr(u64::MAX));
        let mut sum = Waits::default();
        self.pages.range(all).for_each(|(_, waits)| sum.add(waits));
        self.counts(&sum)
    }

    /// The pages that wait longest.
    pub fn longest(&self) -> Vec<(MappingId, VirtAddr)> {
        let mut longest: Vec<_> = self.pages.iter().collect();
        longest.sort_by_key(|&(&at, waits)| (Reverse(waits.cycles), at));
        longest.into_iter().take(PAGES_MAX).map(|(&at, _)| at).collect()
    }
}
