//! Corrects the model by the runs, and estimates the plan.

use super::runs::{ALL_RANGES, AS_IT_IS, RunSeries};
use pagewalk_forecast::RegionReport;
use pagewalk_forecast::choose::{ChoiceLimits, RegionRun, all_memory, choose};
use pagewalk_forecast::interval::{Interval, joined, normal, of_median, of_runs, of_turns, part, product};
use pagewalk_forecast::prices::{HostPrices, Saving};
use pagewalk_report::TimeUnit;

const NANOSECONDS: f64 = 1e9;
/// The least share of a run that a planned range saves.
const LEAST_SHARE: f64 = 1e-4;
/// Share of walks that wait for the one before, until a trial shows it.
const WAITING: f64 = 0.5;

/// Standard deviation of a ratio of times between occasions, with other memory and other load on the host; consecutive
/// rounds do not show it. No source states it: it is the error left over in 32 forecasts of 15 programs beyond the
/// intervals of their rounds and pairs (docs/explanation/forecasts.md).
const BETWEEN_OCCASIONS: f64 = 0.011;

/// Standard deviation of the model's error, as a share of a run, whatever its prices: the median over forecasts for 17
/// programs (docs/explanation/forecasts.md).
const MODEL_ERROR: f64 = 0.028;

/// The run time with everything that could pay on huge pages, relative to now.
#[derive(Clone, Copy)]
pub struct GainEstimates {
    /// From prices and walks alone.
    pub model: Interval,
    /// From the runs that tried it.
    pub trial: Interval,
    /// From both.
    pub joined: Interval,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NoPlan {
    /// No range surely pays.
    Unsure,
    /// Those that do take more memory than these bytes.
    Budget(u64),
    /// The model would save these seconds, more than a run takes.
    Times(f64),
}

/// The plan, and its expected saving.
pub struct PlanEstimate {
    pub chosen: Vec<RegionRun>,
    /// If none is chosen.
    lack: NoPlan,
    /// Share of walks that wait for the one before, from the trial.
    pub waiting: Option<f64>,
    /// Seconds of the program as it is.
    pub now: Interval,
    /// Run time with the plan, relative to now.
    pub ratio: Interval,
    /// Seconds with the plan.
    pub forecast: Interval,
    /// Run time if the kernel gave huge pages to all memory, relative to now; none if nothing can be said.
    pub always_ratio: Option<Interval>,
    /// Bytes backed but not touched in that case.
    pub always_memory: u64,
    /// How trial and model were joined; none without a trial.
    pub estimates: Option<GainEstimates>,
    /// Scales the model's savings of ranges, so that their sum is the forecast.
    scale: f64,
}

/// A ratio of times that nothing changes.
const SURELY_AS_NOW: Interval = Interval { value: 1.0, low: 1.0, high: 1.0 };

fn sum(chosen: &[RegionRun]) -> Saving {
    chosen.iter().fold(Saving::default(), |sum, chosen| sum.and(&chosen.saving))
}

impl PlanEstimate {
    /// Chooses regions of `everything` that could pay. A trial of everything shows how much it really saves.
    pub fn new(
        prices: &HostPrices,
        found: &RegionReport,
        everything: &[RegionRun],
        kinds: &[RunSeries],
        budget: Option<u64>,
    ) -> PlanEstimate {
        let seconds =
            |what: &str| kinds.iter().find(|kind| kind.what == what).map(|kind| kind.seconds.clone());
        let runs = seconds(AS_IT_IS).unwrap_or_default();
        let trial = seconds(ALL_RANGES);
        let now = match runs[..] {
            // One timing says nothing about variation: the interval is the model's alone.
            [only] => Interval { value: only, low: only, high: only },
            // Too few for an interval of their median.
            [_, _] | [_, _, _] | [_, _, _, _] => of_runs(&runs),
            _ => of_median(&runs),
        };
        let all = sum(everything);
        let estimates = trial.as_deref().map(|trial| estimates(now.value, &runs, trial, &all));
        let whole = estimates.map(|estimates| estimates.joined);
        let waiting = whole.map(|whole| {
            let gain = now.value * (1.0 - whole.value) * NANOSECONDS;
            let (least, most) = (all.faults + all.together, all.faults + all.alone);
            ((gain - least) / (most - least).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        });
        let limits = ChoiceLimits {
            memory: budget,
            waiting: waiting.unwrap_or(WAITING),
            least: LEAST_SHARE * now.value * NANOSECONDS,
        };
        let mut chosen = choose(found, prices, &limits);
        let saving = sum(&chosen);
        let forecast_of = |saving: &Saving| match whole {
            Some(whole) => Some(part(whole, share(saving, &all, limits.waiting))),
            None => by_model_alone(now.value, saving),
        };
        let ratio_of = |saving: &Saving| forecast_of(saving).unwrap_or(SURELY_AS_NOW);
        let (mut ratio, always) = (ratio_of(&saving), all_memory(found, prices));
        let free = choose(found, prices, &ChoiceLimits { memory: None, ..limits });
        let of_free = sum(&free);
        let lack = match (forecast_of(&of_free), budget) {
            (None, _) => NoPlan::Times(of_free.seconds(WAITING)),
            (Some(ratio), Some(budget)) if is_sure(&free, ratio) => NoPlan::Budget(budget),
            _ => NoPlan::Unsure,
        };
        // A plan must surely save time.
        if !is_sure(&chosen, ratio) || matches!(lack, NoPlan::Times(_)) {
            ratio = SURELY_AS_NOW;
            chosen.clear();
        }
        let told = saving.seconds(limits.waiting);
        let is_scaled = whole.is_some() && !chosen.is_empty() && told > 0.0;
        let scale = if is_scaled { now.value * (1.0 - ratio.value) / told } else { 1.0 };
        PlanEstimate {
            chosen,
            lack,
            waiting,
            now,
            ratio,
            forecast: product(now, ratio),
            always_ratio: forecast_of(&always),
            always_memory: always.memory,
            estimates,
            scale,
        }
    }

    /// Seconds of walks that a range saves.
    pub fn walk_seconds(&self, chosen: &RegionRun) -> f64 {
        self.scale * chosen.saving.walks(self.waiting.unwrap_or(WAITING)) / NANOSECONDS
    }

    /// Seconds of first touches that a range saves.
    pub fn fault_seconds(&self, chosen: &RegionRun) -> f64 {
        self.scale * chosen.saving.faults / NANOSECONDS
    }

    /// Bytes backed but not touched.
    pub fn memory(&self) -> u64 {
        sum(&self.chosen).memory
    }

    /// What the user should do.
    pub fn verdict(&self) -> String {
        if self.chosen.is_empty() {
            return match self.lack {
                NoPlan::Unsure => "Do nothing: no range of memory is sure to pay for huge pages.".to_owned(),
                NoPlan::Budget(bytes) => format!(
                    "Do nothing: the ranges that pay need more memory than the budget of {:.1} MiB.",
                    bytes as f64 / f64::from(1 << 20)
                ),
                NoPlan::Times(saved) => {
                    let unit = TimeUnit::up_to(self.now.value);
                    format!(
                        "Nothing can be said: at this host's prices, huge pages would save {} of runs that take {}. \
                         The times are of another program, or of a faster host.",
                        unit.time(saved),
                        unit.time(self.now.value)
                    )
                }
            };
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

/// The plan's share of everything's gain, with bounds from all walks waiting or none.
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

/// Whether a plan surely saves time.
fn is_sure(chosen: &[RegionRun], ratio: Interval) -> bool {
    !chosen.is_empty() && ratio.high < 1.0
}

/// The forecast without a trial; none if the model saves more than the program takes.
fn by_model_alone(now: f64, saving: &Saving) -> Option<Interval> {
    if *saving == Saving::default() {
        return Some(SURELY_AS_NOW);
    }
    let Interval { value, low, high } = modelled(now, saving).widened(MODEL_ERROR);
    (saving.seconds(WAITING) < now).then(|| Interval { value, low: low.max(0.0), high })
}

/// The model's estimate: between all walks overlapping and all waiting, at the lowest and highest prices. It never
/// drops below zero.
fn modelled(now: f64, saving: &Saving) -> Interval {
    let ratio = |nanoseconds: f64| (1.0 - nanoseconds / NANOSECONDS / now).max(0.0);
    let value = ratio(saving.seconds(WAITING) * NANOSECONDS);
    let [low, high] = [saving.most, saving.least].map(ratio);
    Interval { value, low: low.min(value), high: high.max(value) }
}

/// The estimates of everything's gain: from the model, from the trial runs, and from both.
fn estimates(now: f64, runs: &[f64], trial: &[f64], all: &Saving) -> GainEstimates {
    let trial = product(of_turns(runs, trial), normal(1.0, BETWEEN_OCCASIONS));
    // If the prices promise more than a run takes, the middle is not where half of all walks wait.
    let told = modelled(now, all);
    let model = Interval { value: f64::midpoint(told.low, told.high), ..told }.widened(MODEL_ERROR);
    GainEstimates { model, trial, joined: joined(&[trial, model]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_forecast::prices::{Spread, WalkPrice};
    use pagewalk_forecast::{Piece, PieceId, PieceKind, REGION_BYTES, Region, regions::CLASSES};

    const ALL: Saving =
        Saving { alone: 400e6, together: 100e6, faults: 50e6, memory: 0, least: 150e6, most: 450e6 };

    #[test]
    fn a_steady_trial_says_nearly_all() {
        let GainEstimates { model, trial, joined } = estimates(1.0, &[1.0; 9], &[0.6; 9], &ALL);
        assert!((model.value - 0.7).abs() < 1e-9 && model.low < 0.55 && model.high > 0.85, "{model:?}");
        assert!((joined.value - trial.value).abs() < 0.002, "{joined:?}");
        assert!(joined.low < 0.6 && 0.6 < joined.high && joined.width() < 0.05, "{joined:?}");
    }

    #[test]
    fn an_unsure_trial_is_helped_by_the_model() {
        let (now, trial) = ([1.0, 1.4, 1.0, 1.5, 1.0, 1.3], [0.6, 1.2, 0.6, 0.7, 1.3, 0.6]);
        let GainEstimates { model, trial, joined } = estimates(1.0, &now, &trial, &ALL);
        assert!(joined.width() < trial.width() && joined.width() < model.width(), "{joined:?} {trial:?}");
        let between = [model.value, trial.value];
        assert!(
            between.iter().any(|&end| end <= joined.value) && between.iter().any(|&end| end >= joined.value)
        );
    }

    /// Two regions of so many touched pages, with a million walks each, which cost 60 ms if half of them wait.
    fn two_regions(pages: u64) -> (RegionReport, HostPrices) {
        let region = |number| {
            let mut walks = [0; CLASSES];
            walks[0] = 1_000_000;
            Region { piece: PieceId(0), number, pages, walks, huge_walks_now: 0, huge_walks: 0 }
        };
        let pieces = vec![Piece { kind: PieceKind::Heap, bytes: 64 * REGION_BYTES }];
        let found = RegionReport { pieces, regions: vec![region(0), region(9)], ..RegionReport::default() };
        let spread = Spread { walks: [1.0; 2], fault: [0.0; 2], huge_fault: [0.0; 2] };
        let walks = vec![WalkPrice { lines: 1, alone: 100.0, together: 20.0 }];
        (found, HostPrices { walks, huge_walk: 1.0, fault: 0.0, huge_fault: 0.0, spread })
    }

    #[test]
    fn why_there_is_no_plan() {
        let plan = |pages: u64, seconds: f64, budget: Option<u64>| {
            let (found, prices) = two_regions(pages);
            let limits = ChoiceLimits { memory: None, waiting: 1.0, least: 0.0 };
            let everything = choose(&found, &prices, &limits);
            PlanEstimate::new(&prices, &found, &everything, &[RunSeries::given(&[seconds; 9])], budget)
        };
        // 12 pages of each region are never touched.
        let rich = plan(500, 0.5, Some(2 * 12 * 4096));
        assert!(rich.chosen.len() == 2 && rich.ratio.high < 1.0, "{:?}", rich.ratio);
        assert_eq!((rich.ratio.low < rich.ratio.value, rich.ratio.value < rich.ratio.high), (true, true));
        let poor = plan(500, 0.5, Some(0));
        assert_eq!((poor.chosen.len(), poor.lack), (0, NoPlan::Budget(0)));
        assert!(poor.verdict().ends_with("more memory than the budget of 0.0 MiB."), "{}", poor.verdict());
        // A gain within the model's error is not sure, with any budget.
        assert_eq!(plan(500, 10.0, None).lack, NoPlan::Unsure);
        assert_eq!(plan(500, 10.0, Some(0)).lack, NoPlan::Unsure);
        for budget in [None, Some(0), Some(1 << 30)] {
            let contrary = plan(500, 0.1, budget);
            assert!(contrary.chosen.is_empty() && contrary.always_ratio.is_none(), "{budget:?}");
            assert!(matches!(contrary.lack, NoPlan::Times(saved) if saved > 0.1), "{:?}", contrary.lack);
        }
    }

    /// The savings of ranges add up to the forecast.
    #[test]
    fn ranges_sum_up_to_the_forecast() {
        let (found, prices) = two_regions(512);
        let everything = choose(&found, &prices, &ChoiceLimits { memory: None, waiting: 1.0, least: 0.0 });
        let kind = |what, seconds: &[f64]| {
            let mut kind = RunSeries::given(seconds);
            kind.what = what;
            kind
        };
        let kinds = [kind(AS_IT_IS, &[1.0; 9]), kind(ALL_RANGES, &[0.7; 9])];
        let weighed = PlanEstimate::new(&prices, &found, &everything, &kinds, None);
        let saved: f64 =
            weighed.chosen.iter().map(|one| weighed.walk_seconds(one) + weighed.fault_seconds(one)).sum();
        assert_eq!(weighed.chosen.len(), 2);
        assert!((saved - (weighed.now.value - weighed.forecast.value)).abs() < 1e-9, "{saved}");
        assert!((weighed.forecast.value - 0.7).abs() < 0.01, "{:?}", weighed.forecast);
    }
}
