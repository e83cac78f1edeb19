//! Misses in the first machine's caches of memory, and waits for them, by page.

use super::ProfileResult;
use crate::attribution::{Wait, Waits};
use crate::recent_ids::RecentIds;
use pagewalk_mm::MappingId;
use pagewalk_units::{PAGE_SHIFT, VirtAddr};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A page's first byte and its mapping, and what references to it wait for.
type Row = ((VirtAddr, MappingId), Waits);

/// By page and its mapping.
#[derive(Clone, Debug, Default)]
pub(super) struct PageWaits {
    rows: Vec<Row>,
    ids: FxHashMap<(VirtAddr, MappingId), u32>,
    recent: RecentIds<{ 1 << 13 }>,
}

impl PageWaits {
    #[inline]
    pub fn add(&mut self, wait: &Wait<'_>) {
        let key = (wait.page, wait.mapping);
        // Pages have 4 KiB or more.
        let number = wait.page.0 >> PAGE_SHIFT;
        let candidate = self.recent.candidate(number);
        let is_it = self.rows.get(candidate as usize).is_some_and(|(of, _)| *of == key);
        let row = if is_it { candidate } else { self.find(key, number) };
        self.rows[row as usize].1.add(&wait.waits);
    }

    /// The number of a row, which may be new.
    #[inline(never)]
    fn find(&mut self, key: (VirtAddr, MappingId), number: u64) -> u32 {
        let PageWaits { rows, ids, recent } = self;
        let row = *ids.entry(key).or_insert_with(|| {
            rows.push((key, Waits::default()));
            u32::try_from(rows.len() - 1).expect("fewer than 2^32 pages")
        });
        recent.set(number, row);
        row
    }
}

impl ProfileResult<'_> {
    /// What references to each page miss in the first machine's caches of memory, by mapping and ascending address.
    pub fn waits(&self) -> BTreeMap<(MappingId, VirtAddr), Waits> {
        let all = &self.profile.pass.observer().waits.rows;
        all.iter().map(|&((page, mapping), waits)| ((mapping, page), waits)).collect()
    }

    /// Levels of the first machine's caches of memory; 0 if it has none.
    pub fn cache_levels(&self) -> usize {
        let caches = &self.profile.pass.designs[0].machine.caches;
        caches.iter().map(|cache| usize::from(cache.level)).max().unwrap_or(0)
    }
}
