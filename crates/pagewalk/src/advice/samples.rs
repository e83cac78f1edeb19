//! What a process would have saved by huge pages, from a file of samples of its walks.
//!
//! The policy is the one that decides for a running process. A file has no page maps and no processor times: memory
//! counts as resident where it was mapped, and the time from the first sample to the last as the processor's.

use super::process::ProcessAdvice;
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::promotion::prices::{self, PromotionPrices};
use crate::samples::{REGION_BYTES, Sampled, read};
use pagewalk_live::pages::{FormerMapping, named_in};
use pagewalk_live::promote::policy::{
    FACTOR, MissedPages, PolicyLimits, PromotionPolicy, RegionMisses, RegionView,
};
use pagewalk_live::promote::{Ended, PromotionCosts, PromotionSummary, SamplerKind, Times};
use pagewalk_units::PAGE_BYTES;
use std::path::PathBuf;

/// A file of samples to advise on.
pub struct SampledOptions {
    /// The file.
    pub file: PathBuf,
    /// A probe of this host; none: the last one.
    pub probe: Option<PathBuf>,
    /// Bytes that may be backed but never touched; none: as much as pays.
    pub budget: Option<u64>,
}

/// Advises on the process with most sampled walks.
///
/// # Errors
/// If the file cannot be read, has no walks, or the host cannot be probed.
pub fn of_samples(options: &SampledOptions, listener: &dyn Listener) -> Result<ProcessAdvice, Error> {
    let sampled = read(&options.file)?;
    let file = options.file.display().to_string();
    let lacks = |what: &str, next: &str| Error::new(Fault::BadInput, format!("{file}: {what}")).or(next);
    let process = sampled.process_with_walks().ok_or_else(|| {
        lacks(
            "no sample says that its translation walked",
            "sample memory accesses with their data sources (perf mem record), or misses of the TLB",
        )
    })?;
    let seconds = sampled.seconds().filter(|&seconds| seconds > 0.0).ok_or_else(|| {
        lacks("its samples have no times, so nothing is known of rates", "for perf script, -F …,time")
    })?;
    let views = views(&sampled, process);
    let bytes = views.len() as u64 * REGION_BYTES;
    let PromotionPrices { prices, entries, assumed } =
        prices::of_host(options.probe.as_deref(), bytes, listener)?;
    let budget_bytes = options.budget.unwrap_or(u64::MAX);
    let limits = PolicyLimits { factor: FACTOR, budget_bytes, entries };
    let policy = decided(&views, &misses(&sampled, process, seconds), seconds, prices, limits);
    let program = program(&sampled, process);
    let summary = PromotionSummary {
        program,
        // No figure of it is used: the file is the sampler.
        way: SamplerKind::Pmu,
        unable: Vec::new(),
        notes: notes(&sampled),
        ended: Ended::Time,
        times: Times { wall: seconds, target: seconds, ..Times::default() },
        rounds: 1,
        failures: 0,
        policy,
    };
    let mappings = mappings(&sampled, process);
    ProcessAdvice::of_file(process, file, summary, assumed, |ranges| named_in(&mappings, ranges))
}

/// The regions with walks. Pages are taken to be resident where memory was mapped.
fn views(sampled: &Sampled, process: i32) -> Vec<RegionView> {
    let space = sampled.spaces.get(&process);
    let of_process = sampled.regions.range((process, 0)..=(process, u64::MAX));
    let view = |(&(_, start), region): (&(i32, u64), &crate::samples::Region)| {
        let mapped = space.map_or(0, |space| space.mapped_bytes(start, start.saturating_add(REGION_BYTES)));
        let resident_pages = (mapped.min(REGION_BYTES) / PAGE_BYTES) as u32;
        RegionView { start, resident_pages, huge: region.huge }
    };
    of_process.map(view).collect()
}

/// The misses of regions, in a second.
fn misses(sampled: &Sampled, process: i32, seconds: f64) -> Vec<RegionMisses> {
    let of_process = sampled.regions.range((process, 0)..=(process, u64::MAX));
    let one = |(&(_, start), region): (&(i32, u64), &crate::samples::Region)| RegionMisses {
        start,
        misses_per_second: region.walks as f64 / seconds,
        seen: MissedPages::Pages(region.pages.clone()),
        saturated: false,
    };
    of_process.map(one).collect()
}

/// The policy after one round over all samples.
fn decided(
    views: &[RegionView],
    misses: &[RegionMisses],
    seconds: f64,
    prices: PromotionCosts,
    limits: PolicyLimits,
) -> PromotionPolicy {
    let mut policy = PromotionPolicy::new(prices, limits);
    policy.update(0.0, views);
    policy.charge(seconds, misses);
    while let Some(due) = policy.due() {
        policy.would_promote(seconds, due);
    }
    policy
}

/// The program's path if a file of its name was mapped, else its name.
fn program(sampled: &Sampled, process: i32) -> String {
    let Some(space) = sampled.spaces.get(&process) else { return String::new() };
    let is_program = |name: &str| {
        // The kernel cuts names to 15 bytes.
        name.rsplit('/')
            .next()
            .is_some_and(|name| !space.command.is_empty() && name.starts_with(&space.command))
    };
    let file = space.ranges().find(|range| range.is_file() && is_program(&range.name));
    file.map_or_else(|| space.command.clone(), |range| range.name.clone())
}

fn mappings(sampled: &Sampled, process: i32) -> Vec<FormerMapping> {
    let ranges = sampled.spaces.get(&process).into_iter().flat_map(|space| space.ranges());
    ranges
        .map(|range| FormerMapping {
            bytes: range.start..range.end,
            offset: range.offset,
            name: range.name.clone(),
        })
        .collect()
}

/// What the file lacks, for the reader of the advice.
fn notes(sampled: &Sampled) -> Vec<String> {
    let mut notes = vec![
        "a file of samples has no page maps: memory counts as resident where it was mapped, and the time from the \
         first sample to the last counts as processor time"
            .to_owned(),
    ];
    if sampled.without_period > 0 {
        notes.push(
            "samples do not say how many events each stands for, so walks are those that were sampled: at least these \
             (for perf script, -F …,period)"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight times the share of break-even: regions with a tenth of the price in misses stay, others go.
    #[test]
    fn regions_whose_misses_cost_an_eighth_of_a_promotion_are_due() {
        let prices =
            PromotionCosts { walk: 100.0, walk_alone: 100.0, collapse: 800_000.0, bounds: [100.0, 100.0] };
        let limits = PolicyLimits { factor: FACTOR, budget_bytes: u64::MAX, entries: 1 << 30 };
        let view =
            |number: u64| RegionView { start: number * REGION_BYTES, resident_pages: 512, huge: number == 4 };
        let of = |number: u64, misses: f64, pages: u64| RegionMisses {
            start: number * REGION_BYTES,
            misses_per_second: misses / 2.0,
            seen: MissedPages::Pages((0..pages).map(|page| page << 12).collect()),
            saturated: false,
        };
        let views: Vec<RegionView> = (1..=4).map(view).collect();
        // The threshold is 1000 misses.
        let misses = [of(1, 1001.0, 2), of(2, 999.0, 2), of(3, 5000.0, 1), of(4, 5000.0, 2)];
        let policy = decided(&views, &misses, 2.0, prices, limits);
        let due: Vec<u64> = policy
            .parts()
            .filter(|part| part.fate == pagewalk_live::promote::policy::Fate::WouldPromote)
            .map(|part| part.view.start / REGION_BYTES)
            .collect();
        assert_eq!(due, [1], "one lacks misses, one has a single page, one is on a huge page");
    }
}
