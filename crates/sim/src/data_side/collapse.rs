//! Huge pages that a kernel makes of small ones in the background, as Linux's khugepaged does.
//!
//! Once in a while it looks at the next blocks that have small pages, in the order of their addresses. Where the policy
//! would give such a block a huge page if nothing of it were there, enough of its pages were walked for, and frames are
//! found, the block gets one: its pages move, and what TLBs know of it is dropped. Copying takes no time here.
//!
//! Source: Linux `Documentation/admin-guide/mm/transhuge.rst`, `pages_to_scan`, `scan_sleep_millisecs` and
//! `max_ptes_none`.

use super::memory::DesignMemory;
use pagewalk_mm::{AddressSpace, Fault, MappingId, Superpage};
use pagewalk_translate::Collapse;
use std::collections::BTreeSet;
use std::ops::{Bound, Range};

/// Where the kernel is with it.
#[derive(Clone, Debug)]
pub(crate) struct Collapser {
    spec: Collapse,
    /// Instructions at the last scan.
    from: u64,
    /// What the last scan looked at last.
    last: Option<(u64, MappingId)>,
    /// Pages that were walked for.
    walked: BTreeSet<u64>,
    /// Blocks that got huge pages.
    pub done: u64,
}

impl Collapser {
    pub fn new(spec: Collapse) -> Collapser {
        Collapser { spec, from: 0, last: None, walked: BTreeSet::new(), done: 0 }
    }

    /// A page is walked for.
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
    /// Instructions at which the next scan is due; `None` where there is none.
    pub fn due(&self) -> Option<u64> {
        self.collapser.as_ref().map(|collapser| collapser.from.saturating_add(collapser.spec.interval))
    }

    /// Scans, after so many instructions. Returns the pages of the blocks that have become huge.
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

    /// The blocks that a scan looks at.
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
        let fault = Fault::new(block, huge, mapping, area, false, space.thp_disable());
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
