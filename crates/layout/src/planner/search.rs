//! Shifts every object to minimise the misses of all page reuses, code and data.
//!
//! One object after the other is tried at every shift while the others stay, and takes the best, until nothing
//! improves. This descent starts from the recorded layout and from some random ones; the best result wins. All shifts
//! of an object are evaluated together, by the reuses that involve it (`parts`).
//!
//! For several machines, misses relative to the recorded layout are averaged: a good layout is good on all of them.

mod parts;

use super::random;
use super::reuses::{ArrayReuses, Page, StreamReuses};
use parts::ReuseState;

/// Random layouts to start from, besides the recorded one.
pub const DEFAULT_STARTS: u64 = 3;
/// Most rounds over all objects; far more than needed.
const ROUNDS_MAX: usize = 50;

/// A layout, with its expected misses.
#[derive(Clone, Debug, PartialEq)]
pub struct BestLayout {
    /// A shift for each object, modulo [`period`].
    pub shifts: Vec<u64>,
    /// Expected misses relative to the recorded layout, averaged over all arrays.
    pub relative: f64,
}

/// The largest number of sets: the modulus of shifts.
pub fn period(arrays: &[ArrayReuses]) -> u64 {
    arrays.iter().map(|reuses| reuses.array.geometry.sets() as u64).max().unwrap_or(1)
}

/// The layouts reached from the recorded one and from `starts` random ones, best first.
pub fn best(found: &StreamReuses, starts: u64, seed: u64) -> Vec<BestLayout> {
    let objects = found.movables.all().len();
    let period = period(&found.arrays);
    let recorded = vec![0; objects];
    let weights: Vec<f64> = found
        .arrays
        .iter()
        .map(|reuses| {
            1.0 / (misses(reuses, &found.pages, &recorded).max(1) as f64 * found.arrays.len() as f64)
        })
        .collect();
    let relative = |shifts: &[u64]| -> f64 {
        let of =
            |(reuses, weight): (&ArrayReuses, &f64)| misses(reuses, &found.pages, shifts) as f64 * weight;
        found.arrays.iter().zip(&weights).map(of).sum()
    };
    let mut parts: Vec<(ReuseState<'_>, f64)> = found
        .arrays
        .iter()
        .map(|reuses| ReuseState::new(reuses, &found.pages, objects))
        .zip(weights.iter().copied())
        .collect();
    let random = (1..=starts).map(|start| random::shifts(objects, period, seed.wrapping_add(start)));
    let ends = std::iter::once(recorded).chain(random).map(|start| {
        let shifts = descend(&mut parts, start, period);
        BestLayout { relative: relative(&shifts), shifts }
    });
    let mut ends: Vec<BestLayout> = ends.collect();
    ends.sort_by(|a, b| a.relative.total_cmp(&b.relative));
    ends
}

/// The misses of one array under a layout.
pub fn misses(reuses: &ArrayReuses, pages: &[Page], shifts: &[u64]) -> u64 {
    let (mask, ways) = shape(reuses);
    let set = |page: u32| {
        let Page { page, object } = pages[page as usize];
        page.0.wrapping_add(object.map_or(0, |object| shifts[object])) & mask
    };
    let missing = |(times, page, between): (u64, u32, &[u32])| {
        let own = set(page);
        let misses = between.iter().filter(|&&other| set(other) == own).count() >= ways;
        if misses { times } else { 0 }
    };
    reuses.beyond + reuses.scale() * reuses.iter().map(missing).sum::<u64>()
}

fn shape(reuses: &ArrayReuses) -> (u64, usize) {
    let geometry = reuses.array.geometry;
    (geometry.sets() as u64 - 1, geometry.ways())
}

/// Moves one object after the other until none improves.
fn descend(parts: &mut [(ReuseState<'_>, f64)], mut shifts: Vec<u64>, period: u64) -> Vec<u64> {
    let move_to = |parts: &mut [(ReuseState<'_>, f64)], object, shift| {
        parts.iter_mut().for_each(|(parts, _)| parts.shift(object, shift));
    };
    (0..shifts.len()).for_each(|object| move_to(parts, object, shifts[object]));
    for _ in 0..ROUNDS_MAX {
        let mut better = false;
        for (object, shift) in shifts.iter_mut().enumerate() {
            let total = priced(parts, object, period);
            let now = *shift as usize;
            let best = (0..total.len()).min_by(|&a, &b| total[a].total_cmp(&total[b])).unwrap_or(now);
            let mut chosen = now;
            if total[best] < total[now] * (1.0 - 1e-9) {
                better = true;
                chosen = best;
            } else if total[0] <= total[now] {
                // Without a gain, the object keeps its sets.
                chosen = 0;
            }
            if chosen != now {
                *shift = chosen as u64;
                move_to(parts, object, *shift);
            }
        }
        if !better {
            break;
        }
    }
    shifts
}

/// The cost of each shift of an object over all arrays, by the reuses that involve it.
fn priced(parts: &[(ReuseState<'_>, f64)], object: usize, period: u64) -> Vec<f64> {
    let mut total = vec![0.0; period as usize];
    for (parts, weight) in parts {
        let costs = parts.costs(object);
        let scale = parts.scale() as f64 * weight;
        for (shift, sum) in total.iter_mut().enumerate() {
            *sum += costs[shift % costs.len()] as f64 * scale;
        }
    }
    total
}

#[cfg(test)]
mod tests;
