//! Derives the entries and ways of TLB arrays from a curve's steps.
//!
//! Ways: pages a large power of two apart fall into one set, whether the index is a few bits of the page number or bits
//! xored with others. A cycle of as many such pages as there are ways always hits; one more page misses. Entries: ways
//! times a power of two; the curve over neighbouring pages, which fill all sets evenly, fits only one. Anything that
//! contradicts such an array is refused; then only the page counts between which the cost rises are known.

use super::figure::Samples;
use super::steps::{Cost, CurveStep, steps};

/// Most pages of a chase that looks for ways; arrays with more count as fully associative.
pub const MOST_WAYS: u64 = 40;
/// Strides that must agree on the ways.
const AGREEING: usize = 3;
/// A cycle of one page more than the ways must miss at least this share of what random replacement would miss.
const LEAST_MISSES: f64 = 0.8;
/// Share of the rise that one page more than a fully associative array's entries costs.
const SHARP: f64 = 0.5;
/// Levels to look for. A rise after the second belongs to walks: page-table entries leave the first cache.
const LEVELS: usize = 2;

/// A chase over pages in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cycle {
    /// Number of pages.
    pub pages: u64,
    /// Distance between pages, in pages.
    pub stride: u64,
}

/// Measures cycles.
pub trait Prober {
    /// Why a measurement failed.
    type Error;

    /// Cost of an access of each cycle, once per round; a round covers all cycles.
    fn costs(&mut self, cycles: &[Cycle], rounds: usize) -> Result<Vec<Samples>, Self::Error>;
}

/// Parameters of a search.
#[derive(Clone, Debug)]
pub struct SearchPlan {
    /// Numbers of neighbouring pages, ascending.
    pub pages: Vec<u64>,
    /// Strides, ascending powers of two.
    pub strides: Vec<u64>,
    /// Repeats of each measurement.
    pub rounds: usize,
}

impl SearchPlan {
    /// Eight page counts per octave from 4 to `most`, and power-of-two strides up to `longest`.
    pub fn new(most: u64, longest: u64, rounds: usize) -> SearchPlan {
        let eighths = (16..).map(|eighth| 2f64.powf(f64::from(eighth) / 8.0).round() as u64);
        let mut pages: Vec<u64> = eighths.take_while(|&pages| pages <= most).collect();
        pages.dedup();
        let strides = (2..u64::BITS).map(|bit| 1 << bit).take_while(|&stride| stride <= longest).collect();
        SearchPlan { pages, strides, rounds }
    }
}

/// One measured TLB level.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredLevel {
    /// The step after which it misses.
    pub step: CurveStep,
    /// Its entries; none if refused.
    pub entries: Option<u64>,
    /// Its ways, equal to the entries if fully associative; none if refused.
    pub ways: Option<u64>,
    /// Why `entries` or `ways` are refused.
    pub refused: Option<String>,
    /// For each stride with conflicts: bounds on the ways.
    pub conflicts: Vec<ConflictBounds>,
}

/// The page counts at which a stride begins to conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConflictBounds {
    /// Distance between pages, in pages.
    pub stride: u64,
    /// Most pages in a cycle that all hit.
    pub hits: u64,
    /// Fewest pages of which most miss.
    pub misses: u64,
    /// Whether the cost rises right after `hits`, as in an array.
    pub sharp: bool,
}

/// The levels found, with their measurements.
#[derive(Clone, Debug)]
pub struct TlbSearch {
    /// Cost over neighbouring pages.
    pub curve: Vec<(u64, Samples)>,
    /// From the first level on.
    pub levels: Vec<MeasuredLevel>,
}

/// Measures the curve and the strides, and derives the arrays.
///
/// # Errors
/// Those of the prober.
pub fn find<P: Prober>(prober: &mut P, plan: &SearchPlan) -> Result<TlbSearch, P::Error> {
    let cycles: Vec<Cycle> = plan.pages.iter().map(|&pages| Cycle { pages, stride: 1 }).collect();
    let samples = prober.costs(&cycles, plan.rounds)?;
    let curve: Vec<(u64, Samples)> = plan.pages.iter().copied().zip(samples).collect();
    let costs: Vec<Cost> = curve.iter().map(|(pages, samples)| cost(*pages, samples)).collect();
    let strided = strided(prober, plan)?;
    let mut levels = Vec::new();
    let found: Vec<CurveStep> = steps(&costs).into_iter().take(LEVELS).collect();
    for (index, &step) in found.iter().enumerate() {
        let walks = index + 1 == found.len();
        let conflicts: Vec<ConflictBounds> =
            strided.iter().filter_map(|(stride, costs)| conflict(&step, walks, *stride, costs)).collect();
        // A cycle that fits the level before never reaches this one.
        let hidden = levels.last().map_or(0, |level: &MeasuredLevel| level.ways.unwrap_or(0));
        levels.push(level(prober, plan, step, conflicts, hidden)?);
    }
    Ok(TlbSearch { curve, levels })
}

fn cost(pages: u64, samples: &Samples) -> Cost {
    let noise = (samples.median() - samples.quantile(0.1)).max(0.0);
    Cost { pages, cost: samples.low(), noise }
}

/// Costs of few pages at every stride.
fn strided<P: Prober>(prober: &mut P, plan: &SearchPlan) -> Result<Vec<(u64, Vec<Cost>)>, P::Error> {
    let cycles: Vec<Cycle> = plan
        .strides
        .iter()
        .flat_map(|&stride| (2..=MOST_WAYS).map(move |pages| Cycle { pages, stride }))
        .collect();
    let samples = prober.costs(&cycles, plan.rounds)?;
    let costs: Vec<Cost> =
        cycles.iter().zip(&samples).map(|(cycle, samples)| cost(cycle.pages, samples)).collect();
    let each = costs.chunks(MOST_WAYS as usize - 1);
    Ok(plan.strides.iter().copied().zip(each.map(<[Cost]>::to_vec)).collect())
}

/// Where pages of a stride begin to miss the level before this step; none if they do not. `walks`: a miss means a walk.
fn conflict(step: &CurveStep, walks: bool, stride: u64, costs: &[Cost]) -> Option<ConflictBounds> {
    let most = costs.iter().rev().take(5).map(|cost| cost.cost).collect::<Samples>().median();
    let rise = most - step.below;
    if rise < step.rise() / 2.0 {
        return None;
    }
    // Walks of distant pages cost more than those of neighbours, so each stride has its own rise.
    let rise = if walks { rise } else { rise.min(step.rise()) };
    // A single high point is noise, unless the next one is high too.
    let left =
        costs.windows(2).position(|pair| pair.iter().all(|cost| cost.cost > step.still_below(rise)))?;
    let most_missed = costs.iter().find(|cost| cost.cost > step.below + 0.9 * rise)?;
    let hits = costs[left.checked_sub(1)?].pages;
    let least = LEAST_MISSES * random_misses(hits);
    let sharp = costs[left].cost - step.below >= least * rise;
    Some(ConflictBounds { stride, hits, misses: most_missed.pages, sharp })
}

/// The miss ratio of `ways` randomly replaced entries under a cycle of one page more. A page survives each miss until
/// its next turn with probability 1 − 1/ways: m = 1 − (1 − 1/ways)^(m × (ways + 1)).
fn random_misses(ways: u64) -> f64 {
    let survives = 1.0 - 1.0 / ways as f64;
    let mut misses: f64 = 1.0;
    for _ in 0..200 {
        misses = 1.0 - survives.powf(misses * (ways + 1) as f64);
    }
    misses
}

fn level<P: Prober>(
    prober: &mut P,
    plan: &SearchPlan,
    step: CurveStep,
    conflicts: Vec<ConflictBounds>,
    hidden: u64,
) -> Result<MeasuredLevel, P::Error> {
    let shape = match ways(&conflicts, hidden) {
        Ok(Some(ways)) => sets(prober, plan, &step, ways)?.map(|sets| (ways * sets, ways)),
        Ok(None) => bisect(prober, plan, &step)?.map(|entries| (entries, entries)),
        Err(reason) => Err(reason),
    };
    let (shape, refused) = match shape {
        Ok(shape) => (Some(shape), None),
        Err(reason) => (None, Some(reason)),
    };
    let (entries, ways) = shape.unzip();
    Ok(MeasuredLevel { step, entries, ways, refused, conflicts })
}

/// The ways on which conflicts agree; none without conflicts. Cycles of up to `hidden` pages say nothing.
fn ways(conflicts: &[ConflictBounds], hidden: u64) -> Result<Option<u64>, String> {
    let Some(last) = conflicts.last() else { return Ok(None) };
    let sharp = || conflicts.iter().filter(|conflict| conflict.sharp);
    let ways = sharp().map(|conflict| conflict.hits).min().unwrap_or(last.hits);
    let agreeing = sharp().filter(|conflict| conflict.hits == ways).count();
    let first = conflicts.iter().position(|conflict| conflict.hits == ways).unwrap_or(0);
    let few = conflicts.iter().any(|conflict| conflict.hits < ways);
    if agreeing < AGREEING || agreeing * 3 < (conflicts.len() - first) * 2 || few {
        let (low, high) = range(conflicts);
        return Err(format!(
            "pages of one set begin to miss behind {low} and all miss at {high}: not sharp enough to tell the ways"
        ));
    }
    if ways <= hidden {
        return Err(format!(
            "the level before hits in all cycles of up to {hidden} pages, which hides how many ways this one has"
        ));
    }
    Ok(Some(ways))
}

/// The fewest pages that all hit and the most that do not, at the longest strides.
pub(super) fn range(conflicts: &[ConflictBounds]) -> (u64, u64) {
    let longest = conflicts.iter().rev().take(AGREEING - 1);
    longest.fold((u64::MAX, 0), |(low, high), conflict| (low.min(conflict.hits), high.max(conflict.misses)))
}

/// Costs of neighbouring pages, measured again.
fn neighbours<P: Prober>(prober: &mut P, plan: &SearchPlan, pages: &[u64]) -> Result<Vec<Cost>, P::Error> {
    let cycles: Vec<Cycle> = pages.iter().map(|&pages| Cycle { pages, stride: 1 }).collect();
    let samples = prober.costs(&cycles, plan.rounds)?;
    Ok(pages.iter().zip(&samples).map(|(&pages, samples)| cost(pages, samples)).collect())
}

/// Numbers of sets that fit the step: ways × sets pages hit, and one more for each set misses as often as it must.
fn sets<P: Prober>(
    prober: &mut P,
    plan: &SearchPlan,
    step: &CurveStep,
    ways: u64,
) -> Result<Result<u64, String>, P::Error> {
    let mut fitting = Vec::new();
    let near = |entries: u64| entries * 2 >= step.onset && entries <= step.half * 2;
    for sets in (0..32).map(|bit| 1u64 << bit).filter(|sets| near(sets * ways)) {
        let entries = sets * ways;
        let costs = neighbours(prober, plan, &[entries - entries / 16, entries, entries + sets])?;
        let [fewer, full, over] = [costs[0], costs[1], costs[2]];
        let still = step.still_below(step.rise());
        let hits = fewer.cost <= still && full.cost <= still;
        if hits && over.cost - step.below >= LEAST_MISSES * random_misses(ways) * step.rise() {
            fitting.push(sets);
        }
    }
    Ok(match fitting[..] {
        [sets] => Ok(sets),
        [] => Err(format!(
            "pages of one set say {ways} ways, but no power of two of such sets begins to miss as neighbouring pages do"
        )),
        _ => {
            Err(format!("pages of one set say {ways} ways, but {} numbers of sets would fit", fitting.len()))
        }
    })
}

/// Entries of a fully associative array: the most pages that hit, if one more misses.
fn bisect<P: Prober>(
    prober: &mut P,
    plan: &SearchPlan,
    step: &CurveStep,
) -> Result<Result<u64, String>, P::Error> {
    let (mut hits, mut misses) = (step.onset, step.half);
    while hits + 1 < misses {
        let middle = u64::midpoint(hits, misses);
        let cost = neighbours(prober, plan, &[middle])?[0].cost;
        if cost > step.still_below(step.rise()) { misses = middle } else { hits = middle }
    }
    let costs = neighbours(prober, plan, &[hits - hits / 16, hits, hits + 1])?;
    let still = step.still_below(step.rise());
    let sharp = costs[2].cost - step.below > SHARP * step.rise();
    Ok(if costs[..2].iter().all(|cost| cost.cost <= still) && sharp {
        Ok(hits)
    } else {
        Err(format!(
            "nothing conflicts in cycles of up to {MOST_WAYS} pages, yet behind {hits} pages one more costs less than \
             {:.0} % of the step, unlike in a fully associative array with least recently used replacement",
            100.0 * SHARP
        ))
    })
}

#[cfg(test)]
mod tests;
