//! What sank out of the list of recent pages: a stack for each set of each set count.
//!
//! A page that returns to the list keeps its places here. They do not count meanwhile, as the page is counted in the
//! list, and nothing moves until it sinks again: then it goes to the top of its stacks, and in most of them it
//! still is there, because small sets see few pages. A return costs a look at those stacks alone in which
//! something lies above the page: where nothing does, nothing does for more sets either.
//!
//! A stack ends after 64 places. What sinks below has 64 pages above it that are here or in the list, until it is
//! referenced again: a miss for every array.

use crate::pages::Pages;
use crate::recent_pages::{Entry, SET_COUNTS, Walk};
use std::ops::Range;

/// Places of a stack.
pub(crate) const PLACES: usize = 64;
/// Places that are looked at together.
const PART: usize = 8;
/// Sets of all set counts together.
const SETS: usize = (1 << SET_COUNTS) - 1;
/// A place without page: there is none below either. Pages are numbered from 1.
const NONE: u32 = 0;
/// A place whose page was taken away.
const HOLE: u32 = u32::MAX;

/// By depth and log2 of the set count: references that found their page there; those from [`PLACES`] on miss in every
/// array. As large as the indices' types, so that none needs a check.
pub(crate) type Histogram = [[u64; 16]; 256];

type Stack = [u32; PLACES];

pub(crate) struct OlderPages {
    pages: Pages,
    /// By page number: whether the page is in the list of recent ones.
    recent: Vec<bool>,
    /// Those of 2^b sets begin at 2^b - 1.
    stacks: Box<[Stack]>,
    /// Whether a page was ever taken away.
    holes: bool,
}

impl OlderPages {
    pub fn new() -> OlderPages {
        let stacks = vec![[NONE; PLACES]; SETS].into();
        OlderPages { pages: Pages::new(), recent: Vec::new(), stacks, holes: false }
    }

    /// A page goes to the list, which did not hold it: counts for each set count how deep it was.
    #[inline(never)]
    pub fn take(&mut self, page: u64, walk: &Walk, histogram: &mut Histogram) {
        let number = self.pages.number(page);
        if self.recent.len() <= number as usize {
            self.recent.resize(number as usize + 1, false);
        }
        let mut count = |bits: usize, depth: usize| histogram[depth.min(PLACES)][bits] += 1;
        for bits in 0..SET_COUNTS {
            let above = walk.depths.of(bits);
            if above >= PLACES {
                // All places of the stack are as deep, and can only sink: what stands in them does not matter.
                count(bits, PLACES);
                continue;
            }
            let stack = &mut self.stacks[set(bits, page)];
            let place = place_of(stack, number);
            let counts = |&held: &u32| held == HOLE || !self.recent[held as usize];
            let depth = place.map_or(PLACES, |place| {
                above + stack[..place].iter().map(|held| usize::from(counts(held))).sum::<usize>()
            });
            if self.holes {
                fill_hole(stack, place, walk.swallowed >> bits & 1 == 1);
            }
            if depth == 0 {
                break;
            }
            count(bits, depth);
        }
        self.recent[number as usize] = true;
    }

    /// Puts what sank out of the list on top of its sets' stacks.
    #[inline(never)]
    pub fn put(&mut self, entry: Entry) {
        if entry.is_ghost() {
            for bits in (0..SET_COUNTS).filter(|bits| entry.stands() >> bits & 1 == 1) {
                sink(&mut self.stacks[set(bits, entry.page())], HOLE, PLACES - 1);
            }
            return;
        }
        let number = self.pages.number(entry.page());
        self.recent[number as usize] = false;
        for bits in 0..SET_COUNTS {
            let stack = &mut self.stacks[set(bits, entry.page())];
            if stack[0] != number {
                let place = place_of(stack, number);
                sink(stack, number, place.unwrap_or(PLACES - 1));
            }
        }
    }

    /// Takes away every page of a range. `from_list` takes one out of the list and says whether it was there.
    pub fn remove(&mut self, pages: Range<u64>, mut from_list: impl FnMut(u64) -> bool) {
        self.pages.seen(pages, |page, number| {
            let listed = from_list(page);
            self.holes = true;
            for bits in 0..SET_COUNTS {
                let stack = &mut self.stacks[set(bits, page)];
                match place_of(stack, number) {
                    Some(place) if listed => close(stack, place),
                    Some(place) => stack[place] = HOLE,
                    None => {}
                }
            }
        });
    }
}

/// The page at `place`, or deeper than all places, goes to the list: the first hole above it swallows what sinks,
/// unless one in the list has, and then the page's own place is the hole.
fn fill_hole(stack: &mut Stack, place: Option<usize>, swallowed: bool) {
    let hole = if swallowed { None } else { place_of(stack, HOLE) };
    let hole = hole.filter(|&hole| place.is_none_or(|place| hole < place));
    if let (Some(place), true) = (place, swallowed || hole.is_some()) {
        stack[place] = HOLE;
    }
    if let Some(hole) = hole {
        close(stack, hole);
    }
}

/// Where the stack of a page's set is, of 2^`bits` sets.
#[inline(always)]
fn set(bits: usize, page: u64) -> usize {
    let sets = 1 << bits;
    sets - 1 + (page as usize & (sets - 1))
}

/// The place of a number. Part by part without a branch inside: a vector does that.
#[inline(always)]
fn place_of(stack: &Stack, number: u32) -> Option<usize> {
    for (at, part) in stack.as_chunks::<PART>().0.iter().enumerate() {
        if part.iter().fold(false, |any, &held| any | (held == number)) {
            return Some(PART * at + part.iter().position(|&held| held == number)?);
        }
        if part[PART - 1] == NONE {
            break;
        }
    }
    None
}

/// Puts a number on top: the places above `end` sink, over that at `end`.
#[inline(always)]
fn sink(stack: &mut Stack, number: u32, end: usize) {
    stack.copy_within(..end, 1);
    stack[0] = number;
}

/// Closes the gap that a place leaves.
fn close(stack: &mut Stack, place: usize) {
    stack.copy_within(place + 1.., place);
    stack[PLACES - 1] = NONE;
}
