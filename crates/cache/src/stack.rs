//! The lines of a cache with least-recently-used replacement, in each set from the latest to the oldest.
//!
//! A hit moves its line to the front, and a fill drops the last one: the order is all the state there is, and most hits
//! are among the first. Source: Mattson, Gecsei, Slutz, Traiger, "Evaluation Techniques for Storage Hierarchies", IBM
//! Systems Journal 9 (2), 1970. Sets of many ways would be searched too long: see [`LruStack::WAYS_MAX`].
//!
//! Lines are [words](short_lines), so that a set of 16 is one line of the host's caches.

use crate::lanes::{self, DIRTY, Lanes, Portable, Work};
use crate::slices::Slices;
use crate::{CacheSpec, Requester};
use any_lines::AnyLines;
use pagewalk_setassoc::prefetch;
use short_lines::ShortLines;

mod any_lines;
mod short_lines;

/// Marks an empty place; no line has this word.
const EMPTY: u32 = u32::MAX;

/// Uses by requester.
type Uses = [u64; Requester::ALL.len()];

/// A cache's lines in order of use.
#[derive(Clone, Debug)]
pub(crate) struct LruStack {
    shape: Shape,
    short: ShortLines,
    sets: Sets,
}

/// Where lines are.
#[derive(Clone, Copy, Debug)]
struct Shape {
    ways: usize,
    mask: u64,
    slices: Slices,
}

/// Sets in arrays of fixed lengths: compilers unroll their searches, and move all lines at once.
#[derive(Clone, Debug)]
enum Sets {
    Of8(Vec<Set<Half, 8>>),
    Of16(Vec<Set<Whole, 16>>),
    Of32(Vec<Set<Whole, 32>>),
    /// There are no more words.
    Any(AnyLines),
}

/// Half a line of the host's caches.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Half;

/// A line of the host's caches.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Whole;

/// One set: the words of its lines from the latest to the oldest; empty places come last. Aligned as an `A` is.
#[derive(Clone, Copy, Debug)]
struct Set<A, const MOST: usize> {
    places: [u32; MOST],
    _aligned: [A; 0],
}

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
    pub const NONE: Oldest = Oldest(u64::MAX);

    /// Set if it was dirty. Lines have smaller numbers.
    const DIRTY: u64 = 1 << 63;

    /// A line, and whether it was dirty.
    #[inline(always)]
    pub fn of(line: u64, dirty: bool) -> Oldest {
        Oldest(if dirty { line | Oldest::DIRTY } else { line })
    }

    /// The line, and whether it was dirty; `None` if the place was empty.
    #[inline(always)]
    pub fn line(self) -> Option<(u64, bool)> {
        (self.0 != u64::MAX).then_some((self.0 & !Oldest::DIRTY, self.0 & Oldest::DIRTY != 0))
    }
}

/// Does the same with sets of words of any length, or something else without words.
macro_rules! with_sets {
    ($all:expr, $sets:ident => $body:expr, $any:ident => $other:expr) => {
        match $all {
            Sets::Of8($sets) => $body,
            Sets::Of16($sets) => $body,
            Sets::Of32($sets) => $body,
            Sets::Any($any) => $other,
        }
    };
}

/// Does the same with the sets of two stacks of one cache, if both have words.
macro_rules! with_both {
    ($one:expr, $other:expr, $sets:ident, $others:ident => $body:expr) => {
        match ($one, $other) {
            (Sets::Of8($sets), Sets::Of8($others)) => $body,
            (Sets::Of16($sets), Sets::Of16($others)) => $body,
            (Sets::Of32($sets), Sets::Of32($others)) => $body,
            _ => (),
        }
    };
}

impl LruStack {
    /// The largest set that is searched in order.
    pub const WAYS_MAX: usize = 32;

    /// An empty stack of a checked cache.
    pub fn new(spec: &CacheSpec) -> LruStack {
        let geometry = Slices::geometry(spec).expect("checked");
        let (ways, sets, slices) = (geometry.ways(), geometry.sets(), Slices::new(spec));
        let set_bits = slices.sets().trailing_zeros();
        LruStack {
            shape: Shape { ways, mask: sets as u64 - 1, slices },
            short: ShortLines::new(set_bits, spec.line_shift),
            sets: match ways {
                ..=8 => Sets::Of8(vec![Set::EMPTY; sets]),
                9..=16 => Sets::Of16(vec![Set::EMPTY; sets]),
                17.. => Sets::Of32(vec![Set::EMPTY; sets]),
            },
        }
    }

    /// Looks a line up; a hit makes it the latest, and dirty if the access `soils` it.
    #[inline(always)]
    pub fn touch(&mut self, lanes: impl Lanes, line: u64, soils: bool) -> bool {
        let LruStack { shape, short, sets } = self;
        let set = shape.set(line);
        with_sets!(
            sets,
            sets => short.known_word(line).is_some_and(|word| sets[set].touch(lanes, word, soils)),
            any => any.touch(set, line, soils)
        )
    }

    /// Puts a missing line in; returns the oldest if the set was full.
    #[inline(always)]
    pub fn fill(&mut self, line: u64, dirty: bool) -> Oldest {
        let LruStack { shape, short, sets } = self;
        let set = shape.set(line);
        with_sets!(
            sets,
            sets => if let Some(word) = short.word(line) {
                let oldest = sets[set].push(word, dirty, shape.ways);
                return short.oldest(oldest, set);
            },
            any => return any.fill(set, line, dirty)
        );
        self.give_up_words().fill(set, line, dirty)
    }

    /// [`LruStack::touch`], and if the line is missing [`LruStack::fill`].
    #[inline(always)]
    pub fn enter(&mut self, lanes: impl Lanes, line: u64, soils: bool) -> Entered {
        let LruStack { shape, short, sets } = self;
        let set = shape.set(line);
        with_sets!(
            sets,
            sets => if let Some(word) = short.word(line) {
                if sets[set].touch(lanes, word, soils) {
                    return Entered::Held;
                }
                let oldest = sets[set].push(word, soils, shape.ways);
                return Entered::Filled(short.oldest(oldest, set));
            },
            any => return any.enter(set, line, soils)
        );
        self.give_up_words().enter(set, line, soils)
    }

    /// Uses lines, or with no requester makes them dirty, as long as they are here. Returns how many; `hits` counts the
    /// uses by requester.
    #[inline]
    pub fn use_while_held(
        &mut self,
        lines: impl Iterator<Item = (u64, Option<Requester>)>,
        hits: &mut Uses,
    ) -> usize {
        let LruStack { shape, short, sets } = self;
        let shape = *shape;
        with_sets!(
            sets,
            sets => lanes::run(UseWhileHeld { shape, short, sets, lines, hits }),
            any => any.use_while_held(lines.map(|(line, by)| (shape.set(line), line, by)), hits)
        )
    }

    /// Gives a line up; returns whether it was dirty, if it was there.
    #[inline(always)]
    pub fn give(&mut self, lanes: impl Lanes, line: u64) -> Option<bool> {
        let LruStack { shape, short, sets } = self;
        let set = shape.set(line);
        with_sets!(sets, sets => sets[set].give(lanes, short.known_word(line)?), any => any.give(set, line))
    }

    /// Makes a line dirty if it is here; returns whether it is. That is no use.
    #[inline(always)]
    pub fn soil(&mut self, line: u64) -> bool {
        let LruStack { shape, short, sets } = self;
        let set = shape.set(line);
        with_sets!(
            sets,
            sets => short.known_word(line).is_some_and(|word| sets[set].soil(Portable, word)),
            any => any.soil(set, line)
        )
    }

    /// Makes a line dirty that is the latest of its set.
    pub fn soil_latest(&mut self, line: u64) {
        let set = self.shape.set(line);
        with_sets!(
            &mut self.sets,
            sets => sets[set].places[0] |= DIRTY,
            any => any.sets[set].first_mut().into_iter().for_each(|(_, dirty)| *dirty = true)
        );
    }

    /// Prefetches the set of a line.
    #[inline(always)]
    pub fn prefetch(&self, line: u64) {
        let set = self.shape.set(line);
        with_sets!(&self.sets, sets => sets[set].prefetch(), _any => ());
    }

    /// What would leave the set of a line for another.
    #[inline(always)]
    pub fn oldest(&self, line: u64) -> Oldest {
        let set = self.shape.set(line);
        let oldest = with_sets!(
            &self.sets,
            sets => sets[set].places[self.shape.ways - 1],
            any => return any.oldest(set)
        );
        self.short.oldest(oldest, set)
    }

    /// The sets of a slice.
    pub fn sets_of_slice(&self) -> usize {
        self.shape.slices.sets()
    }

    /// The sets whose numbers are `part` modulo `parts`.
    pub fn sets_of_part(&self, part: usize, parts: usize) -> LruStack {
        fn every<S: Clone>(sets: &[S], part: usize, parts: usize) -> Vec<S> {
            sets.iter().skip(part).step_by(parts).cloned().collect()
        }
        let sets = match &self.sets {
            Sets::Of8(sets) => Sets::Of8(every(sets, part, parts)),
            Sets::Of16(sets) => Sets::Of16(every(sets, part, parts)),
            Sets::Of32(sets) => Sets::Of32(every(sets, part, parts)),
            Sets::Any(any) => Sets::Any(AnyLines { ways: any.ways, sets: every(&any.sets, part, parts) }),
        };
        LruStack { shape: self.shape, short: self.short.clone(), sets }
    }

    /// Sets those sets, of the same cache.
    pub fn set_part(&mut self, part: usize, parts: usize, from: &LruStack) {
        let are_alike = self.short.agrees_with(&from.short);
        with_both!(&mut self.sets, &from.sets, sets, others => if are_alike {
            self.short.learn(&from.short);
            let own = sets.iter_mut().skip(part).step_by(parts);
            own.zip(others).for_each(|(set, other)| *set = *other);
            return;
        });
        for (index, set) in (part..=self.shape.mask as usize).step_by(parts).enumerate() {
            with_sets!(&mut self.sets, sets => sets[set] = Set::EMPTY, any => any.sets[set].clear());
            from.lines_of(index, set).into_iter().rev().for_each(|(line, dirty)| _ = self.fill(line, dirty));
        }
    }

    /// Whether those sets are those of another stack of the same cache.
    pub fn has_sets_of(&self, other: &LruStack, part: usize, parts: usize) -> bool {
        let are_alike = self.short.agrees_with(&other.short);
        let mut all = (part..=self.shape.mask as usize).step_by(parts);
        with_both!(&self.sets, &other.sets, sets, others => if are_alike {
            return all.all(|set| sets[set].places == others[set].places);
        });
        all.all(|set| self.lines_of(set, set) == other.lines_of(set, set))
    }

    /// All lines.
    pub fn all(&self) -> Vec<u64> {
        (0..=self.shape.mask as usize).flat_map(|set| self.lines_of(set, set)).map(|(line, _)| line).collect()
    }

    /// The lines of the set at an index, whose number is `set`, from the latest to the oldest, each with its dirt.
    fn lines_of(&self, index: usize, set: usize) -> Vec<(u64, bool)> {
        with_sets!(
            &self.sets,
            sets => sets[index].places.iter().map_while(|&word| self.short.oldest(word, set).line()).collect(),
            any => any.sets[index].clone()
        )
    }

    /// Its sets, which have lines of any number from now on.
    #[cold]
    fn give_up_words(&mut self) -> &mut AnyLines {
        if !matches!(self.sets, Sets::Any(_)) {
            let sets = (0..=self.shape.mask as usize).map(|set| self.lines_of(set, set)).collect();
            self.sets = Sets::Any(AnyLines { ways: self.shape.ways, sets });
        }
        let Sets::Any(any) = &mut self.sets else { unreachable!("just set") };
        any
    }
}

impl ShortLines {
    /// What a word in a place stands for.
    #[inline(always)]
    fn oldest(&self, word: u32, set: usize) -> Oldest {
        if word == EMPTY {
            return Oldest::NONE;
        }
        Oldest::of(self.line(word & !DIRTY, set), word & DIRTY != 0)
    }
}

impl Shape {
    /// The number of a line's set.
    #[inline(always)]
    fn set(self, line: u64) -> usize {
        (self.slices.number(line) & self.mask) as usize
    }
}

/// See [`LruStack::use_while_held`].
struct UseWhileHeld<'a, I, A, const MOST: usize> {
    shape: Shape,
    short: &'a mut ShortLines,
    sets: &'a mut [Set<A, MOST>],
    lines: I,
    hits: &'a mut Uses,
}

impl<I, A, const MOST: usize> Work for UseWhileHeld<'_, I, A, MOST>
where
    I: Iterator<Item = (u64, Option<Requester>)>,
{
    type Result = usize;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> usize {
        let UseWhileHeld { shape, short, sets, lines, hits } = self;
        let mut used = 0;
        for (line, by) in lines {
            let Some(word) = short.known_word(line) else { break };
            let set = &mut sets[shape.set(line)];
            let held = match by {
                Some(_) => set.touch(lanes, word, false),
                None => set.soil(lanes, word),
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

impl<A, const MOST: usize> Set<A, MOST> {
    const EMPTY: Set<A, MOST> = Set { places: [EMPTY; MOST], _aligned: [] };

    #[inline(always)]
    fn touch(&mut self, lanes: impl Lanes, word: u32, soils: bool) -> bool {
        let Some(place) = lanes.place_of(&self.places, word) else { return false };
        lanes.to_front(&mut self.places, place);
        self.places[0] |= dirt(soils);
        true
    }

    /// Puts a line before all others; returns what is then one too many.
    #[inline(always)]
    fn push(&mut self, word: u32, dirty: bool, ways: usize) -> u32 {
        let before = self.places;
        self.places[1..].copy_from_slice(&before[..MOST - 1]);
        self.places[0] = word | dirt(dirty);
        if ways < MOST {
            self.places[ways] = EMPTY;
        }
        before[ways - 1]
    }

    #[inline(always)]
    fn give(&mut self, lanes: impl Lanes, word: u32) -> Option<bool> {
        let place = lanes.place_of(&self.places, word)?;
        let before = self.places;
        for at in 0..MOST - 1 {
            self.places[at] = if at < place { before[at] } else { before[at + 1] };
        }
        self.places[MOST - 1] = EMPTY;
        Some(before[place] & DIRTY != 0)
    }

    #[inline(always)]
    fn soil(&mut self, lanes: impl Lanes, word: u32) -> bool {
        let place = lanes.place_of(&self.places, word);
        place.into_iter().for_each(|place| self.places[place] |= DIRTY);
        place.is_some()
    }

    #[inline(always)]
    fn prefetch(&self) {
        let places = self.places.as_ptr();
        // Lines of the host's caches.
        (0..MOST).step_by(16).for_each(|first| prefetch(places.wrapping_add(first)));
    }
}

#[inline(always)]
fn dirt(dirty: bool) -> u32 {
    if dirty { DIRTY } else { 0 }
}

#[cfg(test)]
mod tests;
