//! A column-associative array (Agarwal, Pudar, "Column-Associative Caches: A Technique for Reducing the Miss Rate of
//! Direct-Mapped Caches", ISCA 1993, section 2).
//!
//! It is direct-mapped, and each line has a second place: its first with the highest bit of the index flipped. A
//! rehash bit says that a line lies in its second place. A lookup that finds another line in the first place goes on to
//! the second, unless that other line is in its own second place: then nothing was moved away from here. A hit in the
//! second place swaps both lines. A miss takes the first place and moves the line there to its second, but a line that
//! lies there in its second place goes at once.
//!
//! Lines may also be removed here, unlike in the source. An empty place has no rehash bit, so lookups go on to the
//! second place; a fill takes it and moves nothing.

/// Marks an empty place; never a line.
const EMPTY: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Column {
    lines: Vec<u64>,
    rehashed: Vec<bool>,
}

/// What a fill did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    /// Where the line is now.
    pub slot: usize,
    /// The line that left, and from where.
    pub evicted: Option<(u64, usize)>,
    /// Where the line went that had the slot.
    pub moved_to: Option<usize>,
}

impl Column {
    /// An empty array of `sets` lines, a power of two of at least 2.
    pub fn new(sets: usize) -> Column {
        Column { lines: vec![EMPTY; sets], rehashed: vec![false; sets] }
    }

    /// How many lines there can be.
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    fn first(&self, line: u64) -> usize {
        line as usize & (self.lines.len() - 1)
    }

    /// The other place of the lines that have this one.
    pub fn other(&self, slot: usize) -> usize {
        slot ^ (self.lines.len() / 2)
    }

    /// Looks a line up; returns where it is then, and the place that it swapped with.
    pub fn touch(&mut self, line: u64) -> Option<(usize, Option<usize>)> {
        let first = self.first(line);
        if self.lines[first] == line {
            return Some((first, None));
        }
        let second = self.other(first);
        if self.rehashed[first] || self.lines[second] != line {
            return None;
        }
        self.lines.swap(first, second);
        self.rehashed[second] = self.lines[second] != EMPTY;
        Some((first, Some(second)))
    }

    /// Puts a missing line in.
    pub fn insert(&mut self, line: u64) -> Filled {
        let slot = self.first(line);
        let moved_to = (self.lines[slot] != EMPTY && !self.rehashed[slot]).then(|| self.other(slot));
        let from = moved_to.unwrap_or(slot);
        let evicted = Some((self.lines[from], from)).filter(|&(line, _)| line != EMPTY);
        if let Some(second) = moved_to {
            self.lines[second] = self.lines[slot];
            self.rehashed[second] = true;
        }
        self.lines[slot] = line;
        self.rehashed[slot] = false;
        Filled { slot, evicted, moved_to }
    }

    /// All lines.
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.lines.iter().copied().filter(|&line| line != EMPTY)
    }

    /// Where a line is.
    pub fn slot_of(&self, line: u64) -> Option<usize> {
        let first = self.first(line);
        [first, self.other(first)].into_iter().find(|&slot| self.lines[slot] == line)
    }

    /// Empties a place.
    pub fn remove(&mut self, slot: usize) {
        self.lines[slot] = EMPTY;
        self.rehashed[slot] = false;
    }
}
