//! The caches of one line size: a least-recently-used stack for each set of each set count.
//!
//! Lines spread much further than pages, so the list of `recent_pages` would mostly be walked in vain. Three properties
//! keep the work for a reference small, whatever the number of set counts (Hill and Smith, "Evaluating associativity in
//! CPU caches", IEEE Transactions on Computers 38 (12), 1989, section 3: set refinement):
//!
//! - The sets of more sets are parts of those of fewer: a line that is on top of its stack for one set count is on top
//!   for all larger ones, where nothing has to be done.
//! - For the same reason its depth does not grow with the set count. Counts are visited from the largest that is left
//!   to the smallest, so each search starts at the depth that the last one ended in.
//! - Once a line is deeper than the stack has places, it is for all smaller set counts, too: it goes on top of those
//!   without a search.
//!
//! The stack of the one set of all lines continues in a [`Timeline`], which gives the misses of fully associative
//! caches of any size.

use crate::pages::Pages;
use crate::stack::HOLE;
use crate::timeline::Timeline;

/// Set counts are 2^0 to 2^12.
pub(crate) const SET_COUNTS: usize = 13;
/// Number of places of a stack.
pub(crate) const WAYS: usize = 32;
/// Number of sets of all set counts together.
const SETS: usize = (1 << SET_COUNTS) - 1;
/// Number of places that are compared together.
const PART: usize = 8;

/// Numbers of lines, most recently used first; [`HOLE`] in places that were never filled.
type Stack = [u32; WAYS];

const NO_LINE: u64 = u64::MAX;

pub(crate) struct LineSets {
    /// The two most recently used lines, the most recent first.
    last: [u64; 2],
    /// How often those two alternated since their stacks were brought up to date.
    turns: u64,
    /// All earlier alternations of two lines, by the number of low bits in which they agree.
    turns_alike: [u64; u64::BITS as usize],
    lines: Pages,
    /// The stacks of 2^b sets begin at index 2^b - 1.
    stacks: Box<[Stack]>,
    /// References that one of the arrays hits, by log2 of the set count and depth from 1.
    depths: [[u64; WAYS]; SET_COUNTS],
    /// References that miss for the smallest set counts whatever the ways, by how many set counts these are.
    deeper: [u64; SET_COUNTS + 1],
    /// All lines below the stack of one set.
    below: Timeline,
    /// References by depth in `below`.
    below_depths: Vec<u64>,
    cold: u64,
}

impl LineSets {
    pub fn new() -> LineSets {
        LineSets {
            last: [NO_LINE; 2],
            turns: 0,
            turns_alike: [0; u64::BITS as usize],
            lines: Pages::new(),
            stacks: vec![[HOLE; WAYS]; SETS].into(),
            depths: [[0; WAYS]; SET_COUNTS],
            deeper: [0; SET_COUNTS + 1],
            below: Timeline::new(),
            below_depths: Vec::new(),
            cold: 0,
        }
    }

    /// References a line.
    #[inline(always)]
    pub fn touch(&mut self, line: u64) {
        let [last, before] = self.last;
        if line == last {
            return;
        }
        self.last = [line, last];
        if line == before {
            self.turns += 1;
            return;
        }
        if self.turns > 0 {
            self.flush_turns([last, before]);
        }
        self.refer(line);
    }

    /// Brings the stacks of two lines that alternated up to date, the most recent first.
    fn flush_turns(&mut self, [last, before]: [u64; 2]) {
        let turns = std::mem::take(&mut self.turns);
        let alike = low_bits_alike(last, before);
        self.turns_alike[alike] += turns;
        if turns % 2 == 1 {
            // They are on top where they share a set, and elsewhere both are the first of theirs.
            (0..SET_COUNTS.min(alike + 1)).for_each(|bits| self.stacks[set(bits, last)].swap(0, 1));
        }
    }

    #[inline(never)]
    fn refer(&mut self, line: u64) {
        let seen = self.lines.len();
        let number = self.lines.number(line);
        let mut left = 0;
        while left < SET_COUNTS && self.stacks[set(left, line)][0] != number {
            left += 1;
        }
        let mut depth = if self.lines.len() > seen { WAYS } else { 1 };
        while depth < WAYS && left > 0 {
            let stack = &mut self.stacks[set(left - 1, line)];
            depth = place_of(stack, number, depth);
            if depth < WAYS {
                left -= 1;
                self.depths[left][depth] += 1;
                sink(stack, number, depth);
            }
        }
        if left > 0 {
            self.refer_deep(line, number, left);
        }
    }

    /// The rest of [`LineSets::refer`]: a line that none of the `left` smallest set counts has in a stack.
    #[inline(never)]
    fn refer_deep(&mut self, line: u64, number: u32, left: usize) {
        self.deeper[left] += 1;
        let sunk = self.stacks[0][WAYS - 1];
        for bits in 0..left {
            sink_all(&mut self.stacks[set(bits, line)], number);
        }
        match self.below.refer(number, sunk) {
            Some(depth) => {
                if self.below_depths.len() <= depth {
                    self.below_depths.resize(depth + 1, 0);
                }
                self.below_depths[depth] += 1;
            }
            None => self.cold += 1,
        }
    }

    /// Misses of the cache of 2^`bits` sets of `ways` lines.
    pub fn misses(&self, bits: usize, ways: usize) -> u64 {
        let deep =
            self.deeper[bits + 1..].iter().sum::<u64>() + self.depths[bits][ways..].iter().sum::<u64>();
        // Of two lines that alternate in one set, each has depth 1.
        let [last, before] = self.last;
        let pending = if self.turns > 0 && low_bits_alike(last, before) >= bits { self.turns } else { 0 };
        let turns = self.turns_alike[bits..].iter().sum::<u64>() + pending;
        if ways == 1 { deep + turns } else { deep }
    }

    /// Misses of the fully associative cache of so many lines.
    pub fn full_misses(&self, lines: usize) -> u64 {
        match lines {
            0..WAYS => self.misses(0, lines),
            _ => self.cold + self.below_depths.iter().skip(lines - WAYS).sum::<u64>(),
        }
    }

    /// First touches of lines.
    pub fn cold(&self) -> u64 {
        self.cold
    }
}

/// The number of low bits in which two different numbers agree.
#[inline(always)]
fn low_bits_alike(number: u64, other: u64) -> usize {
    // The remainder changes nothing; it tells the compiler that the result is below 64.
    (number ^ other).trailing_zeros() as usize % u64::BITS as usize
}

/// The index of the stack for the line's set among 2^`bits` sets.
#[inline(always)]
fn set(bits: usize, line: u64) -> usize {
    let sets = 1 << bits;
    sets - 1 + (line as usize & (sets - 1))
}

/// The place of a number, which is at `least` or below; [`WAYS`] if it is not there. Compares part by part without a
/// branch inside a part, so that it compiles to vector code.
#[inline(always)]
fn place_of(stack: &Stack, number: u32, least: usize) -> usize {
    for (at, part) in stack.as_chunks::<PART>().0.iter().enumerate().skip(least / PART) {
        let held = (0..PART).fold(0, |held, place| held | u32::from(part[place] == number) << place);
        if held != 0 {
            return PART * at + held.trailing_zeros() as usize;
        }
    }
    WAYS
}

/// Puts a number on top; the entries above `end` sink by one place, and the one at `end` is overwritten. Writes a whole
/// part, or all, without a branch: how deep a line is cannot be foreseen.
#[inline(always)]
fn sink(stack: &mut Stack, number: u32, end: usize) {
    match stack.first_chunk_mut::<PART>() {
        Some(part) if end < PART => sink_to(part, number, end as u32),
        _ => sink_to(stack, number, end as u32),
    }
}

#[inline(always)]
fn sink_to<const PLACES: usize>(places: &mut [u32; PLACES], number: u32, end: u32) {
    let old = *places;
    for place in 1..PLACES {
        places[place] = if place as u32 <= end { old[place - 1] } else { old[place] };
    }
    places[0] = number;
}

/// The same with the last place as the end.
#[inline(always)]
fn sink_all(stack: &mut Stack, number: u32) {
    let old = *stack;
    stack[0] = number;
    stack[1..].copy_from_slice(&old[..WAYS - 1]);
}
