//! Steps of a curve: where the cost of an access rises from one level to the next.
//!
//! A *plateau* is a run of points within `FLAT` of its lowest that spans at least `SPAN`. A *step* lies between two
//! plateaus, or after the last one if the curve rises on. Its *onset* is the last point before the cost leaves the
//! lower plateau for good by more than `CLEAR` of the rise plus the noise. Its *half* is where the cost passes the
//! middle.

/// A plateau's points lie within this factor of its lowest.
const FLAT: f64 = 1.08;
/// A plateau's last point has at least this many times the pages of its first.
const SPAN: f64 = 1.6;
/// A step rises by more than this share of the lower plateau; closer plateaus are one.
const RISE: f64 = 0.25;
/// A step rises by more than this many times the noise.
const NOISES: f64 = 5.0;
/// Share of the rise at which the cost has left the lower plateau.
pub(super) const CLEAR: f64 = 0.06;
/// The curve rises after the last plateau; the point this factor beyond its end counts as the level above.
const BEYOND: f64 = 4.0;

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Pages touched in turn.
    pub pages: u64,
    /// Access cost: the lower quartile of the repeats.
    pub cost: f64,
    /// Random spread of repeats: from their 10th percentile to their median.
    pub noise: f64,
}

/// A step of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurveStep {
    /// Cost before it.
    pub below: f64,
    /// Cost after it.
    pub above: f64,
    /// Most pages at the lower plateau's cost.
    pub onset: u64,
    /// Pages from which the cost exceeds the middle.
    pub half: u64,
    /// The curve's typical noise.
    pub noise: f64,
}

impl CurveStep {
    /// Height of the step.
    pub fn rise(&self) -> f64 {
        self.above - self.below
    }

    /// The highest cost that still counts as the lower plateau, for this rise.
    pub(super) fn still_below(&self, rise: f64) -> f64 {
        self.below + CLEAR * rise + 2.0 * self.noise
    }
}

/// First and last index of a plateau, and its cost.
#[derive(Clone, Copy, Debug)]
struct Plateau {
    first: usize,
    last: usize,
    cost: f64,
}

/// The steps of a curve, in order. Points ascend by pages.
pub fn steps(curve: &[Cost]) -> Vec<CurveStep> {
    let noise = typical_noise(curve);
    let plateaus = plateaus(curve);
    let mut found: Vec<CurveStep> = Vec::new();
    for (index, plateau) in plateaus.iter().enumerate() {
        let above = match plateaus.get(index + 1) {
            Some(next) => next.cost,
            None => beyond(curve, plateau),
        };
        if let Some(step) = step(curve, plateau, above, noise) {
            found.push(step);
        }
    }
    found
}

/// The median of the points' noise.
fn typical_noise(curve: &[Cost]) -> f64 {
    let mut all: Vec<f64> = curve.iter().map(|point| point.noise).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

fn plateaus(curve: &[Cost]) -> Vec<Plateau> {
    let mut found: Vec<Plateau> = Vec::new();
    let mut first = 0;
    while first < curve.len() {
        let (last, cost) = run_from(curve, first);
        if curve[last].pages as f64 >= SPAN * curve[first].pages as f64 {
            match found.last_mut() {
                Some(Plateau { last: end, cost: before, .. }) if cost < *before * (1.0 + RISE) => *end = last,
                _ => found.push(Plateau { first, last, cost }),
            }
            first = last + 1;
        } else {
            first += 1;
        }
    }
    found
}

/// The last point of the run that begins at `first`, and its median cost. One odd point between two that fit does not
/// end it.
fn run_from(curve: &[Cost], first: usize) -> (usize, f64) {
    let (mut lowest, mut highest, mut last) = (curve[first].cost, curve[first].cost, first);
    let mut costs = vec![curve[first].cost];
    for (index, point) in curve.iter().enumerate().skip(first + 1) {
        let (low, high) = (lowest.min(point.cost), highest.max(point.cost));
        if high > low * FLAT {
            if index > last + 1 {
                break;
            }
            continue;
        }
        (lowest, highest, last) = (low, high, index);
        costs.push(point.cost);
    }
    costs.sort_by(f64::total_cmp);
    (last, costs[costs.len() / 2])
}

/// Cost after the last plateau: of the farthest point within [`BEYOND`] of its end.
fn beyond(curve: &[Cost], plateau: &Plateau) -> f64 {
    let end = curve[plateau.last].pages as f64 * BEYOND;
    let near = curve[plateau.last..].iter().rfind(|point| point.pages as f64 <= end);
    near.map_or(plateau.cost, |point| point.cost)
}

fn step(curve: &[Cost], plateau: &Plateau, above: f64, noise: f64) -> Option<CurveStep> {
    let mut step = CurveStep { below: plateau.cost, above, onset: 0, half: 0, noise };
    if step.rise() <= RISE * step.below || step.rise() <= NOISES * noise {
        return None;
    }
    let after = &curve[plateau.first..];
    let clear = step.still_below(step.rise());
    // For good: a single high point is noise, unless the next one is high too.
    let left = after.windows(2).position(|pair| pair.iter().all(|point| point.cost > clear))?;
    step.onset = after[left.checked_sub(1)?].pages;
    let middle = f64::midpoint(step.below, step.above);
    step.half = after.windows(2).find(|pair| pair.iter().all(|point| point.cost > middle))?[0].pages;
    Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(costs: impl Fn(u64) -> f64) -> Vec<Cost> {
        let pages = (8..=96).map(|eighth| 2f64.powf(f64::from(eighth) / 8.0).round() as u64);
        pages.map(|pages| Cost { pages, cost: costs(pages), noise: 0.05 }).collect()
    }

    #[test]
    fn two_sharp_steps_are_found_where_they_are() {
        let found = steps(&curve(|pages| match pages {
            0..=64 => 5.0,
            65..=1536 => 12.0,
            _ => 30.0,
        }));
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].onset, found[0].half), (64, 70));
        assert!(found[1].onset <= 1536 && found[1].half > 1536, "{found:?}");
        assert_eq!((found[0].below, found[0].above, found[1].below), (5.0, 12.0, 12.0));
    }

    #[test]
    fn a_flat_or_a_noisy_curve_has_none() {
        assert_eq!(steps(&curve(|_| 5.0)), []);
        assert_eq!(steps(&curve(|pages| if pages == 64 { 9.0 } else { 5.0 })), []);
        let noisy: Vec<Cost> = curve(|pages| if pages > 64 { 6.0 } else { 5.0 });
        let noisy: Vec<Cost> = noisy.into_iter().map(|point| Cost { noise: 0.4, ..point }).collect();
        assert_eq!(steps(&noisy), []);
        assert_eq!(steps(&[]), []);
    }

    #[test]
    fn one_disturbed_point_does_not_end_a_plateau() {
        let found = steps(&curve(|pages| match pages {
            32 => 7.0,
            0..=64 => 5.0,
            _ => 12.0,
        }));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].onset, 64);
    }
}
