//! The ways of requesters, and of evicted lines, through the caches.

use crate::recent_lines::Need;
use crate::{CacheFills, CacheSpec, LEVELS, Requester, StoreRule};

/// A step of an access that misses all caches before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The index of the cache.
    pub cache: usize,
    pub line: StepOfLine,
}

/// What becomes of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepOfLine {
    /// It is there from then on.
    Enters,
    /// If it is there, it moves up to the cache of the step before.
    MovesUp,
    /// If it is there, it stays.
    Stays,
}

/// A requester's way through the caches.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// The indices of the caches that serve it, nearest first.
    pub caches: Vec<usize>,
    /// The first of them; beyond all caches if there is none.
    pub nearest: usize,
    /// The same, if a hit there ends an access, so that another one of the line used last changes only counts.
    pub repeats_in: Option<usize>,
    /// The steps of an access, if [`Hierarchy::find_in_order`](crate::Hierarchy) can make them; else none.
    pub steps: Vec<Step>,
    /// Whether only this requester changes what that one holds.
    pub owns_nearest: bool,
    /// log2 of the bytes of its lines.
    pub line_shift: u32,
    /// Cycles of its fastest access, which stalls nobody: of the nearest cache that can end it.
    pub fastest: u64,
    /// The depth in `caches` of the nearest that its misses fill; beyond them all if there is none.
    pub nearest_filled: usize,
    /// By depth: whether a line that hits there moves up.
    pub moves_up: Vec<bool>,
    /// Whether stores make lines dirty in the nearest that takes them.
    pub soils: bool,
    /// What a repeated access needs to know.
    pub need: Need,
}

impl Path {
    pub fn new(specs: &[CacheSpec], requester: Requester, memory_latency: u64) -> Path {
        let caches = path(specs, requester);
        let ends = caches.iter().find(|&&index| !specs[index].passes_on(requester));
        let filled = |&&index: &&usize| specs[index].takes_misses_of(requester);
        let nearest = caches.first().copied();
        let least = specs.iter().map(|cache| cache.line_shift).min().unwrap_or(0);
        Path {
            nearest: nearest.unwrap_or(usize::MAX),
            repeats_in: nearest.filter(|&index| !specs[index].passes_on(requester)),
            need: Need::of(requester == Requester::Store),
            steps: if is_in_order(specs, &caches, requester) {
                steps(specs, &caches, requester)
            } else {
                Vec::new()
            },
            owns_nearest: nearest.is_some_and(|index| {
                let loses_lines = (0..specs.len()).any(|below| above(specs, below).contains(&index));
                specs[index].serves.iter().count() == 1 && !loses_lines
            }),
            line_shift: nearest.map_or(least, |index| specs[index].line_shift),
            fastest: ends.map_or(memory_latency, |&index| specs[index].latency),
            nearest_filled: caches.iter().position(|index| filled(&index)).unwrap_or(caches.len()),
            moves_up: (0..caches.len()).map(|depth| moves_up(specs, &caches[..=depth], requester)).collect(),
            soils: true,
            caches,
        }
    }
}

/// The indices of the caches that serve a requester, nearest first.
pub(crate) fn path(specs: &[CacheSpec], requester: Requester) -> Vec<usize> {
    let mut path: Vec<usize> = (0..specs.len()).filter(|&index| specs[index].serves.has(requester)).collect();
    path.sort_by_key(|&index| specs[index].level);
    path
}

/// Whether a line that hits in the last of these caches of a path moves up: there is a cache above, after victim
/// caches level by level, that takes it.
fn moves_up(specs: &[CacheSpec], path: &[usize], requester: Requester) -> bool {
    let mut pairs = path.windows(2).rev().map(|pair| [&specs[pair[0]], &specs[pair[1]]]);
    let chain = pairs.find(|[above, below]| {
        below.fills != CacheFills::Victims
            || above.level + 1 != below.level
            || above.fills == CacheFills::Misses
    });
    chain.is_some_and(|[above, below]| {
        below.fills == CacheFills::Victims
            && above.level + 1 == below.level
            && above.takes_misses_of(requester)
    })
}

/// Whether a path's caches, and all that they evict to, take the steps of an access in one order alone. Then each can
/// be filled when it misses.
fn is_in_order(specs: &[CacheSpec], path: &[usize], requester: Requester) -> bool {
    let [first, ..] = path else { return false };
    let is_plain = |cache: &CacheSpec| {
        cache.is_in_order()
            && !cache.inclusive
            && cache.stores == StoreRule::Back
            && cache.line_shift == specs[*first].line_shift
    };
    // A line that moves up goes to the cache above, with its dirt.
    let takes_up = |depth: usize| {
        let above = &specs[path[depth - 1]];
        above.takes_misses_of(requester) && above.may_be_dirty()
    };
    path.len() <= LEVELS
        && specs.iter().all(is_plain)
        && specs[*first].takes_misses_of(requester)
        && (1..path.len()).all(|depth| !moves_up(specs, &path[..=depth], requester) || takes_up(depth))
}

fn steps(specs: &[CacheSpec], path: &[usize], requester: Requester) -> Vec<Step> {
    let line = |depth: usize| match specs[path[depth]].fills {
        CacheFills::Misses => StepOfLine::Enters,
        CacheFills::Victims if moves_up(specs, &path[..=depth], requester) => StepOfLine::MovesUp,
        CacheFills::Victims => StepOfLine::Stays,
    };
    let step = |(depth, &cache)| Step { cache, line: line(depth) };
    path.iter().enumerate().map(step).collect()
}

/// The victim cache that takes what this cache evicts.
pub(crate) fn victims_of(specs: &[CacheSpec], index: usize) -> Option<usize> {
    specs.iter().position(|victims| victims.takes_victims_of(&specs[index]))
}

/// The caches that lose what this inclusive cache evicts; none if it is not inclusive.
pub(crate) fn above(specs: &[CacheSpec], index: usize) -> Vec<usize> {
    (0..specs.len()).filter(|&above| specs[index].drops_from(&specs[above])).collect()
}
