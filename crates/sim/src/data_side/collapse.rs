//! Collapses in the background, as by Linux's khugepaged.
//!
//! Each scan looks at the next blocks with small pages, in order of address. A block gets a huge page if the policy
//! would give it one when empty, enough of its pages have had walks, and frames are free. Its pages then move, and its
//! translations leave all TLBs. Copying takes no time here.
//!
//! Source: Linux `Documentation/admin-guide/mm/transhuge.rst`, `pages_to_scan`, `scan_sleep_millisecs` and
//! `max_ptes_none`.

use super::memory::DesignMemory;
use pagewalk_mm::{AddressSpace, FirstTouch, MappingId, Superpage};
use pagewalk_translate::CollapseSpec;
use std::collections::BTreeSet;
use std::ops::{Bound, Range};

/// The state of the scans.
#[derive(Clone, Debug)]
pub(crate) struct Collapser {
    spec: CollapseSpec,
    /// Instructions at the last scan.
    from: u64,
    /// The last block of the last scan.
    last: Option<(u64, MappingId)>,
    /// Pages that have had walks.
    walked: BTreeSet<u64>,
    /// Blocks that got huge pages.
    pub done: u64,
}

impl Collapser {
    pub fn new(spec: CollapseSpec) -> Collapser {
        Collapser { spec, from: 0, last: None, walked: BTreeSet::new(), done: 0 }
    }

    /// A walk for a page.
    pub fn walked(&mut self, page: u64) {
        self.walked.insert(page);
    }

    /// Pages are gone.
    pub fn gone(&mut self, pages: &Range<u64>) {
        let gone: Vec<u64> = self.walked.range(pages.clone()).copied().collect();
        gone.iter().for_each(|page| {
            self.walked.remove(page);
        });
    }
}

impl DesignMemory {
    /// Instructions at which the next scan is due; `None` if nothing scans.
    pub fn due(&self) -> Option<u64> {
        self.collapser.as_ref().map(|collapser| collapser.from.saturating_add(collapser.spec.interval))
    }

    /// Scans at `instructions`. Returns the pages of the blocks that became huge.
    pub fn scan(&mut self, space: &AddressSpace, instructions: u64) -> Vec<Range<u64>> {
        let Some(mut collapser) = self.collapser.take() else { return Vec::new() };
        let mut collapsed = Vec::new();
        for key in self.next_small(&collapser) {
            collapser.last = Some(key);
            if let Some(pages) = self.collapse(key, &collapser, space) {
                collapsed.push(pages);
            }
        }
        collapser.from = instructions;
        collapser.done += collapsed.len() as u64;
        self.collapser = Some(collapser);
        collapsed
    }

    /// The blocks of the next scan.
    fn next_small(&self, collapser: &Collapser) -> Vec<(u64, MappingId)> {
        let small = |(&key, &huge): (&(u64, MappingId), &bool)| (!huge).then_some(key);
        let most = usize::try_from(collapser.spec.blocks).unwrap_or(usize::MAX);
        let Some(last) = collapser.last else {
            return self.blocks.iter().filter_map(small).take(most).collect();
        };
        let after = self.blocks.range((Bound::Excluded(last), Bound::Unbounded));
        after.chain(self.blocks.range(..=last)).filter_map(small).take(most).collect()
    }

    fn collapse(
        &mut self,
        (block, mapping): (u64, MappingId),
        collapser: &Collapser,
        space: &AddressSpace,
    ) -> Option<Range<u64>> {
        let (base, order) = (self.paging.base(), self.paging.huge_order());
        let pages = block << order..(block + 1) << order;
        let bytes = pages.start << base.shift()..pages.end << base.shift();
        let of_block = (block, MappingId(0))..=(block, MappingId(u32::MAX));
        let (huge, area) = (self.paging.huge(), space.vma_within(bytes.clone()));
        let fault = FirstTouch::new(block, huge, self.owner(mapping), area, false, space.thp_disable());
        let wanted = self.blocks.contains_key(&(block, mapping))
            && collapser.walked.range(pages.clone()).count() as u64 >= collapser.spec.pages
            && space.mapping_of(bytes) == mapping
            && self.policy.as_ref().is_some_and(|policy| policy.wants_huge(&fault));
        if !wanted
            || !self
                .frames
                .own()
                .is_none_or(|backing| backing.collapse(Superpage { first: pages.start, order: order as u8 }))
        {
            return None;
        }
        let keys: Vec<_> = self.blocks.range(of_block).map(|(&key, _)| key).collect();
        keys.iter().for_each(|key| {
            self.blocks.remove(key);
        });
        self.blocks.insert((block, mapping), true);
        Some(pages)
    }
}
