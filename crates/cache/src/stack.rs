//! The lines of a cache with least-recently-used replacement, in each set from the latest to the oldest.
//!
//! A hit moves its line to the front, and a fill drops the last one: the order is all the state there is, and most hits
//! are among the first. Source: Mattson, Gecsei, Slutz, Traiger, "Evaluation Techniques for Storage Hierarchies", IBM
//! Systems Journal 9 (2), 1970. Sets of many ways would be searched too long: see [`LruStack::WAYS_MAX`].

use crate::lanes::{self, DIRTY, Lanes, Portable, Work};
use crate::slices::Slices;
use crate::{CacheSpec, Requester};
use pagewalk_setassoc::prefetch;

/// Marks an empty place; no line has this number.
const EMPTY: u64 = u64::MAX;

/// Uses by requester.
type Uses = [u64; Requester::ALL.len()];

/// Sets of lines in order of use, in arrays of fixed lengths: compilers unroll their searches, and move all lines at
/// once.
#[derive(Clone, Debug)]
pub(crate) enum LruStack {
    Of4(Sets<4>),
    Of8(Sets<8>),
    Of12(Sets<12>),
    Of16(Sets<16>),
    Of32(Sets<32>),
}

/// Sets of at most so many lines.
#[derive(Clone, Debug)]
pub(crate) struct Sets<const MOST: usize> {
    ways: usize,
    mask: u64,
    slices: Slices,
    sets: Vec<Set<MOST>>,
}

/// One set: its lines from the latest to the oldest; empty places come last. Aligned, so that eight places are one line
/// of the host's caches.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Set<const MOST: usize>([u64; MOST]);

/// What a set did with a line that came in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entered {
    /// It held the line.
    Held,
    /// It has the line now, in place of its oldest.
    Filled(Oldest),
}

/// What left the last place of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Oldest(u64);

impl Oldest {
    /// An empty place.
    pub const NONE: Oldest = Oldest(EMPTY);

    /// A line, and whether it was dirty.
    pub fn of(line: u64, dirty: bool) -> Oldest {
        Oldest(line | dirt(dirty))
    }

    /// The line, and whether it was dirty; `None` if the place was empty.
    #[inline(always)]
    pub fn line(self) -> Option<(u64, bool)> {
        (self.0 != EMPTY).then_some((self.0 & !DIRTY, self.0 & DIRTY != 0))
    }
}

/// Does the same with sets of any length.
macro_rules! with_sets {
    ($stack:expr, $sets:ident => $body:expr) => {
        match $stack {
            LruStack::Of4($sets) => $body,
            LruStack::Of8($sets) => $body,
            LruStack::Of12($sets) => $body,
            LruStack::Of16($sets) => $body,
            LruStack::Of32($sets) => $body,
        }
    };
}

/// Does the same with the sets of two stacks of one length.
macro_rules! with_both {
    ($one:expr, $other:expr, $sets:ident, $others:ident => $body:expr) => {
        match ($one, $other) {
            (LruStack::Of4($sets), LruStack::Of4($others)) => $body,
            (LruStack::Of8($sets), LruStack::Of8($others)) => $body,
            (LruStack::Of12($sets), LruStack::Of12($others)) => $body,
            (LruStack::Of16($sets), LruStack::Of16($others)) => $body,
            (LruStack::Of32($sets), LruStack::Of32($others)) => $body,
            _ => unreachable!("they are of the same caches"),
        }
    };
}

impl LruStack {
    /// The largest set that is searched in order.
    pub const WAYS_MAX: usize = 32;

    /// An empty stack of a checked cache.
    pub fn new(spec: &CacheSpec) -> LruStack {
        match spec.geometry.ways() {
            ..=4 => LruStack::Of4(Sets::new(spec)),
            5..=8 => LruStack::Of8(Sets::new(spec)),
            9..=12 => LruStack::Of12(Sets::new(spec)),
            13..=16 => LruStack::Of16(Sets::new(spec)),
            17.. => LruStack::Of32(Sets::new(spec)),
        }
    }

    /// Looks a line up; a hit makes it the latest, and dirty if the access `soils` it.
    #[inline(always)]
    pub fn touch(&mut self, lanes: impl Lanes, line: u64, soils: bool) -> bool {
        with_sets!(self, sets => sets.set_mut(line).0.touch(lanes, line, soils))
    }

    /// Puts a missing line in; returns the oldest if the set was full.
    #[inline(always)]
    pub fn fill(&mut self, line: u64, dirty: bool) -> Oldest {
        with_sets!(self, sets => {
            let (set, ways) = sets.set_mut(line);
            set.push(line, dirty, ways)
        })
    }

    /// [`LruStack::touch`], and if the line is missing [`LruStack::fill`].
    #[inline(always)]
    pub fn enter(&mut self, lanes: impl Lanes, line: u64, soils: bool) -> Entered {
        with_sets!(self, sets => {
            let (set, ways) = sets.set_mut(line);
            if set.touch(lanes, line, soils) { Entered::Held } else { Entered::Filled(set.push(line, soils, ways)) }
        })
    }

    /// Uses lines, or with no requester makes them dirty, as long as they are here. Returns how many; `hits` counts the
    /// uses by requester.
    #[inline]
    pub fn use_while_held(
        &mut self,
        lines: impl Iterator<Item = (u64, Option<Requester>)>,
        hits: &mut Uses,
    ) -> usize {
        with_sets!(self, sets => lanes::run(UseWhileHeld { sets, lines, hits }))
    }

    /// Gives a line up; returns whether it was dirty, if it was there.
    #[inline(always)]
    pub fn give(&mut self, lanes: impl Lanes, line: u64) -> Option<bool> {
        with_sets!(self, sets => sets.set_mut(line).0.give(lanes, line))
    }

    /// Makes a line dirty if it is here; returns whether it is. That is no use.
    #[inline(always)]
    pub fn soil(&mut self, line: u64) -> bool {
        with_sets!(self, sets => sets.set_mut(line).0.soil(Portable, line))
    }

    /// Makes a line dirty that is the latest of its set.
    pub fn soil_latest(&mut self, line: u64) {
        with_sets!(self, sets => sets.set_mut(line).0.0[0] |= DIRTY);
    }

    /// Prefetches the set of a line.
    #[inline(always)]
    pub fn prefetch(&self, line: u64) {
        with_sets!(self, sets => sets.prefetch(line));
    }

    /// What would leave the set of a line for another.
    #[inline(always)]
    pub fn oldest(&self, line: u64) -> Oldest {
        with_sets!(self, sets => sets.sets[sets.number(line)].oldest(sets.ways))
    }

    /// The sets of a slice.
    pub fn sets_of_slice(&self) -> usize {
        with_sets!(self, sets => sets.slices.sets())
    }

    /// The sets whose numbers are `part` modulo `parts`.
    pub fn sets_of_part(&self, part: usize, parts: usize) -> LruStack {
        macro_rules! of {
            ($($length:ident)*) => {
                match self {
                    $(LruStack::$length(sets) => LruStack::$length(sets.of_part(part, parts)),)*
                }
            };
        }
        of!(Of4 Of8 Of12 Of16 Of32)
    }

    /// Sets those sets, of the same cache.
    pub fn set_part(&mut self, part: usize, parts: usize, from: &LruStack) {
        with_both!(self, from, sets, others => {
            let own = sets.sets.iter_mut().skip(part).step_by(parts);
            own.zip(&others.sets).for_each(|(set, other)| *set = *other);
        });
    }

    /// Whether those sets are those of another stack of the same cache.
    pub fn has_sets_of(&self, other: &LruStack, part: usize, parts: usize) -> bool {
        with_both!(self, other, sets, others => {
            sets.sets.iter().zip(&others.sets).skip(part).step_by(parts).all(|(set, other)| set == other)
        })
    }

    /// All lines.
    pub fn all(&self) -> Vec<u64> {
        with_sets!(self, sets => {
            let places = sets.sets.iter().flat_map(|set| set.0);
            places.filter(|&place| place != EMPTY).map(|place| place & !DIRTY).collect()
        })
    }
}

impl<const MOST: usize> Sets<MOST> {
    fn new(spec: &CacheSpec) -> Sets<MOST> {
        let geometry = Slices::geometry(spec).expect("checked");
        Sets {
            ways: geometry.ways(),
            mask: geometry.sets() as u64 - 1,
            slices: Slices::new(spec),
            sets: vec![Set([EMPTY; MOST]); geometry.sets()],
        }
    }

    fn of_part(&self, part: usize, parts: usize) -> Sets<MOST> {
        Sets { sets: self.sets.iter().skip(part).step_by(parts).copied().collect(), ..*self }
    }

    #[inline(always)]
    fn number(&self, line: u64) -> usize {
        (self.slices.number(line) & self.mask) as usize
    }

    /// The set of a line, and its ways.
    #[inline(always)]
    fn set_mut(&mut self, line: u64) -> (&mut Set<MOST>, usize) {
        let number = self.number(line);
        (&mut self.sets[number], self.ways)
    }

    #[inline(always)]
    fn prefetch(&self, line: u64) {
        let places = self.sets[self.number(line)].0.as_ptr();
        // Lines of the host's caches.
        (0..MOST).step_by(8).for_each(|first| prefetch(places.wrapping_add(first)));
    }
}

/// See [`LruStack::use_while_held`].
struct UseWhileHeld<'a, I, const MOST: usize> {
    sets: &'a mut Sets<MOST>,
    lines: I,
    hits: &'a mut Uses,
}

impl<I: Iterator<Item = (u64, Option<Requester>)>, const MOST: usize> Work for UseWhileHeld<'_, I, MOST> {
    type Result = usize;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> usize {
        let UseWhileHeld { sets, lines, hits } = self;
        let mut used = 0;
        for (line, by) in lines {
            let (set, _) = sets.set_mut(line);
            let held = match by {
                Some(_) => set.touch(lanes, line, false),
                None => set.soil(lanes, line),
            };
            if !held {
                break;
            }
            if let Some(by) = by {
                hits[by as usize] += 1;
            }
            used += 1;
        }
        used
    }
}

impl<const MOST: usize> Set<MOST> {
    #[inline(always)]
    fn touch(&mut self, lanes: impl Lanes, line: u64, soils: bool) -> bool {
        let Some(place) = lanes.place_of(&self.0, line) else { return false };
        lanes.to_front(&mut self.0, place);
        self.0[0] |= dirt(soils);
        true
    }

    #[inline(always)]
    fn oldest(&self, ways: usize) -> Oldest {
        Oldest(self.0[ways - 1])
    }

    /// Puts a line before all others; returns what is then one too many.
    #[inline(always)]
    fn push(&mut self, line: u64, dirty: bool, ways: usize) -> Oldest {
        let oldest = self.oldest(ways);
        let before = self.0;
        self.0[1..].copy_from_slice(&before[..MOST - 1]);
        self.0[0] = line | dirt(dirty);
        if ways < MOST {
            self.0[ways] = EMPTY;
        }
        oldest
    }

    #[inline(always)]
    fn give(&mut self, lanes: impl Lanes, line: u64) -> Option<bool> {
        let place = lanes.place_of(&self.0, line)?;
        let before = self.0;
        for at in 0..MOST - 1 {
            self.0[at] = if at < place { before[at] } else { before[at + 1] };
        }
        self.0[MOST - 1] = EMPTY;
        Some(before[place] & DIRTY != 0)
    }

    #[inline(always)]
    fn soil(&mut self, lanes: impl Lanes, line: u64) -> bool {
        let place = lanes.place_of(&self.0, line);
        place.into_iter().for_each(|place| self.0[place] |= DIRTY);
        place.is_some()
    }
}

#[inline(always)]
fn dirt(dirty: bool) -> u64 {
    if dirty { DIRTY } else { 0 }
}
