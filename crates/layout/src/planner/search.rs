//! Every object at the shift for which the reuses of all pages, code and data, miss least.
//!
//! One object after the other is tried at every shift while the others stay, and takes the best; again and again, until
//! nothing gets better. That is done from where objects were recorded and from some random layouts; the best end wins.
//! All shifts of one object are priced together, by the reuses that it has a part in (`parts`).
//!
//! Several machines count as their misses of those that there were: a layout is good if it is good on all of them.

mod parts;

use super::random;
use super::reuses::{ArrayReuses, Page, StreamReuses};
use parts::ReuseState;

/// Random layouts to start from, beside the recorded one.
pub const DEFAULT_STARTS: u64 = 3;
/// Rounds over all objects; far more than it takes.
const ROUNDS_MAX: usize = 50;

/// A layout, and what it is expected to miss.
#[derive(Clone, Debug, PartialEq)]
pub struct BestLayout {
    /// A shift for each object, modulo [`period`].
    pub shifts: Vec<u64>,
    /// Expected misses of those where objects were recorded, on average of all arrays.
    pub relative: f64,
}

/// The largest number of sets: what shifts are modulo.
pub fn period(arrays: &[ArrayReuses]) -> u64 {
    arrays.iter().map(|reuses| reuses.array.geometry.sets() as u64).max().unwrap_or(1)
}

/// The layouts found from the recorded one and from `starts` random ones, the best first.
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

/// Misses of one array under a layout.
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

/// Moves one object after the other until none gets better.
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
                // What gains nothing stays in its sets.
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

/// What each shift of an object costs on all arrays together, by the reuses that the object has a part in.
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
