//! Frames for faults and promotions, and eviction when there are none.

use super::colors::WantedColor;
use super::memory::{CACHED, FullMemoryAction, LENT, Loss, OomKill, Physical};
use super::{Account, Kernel, MemoryTotals, Remap};
use crate::frames::{Buddy, Frame};
use crate::promotion::{MapBacking, PolicyEvent, ReservationRules};
use crate::{AddressSpace, MemoryRules, Superpage};
use std::ops::Range;

impl Kernel {
    /// Gives the kernel a physical memory with at least one free frame. Without a memory, frames never run out.
    ///
    /// # Panics
    /// If no frame is free, or something is backed already.
    pub fn with_memory(mut self, memory: Buddy, rules: MemoryRules) -> Kernel {
        assert!(memory.free_frames() > 0, "a memory without a free frame");
        assert_eq!(self.table.backed(), 0, "frames for what is backed already");
        self.memory = Some(Physical::new(memory, rules));
        self
    }

    /// Sets the number of the kernel's process among several: see [`Kernel::hand_memory`].
    pub fn numbered(mut self, number: u32) -> Kernel {
        self.number = number;
        self.policy.tell(PolicyEvent::Process(number));
        if let Some(memory) = &mut self.memory {
            memory.process = number;
        }
        self.number_frames();
        self
    }

    /// Hands the shared physical memory to another process's kernel, which needs it before any other call. Report
    /// [losses](Kernel::lost) to the processes concerned.
    pub fn hand_memory(&mut self, to: &mut Kernel) {
        if let Some(mut memory) = self.memory.take() {
            memory.process = to.number;
            to.memory = Some(memory);
        }
    }

    /// Losses of other processes through this kernel's work since the last call, by process number.
    pub fn losses(&mut self) -> Vec<(u32, Loss)> {
        self.memory.as_mut().map(|memory| memory.take_losses()).unwrap_or_default()
    }

    /// The process ends: frees its frames.
    pub fn ended(&mut self) {
        for unit in self.table.units() {
            self.release(unit);
        }
        if let Some(memory) = &mut self.memory {
            memory.forget_swapped(0..CACHED);
        }
    }

    /// The process loses something through another kernel's work.
    pub fn lost(&mut self, loss: Loss, remaps: &mut Vec<Remap>) {
        match loss {
            Loss::Frames(unit) if unit.first >= CACHED => self.unmap_cached(unit.first, remaps),
            Loss::Frames(unit) => self.swap_out(unit, remaps),
            Loss::Place(unit) => self.have_moved(vec![unit], None, remaps),
            Loss::Reservation(region) => self.policy.tell(PolicyEvent::Refused(region)),
        }
    }

    /// The physical memory, if it has one.
    pub fn memory(&self) -> Option<&Buddy> {
        self.memory.as_ref().map(Physical::buddy)
    }

    /// The present state of that memory.
    pub fn memory_totals(&self) -> Option<MemoryTotals> {
        self.memory().map(MemoryTotals::of)
    }

    /// The frame of a backed page, if the kernel has a memory.
    pub fn frame_of(&self, page: u64) -> Option<Frame> {
        let unit = self.table.mapped(page)?;
        let memory = self.memory.as_ref()?;
        let cached = self.sharing.as_ref().and_then(|sharing| sharing.cache.mapped(page));
        if let Some(name) = cached {
            return memory.frame_of(name);
        }
        let first = memory.frame_of(unit.first)?;
        Some(Frame(first.0 + (page - unit.first)))
    }

    /// Whether the policy reads times of use.
    pub fn reads_uses(&self) -> bool {
        self.policy.rules.reads_uses
    }

    /// Whether pages may be swapped out. The caller must then call [`Kernel::walked`], and [`Kernel::touched`] at
    /// misses of pages that are no longer backed.
    pub fn swaps(&self) -> bool {
        self.memory.is_some()
    }

    /// A walk to a page: sets its accessed bit, and informs the policy.
    pub fn walked(&mut self, page: u64) {
        if let Some(unit) = self.table.mapped(page) {
            self.policy.tell(PolicyEvent::Walked(unit));
        }
        if let (Some(memory), Some(unit)) = (&mut self.memory, self.table.mapped(page)) {
            let cached = self.sharing.as_ref().and_then(|sharing| sharing.cache.mapped(page));
            memory.walked(cached.unwrap_or(unit.first));
        }
    }

    pub(super) fn is_partly_swapped(&self, block: Superpage) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.any_swapped(block.pages()))
    }

    /// Whether the caller must call [`Kernel::mapped`].
    pub fn backs_areas(&self) -> bool {
        self.memory.is_some() && self.policy.rules.backs_areas
    }

    /// Pages were added to an area; `space` reflects it already.
    pub fn mapped(&mut self, pages: Range<u64>, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        if self.is_inheriting() {
            return;
        }
        let area = self.area(Superpage::around(pages.start, 0), space);
        let (Some(area), Some(memory), false) = (area, &mut self.memory, pages.is_empty()) else { return };
        self.policy.tell(PolicyEvent::Memory(memory.buddy()));
        let at_map = self.policy.decides.at_map(area, pages.end - pages.start);
        if at_map == MapBacking::OnDemand {
            return;
        }
        let orders = self.policy.rules.orders | 1;
        // If the recording missed a mapping, the program may have touched it before.
        let is_new = self.table.units_in(pages.clone()).is_empty() && !memory.any_swapped(pages.clone());
        let is_whole = at_map == MapBacking::Whole && is_new;
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

    /// Finds frames for the first of `blocks` that fits. The last one is the base page; if even that has no frame, the
    /// process is killed.
    pub(super) fn find_frames(
        &mut self,
        blocks: &[Superpage],
        space: &AddressSpace,
        remaps: &mut Vec<Remap>,
    ) -> Option<Superpage> {
        if self.memory.is_none() {
            return Some(blocks[0]);
        }
        let (&page, larger) = blocks.split_last().expect("order 0 always remains");
        let found = larger.iter().copied().find(|&block| self.take_block(block));
        self.counts.faults_fallen_back += u64::from(found.unwrap_or(page) != blocks[0]);
        if found.is_none() {
            self.find_frame(page.first, space, remaps);
        }
        self.killed.is_none().then_some(found.unwrap_or(page))
    }

    /// Backs a superpage with a free block: the listed one, or any.
    fn take_block(&mut self, block: Superpage) -> bool {
        let listed = self.take_listed(block);
        let is_taken = listed.is_some() || self.memory.as_mut().is_some_and(|memory| memory.take(block));
        if is_taken {
            self.note_listed(block, listed);
        }
        is_taken
    }

    /// Backs a unit with its listed frames, if they are free.
    fn take_listed(&mut self, unit: Superpage) -> Option<Frame> {
        let listed = self.listed(unit)?;
        self.memory.as_mut()?.take_at(unit, listed).then_some(listed)
    }

    /// Finds a frame for a base page: in its place in a reservation, the listed one, or any. If none is free, breaks
    /// reservations and swaps units out, or kills the process.
    ///
    /// `page` may be the name of a page of the page cache.
    pub(super) fn find_frame(&mut self, page: u64, space: &AddressSpace, remaps: &mut Vec<Remap>) {
        if self.memory.is_none() {
            return;
        }
        if let Some(ReservationRules { order, .. }) = self.policy.rules.reserves.filter(|_| page < CACHED) {
            let region = Superpage::around(page, order);
            self.reserve(region, space);
            if self.memory.as_mut().is_some_and(|memory| memory.populate(page, region)) {
                return self.note_listed(Superpage::around(page, 0), None);
            }
        }
        let listed = self.take_listed(Superpage::around(page, 0));
        if listed.is_none() {
            self.find_any_frame(page, remaps);
        }
        self.note_listed(Superpage::around(page, 0), listed);
    }

    fn find_any_frame(&mut self, page: u64, remaps: &mut Vec<Remap>) {
        let wanted = self.color_for(page);
        while let Some(memory) = &mut self.memory
            && !memory.take_page(page, wanted)
        {
            match memory.break_reservation() {
                Some((process, region)) => {
                    self.counts.reservations_broken += 1;
                    if process == memory.process {
                        self.policy.tell(PolicyEvent::Refused(region));
                    }
                }
                None if memory.rules.when_full == FullMemoryAction::Oom => {
                    let Some(victim) = memory.cached_victim() else { return self.kill() };
                    self.give_up(victim, remaps);
                }
                None => {
                    if !self.evict(wanted, remaps) {
                        return self.kill();
                    }
                }
            }
        }
    }

    /// Reserves a block for an unbacked region, if it may have one.
    fn reserve(&mut self, region: Superpage, space: &AddressSpace) {
        let area = self.area(region, space);
        let fits = area.is_some_and(|area| self.covers(area, region) && self.policy.decides.takes(area));
        let Some(memory) = self.memory.as_mut().filter(|memory| fits && !memory.is_reserved(region)) else {
            return;
        };
        let is_untouched = self.table.backed_in(region) == 0 && !memory.any_swapped(region.pages());
        if is_untouched && !memory.reserve(region) {
            self.counts.reservations_refused += 1;
            self.policy.tell(PolicyEvent::Refused(region));
        }
    }

    fn kill(&mut self) {
        self.killed = Some(OomKill { instructions: self.now, bytes: self.base.bytes() });
    }

    /// Evicts the next victim. False if there is none, because children own all frames, or the kernel all of a strictly
    /// wanted color.
    fn evict(&mut self, wanted: Option<WantedColor>, remaps: &mut Vec<Remap>) -> bool {
        let victim = self.memory.as_mut().and_then(|memory| memory.victim(wanted));
        victim.into_iter().for_each(|victim| self.give_up(victim, remaps));
        victim.is_some()
    }

    /// Evicts a unit of any process.
    fn give_up(&mut self, victim: (u32, u64), remaps: &mut Vec<Remap>) {
        let (process, first) = victim;
        let (order, keeps_place) = self.reserved();
        match &mut self.memory {
            Some(memory) if memory.process != process => memory.take_from(victim, order, keeps_place),
            _ if first >= CACHED => {
                self.unmap_cached(first, remaps);
                self.release(Superpage::around(first, 0));
            }
            _ => {
                let unit = self.table.mapped(first).expect("a unit is backed");
                self.swap_out(unit, remaps);
                self.release(unit);
            }
        }
    }

    /// Swaps a unit out: writes its touched pages, drops the others.
    fn swap_out(&mut self, unit: Superpage, remaps: &mut Vec<Remap>) {
        let memory = self.memory.as_mut().expect("only a memory fills up");
        remaps.push(Remap::Evicted(unit));
        if unit.order > 0 {
            self.policy.tell(PolicyEvent::Demoted(unit));
        }
        let mut written = 0;
        for page in unit.pages() {
            if self.table.unmap(page) {
                self.policy.tell(PolicyEvent::Gone(page));
                memory.swap_out(page);
                written += 1;
            }
        }
        self.counts.swap_outs += written;
        self.accounts.charge(Account::Swap, memory.rules.swap_cycles.saturating_mul(written));
        self.accounts.charge(Account::Flush, self.costs.flush);
    }

    /// Drops a page of the page cache wherever it is mapped.
    fn unmap_cached(&mut self, name: u64, remaps: &mut Vec<Remap>) {
        let Some(sharing) = &mut self.sharing else { return };
        for page in sharing.cache.remove(name) {
            remaps.push(Remap::Evicted(Superpage::around(page, 0)));
            if self.table.unmap(page) {
                self.policy.tell(PolicyEvent::Gone(page));
            }
            self.accounts.charge(Account::Flush, self.costs.flush);
        }
    }

    /// The order of the policy's reservations, and whether a freed page keeps its place in one.
    fn reserved(&self) -> (Option<u8>, bool) {
        let rule = self.policy.rules.reserves;
        (rule.map(|rule| rule.order), rule.is_some_and(|rule| !rule.broken_by_gaps))
    }

    /// Frees the frames of a unit.
    pub(super) fn release(&mut self, unit: Superpage) {
        let (order, keeps_place) = self.reserved();
        self.displace(unit);
        if let Some(memory) = &mut self.memory {
            memory.release(unit, order, keeps_place);
        }
    }

    /// Splits a superpage's frames among its parts. A hugetlb page has none.
    pub(super) fn split(&mut self, unit: Superpage, parts: &[Superpage]) {
        let is_own = !self.table.is_foreign(unit.first);
        let has_frames = |memory: &&mut Physical| is_own && memory.frame_of(unit.first).is_some();
        if let Some(memory) = self.memory.as_mut().filter(has_frames) {
            memory.split(unit, parts);
        }
    }

    /// Finds frames for a promotion; false if there are none. `in_place`: those that its pages have.
    pub(super) fn find_block(&mut self, block: Superpage, in_place: bool, remaps: &mut Vec<Remap>) -> bool {
        let Some(memory) = &mut self.memory else { return true };
        if memory.any_swapped(block.pages()) {
            self.counts.refused_memory += 1;
            self.policy.tell(PolicyEvent::Swapped(block));
            return false;
        }
        let parts = self.table.units_in(block.pages());
        let order = self.policy.rules.reserves.map(|rule| rule.order);
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
            self.policy.tell(PolicyEvent::Refused(block));
        }
        found
    }

    fn replace(&mut self, block: Superpage, parts: &[Superpage], order: Option<u8>) -> bool {
        self.memory.as_mut().is_some_and(|memory| memory.replace(block, parts, order))
    }

    /// Compacts memory for a superpage, and charges for it.
    fn compact(&mut self, block: Superpage, remaps: &mut Vec<Remap>) -> bool {
        let Some(memory) = &mut self.memory else { return false };
        let Some((compaction, moved)) = memory.compact(block.order) else { return false };
        let frames = compaction.frames_moved();
        self.counts.compactions += 1;
        self.counts.frames_moved += frames;
        self.accounts.charge(Account::Compaction, memory.rules.migration_cycles.saturating_mul(frames));
        self.have_moved(moved, Some(block), remaps);
        true
    }

    /// Remaps moved units; parts of `built` are dropped with the promotion.
    fn have_moved(&mut self, moved: Vec<Superpage>, built: Option<Superpage>, remaps: &mut Vec<Remap>) {
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
        moved.iter().for_each(|&unit| self.policy.tell(PolicyEvent::Moved(unit)));
        let is_left = |unit: &Superpage| !built.is_some_and(|block| block.holds(*unit));
        remaps.extend(moved.into_iter().filter(is_left).map(Remap::Moved));
    }
}
