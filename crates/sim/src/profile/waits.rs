//! Misses in the first machine's caches of memory, and waits for them, by page.

use super::ProfileResult;
use crate::attribution::{Wait, Waits};
use crate::recent_ids::NOBODY;
use pagewalk_mm::MappingId;
use pagewalk_setassoc::prefetch;
use pagewalk_units::VirtAddr;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A page's first byte and its mapping, and what references to it wait for.
type Row = ((VirtAddr, MappingId), Waits);

/// By page and its mapping.
#[derive(Clone, Debug, Default)]
pub(super) struct PageWaits {
    rows: Vec<Row>,
    ids: FxHashMap<(VirtAddr, MappingId), u32>,
    /// By the page's number: the last row of such a page.
    latest: Vec<u32>,
}

impl PageWaits {
    #[inline]
    pub fn add(&mut self, wait: &Wait<'_>) {
        let key = (wait.page, wait.mapping);
        let latest = wait.number.and_then(|number| self.latest.get(number as usize));
        let row = match latest {
            Some(&row) if self.rows.get(row as usize).is_some_and(|(of, _)| *of == key) => row,
            _ => self.find(key, wait.number),
        };
        self.rows[row as usize].1.add(&wait.waits);
    }

    /// Prefetches the row of the page of this number.
    #[inline]
    pub fn expect(&self, number: u32) {
        if let Some(&row) = self.latest.get(number as usize) {
            prefetch(self.rows.as_ptr().wrapping_add(row as usize));
        }
    }

    /// The number of a row, which may be new.
    #[inline(never)]
    fn find(&mut self, key: (VirtAddr, MappingId), number: Option<u32>) -> u32 {
        let PageWaits { rows, ids, latest } = self;
        let row = *ids.entry(key).or_insert_with(|| {
            rows.push((key, Waits::default()));
            u32::try_from(rows.len() - 1).expect("fewer than 2^32 pages")
        });
        if let Some(number) = number.map(|number| number as usize) {
            if latest.len() <= number {
                latest.resize(number + 1, NOBODY);
            }
            latest[number] = row;
        }
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
