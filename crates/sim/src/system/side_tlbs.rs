//! The translation hardware of a core that is a data side.

use super::moves::{TlbMove, TlbMoves};
use super::page::Page;
use super::tlbs::{LAST_DATA, Tlbs};
use crate::caches::MemoryCaches;
use pagewalk_translate::{Asid, DataSide};
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

    /// The moves of a data side's watched TLB at the fill of a page; `was_there`: the TLB held it before.
    pub fn side_moves(&mut self, tlb: Option<usize>, was_there: bool, asid: Asid, page: Page) -> TlbMoves {
        let enters = tlb.filter(|&tlb| !was_there && self.is_watched_in(tlb, asid, page));
        let unit = self.block(page.number, page.size);
        TlbMoves { entered: enters.map(|tlb| TlbMove { asid, tlb, unit }), ..self.side_left() }
    }

    /// The entries that have left since.
    pub fn side_left(&mut self) -> TlbMoves {
        let Some(tlbs) = self.watched else { return TlbMoves::default() };
        let (side, _) = self.side_and_caches();
        let mut left = side.take_left();
        left.retain(|&held| !side.holds_in_last(held));
        TlbMoves {
            entered: None,
            left: left.into_iter().map(|held| TlbMove::of(tlbs[LAST_DATA], held)).collect(),
        }
    }

    /// Drops base pages of an address space from the data side.
    pub fn invalidate_pages(&mut self, asid: Asid, pages: &Range<u64>) {
        self.side_and_caches().0.invalidate_of(asid, pages);
    }
}
