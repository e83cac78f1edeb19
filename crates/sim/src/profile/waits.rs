//! Misses in the first machine's caches of memory, and waits for them, by page.

use super::ProfileResult;
use crate::attribution::{Wait, Waits};
use pagewalk_mm::MappingId;
use pagewalk_units::VirtAddr;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// By page and its mapping.
#[derive(Clone, Debug, Default)]
pub(super) struct PageWaits(FxHashMap<(VirtAddr, MappingId), Waits>);

impl PageWaits {
    pub fn add(&mut self, wait: &Wait<'_>) {
        self.0.entry((wait.page, wait.mapping)).or_default().add(&wait.waits);
    }
}

impl ProfileResult<'_> {
    /// What references to each page miss in the first machine's caches of memory, by mapping and ascending address.
    pub fn waits(&self) -> BTreeMap<(MappingId, VirtAddr), Waits> {
        let PageWaits(all) = &self.profile.pass.observer().waits;
        all.iter().map(|(&(page, mapping), &waits)| ((mapping, page), waits)).collect()
    }

    /// Levels of the first machine's caches of memory; 0 if it has none.
    pub fn cache_levels(&self) -> usize {
        let caches = &self.profile.pass.designs[0].machine.caches;
        caches.iter().map(|cache| usize::from(cache.level)).max().unwrap_or(0)
    }
}
