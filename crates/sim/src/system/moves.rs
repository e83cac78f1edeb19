//! Translations that enter and leave watched TLBs.

use super::handlers::software_page;
use super::page::Page;
use super::tlbs::{Entries, LAST_DATA, Tlbs};
use crate::classes::{CLASSES, FETCH, KINDS};
use pagewalk_mm::Superpage;
use pagewalk_translate::{Asid, EntryTag};
use pagewalk_units::PageSize;

/// A process's translation that entered or left a watched TLB.
#[derive(Clone, Copy, Debug)]
pub(super) struct TlbMove {
    pub asid: Asid,
    pub tlb: usize,
    pub unit: Superpage,
}

impl TlbMove {
    /// The move of an entry of a data side's array.
    pub fn of(tlb: usize, (page, shift): EntryTag) -> TlbMove {
        let unit = Superpage { first: Asid::number_of(page), order: shift as u8 };
        TlbMove { asid: Asid::of_page(page), tlb, unit }
    }
}

/// Translations that entered and left watched TLBs.
#[derive(Default)]
pub(super) struct TlbMoves {
    pub entered: Option<TlbMove>,
    pub left: Vec<TlbMove>,
}

impl Tlbs {
    /// An address space's entries in watched TLBs.
    pub(super) fn watched_of(&self, asid: Asid) -> Vec<TlbMove> {
        if let (Some(side), Some(tlbs)) = (&self.side, self.watched) {
            return side
                .held_in_last(asid)
                .into_iter()
                .map(|held| TlbMove::of(tlbs[LAST_DATA], held))
                .collect();
        }
        let mut pages: Vec<(u64, PageSize)> = Vec::new();
        for first in self.first.iter().filter(|_| self.last_level == 1) {
            let held: Vec<_> = match &first.entries {
                Entries::Array(array) => array.keys().into_iter().map(Asid::page_of).collect(),
                Entries::Software(mmu) => mmu.pages().map(software_page).collect(),
            };
            let own = held.into_iter().filter(|&(of, ..)| of == asid);
            pages.extend(own.map(|(_, number, size)| (number, size)));
        }
        pages.extend(self.lower.pages_of(asid));
        pages.sort_unstable();
        pages.dedup();
        let of_tlb = |tlb: usize| {
            let held = pages.iter().filter(move |&&(number, size)| {
                self.is_watched_in(tlb, asid, Page { number, size, leaf: size })
            });
            held.map(move |&(number, size)| TlbMove { asid, tlb, unit: self.block(number, size) })
        };
        self.watched().flat_map(of_tlb).collect()
    }

    /// Whether a watched TLB holds a page.
    pub fn is_watched_in(&self, tlb: usize, asid: Asid, page: Page) -> bool {
        let Some(tlbs) = self.watched else { return false };
        if let Some(side) = &self.side {
            let Superpage { first, order } = self.block(page.number, page.size);
            return side.holds_in_last((asid.page(first), order.into()));
        }
        let mut kinds = (0..CLASSES).filter(|&class| tlbs[class] == tlb).map(|class| KINDS[class]);
        if self.last_level == 1 {
            return kinds.any(|kind| {
                let array = self.first.iter().rfind(|first| first.takes(kind, page.size));
                array.is_some_and(|first| first.holds(asid, page))
            });
        }
        kinds.any(|kind| {
            let mut arrays = self.machine.level(self.last_level);
            arrays.any(|(index, tlb)| {
                tlb.serves.has(kind) && self.lower.holds(index, asid, page.number, page.size)
            })
        })
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
