//! Memory that grows by less than a huge page at a time. The first touch of a block comes before its area holds all of
//! it, so it gets no huge page, although the area later grows over the block. Only the size of the steps prevents it.

use crate::attribution::Observer;
use crate::pass::Pass;
use crate::ranges::{added, blocks_at_ends, page_bytes};
use pagewalk_mm::{FirstTouch, HugeAdvice, Vma};
use pagewalk_trace::{Event, Ref};
use pagewalk_units::VirtAddr;
use std::ops::Range;

/// Whether an area may have huge pages, if the mode allows them.
fn may_be_huge(area: &Vma) -> bool {
    area.is_private_anonymous() && area.advice != HugeAdvice::NoHugePage && area.is_usable()
}

impl<O: Observer> Pass<O> {
    /// At the first touch of a unit: records whether its area does not hold the whole block yet.
    pub(crate) fn note_early(&mut self, vpn: u64, unit: u32) {
        let block = self.store.block_number(vpn);
        let bytes = page_bytes(block, self.store.paging.huge());
        let of = &self.store.units[unit as usize];
        let is_first = of.pages == 1 && self.store.blocks[of.block as usize].pages == 1;
        if self.store.minds_units && is_first {
            let area = self.vma_of(vpn).filter(|area| may_be_huge(area));
            let early = area.is_some_and(|area| bytes.start < area.start || area.end < bytes.end);
            self.store.units[unit as usize].early = early;
        }
    }

    /// After an event: counts the blocks that areas have grown over.
    pub(crate) fn note_grown(&mut self, event: &Event) {
        let Some(range) = added(event).or_else(|| opened(event)) else { return };
        let end = range.end.min(Ref::ADDRESS_END);
        if !self.store.minds_units || range.start >= end {
            return;
        }
        let huge = self.store.paging.huge();
        for block in blocks_at_ends(&(range.start..end), huge) {
            let bytes = page_bytes(block, huge);
            if !self.process.space.is_one_area(bytes.clone()) {
                continue;
            }
            let Some(at) = self.store.block_at(block) else { continue };
            let units = self.store.blocks[at as usize].units.clone();
            for unit in units {
                if std::mem::take(&mut self.store.units[unit as usize].early) {
                    self.count_late(unit, block, VirtAddr(bytes.start));
                }
            }
        }
    }

    fn count_late(&mut self, unit: u32, block: u64, start: VirtAddr) {
        let owner = self.store.units[unit as usize].owner();
        let area = self.process.space.vma(start).filter(|area| may_be_huge(area));
        if area.is_none() {
            return;
        }
        let forbidden = self.process.space.thp_disable();
        let fault = FirstTouch::new(block, self.store.paging.huge(), owner, area, false, forbidden);
        let huge = self.designs[0].policy.wants_huge(&fault);
        let late = &mut self.process.counts_of(owner.mapping).late_blocks;
        *(if huge { &mut late.huge_otherwise } else { &mut late.small_anyway }) += 1;
    }
}

/// The bytes whose rights or advice an event changes, so that areas may merge.
fn opened(event: &Event) -> Option<Range<u64>> {
    match event {
        Event::Protect { start, bytes, .. } | Event::Advise { start, bytes, .. } => {
            Some(start.0..start.0.saturating_add(*bytes))
        }
        _ => None,
    }
}
