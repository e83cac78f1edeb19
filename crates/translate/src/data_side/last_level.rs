//! What enters, leaves and lies in the last level's page arrays.

use super::hierarchy::DataSide;
use super::memory::SideMemoryView;
use super::tag::{EntryMoves, EntryTag, held, lies_in, tag};
use super::way_array::WayArray;
use crate::Asid;
use pagewalk_units::PageSize;
use std::ops::Range;

impl DataSide {
    /// From now on tracks entries that enter and leave the last level's page arrays, except by invalidation.
    pub fn track_moves(&mut self) {
        self.moves = Some(EntryMoves::default());
    }

    /// The entries that have entered and left since.
    pub fn take_moves(&mut self) -> EntryMoves {
        let EntryMoves { mut entered, mut left } =
            self.moves.as_mut().map(std::mem::take).unwrap_or_default();
        entered.retain(|&entry| self.holds_in_last(entry));
        // Another array may still hold it.
        left.retain(|&entry| !self.holds_in_last(entry));
        EntryMoves { entered, left }
    }

    /// Notes an entry that a fill makes, unless it is there.
    pub(super) fn enters(&mut self, entry: Option<EntryTag>) {
        let entry = entry.filter(|&entry| !self.holds_in_last(entry));
        self.moves.iter_mut().for_each(|moves| moves.entered.extend(entry));
    }

    /// Notes entries that have left the last level.
    pub(super) fn leave(&mut self, entries: impl IntoIterator<Item = EntryTag>) {
        if let Some(moves) = &mut self.moves {
            moves.left.extend(entries);
        }
    }

    /// The entries that [`DataSide::fill`] makes in the last level's page arrays.
    pub fn entries_of(&self, page: u64, size: PageSize, memory: &mut impl SideMemoryView) -> Vec<EntryTag> {
        let sizes = self.fill_sizes(page, size, memory);
        if self.second.is_empty() {
            let fits = self.probes.iter().map(|probe| probe.shift).filter(|&shift| shift <= sizes.largest);
            return fits.max().map(|shift| (page >> shift << shift, shift)).into_iter().collect();
        }
        let mut entries: Vec<EntryTag> =
            self.second.iter().filter_map(|second| second.entry(page, sizes, memory)).collect();
        entries.dedup();
        entries
    }

    /// Whether a page array of the last level has this entry.
    pub fn holds_in_last(&self, entry: EntryTag) -> bool {
        if self.second.is_empty() {
            let (page, shift) = entry;
            return self.first.iter().any(|array| array.contains(page >> shift, tag(page, shift)));
        }
        self.second.iter().any(|second| second.holds(entry))
    }

    /// Entries of an address space in the last level's page arrays, in order.
    pub fn held_in_last(&self, asid: Asid) -> Vec<EntryTag> {
        self.overlapping(&asid.pages())
    }

    /// Entries of the last level's page arrays that a change of these base pages drops, in order.
    pub fn dropped_in_last(&self, asid: Asid, pages: &Range<u64>) -> Vec<EntryTag> {
        self.overlapping(&(asid.page(pages.start)..asid.page(pages.end)))
    }

    fn overlapping(&self, pages: &Range<u64>) -> Vec<EntryTag> {
        let mut all: Vec<EntryTag> = self.second.iter().flat_map(|second| second.dropped(pages)).collect();
        if self.second.is_empty() {
            let tags = self.first.iter().flat_map(WayArray::tags);
            all.extend(tags.filter(|&tag| lies_in(tag, pages)).map(held));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}
