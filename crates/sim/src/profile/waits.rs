//! Misses in the first machine's caches of memory, and waits for them, by page.

use super::ProfileResult;
use crate::attribution::{WaitingPage, Waits};
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
    /// By the page's id: the last row of a page with that id.
    latest: Vec<u32>,
}

impl PageWaits {
    /// Adds to what references to a page wait for.
    #[inline]
    pub fn add(&mut self, of: WaitingPage, add: impl FnOnce(&mut Waits)) {
        let key = (of.page, of.mapping);
        let latest = of.id.and_then(|id| self.latest.get(id as usize));
        let row = match latest {
            Some(&row) if self.rows.get(row as usize).is_some_and(|(of, _)| *of == key) => row,
            _ => self.find(key, of.id),
        };
        add(&mut self.rows[row as usize].1);
    }

    /// Prefetches the row of a page.
    #[inline]
    pub fn expect(&self, page_id: u32) {
        if let Some(&row) = self.latest.get(page_id as usize).filter(|&&row| row != NOBODY) {
            prefetch(self.rows.as_ptr().wrapping_add(row as usize));
        }
    }

    /// The number of a row, which may be new.
    #[inline(never)]
    fn find(&mut self, key: (VirtAddr, MappingId), page_id: Option<u32>) -> u32 {
        let PageWaits { rows, ids, latest } = self;
        let row = *ids.entry(key).or_insert_with(|| {
            rows.push((key, Waits::default()));
            u32::try_from(rows.len() - 1).expect("fewer than 2^32 pages")
        });
        if let Some(id) = page_id.map(|id| id as usize) {
            if latest.len() <= id {
                latest.resize(id + 1, NOBODY);
            }
            latest[id] = row;
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::ReferenceWaits;

    /// Ids are used again: by another page, and by the same page under another mapping.
    #[test]
    fn each_page_of_an_id_has_its_own_row() {
        let mut all = PageWaits::default();
        let mut add = |page: u64, mapping: u32, id: Option<u32>, cycles: u64| {
            let of = WaitingPage { page: VirtAddr(page << 12), id, mapping: MappingId(mapping) };
            all.add(of, |waits| waits.add_reference(ReferenceWaits::of_cycles(cycles)));
        };
        add(7, 0, Some(3), 1);
        add(8, 0, Some(3), 10);
        add(7, 0, Some(3), 100);
        add(7, 1, Some(3), 1000);
        add(7, 0, Some(0), 10_000);
        add(7, 0, None, 100_000);
        let rows = all.rows.iter().map(|&((page, mapping), waits)| (page.0 >> 12, mapping.0, waits.cycles));
        assert_eq!(rows.collect::<Vec<_>>(), [(7, 0, 110_101), (8, 0, 10), (7, 1, 1000)]);
        // No more than a hint.
        [0, 1, 3, 4].into_iter().for_each(|page_id| all.expect(page_id));
    }
}
