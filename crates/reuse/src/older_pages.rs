//! Pages that left the list of recent pages: an LRU stack for each set of each set count.
//!
//! A page that returns to the list keeps its places here. They are not counted meanwhile, because the page is counted
//! in the list, and nothing moves until the page leaves the list again: then it goes to the top of its stacks. In most
//! of them it is still at the top, because small sets see few pages. When a page returns, only the stacks in which
//! another page lies above it are searched: if no page does for one set count, none does for larger ones either.
//!
//! A stack has 64 places. A page that sinks below the last one has 64 pages above it, here or in the list, until it is
//! referenced again, which is a miss in every array.

use crate::pages::Pages;
use crate::recent_pages::{Entry, SET_COUNTS, Walk};
use std::ops::Range;

/// Number of places of a stack.
pub(crate) const PLACES: usize = 64;
/// Number of places that are compared together.
const PART: usize = 8;
/// Number of sets of all set counts together.
const SETS: usize = (1 << SET_COUNTS) - 1;
/// An empty place; all places below are empty too. Pages are numbered from 1.
const NONE: u32 = 0;
/// A place whose page was invalidated.
const HOLE: u32 = u32::MAX;

/// The number of references by depth and log2 of the set count; depths from [`PLACES`] on miss in every array. The
/// dimensions cover all values of the index types, so that no bounds check is needed.
pub(crate) type Histogram = [[u64; 16]; 256];

type Stack = [u32; PLACES];

pub(crate) struct OlderPages {
    pages: Pages,
    /// By page number: whether the page is in the list of recent pages.
    recent: Vec<bool>,
    /// The stacks of 2^b sets begin at index 2^b - 1.
    stacks: Box<[Stack]>,
    /// Whether any page was ever invalidated.
    holes: bool,
}

impl OlderPages {
    pub fn new() -> OlderPages {
        let stacks = vec![[NONE; PLACES]; SETS].into();
        OlderPages { pages: Pages::new(), recent: Vec::new(), stacks, holes: false }
    }

    /// A page enters the list of recent pages: counts its depth for each set count.
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
                // All places of this stack are beyond the last depth that counts, so their contents do not matter.
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

    /// Puts an entry that left the list on top of the stacks of its sets.
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

    /// Invalidates every page of a range. `from_list` removes a page from the list and returns whether it was there.
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

/// The page at `place`, or deeper than all places, enters the list. The first hole above it is filled by what sinks,
/// unless a hole in the list was; then the page's own place becomes the hole.
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

/// The index of the stack for the page's set among 2^`bits` sets.
#[inline(always)]
fn set(bits: usize, page: u64) -> usize {
    let sets = 1 << bits;
    sets - 1 + (page as usize & (sets - 1))
}

/// The place of a number. Compares part by part without a branch inside a part, so that it compiles to vector code.
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

/// Puts a number on top; the entries above `end` sink by one place, and the one at `end` is overwritten.
#[inline(always)]
fn sink(stack: &mut Stack, number: u32, end: usize) {
    stack.copy_within(..end, 1);
    stack[0] = number;
}

/// Removes a place; the entries below it rise by one.
fn close(stack: &mut Stack, place: usize) {
    stack.copy_within(place + 1.., place);
    stack[PLACES - 1] = NONE;
}
