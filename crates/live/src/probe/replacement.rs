//! Finds a TLB's replacement policy: the one whose simulated misses best explain the cost of access patterns over the
//! pages of a few sets.
//!
//! A pattern repeatedly touches from one page more than a set has ways up to twice as many, in turn or in an order with
//! shorter and longer reuses. Every candidate is simulated under all patterns first; the patterns that separate the
//! candidates best are timed. An access costs a constant, plus another for each miss: both are fitted per candidate, so
//! neither need be known. The residual, relative to the step from all hits to all misses, is how far *off* a candidate
//! is.
//!
//! Nothing is claimed if the best is far off, another is almost as near, or the noise is as large.
//!
//! On a busy Emerald Rapids guest (family 6, model 207), the first level (96 entries, 6 ways) came out as `mru3-plru`,
//! under 1 % off (`fifo` 2 %). The second level, of two parts, stayed undecided, as guests' often do.

use super::arrays::{ConflictBounds, MeasuredLevel, range};
use super::figure::Samples;
use pagewalk_setassoc::{Geometry, RelevantHits, Replacement, SetArray};
use pagewalk_units::Draws;
use std::collections::VecDeque;

/// Most that the nearest candidate may be off.
const MOST_OFF: f64 = 0.12;
/// The next candidate must be this many times as far off.
const MARGIN: f64 = 1.6;
/// The step must be this many times the noise of a point.
const STEP_OF_NOISE: f64 = 5.0;
/// Timed patterns, besides the one that always hits and the one that always misses.
const TIMED: usize = 12;
/// Patterns to choose from.
const DRAWN: usize = 40;
/// Most ways to try if the probe found none.
const MOST_WAYS: u64 = 24;
/// Largest fully associative array to examine.
const MOST_ENTRIES: u64 = 128;
/// Most accesses to a set in one turn of a pattern; a frame has room for the nodes.
const LONGEST: u64 = 480;
/// Average accesses to a page per turn of a pattern.
const TIMES: u64 = 6;
/// Sweep pages per way before each turn. They leave every policy in the same state; without them, FIFO would keep
/// missing more or less depending on its first state.
const SWEPT: u64 = 2;
/// Most pages of a set.
pub const MOST_PLACES: u64 = (2 + SWEPT) * MOST_WAYS;
/// Sets that a pattern interleaves, so that the level before forgets a page before its reuse.
const SIDE_BY_SIDE: u64 = 16;
/// The same if the level before is fully associative and holds pages of all these sets.
const MORE_SIDE_BY_SIDE: u64 = 32;
/// Turns of a pattern before it is timed.
pub const WARM: usize = 2;
/// Timed accesses, or two turns if these are more.
pub const TIMED_ACCESSES: usize = 8000;
/// Initial states from which each candidate is simulated.
const TRIALS: u64 = 3;
/// The same for random policies, whose misses are averaged.
const DRAWING_TRIALS: u64 = 16;
/// Most simulated turns: the state has settled by then.
const MOST_TURNS: usize = 40;
/// The seed of everything drawn here: all probes use the same patterns.
const SEED: u64 = 30;

/// The verdict on a level's replacement.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplacementFinding {
    /// The nearest candidate, clearly nearer than the next.
    Nearest(NearestPolicy),
    /// Undecided, and why.
    Undecided(String),
}

/// The nearest candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct NearestPolicy {
    /// The policy; random ones with any seed.
    pub policy: Replacement,
    /// The ways it was simulated with: those found, or if they were refused, the best fit.
    pub ways: u64,
    /// How far off it is: 0 is exact, 1 is the step from all hits to all misses.
    pub off: f64,
    /// The next nearest policy, and how far off it is.
    pub next: Option<(Replacement, f64)>,
}

/// Measures patterns.
pub trait Repeater {
    /// Why a measurement failed.
    type Error;

    /// Access cost of each pattern (page numbers in access order, repeated), once per round; a round covers all
    /// patterns.
    fn patterns(&mut self, patterns: &[Vec<u64>], rounds: usize) -> Result<Vec<Samples>, Self::Error>;
}

/// A policy with ways, and its miss ratio under each pattern.
#[derive(Clone, Debug)]
struct Candidate {
    policy: Replacement,
    ways: u64,
    misses: Vec<f64>,
}

/// How far off a candidate is.
#[derive(Clone, Copy, Debug)]
struct Fit {
    policy: Replacement,
    ways: u64,
    off: f64,
}

/// Finds each level's replacement. `rounds` is how often each pattern is timed.
///
/// # Errors
/// Those of the repeater.
pub fn find<R: Repeater>(
    repeater: &mut R,
    levels: &[MeasuredLevel],
    rounds: usize,
) -> Result<Vec<ReplacementFinding>, R::Error> {
    (0..levels.len())
        .map(|index| {
            let before = index.checked_sub(1).map(|before| &levels[before]);
            match Question::of(&levels[index], before) {
                Ok(question) => question.ask(repeater, rounds),
                Err(why) => Ok(ReplacementFinding::Undecided(why)),
            }
        })
        .collect()
}

/// The measurements for one level.
#[derive(Debug)]
struct Question {
    /// Distance between pages of one set, in pages.
    stride: u64,
    /// Interleaved sets.
    sets: u64,
    candidates: Vec<Candidate>,
    /// Pages of a set, in access order. The first pattern always hits, the second never.
    patterns: Vec<Vec<u64>>,
}

impl Question {
    /// The measurements for a level after another, or why none are possible.
    fn of(level: &MeasuredLevel, before: Option<&MeasuredLevel>) -> Result<Question, String> {
        let (stride, ways) = shape(level)?;
        let (sets, apart) = match before {
            None => (1, 0),
            Some(before) => forgetting(before, &ways)?,
        };
        let mut draws = Draws::new(SEED);
        let most = ways.iter().copied().max().unwrap_or(1);
        let drawn = drawn(&ways, apart, &mut draws);
        let mut patterns = vec![in_turn(ways.iter().copied().min().unwrap_or(1)), in_turn(most * 3)];
        if (patterns[0].len() as u64) <= apart {
            return Err(format!(
                "the level before may still hold pages that come again behind {apart} others, as many as a set has ways"
            ));
        }
        patterns.extend(drawn);
        let mut candidates = candidates(&ways);
        for candidate in &mut candidates {
            candidate.misses = patterns.iter().map(|pattern| candidate.misses_of(pattern, sets)).collect();
        }
        let chosen = most_telling(&candidates);
        for candidate in &mut candidates {
            candidate.misses = chosen.iter().map(|&at| candidate.misses[at]).collect();
        }
        let patterns = chosen.into_iter().map(|at| patterns[at].clone()).collect();
        Ok(Question { stride, sets, candidates, patterns })
    }

    fn ask<R: Repeater>(&self, repeater: &mut R, rounds: usize) -> Result<ReplacementFinding, R::Error> {
        let pages: Vec<Vec<u64>> = self.patterns.iter().map(|pattern| self.pages(pattern)).collect();
        let samples = repeater.patterns(&pages, rounds)?;
        Ok(judged(&self.candidates, &samples))
    }

    /// A pattern's pages over the interleaved sets, in a new order each time, so that nothing predicts it.
    fn pages(&self, pattern: &[u64]) -> Vec<u64> {
        let mut draws = Draws::new(SEED);
        let mut order: Vec<u64> = (0..self.sets).collect();
        let mut pages = Vec::new();
        for place in pattern {
            for last in (1..order.len()).rev() {
                order.swap(last, draws.below(last as u64 + 1) as usize);
            }
            pages.extend(order.iter().map(|set| place * self.stride + set));
        }
        pages
    }
}

/// The stride of pages of one set, and the ways to try.
fn shape(level: &MeasuredLevel) -> Result<(u64, Vec<u64>), String> {
    let stride =
        |ways: u64| level.conflicts.iter().find(|conflict| conflict.hits == ways).map(|at| at.stride);
    match level.ways {
        Some(ways) if level.conflicts.is_empty() => {
            if ways > MOST_ENTRIES {
                return Err(format!(
                    "it is fully associative with {ways} entries, more than the {MOST_ENTRIES} up to which policies \
                     differ enough"
                ));
            }
            Ok((1, vec![ways]))
        }
        Some(ways) => Ok((stride(ways).unwrap_or(1), vec![ways])),
        None => match level.conflicts.last() {
            None => Err("neither its entries nor its ways are known".to_owned()),
            Some(&ConflictBounds { stride, .. }) => {
                let (low, high) = range(&level.conflicts);
                let (low, high) = (low.max(2), high.min(MOST_WAYS));
                if low > high {
                    return Err(format!("its ways are not known, but for more than {MOST_WAYS}"));
                }
                Ok((stride, (low..=high).collect()))
            }
        },
    }
}

/// Interleaved sets, and how many other pages of a set must come before a reuse, so that the level before has forgotten
/// the page.
fn forgetting(before: &MeasuredLevel, ways: &[u64]) -> Result<(u64, u64), String> {
    let (Some(entries), Some(before_ways)) = (before.entries, before.ways) else {
        // The upper bound of its ways.
        let (_, most) = range(&before.conflicts);
        if before.conflicts.is_empty() {
            return Err("the level before is not known, so it cannot be kept out".to_owned());
        }
        return Ok((SIDE_BY_SIDE, most));
    };
    if before_ways < entries {
        return Ok((SIDE_BY_SIDE.min(entries / before_ways), before_ways));
    }
    let apart = (entries + entries / 4).div_ceil(MORE_SIDE_BY_SIDE);
    let fewest = ways.iter().copied().min().unwrap_or(0);
    if apart >= fewest {
        return Err(format!(
            "the level before is fully associative with {entries} entries and holds the pages of too many sets"
        ));
    }
    Ok((MORE_SIDE_BY_SIDE, apart))
}

/// Pages 0 to `pages` − 1 in turn.
fn in_turn(pages: u64) -> Vec<u64> {
    (0..pages).collect()
}

/// Patterns of more pages than each of `ways`: in turn, and random, with no reuse within `apart` accesses.
fn drawn(ways: &[u64], apart: u64, draws: &mut Draws) -> Vec<Vec<u64>> {
    let fewest = ways.iter().copied().min().unwrap_or(1);
    let most = ways.iter().copied().max().unwrap_or(1);
    let numbers =
        |steps: u64| (1..=steps).map(move |step| fewest + ((2 * most - fewest) * step).div_ceil(steps));
    let others = SWEPT * most;
    let swept = |pages: u64| -> Vec<u64> {
        let turns = (LONGEST.saturating_sub(others) / pages).clamp(1, TIMES);
        (pages..pages + others).chain((0..turns).flat_map(|_| 0..pages)).collect()
    };
    let mut patterns: Vec<Vec<u64>> = numbers(8).filter(|pages| *pages > apart).map(swept).collect();
    let pages: Vec<u64> = numbers(6).filter(|pages| *pages > apart + 2).collect();
    while !pages.is_empty() && patterns.len() < DRAWN {
        let pages = pages[draws.below(pages.len() as u64) as usize];
        patterns.push(at_random(pages, others, apart, draws));
    }
    patterns
}

/// `others` sweep pages, then a random pattern in which the next page is none of the last `apart`.
fn at_random(pages: u64, others: u64, apart: u64, draws: &mut Draws) -> Vec<u64> {
    let mut pattern: Vec<u64> = (pages..pages + others).collect();
    let mut recent: VecDeque<u64> = VecDeque::new();
    for _ in 0..(pages * TIMES).min(LONGEST.saturating_sub(others)) {
        let free: Vec<u64> = (0..pages).filter(|page| !recent.contains(page)).collect();
        let page = free[draws.below(free.len() as u64) as usize];
        pattern.push(page);
        recent.push_back(page);
        if recent.len() as u64 > apart {
            recent.pop_front();
        }
    }
    pattern
}

/// Every policy that supports these ways, without misses yet. Age-based policies are left out: they belong to caches,
/// and no TLB is known to use them.
fn candidates(ways: &[u64]) -> Vec<Candidate> {
    let policies = Replacement::NAMES.into_iter().filter_map(|name| Replacement::from_name(name, SEED));
    policies
        .filter(|policy| policy.relevant_hits() != RelevantHits::Each)
        .flat_map(|policy| ways.iter().map(move |&ways| Candidate { policy, ways, misses: Vec::new() }))
        .filter(|candidate| candidate.policy.serves(candidate.ways as usize).is_ok())
        .collect()
}

impl Candidate {
    /// The miss ratio under a pattern over `sets` sets, for as many turns as are timed.
    fn misses_of(&self, pattern: &[u64], sets: u64) -> f64 {
        let turns = (TIMED_ACCESSES / (pattern.len() * sets as usize)).clamp(2, MOST_TURNS);
        let trials = if self.policy.draws() { DRAWING_TRIALS } else { TRIALS };
        let misses: usize = (0..trials).map(|trial| self.misses_from(trial, pattern, turns)).sum();
        misses as f64 / (pattern.len() * turns * trials as usize) as f64
    }

    /// Misses in the counted turns, from one initial state.
    fn misses_from(&self, beginning: u64, pattern: &[u64], turns: usize) -> usize {
        let geometry = Geometry::new(self.ways as u32, None).expect("few ways, at least one");
        let policy = Replacement::from_name(self.policy.name(), beginning).expect("its own name");
        let mut set = SetArray::new(geometry, policy).expect("asked whether it serves so many ways");
        let mut draws = Draws::new(beginning);
        // Pages outside the pattern.
        for _ in 0..4 * self.ways {
            let page = (1 << 32) + draws.below(2 * self.ways);
            set.fill(page, page);
        }
        let mut missed = 0;
        for turn in 0..WARM + turns {
            for &page in pattern {
                if !set.touch(page, page) {
                    set.insert(page, page);
                    missed += usize::from(turn >= WARM);
                }
            }
        }
        missed
    }
}

/// The first two patterns, and those that separate the candidates best: greedily, the one that helps the closest pair
/// most.
fn most_telling(candidates: &[Candidate]) -> Vec<usize> {
    let patterns = candidates.first().map_or(0, |candidate| candidate.misses.len());
    let pairs: Vec<(&Candidate, &Candidate)> = candidates
        .iter()
        .enumerate()
        .flat_map(|(at, one)| candidates[at + 1..].iter().map(move |other| (one, other)))
        // These two behave alike under every pattern.
        .filter(|(one, other)| one.misses != other.misses)
        .collect();
    let mut chosen: Vec<usize> = (0..patterns.min(2)).collect();
    let mut apart: Vec<f64> = vec![0.0; pairs.len()];
    while chosen.len() < patterns.min(TIMED + 2) {
        let gain = |at: usize| -> f64 {
            let told = |(pair, apart): (&(&Candidate, &Candidate), &f64)| {
                let difference = pair.0.misses[at] - pair.1.misses[at];
                // Weighs pairs more that are hardly separated yet.
                (difference * difference) / (0.01 + apart)
            };
            pairs.iter().zip(&apart).map(told).sum()
        };
        let free = (2..patterns).filter(|at| !chosen.contains(at));
        let Some(best) = free.max_by(|&one, &other| gain(one).total_cmp(&gain(other))) else { break };
        for (pair, apart) in pairs.iter().zip(&mut apart) {
            *apart += (pair.0.misses[best] - pair.1.misses[best]).powi(2);
        }
        chosen.push(best);
    }
    chosen
}

/// The nearest candidate, if it is near and the next is not.
fn judged(candidates: &[Candidate], samples: &[Samples]) -> ReplacementFinding {
    if samples.iter().any(Samples::is_empty) {
        return ReplacementFinding::Undecided(
            "its patterns go over more pages than there is room for".to_owned(),
        );
    }
    let costs: Vec<f64> = samples.iter().map(Samples::low).collect();
    let lowest = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let step = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max) - lowest;
    let mut noises: Vec<f64> =
        samples.iter().map(|samples| samples.median() - samples.quantile(0.1)).collect();
    noises.sort_by(f64::total_cmp);
    let noise = noises.get(noises.len() / 2).copied().unwrap_or(f64::NAN);
    // Also false if anything is NaN.
    let clear = step > STEP_OF_NOISE * noise && step > 0.0;
    if !clear {
        return ReplacementFinding::Undecided(format!(
            "patterns of few and of many misses differ by {step:.2} ns, repeats by {noise:.2} ns"
        ));
    }
    let mut fits: Vec<Fit> = candidates.iter().filter_map(|candidate| candidate.fit(&costs, step)).collect();
    fits.sort_by(|one, other| one.off.total_cmp(&other.off));
    let Some(&best) = fits.first() else {
        return ReplacementFinding::Undecided("no candidate's misses go with the cost".to_owned());
    };
    let next = fits.iter().find(|fit| fit.policy != best.policy).copied();
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    if best.off > MOST_OFF {
        return ReplacementFinding::Undecided(format!(
            "the nearest policy, {}, is off by {} of the step",
            best.policy.name(),
            percent(best.off)
        ));
    }
    // At least as far off as chance would leave the noise: a lucky fit proves nothing.
    let repeats = samples.iter().map(Samples::len).min().unwrap_or(1);
    let least = best.off.max(noise / step / (repeats as f64).sqrt());
    if let Some(next) = next.filter(|next| next.off < MARGIN * least) {
        return ReplacementFinding::Undecided(format!(
            "{} is off by {} of the step and {} by {}, too near to each other",
            best.policy.name(),
            percent(best.off),
            next.policy.name(),
            percent(next.off)
        ));
    }
    let next = next.map(|next| (next.policy, next.off));
    ReplacementFinding::Nearest(NearestPolicy { policy: best.policy, ways: best.ways, off: best.off, next })
}

impl Candidate {
    /// How far off it is with fitted costs of hit and miss: the root mean square residual over the step. None if misses
    /// would cost less than hits.
    fn fit(&self, costs: &[f64], step: f64) -> Option<Fit> {
        let number = costs.len() as f64;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / number;
        let (misses, cost) = (mean(&self.misses), mean(costs));
        let pairs = || self.misses.iter().zip(costs).map(|(m, c)| (m - misses, c - cost));
        let spread: f64 = pairs().map(|(m, _)| m * m).sum();
        let slope = pairs().map(|(m, c)| m * c).sum::<f64>() / spread;
        if slope.is_nan() || slope <= 0.0 {
            return None;
        }
        let rest: f64 = pairs().map(|(m, c)| (c - slope * m).powi(2)).sum();
        let off = (rest / number).sqrt() / step;
        off.is_finite().then_some(Fit { policy: self.policy, ways: self.ways, off })
    }
}

#[cfg(test)]
mod tests;
