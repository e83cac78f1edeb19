//! The translation hardware of a core that is a data side.

use super::moves::{TlbMove, TlbMoves};
use super::tlbs::{LAST_DATA, Tlbs};
use crate::caches::MemoryCaches;
use pagewalk_mm::{Superpage, TlbEntry};
use pagewalk_translate::{Asid, DataSide, EntryMoves, EntryTag};
use std::ops::Range;

impl Tlbs {
    /// The data side, and the caches that its walks go through.
    ///
    /// # Panics
    /// If the machine is no data side.
    pub fn side_and_caches(&mut self) -> (&mut DataSide, Option<&mut MemoryCaches>) {
        (self.side.as_deref_mut().expect("the machine is a data side"), self.memory.as_mut())
    }

    /// The data side, for its counts.
    pub fn side(&self) -> Option<&DataSide> {
        self.side.as_deref()
    }

    /// Whether level 1 of the data side serves a reference to a page, by the page's number there.
    #[inline]
    pub fn side_hits(&mut self, class: usize, page: u64) -> bool {
        self.lookups[class] += 1;
        self.side_and_caches().0.hits(page, 1)
    }

    /// The moves of a data side's watched TLB since the last call.
    pub fn side_moves(&mut self) -> TlbMoves {
        let Some(tlb) = self.watched_by(LAST_DATA) else { return TlbMoves::default() };
        let EntryMoves { entered, left } = self.side_and_caches().0.take_moves();
        let moves =
            |entries: Vec<EntryTag>| entries.into_iter().map(|entry| self.side_move(tlb, entry)).collect();
        TlbMoves { entered: moves(entered), left: moves(left) }
    }

    /// The move of an entry of a data side's array.
    pub fn side_move(&self, tlb: usize, (page, shift): EntryTag) -> TlbMove {
        let block = Superpage { first: Asid::number_of(page), order: shift as u8 };
        let base = self.machine.paging.base().shift();
        let is_page = self
            .machine
            .level(self.machine.last_level())
            .any(|(_, array)| array.page_sizes.iter().any(|size| size.shift() - base == shift));
        let order = if is_page { block.order } else { 0 };
        TlbMove { asid: Asid::of_page(page), tlb, entry: TlbEntry { block, order } }
    }

    /// The moves when base pages of an address space are dropped from the data side.
    pub fn side_drops(&self, asid: Asid, pages: &Range<u64>) -> Vec<TlbMove> {
        let (Some(side), Some(tlb)) = (&self.side, self.watched_by(LAST_DATA)) else { return Vec::new() };
        let dropped = side.dropped_in_last(asid, pages).into_iter();
        dropped.map(|entry| self.side_move(tlb, entry)).collect()
    }

    /// Drops base pages of an address space from the data side.
    pub fn invalidate_pages(&mut self, asid: Asid, pages: &Range<u64>) {
        self.side_and_caches().0.invalidate_of(asid, pages);
    }
}
