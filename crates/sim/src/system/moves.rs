//! Translations that enter and leave watched TLBs.

use super::System;
use super::page::Page;
use super::tlbs::{Entries, LAST_DATA, Tlbs};
use crate::software_keys::software_page;
use crate::watched_tlbs::WatchedTlb;
use pagewalk_mm::{Superpage, TlbEntry};
use pagewalk_translate::{Asid, Fills, LowerEntry, TranslationSource};
use pagewalk_units::{Kind, PageSize};

/// A process's entry that entered or left a watched TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let mut all: Vec<TlbMove> = Vec::new();
        for held in self.cores.iter().flat_map(|core| core.tlbs.watched_of(asid)) {
            // Cores may hold the same entry of a TLB that they share in part.
            if !all.contains(&held) {
                all.push(held);
            }
        }
        all.into_iter().map(|held| (held.tlb, held.entry.block)).collect()
    }

    /// Keeps one of equal moves, and none of an entry that other cores' parts of the TLB hold.
    pub(super) fn drop_held_elsewhere(&self, moves: &mut TlbMoves) {
        let watched = self.cores[self.core].tlbs.watched_tlbs();
        if !watched.iter().any(|tlb| tlb.is_partly_shared) {
            return;
        }
        let mut others: Vec<&Tlbs> = self.cores.iter().map(|core| &core.tlbs).collect();
        others.remove(self.core);
        for moves in [&mut moves.entered, &mut moves.left] {
            let mut kept: Vec<TlbMove> = Vec::new();
            for &moved in moves.iter() {
                if !kept.contains(&moved) && !others.iter().any(|tlbs| tlbs.has_moved(moved)) {
                    kept.push(moved);
                }
            }
            *moves = kept;
        }
    }
}

impl Tlbs {
    /// The watched TLBs; empty if no policy watches.
    pub fn watched_tlbs(&self) -> &[WatchedTlb] {
        self.watched.as_ref().map_or(&[], |watched| watched.all())
    }

    /// The watched TLB of a class, if a policy watches.
    pub fn watched_by(&self, class: usize) -> Option<usize> {
        self.watched.as_ref().map(|watched| watched.of(class).number)
    }

    /// An address space's entries in watched TLBs.
    pub(super) fn watched_of(&self, asid: Asid) -> Vec<TlbMove> {
        if let (Some(side), Some(tlb)) = (&self.side, self.watched_by(LAST_DATA)) {
            let held = side.held_in_last(asid).into_iter();
            return held.map(|entry| self.side_move(tlb, entry)).collect();
        }
        let mut entries: Vec<TlbEntry> = Vec::new();
        for first in &self.first {
            let held: Vec<_> = match &first.entries {
                _ if !self.watches(first.index) => continue,
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
        let of_tlb = |tlb: &WatchedTlb| -> Vec<TlbMove> {
            let held = entries.iter().filter(|&&entry| self.has_entry(tlb, asid, entry));
            held.map(|&entry| TlbMove { asid, tlb: tlb.number, entry }).collect()
        };
        self.watched_tlbs().iter().flat_map(of_tlb).collect()
    }

    /// Whether a policy watches an array of the machine.
    pub fn watches(&self, index: usize) -> bool {
        self.watched_tlbs().iter().any(|tlb| tlb.arrays.contains(&index))
    }

    /// The entry of 2^`pages` pages that holds the one of this number and size.
    pub(super) fn entry_of(&self, number: u64, size: PageSize, pages: u32) -> TlbEntry {
        let Superpage { first, order } = self.block(number, size);
        TlbEntry { block: Superpage::around(first, order + pages as u8), order }
    }

    /// The entries of a page in a watched TLB: one, or one for each size of entries.
    fn entries_in(&self, tlb: &WatchedTlb, asid: Asid, page: Page) -> Vec<TlbEntry> {
        let holds = |&&index: &&usize| match self.first.iter().find(|first| first.index == index) {
            Some(first) => first.holds(asid, page),
            None => self.lower.holds(index, asid, page.number, page.size),
        };
        let entry = |&index: &usize| {
            self.entry_of(page.number, page.size, self.machine.tlbs[index].pages_per_entry.ilog2())
        };
        let mut entries: Vec<TlbEntry> = tlb.arrays.iter().filter(holds).map(entry).collect();
        entries.sort_unstable_by_key(|entry| entry.block);
        entries.dedup();
        entries
    }

    /// The entries of a page in a watched TLB, as moves.
    pub fn held_in(&self, tlb: &WatchedTlb, asid: Asid, page: Page) -> Vec<TlbMove> {
        let entries = self.entries_in(tlb, asid, page).into_iter();
        entries.map(|entry| TlbMove { asid, tlb: tlb.number, entry }).collect()
    }

    /// Whether a watched TLB has an entry.
    fn has_entry(&self, tlb: &WatchedTlb, asid: Asid, entry: TlbEntry) -> bool {
        let base = self.machine.paging.base().shift();
        let size = PageSize::from_shift(base + u32::from(entry.order)).expect("its pages have a size");
        let page = Page { number: entry.block.first >> entry.order, size, leaf: size };
        self.entries_in(tlb, asid, page).contains(&entry)
    }

    /// Whether a partly shared TLB has an entry here.
    fn has_moved(&self, TlbMove { asid, tlb, entry }: TlbMove) -> bool {
        let mut shared = self.watched_tlbs().iter().filter(|of| of.is_partly_shared && of.number == tlb);
        shared.any(|of| match self.side {
            Some(_) => self.watched_of(asid).iter().any(|held| held.entry == entry),
            None => self.has_entry(of, asid, entry),
        })
    }

    /// log2 of the pages of this size that an entry of the class's watched TLB maps.
    pub fn pages_together(&self, class: usize, kind: Kind, size: PageSize) -> u8 {
        let Some(watched) = &self.watched else { return 0 };
        let arrays = watched.of(class).arrays.iter().map(|&index| &self.machine.tlbs[index]);
        let taking = arrays.filter(|array| array.takes(kind, size)).max_by_key(|array| array.level);
        taking.map_or(0, |array| array.pages_per_entry.ilog2() as u8)
    }

    /// By watched TLB, the entries of a page before a fill; empty if such a fill moves no entry of any page.
    pub(super) fn held_before(
        &self,
        kind: Kind,
        asid: Asid,
        page: Page,
        served: TranslationSource,
    ) -> Vec<Vec<TlbEntry>> {
        let Some(watched) = &self.watched else { return Vec::new() };
        let level = match served {
            TranslationSource::Walk => None,
            TranslationSource::Level(_) if !watched.moves_on_hits => return Vec::new(),
            TranslationSource::Level(level) => Some(level),
        };
        // The hit of an array that takes victims has moved the entry out.
        let was_in = |&index: &usize| {
            let array = &self.machine.tlbs[index];
            array.fills == Fills::Victims && Some(array.level) == level && array.takes(kind, page.size)
        };
        let held = |tlb: &WatchedTlb| {
            let mut entries = self.entries_in(tlb, asid, page);
            let own = self.entry_of(page.number, page.size, 0);
            if tlb.arrays.iter().any(was_in) && !entries.contains(&own) {
                entries.push(own);
            }
            entries
        };
        watched.all().iter().map(held).collect()
    }

    /// The moves of watched TLBs while a page was filled: `before`, its entries then; `gone`: entries that were
    /// replaced.
    pub(super) fn moves_since(
        &self,
        asid: Asid,
        page: Page,
        before: &[Vec<TlbEntry>],
        gone: &[LowerEntry],
    ) -> TlbMoves {
        let mut moves = TlbMoves::default();
        let entry = |gone: &LowerEntry| self.entry_of(gone.number, gone.size, gone.pages_shift);
        let mut gone: Vec<_> = gone.iter().map(|gone| (entry(gone), gone)).collect();
        // Those of one fill leave at once, so in the order of their addresses.
        gone.sort_unstable_by_key(|&(entry, _)| (entry.block, entry.order));
        for (tlb, before) in self.watched_tlbs().iter().zip(before) {
            for &(entry, gone) in gone.iter().filter(|(_, gone)| tlb.arrays.contains(&gone.array)) {
                let left = TlbMove { asid: gone.asid, tlb: tlb.number, entry };
                // Another array of the same TLB may still hold it, or have passed it on.
                if !self.has_entry(tlb, gone.asid, entry) && !moves.left.contains(&left) {
                    moves.left.push(left);
                }
            }
            let now = self.held_in(tlb, asid, page).into_iter();
            moves.entered.extend(now.filter(|held| !before.contains(&held.entry)));
        }
        moves
    }
}
