//! Translations that enter and leave watched TLBs.

use super::System;
use super::handlers::software_page;
use super::page::Page;
use super::tlbs::{Entries, LAST_DATA, Tlbs};
use crate::classes::{CLASSES, FETCH, KINDS};
use pagewalk_mm::{Superpage, TlbEntry};
use pagewalk_translate::Asid;
use pagewalk_units::{Kind, PageSize};

/// A process's entry that entered or left a watched TLB.
#[derive(Clone, Copy, Debug)]
pub(super) struct TlbMove {
    pub asid: Asid,
    pub tlb: usize,
    pub entry: TlbEntry,
}

/// Entries that entered and left watched TLBs.
#[derive(Default)]
pub(super) struct TlbMoves {
    pub entered: Vec<TlbMove>,
    pub left: Vec<TlbMove>,
}

impl TlbMoves {
    /// Entries that have left, and none that entered.
    pub fn left(left: Vec<TlbMove>) -> TlbMoves {
        TlbMoves { entered: Vec::new(), left }
    }
}

impl System {
    /// An address space's entries in watched TLBs: the TLB's number, and the block that the entry maps.
    pub fn watched(&self, asid: Asid) -> Vec<(usize, Superpage)> {
        let held = self.cores.iter().flat_map(|core| core.tlbs.watched_of(asid));
        held.map(|held| (held.tlb, held.entry.block)).collect()
    }
}

impl Tlbs {
    /// An address space's entries in watched TLBs.
    pub(super) fn watched_of(&self, asid: Asid) -> Vec<TlbMove> {
        if let (Some(side), Some(tlbs)) = (&self.side, self.watched) {
            let held = side.held_in_last(asid).into_iter();
            return held.map(|entry| self.side_move(tlbs[LAST_DATA], entry)).collect();
        }
        let mut entries: Vec<TlbEntry> = Vec::new();
        for first in self.first.iter().filter(|_| self.last_level == 1) {
            let held: Vec<_> = match &first.entries {
                Entries::Array(array) => array.keys().into_iter().map(Asid::page_of).collect(),
                Entries::Software(mmu) => mmu.pages().map(software_page).collect(),
            };
            let own = held.into_iter().filter(|&(of, ..)| of == asid);
            entries.extend(own.map(|(_, number, size)| self.entry_of(number, size, 0)));
        }
        let below = self.lower.entries_of(asid);
        entries.extend(below.map(|entry| self.entry_of(entry.number, entry.size, entry.pages_shift)));
        entries.sort_unstable_by_key(|entry| (entry.order, entry.block));
        entries.dedup();
        let of_tlb = |tlb: usize| {
            let held = entries.iter().filter(move |&&entry| self.has_entry(tlb, asid, entry));
            held.map(move |&entry| TlbMove { asid, tlb, entry })
        };
        self.watched().flat_map(of_tlb).collect()
    }

    /// The entry of 2^`pages` pages that holds the one of this number and size.
    pub(super) fn entry_of(&self, number: u64, size: PageSize, pages: u32) -> TlbEntry {
        let Superpage { first, order } = self.block(number, size);
        TlbEntry { block: Superpage::around(first, order + pages as u8), order }
    }

    /// The entries of a page in a watched TLB: one, or one for each size of entries.
    pub fn entries_in(&self, tlb: usize, asid: Asid, page: Page) -> Vec<TlbEntry> {
        let mut entries = self.watched_arrays(tlb, asid, page);
        entries.sort_unstable_by_key(|entry| entry.block);
        entries.dedup();
        entries
    }

    fn watched_arrays(&self, tlb: usize, asid: Asid, page: Page) -> Vec<TlbEntry> {
        let Some(tlbs) = self.watched else { return Vec::new() };
        let kinds = || (0..CLASSES).filter(|&class| tlbs[class] == tlb).map(|class| KINDS[class]);
        if self.last_level == 1 {
            let is_there = kinds().any(|kind| {
                let array = self.first.iter().rfind(|first| first.takes(kind, page.size));
                array.is_some_and(|first| first.holds(asid, page))
            });
            return is_there.then(|| self.entry_of(page.number, page.size, 0)).into_iter().collect();
        }
        let arrays = self.machine.level(self.last_level).filter(|(index, array)| {
            kinds().any(|kind| array.serves.has(kind))
                && self.lower.holds(*index, asid, page.number, page.size)
        });
        let entry = |pages: u32| self.entry_of(page.number, page.size, pages.ilog2());
        arrays.map(|(_, array)| entry(array.pages_per_entry)).collect()
    }

    /// Whether a watched TLB has an entry.
    fn has_entry(&self, tlb: usize, asid: Asid, entry: TlbEntry) -> bool {
        let base = self.machine.paging.base().shift();
        let size = PageSize::from_shift(base + u32::from(entry.order)).expect("its pages have a size");
        let page = Page { number: entry.block.first >> entry.order, size, leaf: size };
        self.watched_arrays(tlb, asid, page).contains(&entry)
    }

    /// log2 of the pages of this size that an entry of the last level maps.
    pub fn pages_together(&self, kind: Kind, size: PageSize) -> u8 {
        let mut last = self.machine.level(self.last_level).map(|(_, array)| array);
        last.find(|array| array.takes(kind, size)).map_or(0, |array| array.pages_per_entry.ilog2() as u8)
    }

    /// The moves of watched TLBs while a page was filled: `before`, its entries then; `gone`: entries that were
    /// replaced.
    pub(super) fn moves_since(
        &self,
        tlb: usize,
        asid: Asid,
        page: Page,
        before: &[TlbEntry],
        gone: impl Iterator<Item = (Asid, TlbEntry)>,
    ) -> TlbMoves {
        // Another array of the same TLB may still hold it.
        let left = gone.filter(|&(of, entry)| !self.has_entry(tlb, of, entry));
        let left = left.map(|(asid, entry)| TlbMove { asid, tlb, entry }).collect();
        let now = self.entries_in(tlb, asid, page).into_iter();
        let entered = now.filter(|entry| !before.contains(entry));
        TlbMoves { entered: entered.map(|entry| TlbMove { asid, tlb, entry }).collect(), left }
    }

    /// The watched TLB of a class, if a policy watches.
    pub fn watched_by(&self, class: usize) -> Option<usize> {
        self.watched.map(|tlbs| tlbs[class])
    }

    /// The numbers of the watched TLBs; empty if no policy watches.
    pub fn watched(&self) -> std::ops::Range<usize> {
        self.watched.map_or(0..0, |tlbs| tlbs[LAST_DATA].min(tlbs[FETCH])..tlbs[FETCH] + 1)
    }
}
