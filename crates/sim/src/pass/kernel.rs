//! The kernel's side of the pass: first touches, and changes of mappings.
//!
//! Mappings are recorded in units of 4 KiB. A larger base page may lie in several mappings, or partly in none, which no
//! kernel with such pages would allow. The rules:
//!
//! - A base page is touched once. It belongs to the mapping of its lowest mapped byte at its first touch, and that
//!   byte's area decides whether it may join a huge page.
//! - A change of any part of it drops its translation.
//! - It is gone when unmapping or discarding covers all of it or leaves none of it mapped. If some of it stays mapped,
//!   the page stays.

use crate::attribution::Observer;
use crate::bits::bits;
use crate::classes::STORE;
use crate::pass::Pass;
use crate::pass::follower::Follower;
use crate::pass::walks::add_references;
use crate::ranges::{added, advised, blocks_at_ends, page_bytes, parted_blocks, whole_pages};
use crate::removals::Removal;
use crate::store::{PageStore, Unit};
use pagewalk_mm::{AddressSpace, Change, FirstTouch, MappingId, Remap, Vma};
use pagewalk_trace::{Event, Ref, ThpDisable};
use pagewalk_units::{Kind, Paging, VirtAddr};
use std::ops::Range;
use std::sync::Arc;

impl<O: Observer> Pass<O> {
    /// First touch of a page: the policies decide.
    pub(crate) fn fault(&mut self, vpn: u64, stores: bool, ahead: &[Ref]) -> u32 {
        self.executed.pages_touched += 1;
        if let Some(page) = self.share(vpn) {
            return page;
        }
        let page = self.add_page(vpn, stores, ahead);
        self.process.counts_of(self.store.pages[page as usize].mapping).pages_touched += 1;
        page
    }

    /// Adds the running space's own page.
    pub(crate) fn add_page(&mut self, vpn: u64, stores: bool, ahead: &[Ref]) -> u32 {
        let named = self.process.space.mapping_of(self.store.bytes_of(vpn));
        let mapping = self.kernel_huge_page_at(vpn).unwrap_or(named);
        let page = self.store.add_page(self.store.asid_at(vpn), vpn, mapping, self.executed.instructions);
        let id = self.store.pages[page as usize].unit;
        if self.store.units[id as usize].pages_peak == 1 {
            self.store.units[id as usize].extent =
                extent(&self.process.space, mapping, self.store.block_number(vpn), self.store.paging);
        }
        self.untouched.touch(
            &self.store,
            self.store.units[id as usize].asid,
            vpn,
            self.executed.instructions,
        );
        self.note_early(vpn, id);
        self.part_followers(vpn, id);
        let huge = self.store.paging.huge();
        for design in bits(self.sets.kernels & self.sets.active) {
            self.designs[design].os_reached(self.executed.instructions);
            let remaps = self.designs[design].os_touched(&self.process.space, vpn, stores);
            self.remap(design, remaps, None, ahead);
            if self.designs[design].os_killed() {
                self.kill(design, 1, ahead);
            }
        }
        let block = self.store.block_number(vpn);
        let vma = self.process.space.vma_within(self.store.bytes_of(vpn));
        let forbidden = self.process.space.thp_disable();
        let owner = self.store.units[id as usize].owner();
        let fault = |populated| FirstTouch::new(block, huge, owner, vma, populated, forbidden);
        let populated = self.store.populated(id);
        let unit = &mut self.store.units[id as usize];
        unit.hugetlb |= fault(false).is_hugetlb();
        for design in self.designs.iter().filter(|design| design.decides()) {
            if (unit.huge | unit.small) & design.mask() == 0 {
                let fault = fault(populated & design.mask() != 0);
                // A larger base page may remain from an earlier partial mapping.
                let own = fault.is_hugetlb() && design.maps_hugetlb && !fault.populated;
                let huge = own || design.policy.wants_huge(&fault);
                *(if huge { &mut unit.huge } else { &mut unit.small }) |= design.mask();
                if huge && design.policy.is_kernels(&fault) {
                    unit.kernels |= design.mask();
                }
            }
        }
        page
    }

    /// A store to a page that all designs know; kernels hear of it if the page is protected.
    pub(crate) fn stored(&mut self, page: u32) {
        let vpn = self.store.pages[page as usize].vpn;
        for design in bits(self.sets.kernels & self.sets.active) {
            if self.designs[design].os_protects(vpn) {
                self.designs[design].os_reached(self.executed.instructions);
                let remaps = self.designs[design].os_stored(&self.process.space, vpn);
                self.remap(design, remaps, None, &[]);
                if self.designs[design].os_killed() {
                    self.kill(design, 0, &[]);
                }
            }
        }
    }

    /// Marks the process as a fork's child, before anything else: kernels that share pages then take what is mapped at
    /// its start for its parent's.
    pub fn begin_as_child(&mut self) {
        for os in self.designs.iter_mut().filter_map(|design| design.os.as_mut()) {
            os.kernel.begin_as_child();
        }
    }

    /// The program executes its first instruction.
    pub(crate) fn start(&mut self) {
        self.process.space.start_running();
        for os in self.designs.iter_mut().filter_map(|design| design.os.as_mut()) {
            os.kernel.started(&self.process.space);
        }
    }

    /// Reports an event to kernels.
    pub(crate) fn tell_kernels(&mut self, event: &Event) {
        match event {
            &Event::Fork { child } => self.forked(child),
            Event::Advise { start, bytes, advice } => self.advise(*start, *bytes, *advice),
            &Event::ThpDisable { mode } => self.forbid(mode),
            &Event::Idle { nanoseconds } => self.sleep(nanoseconds),
            _ => {}
        }
        if let Some(child) = event.reaped() {
            self.child_ended(child);
        }
        if let Some(bytes) = added(event) {
            self.map(bytes);
        }
    }

    /// The process changes which transparent huge pages it forbids.
    fn forbid(&mut self, mode: ThpDisable) {
        for os in self.designs.iter_mut().filter_map(|design| design.os.as_mut()) {
            os.kernel.forbidden(mode);
        }
    }

    /// No thread of the process runs for this time; kernels do what is due meanwhile.
    fn sleep(&mut self, nanoseconds: u64) {
        for design in bits(self.sets.kernels & self.sets.active) {
            self.designs[design].os_reached(self.executed.instructions);
            if let Some(os) = &mut self.designs[design].os {
                os.kernel.slept(nanoseconds);
            }
            self.wake(design);
        }
    }

    /// A child of the process has ended.
    fn child_ended(&mut self, child: u32) {
        for design in bits(self.sets.kernels & self.sets.active) {
            self.designs[design].os_reached(self.executed.instructions);
            if let Some(os) = &mut self.designs[design].os {
                os.kernel.child_ended(child);
            }
        }
    }

    /// The process has forked.
    fn forked(&mut self, child: u32) {
        for design in bits(self.sets.kernels & self.sets.active) {
            self.designs[design].os_reached(self.executed.instructions);
            let remaps = self.designs[design].os_forked(child, &self.process.space);
            self.remap(design, remaps, None, &[]);
        }
    }

    /// Ends the process in one design, at a first touch or a store. The design's counts cover everything before that
    /// reference, and instructions to the end of its block. `new_pages`: pages that the reference counted as touched.
    fn kill(&mut self, design: usize, new_pages: u64, ahead: &[Ref]) {
        self.course.disturbed = true;
        self.give_back(ahead, 0);
        self.settle();
        // The rest of the row's fetches were counted when it began.
        let fetches = self.store.running.fetches;
        self.designs[design].os_take_back_fetches(self.store.running.vpn, fetches);
        let mut counts = self.design_counts(design, None);
        counts.data_references -= (self.course.left + ahead.len()) as u64;
        counts.pages_touched -= new_pages;
        self.results.killed.push((design, counts));
        self.sets.active &= !self.designs[design].mask();
    }

    /// Lets a design's kernel do what is due after a miss.
    pub(crate) fn serve(&mut self, design: usize, class: usize, kind: Kind, page: u32, ahead: &[Ref]) {
        let vpn = self.store.pages[page as usize].vpn;
        self.designs[design].os_reached(self.executed.instructions);
        let mut unit = self.designs[design].os_served(vpn);
        while let Some(from) = unit {
            let Some((due, remaps)) = self.designs[design].os_due(from, &self.process.space) else { return };
            // A superpage elsewhere enters the TLBs at its own miss.
            let holds_it = due.pages().contains(&vpn);
            self.remap(design, remaps, holds_it.then_some((class, kind)), ahead);
            unit = Some(due);
        }
    }

    /// Lets a design's kernel do due background work at a miss. The reference is counted already: if the work changes
    /// the size of its page, its count follows.
    pub(crate) fn wake_at(&mut self, design: usize, class: usize, page: u32) {
        let now = self.executed.instructions;
        if !self.designs[design].os_wakes(now) {
            return self.designs[design].os_reached(now);
        }
        let vpn = self.store.pages[page as usize].vpn;
        let before = self.designs[design].os_size(vpn);
        self.wake(design);
        self.designs[design].os_resized(class, before, vpn);
    }

    /// Lets a design's kernel do due background work. At misses only, since nothing could notice earlier.
    pub(crate) fn wake(&mut self, design: usize) {
        self.designs[design].os_reached(self.executed.instructions);
        let remaps = self.designs[design].os_wake(&self.process.space, self.executed.instructions);
        self.remap(design, remaps, None, &[]);
    }

    /// Lets kernels swap a page back in. Pages that designs hold are backed.
    #[inline(always)]
    pub(crate) fn backed(&mut self, class: usize, page: u32, ahead: &[Ref]) -> u32 {
        if self.sets.swapping != 0 {
            self.bring_back(class, page, ahead);
        }
        page
    }

    #[inline(never)]
    fn bring_back(&mut self, class: usize, page: u32, ahead: &[Ref]) {
        let vpn = self.store.pages[page as usize].vpn;
        for design in bits(self.sets.swapping & self.sets.active & !self.store.held(page, class)) {
            if self.designs[design].os_lacks(vpn) {
                self.designs[design].os_reached(self.executed.instructions);
                let remaps = self.designs[design].os_touched(&self.process.space, vpn, class == STORE);
                self.remap(design, remaps, None, ahead);
                if self.designs[design].os_killed() {
                    self.kill(design, 0, ahead);
                }
            }
        }
    }

    /// The program advises on a range of bytes.
    fn advise(&mut self, start: VirtAddr, bytes: u64, advice: i32) {
        let pages = advised(start, bytes, self.store.paging.base());
        for design in bits(self.sets.kernels & self.sets.active) {
            self.designs[design].os_reached(self.executed.instructions);
            let remaps = self.designs[design].os_advised(&self.process.space, pages.clone(), advice);
            self.remap(design, remaps, None, &[]);
        }
    }

    /// Bytes were added to the address space.
    fn map(&mut self, bytes: Range<u64>) {
        let pages = whole_pages(bytes, self.store.paging.base());
        for design in bits(self.sets.kernels & self.sets.active) {
            self.designs[design].os_reached(self.executed.instructions);
            let remaps = self.designs[design].os_mapped(&self.process.space, pages.clone());
            self.remap(design, remaps, None, &[]);
        }
    }

    fn remap(&mut self, design: usize, remaps: Vec<Remap>, fill: Option<(usize, Kind)>, ahead: &[Ref]) {
        if remaps.iter().any(|remap| !matches!(remap, Remap::Mapped(_))) {
            self.course.disturbed = true;
            self.give_back(ahead, 0);
        }
        self.designs[design].remap(&mut self.store, remaps, fill);
    }

    /// Gives every follower that decides differently from the first design its own design.
    fn part_followers(&mut self, vpn: u64, unit: u32) {
        let Unit { huge, small, .. } = self.store.units[unit as usize];
        let owner = self.store.units[unit as usize].owner();
        if (huge | small) & 1 != 0 {
            return;
        }
        let populated = self.store.populated(unit) & 1 != 0;
        let (block, huge) = (self.store.block_number(vpn), self.store.paging.huge());
        let forbidden = self.process.space.thp_disable();
        let fault = FirstTouch::new(block, huge, owner, self.vma_of(vpn), populated, forbidden);
        if fault.is_hugetlb() && self.designs[0].maps_hugetlb {
            return;
        }
        let first = self.designs[0].policy.wants_huge(&fault);
        let parts = |f: &Follower| f.design.is_none() && f.policy.wants_huge(&fault) != first;
        let parting: Vec<usize> =
            (0..self.followers.len()).filter(|&index| parts(&self.followers[index])).collect();
        for index in parting {
            let Follower { name, policy, .. } = &self.followers[index];
            let (name, policy) = (name.clone(), Arc::clone(policy));
            self.followers[index].design = Some(self.fork(name, policy));
        }
    }

    /// The mapping of the kernel's huge page that backs `vpn`, if there is one.
    fn kernel_huge_page_at(&self, vpn: u64) -> Option<MappingId> {
        let made = |unit: &&Unit| !unit.hugetlb && unit.kernels != 0;
        self.store.units_in(self.store.block_number(vpn)).find(made).map(|unit| unit.mapping)
    }

    /// Records how much of each of the `wanted` units is mapped now.
    pub(crate) fn note_extents(&mut self, wanted: impl Fn(&Unit) -> bool) {
        for unit in self.store.units.iter_mut().filter(|unit| unit.pages > 0 && wanted(unit)) {
            let runs = unit.asid == self.store.asid;
            let space = if runs {
                Some(&self.process.space)
            } else {
                self.spaces.parked.get(&unit.asid).map(|process| &process.space)
            };
            if let Some(space) = space {
                let now = extent(space, unit.mapping, unit.number, self.store.paging);
                unit.extent = unit.extent.max(now);
            }
        }
    }

    pub(crate) fn apply(&mut self, change: Change) {
        let Some(taken) = Removal::by(change, &self.process.space, self.store.paging) else { return };
        let Removal { start, bytes, range, pages: ends, gone } = taken;
        let pages = self.store.pages_in(ends.clone());
        for design in &mut self.designs {
            design.os_reached(self.executed.instructions);
            match &design.os {
                Some(_) => design.os_change(&mut self.store, &self.process.space, ends.clone(), gone.clone()),
                None => design.invalidate(&mut self.store, &pages),
            }
        }
        for design in &mut self.designs {
            design.walker.invalidate(start, bytes);
            design.siblings.invalidate_walks(start, bytes);
        }
        self.split_at_ends(&range);
        let is_gone = |store: &PageStore, page: u32| gone.contains(&store.pages[page as usize].vpn);
        let (shared, own): (Vec<_>, Vec<_>) = pages.into_iter().partition(|&page| self.store.is_global(page));
        // A shared page may become the process's own: the huge page that then maps it lives on.
        for page in shared {
            self.change_global(page, is_gone(&self.store, page));
        }
        for page in own {
            if is_gone(&self.store, page) {
                self.retire(page);
            }
        }
        self.untouched.free(&self.store, ends, &gone, self.executed.instructions);
    }

    /// The area of a base page: that of its lowest mapped byte.
    pub(crate) fn vma_of(&self, vpn: u64) -> Option<&Vma> {
        self.process.space.vma_within(self.store.bytes_of(vpn))
    }

    /// Splits huge pages that a range covers in part: the rest becomes small pages.
    fn split_at_ends(&mut self, range: &Range<u64>) {
        let huge = self.store.paging.huge();
        let is_in_part = |bytes: Range<u64>| bytes.start < range.start || range.end < bytes.end;
        for block in
            blocks_at_ends(range, huge).into_iter().filter(|&block| is_in_part(page_bytes(block, huge)))
        {
            self.split_block(block);
        }
    }

    /// Advice on a part of an area splits the area, and the kernel's huge pages at the new boundaries.
    pub(crate) fn part(&mut self, start: VirtAddr, bytes: u64) {
        let huge = self.store.paging.huge();
        for block in parted_blocks(&self.process.space, start, bytes, huge) {
            let start = VirtAddr(block << huge.shift());
            for design in bits(self.split_block(block)) {
                let design = &mut self.designs[design];
                design.walker.invalidate(start, huge.bytes());
                design.siblings.invalidate_walks(start, huge.bytes());
            }
        }
    }

    /// Splits the huge pages of a block, if the policy splits. Returns the designs that had some.
    fn split_block(&mut self, block: u64) -> u64 {
        let order = self.store.paging.huge_order();
        let pages = self.store.pages_in(block << order..(block + 1) << order);
        pages.into_iter().fold(0, |designs, page| designs | self.split(page))
    }

    /// Splits the huge page around `page` in every design whose policy splits. Returns those designs.
    fn split(&mut self, page: u32) -> u64 {
        let unit = self.store.pages[page as usize].unit;
        let Unit { huge, hugetlb, .. } = self.store.units[unit as usize];
        let owner = self.store.units[unit as usize].owner();
        self.store.units[unit as usize].kernels = 0;
        let mut split = 0;
        for design in bits(if hugetlb { 0 } else { huge }) {
            let design = &mut self.designs[design];
            if design.policy.splits(owner) {
                design.invalidate(&mut self.store, &[page]);
                self.store.settle_unit(unit);
                let unit = &mut self.store.units[unit as usize];
                unit.huge &= !design.mask();
                unit.small |= design.mask();
                split |= design.mask();
            }
        }
        self.untouched.leave(&self.store, unit, split, self.executed.instructions);
        split
    }

    /// Moves a page's counts to its mapping and removes it.
    pub(crate) fn retire(&mut self, page: u32) {
        let gone = self.store.pages[page as usize];
        let tally = self.store.tallies[page as usize];
        tally.add_to(self.process.counts_of(gone.mapping));
        if tally.walks != [0; 2] {
            let kept = self.process.retired_walks.entry((gone.vpn, gone.mapping)).or_default();
            kept[0] += tally.walks[0];
            kept[1] += tally.walks[1];
        }
        self.store.remove_page(page);
        let Unit { pages, block, .. } = self.store.units[gone.unit as usize];
        if pages == 0 {
            self.store.settle_unit(gone.unit);
            let left = self.store.units[gone.unit as usize].clone();
            add_references(self.process.counts_of(left.mapping), &left);
            self.untouched.end_unit(&self.store, gone.unit, self.executed.instructions);
            self.store.remove_unit(gone.unit);
        }
        if self.store.blocks[block as usize].pages == 0 {
            self.untouched.end_block(&self.store, block, self.executed.instructions);
        }
    }
}

/// Base pages of a block that hold some of `mapping`.
fn extent(space: &AddressSpace, mapping: MappingId, block: u64, paging: Paging) -> u32 {
    space.pages_within(mapping, page_bytes(block, paging.huge()), paging.base()) as u32
}
