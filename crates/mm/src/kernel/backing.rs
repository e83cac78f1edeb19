//! Frames for pages: at faults, for promotions, and what gives way when there are none.

use super::memory::{CACHED, Killed, LENT, Physical, WhenFull};
use super::{Account, Kernel, MemoryTotals, Remap};
use crate::frames::{Buddy, Frame};
use crate::promotion::{AtMap, Reserve};
use crate::{AddressSpace, MemoryRules, Superpage};
use std::ops::Range;

impl Kernel {
    /// The same kernel on a physical memory, of which at least one frame is free. Without one, frames never run out.
    ///
    /// # Panics
    /// If no frame is free, or something is backed already.
    pub fn with_memory(mut self, memory: Buddy, rules: MemoryRules) -> Kernel {
        assert!(memory.free_frames() > 0, "a memory without a free frame");
        assert_eq!(self.table.backed(), 0, "frames for what is backed already");
        self.memory = Some(Physical::new(memory, rules));
        self
    }

    /// The physical memory, if it has one.
    pub fn memory(&self) -> Option<&Buddy> {
        self.memory.as_ref().map(Physical::buddy)
    }

    /// How that lies now.
    pub fn memory_totals(&self) -> Option<MemoryTotals> {
        self.memory().map(MemoryTotals::of)
    }

    /// The frame of a backed page, if there is a physical memory.
    pub fn frame_of(&self, page: u64) -> Option<Frame> {
        let unit = self.table.mapped(page)?;
        let first = self.memory.as_ref()?.frame_of(unit.first)?;
        Some(Frame(first.0 + (page - unit.first)))
    }

    /// Whether [`Kernel::walked`] is to be called, and [`Kernel::touched`] whenever something misses a TLB that is
    /// not touched any more: pages may be swapped out.
    pub fn swaps(&self) -> bool {
        self.memory.is_some()
    }

    /// A walk to a page, which sets its accessed bit, and which the policy hears of.
    pub fn walked(&mut self, page: u64) {
        if let Some(unit) = self.table.mapped(page) {
            self.policy.walked(unit);
        }
        if let (Some(memory), Some(unit)) = (&mut self.memory, self.table.mapped(page)) {
            let cached = self.sharing.as_ref().and_then(|sharing| sharing.cache.mapped(page));
            memory.walked(cached.unwrap_or(unit.first));
        }
    }

    pub(super) fn is_partly_swapped(&self, block: Superpage) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.any_swapped(block.pages()))
    }

    /// Whether [`Kernel::mapped`] is to be called.
    pub fn backs_areas(&self) -> bool {
        self.memory.is_some() && self.policy.backs_areas()
    }

    /// Pages were added to an area of memory, and `space` knows it already.
    pub fn mapped(&mut self, pages: Range<u64>, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        if self.is_inheriting() {
            return;
        }
        let area = self.area(Superpage::around(pages.start, 0), space);
        let (Some(area), Some(memory), false) = (area, &mut self.memory, pages.is_empty()) else { return };
        self.policy.sees(memory.buddy());
        let at_map = self.policy.at_map(area, pages.end - pages.start);
        if at_map == AtMap::OnDemand {
            return;
        }
        let orders = self.policy.orders() | 1;
        // Programs whose recording misses a mapping may have touched some of it before.
        let is_new = self.table.units_in(pages.clone()).is_empty() && !memory.any_swapped(pages.clone());
        let is_whole = at_map == AtMap::Whole && is_new;
        let taken = if is_whole { memory.take_eager(pages.clone(), orders) } else { None };
        let Some((units, runs)) = taken else {
            self.counts.eager_left += 1;
            return;
        };
        for &unit in &units {
            self.table.map(unit);
            remaps.extend((unit.order > 0).then_some(Remap::Mapped(unit)));
        }
        let (pages, units) = (pages.end - pages.start, units.len() as u64);
        self.counts.eager_areas += 1;
        self.counts.eager_bytes += pages << self.base.shift();
        self.counts.eager_runs += runs;
        self.accounts.charge(Account::Map, self.costs.map.saturating_mul(units));
        self.accounts.charge(Account::Zero, self.cycles(self.costs.zero_per_kib, pages));
        self.note_peaks();
    }

    /// Frames for the first of `blocks` that there are some for. The last one is the base page; if there is none even
    /// for that, the process is killed.
    pub(super) fn find_frames(
        &mut self,
        blocks: &[Superpage],
        space: &AddressSpace,
        remaps: &mut Vec<Remap>,
    ) -> Option<Superpage> {
        let Some(memory) = &mut self.memory else { return Some(blocks[0]) };
        let (&page, larger) = blocks.split_last().expect("order 0 is always possible");
        let found = larger.iter().copied().find(|&block| memory.take(block));
        self.counts.faults_fallen_back += u64::from(found.unwrap_or(page) != blocks[0]);
        if found.is_none() {
            self.find_frame(page.first, space, remaps);
        }
        self.killed.is_none().then_some(found.unwrap_or(page))
    }

    /// A frame for a base page: in its place in a reservation, or any. If none is free, reservations are broken, and
    /// units swapped out, or the process killed.
    ///
    /// `page`: or the name of a page of the page cache.
    pub(super) fn find_frame(&mut self, page: u64, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        if let Some(Reserve { order, .. }) = self.policy.reserves().filter(|_| page < CACHED) {
            let region = Superpage::around(page, order);
            self.reserve(region, space);
            if self.memory.as_mut().is_some_and(|memory| memory.populate(page, region)) {
                return;
            }
        }
        while let Some(memory) = &mut self.memory
            && !memory.take(Superpage::around(page, 0))
        {
            match memory.break_reservation() {
                Some(region) => {
                    self.counts.reservations_broken += 1;
                    self.policy.refused(region);
                }
                None if memory.rules.when_full == WhenFull::Oom => {
                    if let Some(name) = memory.cached_victim() {
                        self.drop_cached(name, remaps);
                        continue;
                    }
                    return self.kill();
                }
                None => {
                    if !self.evict(remaps) {
                        return self.kill();
                    }
                }
            }
        }
    }

    /// Reserves a block for a region of which nothing is backed, where it may have one.
    fn reserve(&mut self, region: Superpage, space: &AddressSpace) {
        let area = self.area(region, space);
        let fits = area.is_some_and(|area| self.covers(area, region) && self.policy.takes(area));
        let Some(memory) = self.memory.as_mut().filter(|memory| fits && !memory.is_reserved(region)) else {
            return;
        };
        let is_untouched = self.table.backed_in(region) == 0 && !memory.any_swapped(region.pages());
        if is_untouched && !memory.reserve(region) {
            self.counts.reservations_refused += 1;
            self.policy.refused(region);
        }
    }

    fn kill(&mut self) {
        self.killed = Some(Killed { instructions: self.now, bytes: self.base.bytes() });
    }

    /// Swaps a unit out: what was touched of it is written, the rest dropped. False if there is none: children have all
    /// frames.
    fn evict(&mut self, remaps: &mut Vec<Remap>) -> bool {
        let memory = self.memory.as_mut().expect("only a memory is full");
        let Some(first) = memory.victim() else { return false };
        if first >= CACHED {
            self.drop_cached(first, remaps);
            return true;
        }
        let unit = self.table.mapped(first).expect("units are backed");
        remaps.push(Remap::Evicted(unit));
        if unit.order > 0 {
            self.policy.demoted(unit);
        }
        let mut written = 0;
        for page in unit.pages() {
            if self.table.unmap(page) {
                self.policy.gone(page);
                memory.swap_out(page);
                written += 1;
            }
        }
        let rule = self.policy.reserves();
        memory.release(unit, rule.map(|rule| rule.order), rule.is_some_and(|rule| !rule.broken_by_gaps));
        self.counts.swap_outs += written;
        self.accounts.charge(Account::Swap, memory.rules.swap_cycles.saturating_mul(written));
        self.accounts.charge(Account::Flush, self.costs.flush);
        true
    }

    /// Drops a page of the page cache, wherever it is mapped.
    fn drop_cached(&mut self, name: u64, remaps: &mut Vec<Remap>) {
        let Some(sharing) = &mut self.sharing else { return };
        for page in sharing.cache.remove(name) {
            remaps.push(Remap::Evicted(Superpage::around(page, 0)));
            if self.table.unmap(page) {
                self.policy.gone(page);
            }
            self.accounts.charge(Account::Flush, self.costs.flush);
        }
        self.release(Superpage::around(name, 0));
    }

    /// The frames of a unit are free.
    pub(super) fn release(&mut self, unit: Superpage) {
        let rule = self.policy.reserves();
        if let Some(memory) = &mut self.memory {
            memory.release(unit, rule.map(|rule| rule.order), rule.is_some_and(|rule| !rule.broken_by_gaps));
        }
    }

    /// A superpage was taken apart: its frames are those of the parts. A page of hugetlb has none.
    pub(super) fn split(&mut self, unit: Superpage, parts: &[Superpage]) {
        let is_own = !self.table.is_foreign(unit.first);
        let has_frames = |memory: &&mut Physical| is_own && memory.frame_of(unit.first).is_some();
        if let Some(memory) = self.memory.as_mut().filter(has_frames) {
            memory.split(unit, parts);
        }
    }

    /// Frames for a superpage that is built, if there are some. `in_place`: those that its pages have.
    pub(super) fn find_block(&mut self, block: Superpage, in_place: bool, remaps: &mut Vec<Remap>) -> bool {
        let Some(memory) = &mut self.memory else { return true };
        if memory.any_swapped(block.pages()) {
            self.counts.refused_memory += 1;
            self.policy.swapped(block);
            return false;
        }
        let parts = self.table.units_in(block.pages());
        let order = self.policy.reserves().map(|rule| rule.order);
        let found = match in_place {
            true => memory.join(block, &parts),
            false => {
                memory.replace(block, &parts, order)
                    || memory.rules.compact
                        && self.compact(block, remaps)
                        && self.replace(block, &parts, order)
            }
        };
        if !found {
            self.counts.refused_memory += 1;
            self.policy.refused(block);
        }
        found
    }

    fn replace(&mut self, block: Superpage, parts: &[Superpage], order: Option<u8>) -> bool {
        self.memory.as_mut().is_some_and(|memory| memory.replace(block, parts, order))
    }

    /// Makes a free block for a superpage, and pays for it.
    fn compact(&mut self, block: Superpage, remaps: &mut Vec<Remap>) -> bool {
        let Some(memory) = &mut self.memory else { return false };
        let Some((compaction, moved)) = memory.compact(block.order) else { return false };
        let frames = compaction.frames_moved();
        self.counts.compactions += 1;
        self.counts.frames_moved += frames;
        self.accounts.charge(Account::Compaction, memory.rules.migration_cycles.saturating_mul(frames));
        let cache = self.sharing.as_ref().map(|sharing| &sharing.cache);
        let mapped = |unit: Superpage| match (unit.first, cache) {
            (LENT.., _) => Vec::new(),
            (CACHED.., Some(cache)) => {
                cache.users(unit.first).iter().map(|&page| Superpage::around(page, 0)).collect()
            }
            _ => vec![unit],
        };
        let moved: Vec<Superpage> = moved.into_iter().flat_map(mapped).collect();
        let flushes = self.costs.flush.saturating_mul(moved.len() as u64);
        self.accounts.charge(Account::Flush, flushes);
        // What becomes part of the block is dropped when that is built.
        remaps.extend(moved.into_iter().filter(|&unit| !block.holds(unit)).map(Remap::Moved));
        true
    }
}
