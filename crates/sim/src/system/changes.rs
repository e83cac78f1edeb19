//! Effects of events on pages and translations.

use super::System;
use super::host::HostMemory;
use super::page::Page;
use super::process::{Memory, Process};
use crate::data_side::opened;
use crate::ranges::parted_blocks;
use crate::removals::Removal;
use pagewalk_mm::Change;
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::Asid;
use pagewalk_units::{RefIndex, SpaceId, VirtAddr};
use std::collections::BTreeSet;
use std::ops::Range;

impl Analysis for System {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.run_on_core(batch, 0..batch.spans.len());
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        if self.killed.is_some() {
            return;
        }
        self.known.forget();
        self.observe_event(event);
        let is_side = self.is_side();
        let opened = if is_side { opened(event, &self.process().space) } else { Vec::new() };
        let mut changes = Vec::new();
        self.process().space.apply(event, &mut changes);
        for change in changes {
            self.change(change);
            if is_side {
                self.change_side(change);
            }
        }
        if is_side {
            self.note_side(event, &opened);
        }
        match *event {
            Event::Advise { start, bytes, .. } => self.part(start, bytes),
            Event::Spin { instructions } => {
                self.clock.spun = self.clock.spun.saturating_add(instructions);
            }
            _ => {}
        }
        self.tell_of(event);
    }

    fn on_turn(&mut self, space: SpaceId) {
        self.switch_to(Asid::new(space.0).expect("programs_max bounds them"));
    }
}

impl System {
    fn change(&mut self, change: Change) {
        let paging = self.machine().paging;
        let Some(taken) = Removal::by(change, &self.process().space, paging) else { return };
        let Removal { start, bytes, range, pages, gone } = taken;
        let is_side = self.is_side();
        match &self.process().memory {
            Memory::Own(_) => self.change_own(&pages, &gone),
            // Data sides drop ranges of pages.
            Memory::Host(_) if is_side => self.drop_shared(pages.clone()),
            Memory::Host(_) => self.drop_touched(pages.clone()),
        }
        self.invalidate_tables(start, bytes);
        self.split_ends(&range);
        self.retire(pages.clone(), &gone);
        let now = self.clock.instructions;
        let Process { pages: touched, memory: Memory::Host(host), .. } = self.process() else { return };
        host.gone(pages, &gone, now, |region| touched.range(region).count() as u64);
    }

    /// A change under a simulated kernel.
    fn change_own(&mut self, pages: &Range<u64>, gone: &Range<u64>) {
        let now = self.clock.instructions;
        let Some(kernel) = self.process().kernel() else { return };
        kernel.reached(now);
        for unit in kernel.table().units_in(pages.clone()) {
            self.drop_block(unit, true);
        }
        let Process { space, memory: Memory::Own(own), .. } = self.process() else { return };
        let mut remaps = Vec::new();
        own.kernel.flushed(pages.clone(), &mut remaps);
        if !gone.is_empty() {
            own.kernel.gone(gone.clone(), space, &mut remaps);
        }
        self.remap(remaps, None);
        if let Memory::Own(own) = &mut self.process().memory {
            own.forget(gone.clone());
        }
    }

    /// Drops the translations of a range's touched pages, under the host's kernel.
    fn drop_touched(&mut self, pages: Range<u64>) {
        let touched: Vec<u64> = self.process().pages.range(pages).map(|(&vpn, _)| vpn).collect();
        let mut pieces = BTreeSet::new();
        for vpn in touched {
            let (asid, page) = self.translation(vpn);
            if page.leaf > page.size {
                pieces.insert(vpn >> self.machine().paging.huge_order());
            } else {
                self.invalidate(asid, page);
            }
        }
        for region in pieces {
            let pieces = self.pieces_of(region);
            self.drop_pieces(pieces);
        }
    }

    /// Drops the translations of a range's global pages.
    fn drop_shared(&mut self, pages: Range<u64>) {
        let shared = self.process().pages.range(pages).filter(|(_, touched)| touched.global);
        for vpn in shared.map(|(&vpn, _)| vpn).collect::<Vec<_>>() {
            self.invalidate(Asid::GLOBAL, Page::base(vpn, self.machine().paging.base()));
        }
    }

    /// The touched pieces of a huge page.
    fn pieces_of(&mut self, region: u64) -> Vec<u64> {
        let order = self.machine().paging.huge_order();
        let process = self.process();
        let touched = process.pages.range(region << order..(region + 1) << order).map(|(&vpn, _)| vpn);
        let is_piece = |&vpn: &u64| {
            let page = process.page(vpn);
            page.leaf > page.size
        };
        touched.filter(is_piece).collect()
    }

    /// Drops pieces of a huge page.
    fn drop_pieces(&mut self, pieces: Vec<u64>) {
        let base = self.machine().paging.base();
        for vpn in pieces {
            let (asid, _) = self.translation(vpn);
            self.invalidate(asid, Page::base(vpn, base));
        }
    }

    /// Splits a huge page of the host's kernel; false where there is none.
    fn split(&mut self, region: u64, split: impl Fn(&mut HostMemory, u64) -> bool) -> bool {
        let vpn = region << self.machine().paging.huge_order();
        let (page, pieces) = (self.process().page(vpn), self.pieces_of(region));
        let Memory::Host(host) = &mut self.process().memory else { return false };
        if !split(host, region) {
            return false;
        }
        match page.leaf > page.size {
            true => self.drop_pieces(pieces),
            false => {
                let asid = self.asid;
                self.invalidate(asid, page);
            }
        }
        true
    }

    /// Splits huge pages that a range covers in part: the rest becomes small pages.
    fn split_ends(&mut self, range: &Range<u64>) {
        let Memory::Host(host) = &self.process().memory else { return };
        for region in host.reaching_out(range) {
            self.split(region, HostMemory::split);
        }
    }

    /// Advice on a part of an area splits the area, and the kernel's huge pages at the new boundaries.
    fn part(&mut self, start: VirtAddr, bytes: u64) {
        let huge = self.machine().paging.huge();
        for region in parted_blocks(&self.process().space, start, bytes, huge) {
            if self.split(region, HostMemory::split) {
                self.invalidate_tables(VirtAddr(region << huge.shift()), huge.bytes());
            }
        }
    }

    /// Drops a range of the running process's tables from walkers' caches on all cores.
    fn invalidate_tables(&mut self, start: VirtAddr, bytes: u64) {
        let asid = self.asid;
        for core in &mut self.cores {
            core.tlbs.enter(asid);
            core.tlbs.invalidate_tables(start, bytes);
            core.tlbs.enter(core.asid);
        }
    }

    /// Removes touched pages that are gone. For global pages the process stops using them, or they stop being global.
    fn retire(&mut self, pages: Range<u64>, gone: &Range<u64>) {
        let shared = self.process().pages.range(pages).filter(|(_, page)| page.global);
        // A shared page may become the process's own: the huge page that then maps it lives on.
        for vpn in shared.map(|(&vpn, _)| vpn).collect::<Vec<_>>() {
            self.change_global(vpn, gone.contains(&vpn));
        }
        self.process().pages.extract_if(gone.clone(), |_, page| !page.global).for_each(drop);
    }
}
