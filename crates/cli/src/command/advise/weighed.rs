//! What the runs say of the model, and so of a plan.

use super::runs::{ALL_RANGES, AS_IT_IS, Kind};
use pagewalk_forecast::Found;
use pagewalk_forecast::choose::{Chosen, Limits, all_memory, choose};
use pagewalk_forecast::interval::{Interval, normal, of_median, of_runs, part, product, ratio};
use pagewalk_forecast::prices::{Prices, Saving};

const NANOSECONDS: f64 = 1e9;
/// A range of the plan saves at least this part of a run.
const LEAST_SHARE: f64 = 1e-4;
/// Share of walks that wait for the one before, as long as nothing is known of it.
const WAITING: f64 = 0.5;

/// How much a ratio of times differs from one occasion to another, where it lies in other memory and the host does
/// other things: a standard deviation, which rounds that follow each other do not show. Nobody states it; it is what
/// is left of the errors of 32 forecasts of 15 programs beyond the intervals of their rounds and pairs
/// (docs/advise.md).
const BETWEEN_OCCASIONS: f64 = 0.011;

/// The plan, and what it should bring.
pub struct Weighed {
    pub chosen: Vec<Chosen>,
    /// Share of walks that wait for the one before, as the trial shows it.
    pub waiting: Option<f64>,
    /// Seconds of the program as it is.
    pub now: Interval,
    /// What it takes with the plan, to what it takes now.
    pub ratio: Interval,
    /// Seconds with the plan.
    pub forecast: Interval,
    /// What it would take, to what it takes now, if the kernel gave huge pages to all memory.
    pub always_ratio: Interval,
    /// Bytes that would be backed and not touched then.
    pub always_memory: u64,
}

fn sum(chosen: &[Chosen]) -> Saving {
    chosen.iter().fold(Saving::default(), |sum, chosen| sum.and(&chosen.saving))
}

impl Weighed {
    /// Chooses what to put on huge pages of `everything` that could pay. A trial of it all says how much of it did.
    pub fn new(
        prices: &Prices,
        found: &Found,
        everything: &[Chosen],
        kinds: &[Kind],
        budget: Option<u64>,
    ) -> Weighed {
        let seconds =
            |what: &str| kinds.iter().find(|kind| kind.what == what).map(|kind| kind.seconds.clone());
        let runs = seconds(AS_IT_IS).unwrap_or_default();
        let trial = seconds(ALL_RANGES);
        let now = match runs[..] {
            // Of one timing nothing is known of how runs differ: the interval is the model's alone.
            [only] => Interval { value: only, low: only, high: only },
            // Too few for an interval of their median.
            [_, _] | [_, _, _] | [_, _, _, _] => of_runs(&runs),
            _ => of_median(&runs),
        };
        let occasions = normal(1.0, BETWEEN_OCCASIONS);
        let whole = trial.as_deref().map(|trial| product(ratio(&runs, trial), occasions));
        let all = sum(everything);
        let waiting = whole.map(|whole| {
            let gain = now.value * (1.0 - whole.value) * NANOSECONDS;
            let (least, most) = (all.faults + all.together, all.faults + all.alone);
            ((gain - least) / (most - least).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        });
        let limits = Limits {
            memory: budget,
            waiting: waiting.unwrap_or(WAITING),
            least: LEAST_SHARE * now.value * NANOSECONDS,
        };
        let mut chosen = choose(found, prices, &limits);
        let saving = sum(&chosen);
        let ratio_of = |saving: &Saving| match whole {
            Some(whole) => part(whole, share(saving, &all, limits.waiting)),
            None => modelled(now.value, saving),
        };
        let (mut ratio, always) = (ratio_of(&saving), all_memory(found, prices));
        // A plan that is not sure to save time is none.
        if chosen.is_empty() || ratio.high >= 1.0 {
            ratio = Interval { value: 1.0, low: 1.0, high: 1.0 };
            chosen.clear();
        }
        Weighed {
            chosen,
            waiting,
            now,
            ratio,
            forecast: product(now, ratio),
            always_ratio: ratio_of(&always),
            always_memory: always.memory,
        }
    }

    /// Seconds that a range saves by walks.
    pub fn walk_seconds(&self, chosen: &Chosen) -> f64 {
        chosen.saving.walks(self.waiting.unwrap_or(WAITING)) / NANOSECONDS
    }

    /// Seconds that a range saves by first touches.
    pub fn fault_seconds(&self, chosen: &Chosen) -> f64 {
        chosen.saving.faults / NANOSECONDS
    }

    /// Bytes that would be backed and not touched.
    pub fn memory(&self) -> u64 {
        sum(&self.chosen).memory
    }

    /// What to do.
    pub fn verdict(&self) -> String {
        if self.chosen.is_empty() {
            return "Do nothing: no range of memory is sure to pay for huge pages.".to_owned();
        }
        let share = |ratio: f64| (1.0 - ratio) * 100.0;
        format!(
            "{} of memory on huge pages should save {:.1} % of processor time ({:.1} to {:.1} %).",
            match self.chosen.len() {
                1 => "One range".to_owned(),
                many => format!("{many} ranges"),
            },
            share(self.ratio.value),
            share(self.ratio.high),
            share(self.ratio.low)
        )
    }
}

/// What part of the gain of everything is the plan's; its bounds are those of walks that all wait or none do.
fn share(plan: &Saving, all: &Saving, waiting: f64) -> Interval {
    let part = |waiting: f64| {
        let whole = all.walks(waiting) + all.faults;
        if whole > 0.0 { (plan.walks(waiting) + plan.faults) / whole } else { 1.0 }
    };
    let parts = [0.0, waiting, 1.0].map(part);
    let low = parts.iter().copied().fold(f64::INFINITY, f64::min);
    let high = parts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Interval { value: parts[1], low, high }
}

/// By prices alone: somewhere between walks that all overlap and walks that all wait. No run takes less than nothing,
/// whatever the prices say.
fn modelled(now: f64, saving: &Saving) -> Interval {
    let ratio = |waiting: f64| (1.0 - (saving.walks(waiting) + saving.faults) / NANOSECONDS / now).max(0.0);
    Interval { value: ratio(WAITING), low: ratio(1.0), high: ratio(0.0) }
}
