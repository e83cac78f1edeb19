//! The taken-over ranges of a program's memory, and their places in the file.

use std::collections::BTreeMap;

/// How memory is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// All pages at once.
    Filled,
    /// Pages at their first touch: `MLOCK_ONFAULT`, `MCL_ONFAULT`.
    OnFault,
}

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// `bytes` rounded up to whole pages; a length near 2^64 stays impossibly large.
pub fn whole_pages(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX - PAGE + 1)
}

/// A taken-over range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenRange {
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Its offset in the file.
    pub offset: u64,
    /// Whether the program has locked it.
    pub locked: bool,
}

impl TakenRange {
    /// Its length.
    pub fn bytes(self) -> u64 {
        self.end - self.start
    }

    /// Its part in `[start, end)`.
    pub fn cut(self, start: u64, end: u64) -> Option<TakenRange> {
        let (from, to) = (self.start.max(start), self.end.min(end));
        (from < to).then(|| TakenRange {
            start: from,
            end: to,
            offset: self.offset + (from - self.start),
            ..self
        })
    }
}

/// The ranges, and the unused part of the file.
#[derive(Clone, Debug)]
pub struct Space {
    /// By first address.
    pieces: BTreeMap<u64, TakenRange>,
    /// All offsets from here on are used.
    unused_end: u64,
}

/// The file's length: far more than there are addresses, so that no offset is used twice.
pub const FILE_BYTES: u64 = 1 << 62;
/// Offsets of the heap, which grows in place.
const HEAP: u64 = FILE_BYTES - (1 << 48);

impl Space {
    /// An empty space.
    pub fn new() -> Space {
        Space { pieces: BTreeMap::new(), unused_end: HEAP }
    }

    /// An empty space for a copy of another space's file, whose offsets may be in use.
    pub fn copy_of(other: &Space) -> Space {
        Space { pieces: BTreeMap::new(), unused_end: other.unused_end }
    }

    /// An offset for a new range; none if the file is used up. Offsets descend, as addresses of new mappings do, so
    /// that neighbours are neighbours in the file too and the kernel merges them.
    pub fn allot(&mut self, bytes: u64) -> Option<u64> {
        self.unused_end = self.unused_end.checked_sub(bytes)?;
        Some(self.unused_end)
    }

    /// The file offset of a heap address.
    pub fn heap_offset(address: u64) -> u64 {
        HEAP + address
    }

    /// Adds an unlocked range. It must not overlap others.
    pub fn insert(&mut self, start: u64, bytes: u64, offset: u64) {
        debug_assert!(!self.touches(start, bytes));
        self.pieces.insert(start, TakenRange { start, end: start + bytes, offset, locked: false });
    }

    /// Records that the taken-over parts of `[start, start + bytes)` are locked or unlocked.
    pub fn set_locked(&mut self, start: u64, bytes: u64, locked: bool) {
        for piece in self.remove(start, bytes) {
            self.pieces.insert(piece.start, TakenRange { locked, ..piece });
        }
    }

    /// Moves a range to another address, keeping its place in the file. The new place must be free.
    pub fn shift(&mut self, start: u64, bytes: u64, to: u64) {
        for piece in self.remove(start, bytes) {
            let start = to + (piece.start - start);
            self.pieces.insert(start, TakenRange { start, end: start + piece.bytes(), ..piece });
        }
    }

    /// Locked bytes.
    pub fn locked_bytes(&self) -> u64 {
        self.pieces().filter(|piece| piece.locked).map(TakenRange::bytes).sum()
    }

    /// The taken-over parts of `[start, start + bytes)`, in order.
    pub fn within(&self, start: u64, bytes: u64) -> Vec<TakenRange> {
        let end = start.saturating_add(bytes);
        let before = self.pieces.range(..start).next_back().map(|(_, piece)| *piece);
        let after = self.pieces.range(start..end).map(|(_, piece)| *piece);
        before.into_iter().chain(after).filter_map(|piece| piece.cut(start, end)).collect()
    }

    /// The other parts of `[start, start + bytes)`, as starts and lengths.
    pub fn gaps(&self, start: u64, bytes: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut from = start;
        for piece in self.within(start, bytes) {
            if from < piece.start {
                gaps.push((from, piece.start - from));
            }
            from = piece.end;
        }
        let end = start.saturating_add(bytes);
        if from < end {
            gaps.push((from, end - from));
        }
        gaps
    }

    /// Whether any of it is taken over.
    pub fn touches(&self, start: u64, bytes: u64) -> bool {
        !self.within(start, bytes).is_empty()
    }

    /// Removes a range; returns its taken-over parts.
    pub fn remove(&mut self, start: u64, bytes: u64) -> Vec<TakenRange> {
        let removed = self.within(start, bytes);
        let end = start.saturating_add(bytes);
        for piece in &removed {
            let before = self.pieces.range(..=piece.start).next_back().map(|(_, piece)| *piece);
            let whole = before.expect("a part of a piece begins in it");
            self.pieces.remove(&whole.start);
            for rest in [whole.cut(0, start), whole.cut(end, u64::MAX)].into_iter().flatten() {
                self.pieces.insert(rest.start, rest);
            }
        }
        removed
    }

    /// The file offset of an address.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.within(address, 1).first().map(|piece| piece.offset)
    }

    /// All ranges, in order.
    pub fn pieces(&self) -> impl Iterator<Item = TakenRange> + '_ {
        self.pieces.values().copied()
    }

    /// Bytes taken over.
    pub fn bytes(&self) -> u64 {
        self.pieces().map(TakenRange::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, end: u64, offset: u64) -> TakenRange {
        TakenRange { start, end, offset, locked: false }
    }

    fn space() -> Space {
        let mut space = Space::new();
        space.insert(0x10000, 0x4000, 0x100000);
        space.insert(0x14000, 0x2000, 0x300000);
        space.insert(0x20000, 0x1000, 0x200000);
        space
    }

    #[test]
    fn parts_know_their_place_in_the_file() {
        let parts = space().within(0x12000, 0x10000);
        assert_eq!(
            parts,
            [
                piece(0x12000, 0x14000, 0x102000),
                piece(0x14000, 0x16000, 0x300000),
                piece(0x20000, 0x21000, 0x200000),
            ]
        );
        assert_eq!(space().offset_of(0x14abc), Some(0x300abc));
        assert_eq!(space().offset_of(0x16000), None);
        assert_eq!(space().gaps(0xf000, 0x8000), [(0xf000, 0x1000), (0x16000, 0x1000)]);
    }

    #[test]
    fn a_hole_leaves_both_ends() {
        let mut space = space();
        assert_eq!(space.remove(0x11000, 0x1000), [piece(0x11000, 0x12000, 0x101000)]);
        let left: Vec<TakenRange> = space.pieces().collect();
        assert_eq!(left[0], piece(0x10000, 0x11000, 0x100000));
        assert_eq!(left[1], piece(0x12000, 0x14000, 0x102000));
        assert_eq!(space.bytes(), 0x6000);
        assert_eq!(space.remove(0, u64::MAX).len(), 4);
        assert_eq!(space.bytes(), 0);
    }

    #[test]
    fn locks_go_where_memory_goes() {
        let mut space = space();
        space.set_locked(0x13000, 0x2000, true);
        assert_eq!(space.locked_bytes(), 0x2000);
        space.shift(0x14000, 0x2000, 0x40000);
        assert!(space.within(0x40000, 0x1000)[0].locked && !space.within(0x41000, 0x1000)[0].locked);
        assert_eq!(space.offset_of(0x41000), Some(0x301000));
        space.remove(0x13000, 0x1000);
        assert_eq!(space.locked_bytes(), 0x1000);
        space.set_locked(0, u64::MAX, false);
        assert_eq!(space.locked_bytes(), 0);
    }

    #[test]
    fn offsets_are_given_out_once() {
        let mut space = Space::new();
        let first = space.allot(0x1000).unwrap();
        assert_eq!(space.allot(0x3000).unwrap() + 0x3000, first);
        assert_eq!(Space::copy_of(&space).allot(0x1000).unwrap() + 0x4000, first);
        assert_eq!(space.allot(u64::MAX), None);
        assert_eq!(whole_pages(1), PAGE);
        assert_eq!(whole_pages(u64::MAX) % PAGE, 0);
    }
}
