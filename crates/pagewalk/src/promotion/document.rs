//! The result of `promote` as data.

use super::ranges::{self, RegionRange};
use super::survey::PromotionContext;
use super::text::{left_by_reason, saved_seconds};
use pagewalk_live::pages::HUGE_BYTES;
use pagewalk_live::promote::policy::{Fate, PromotionPolicy};
use pagewalk_live::promote::{self as live, Ended, PromoteOptions, PromotionSummary};
use pagewalk_report::documents::process::{
    AbandonedParts, Overhead, PROMOTE_SCHEMA, PartCounts, PromoteLimits, PromotePrices, PromoteResult,
    PromotedRange, PromotionGain, UnavailableSampler,
};
use pagewalk_report::{Class, classes};

/// The classes of figures that do not state theirs. Modelled figures rest on samples of misses.
const MEASURED: (Class, &[&str]) = (
    Class::Measured,
    &[
        "walk_nanoseconds",
        "walk_alone_nanoseconds",
        "promotion_nanoseconds",
        "seconds",
        "processor_seconds",
        "own_processor_seconds",
        "own_share",
        "sampling_share",
        "rounds",
        "promotions",
        "failures",
        "splits",
        "parts",
        "bytes",
        "huge_bytes_before",
        "left_bytes",
    ],
);
const MODELLED: (Class, &[&str]) =
    (Class::Modelled, &["threshold_charges", "over_budget", "misses_per_second", "charges"]);

/// The whole result.
pub fn build(
    pid: i32,
    options: &PromoteOptions,
    summary: &PromotionSummary,
    beside: &PromotionContext,
) -> PromoteResult {
    let (policy, times) = (&summary.policy, summary.times);
    // A dry run models what promotions would bring.
    let outcome = if options.dry_run { Class::Modelled } else { Class::Measured };
    PromoteResult {
        schema: PROMOTE_SCHEMA,
        process: pid,
        program: summary.program.clone(),
        ended: stop_reason(summary.ended),
        dry_run: options.dry_run,
        sampler: summary.way.name(),
        samples_are: summary.way.title(),
        unable: summary.unable.iter().map(unable).collect(),
        notes: summary.notes.clone(),
        limits: PromoteLimits {
            factor: options.limits.factor,
            budget_bytes: options.limits.budget_bytes,
            own_share: options.own_share,
            tlb_entries: options.limits.entries,
        },
        prices: PromotePrices {
            walk_nanoseconds: policy.prices.walk,
            walk_alone_nanoseconds: policy.prices.walk_alone,
            promotion_nanoseconds: policy.prices.collapse,
            threshold_charges: policy.threshold(0),
            assumed: beside.assumed_values(),
        },
        survey: beside.survey_value(),
        seconds: times.wall,
        processor_seconds: times.target,
        own_processor_seconds: Overhead {
            sampling: times.own,
            kernel_thread: times.kernel,
            promotions: times.promotions,
        },
        own_share: times.share(),
        sampling_share: times.sampling_share(),
        rounds: summary.rounds,
        promotions: policy.promotions,
        failures: summary.failures,
        splits: policy.splits,
        added_bytes: policy.added_bytes,
        over_budget: policy.over_budget(),
        gain: gain(policy),
        classes: classes(&[MEASURED, MODELLED, (outcome, &["added_bytes", "promoted_bytes"])]),
        parts: parts(policy),
        left: left_by_reason(policy)
            .into_iter()
            .map(|(reason, parts)| AbandonedParts { reason: reason.to_owned(), parts })
            .collect(),
        ranges: ranges::join(policy).iter().map(range).collect(),
    }
}

fn stop_reason(ended: Ended) -> &'static str {
    match ended {
        Ended::Process => "process",
        Ended::Interrupted => "interrupted",
        Ended::Time => "time",
        Ended::Unsampled => "unsampled",
    }
}

fn unable(unable: &live::UnusableSampler) -> UnavailableSampler {
    UnavailableSampler { sampler: unable.way.name(), why: unable.why.clone(), enable: unable.enable.clone() }
}

fn gain(policy: &PromotionPolicy) -> PromotionGain {
    let [processor_seconds_low, processor_seconds_high] = saved_seconds(policy);
    PromotionGain {
        class: Class::Modelled,
        misses: policy.saved(),
        processor_seconds_low,
        processor_seconds_high,
    }
}

fn parts(policy: &PromotionPolicy) -> PartCounts {
    let count = |wanted: fn(&Fate) -> bool| policy.parts().filter(|part| wanted(&part.fate)).count();
    PartCounts {
        all: policy.parts().count(),
        watched: count(|fate| *fate == Fate::Watched),
        promoted: count(|fate| matches!(fate, Fate::Promoted | Fate::WouldPromote)),
        huge_before: count(|fate| *fate == Fate::HugeBefore),
        left: count(|fate| matches!(fate, Fate::Left(_))),
    }
}

fn range(range: &RegionRange) -> PromotedRange {
    PromotedRange {
        start: format!("{:#x}", range.start),
        bytes: range.parts * HUGE_BYTES,
        promoted_bytes: range.promoted * HUGE_BYTES,
        huge_bytes_before: range.huge_before * HUGE_BYTES,
        left_bytes: range.left * HUGE_BYTES,
        misses_per_second: range.misses_per_second,
        charges: range.charges,
        saturated: range.saturated,
    }
}
