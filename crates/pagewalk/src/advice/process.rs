//! What a running process would save by huge pages, from samples of its TLB misses.
//!
//! The plan lists every region whose sampled misses already cost the share of a promotion at which `promote` would
//! promote it.

use crate::error::{Error, Fault};
use crate::listener::{Bar, Listener};
use crate::probe::AssumedPrice;
use crate::promotion::prices::{self, PromotionPrices};
use crate::promotion::survey::{PromotionContext, host_forbids};
use crate::promotion::{failed, text};
use pagewalk_capture::HostDescription;
use pagewalk_live::pages::settings::{Setting, settings};
use pagewalk_live::pages::{HUGE_BYTES, NamedMemory, named};
use pagewalk_live::promote::policy::{FACTOR, Fate, PolicyLimits, RegionState};
use pagewalk_live::promote::{
    self, Decision, Ended, PromoteOptions, PromotionCosts, PromotionStatus, PromotionSummary, Survey, Watcher,
};
use pagewalk_plan::{Gain, Plan, Program, RANGES_MAX};
use pagewalk_report::documents::process::{
    ADVICE_PROCESS_SCHEMA, AdvicePrices, AdviceProcessResult, RangeAdvice, SavedShare,
};
use pagewalk_report::{Class, classes, printable};
use pagewalk_units::PAGE_BYTES;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes of a mebibyte.
pub(super) const MIB: f64 = (1 << 20) as f64;
/// The usual reason for having no plan.
pub const NOTHING_PAYS: &str = "nothing pays";
/// Share of the process's processor time that watching may use: it is short.
const OWN_SHARE: f64 = 0.05;
/// Ranges listed without `--verbose`: those with most misses.
const RANGES_SHOWN: usize = 12;

/// The classes of figures that do not state theirs.
const FIGURES: [(Class, &[&str]); 2] = [
    (Class::Measured, &["seconds", "processor_seconds", "sampling_share", "rounds", "prices", "bytes"]),
    (Class::Modelled, &["walks_per_processor_second", "memory_mib"]),
];

/// Memory that should be on huge pages.
struct AdvisedMemory {
    named: NamedMemory,
    misses_per_second: f64,
    /// Whether sampling saturated.
    saturated: bool,
    /// Bytes that become resident.
    memory: u64,
}

/// Which process to watch, and for how long.
pub struct ProcessOptions {
    /// The process.
    pub pid: i32,
    /// A probe of this host; none: the last one.
    pub probe: Option<PathBuf>,
    /// Bytes that may be backed but never touched; none: as much as pays.
    pub budget: Option<u64>,
    /// Seconds to watch.
    pub watch: f64,
}

/// A process that is ready to be watched.
pub struct ProcessWatch {
    pid: i32,
    options: PromoteOptions,
    prices: PromotionCosts,
    assumed: Vec<AssumedPrice>,
    seconds: f64,
}

impl ProcessWatch {
    /// Examines the process, and the cost of walks and promotions on this host.
    ///
    /// # Errors
    /// If the process cannot be read, or the host cannot be probed.
    pub fn prepare(options: &ProcessOptions, listener: &dyn Listener) -> Result<ProcessWatch, Error> {
        let ProcessOptions { pid, watch, .. } = *options;
        let bytes = promote::anonymous_bytes(pid).map_err(failed)?;
        let PromotionPrices { prices, entries, assumed } =
            prices::of_host(options.probe.as_deref(), bytes, listener)?;
        let budget_bytes = options.budget.unwrap_or(u64::MAX);
        let options = PromoteOptions {
            way: None,
            limits: PolicyLimits { factor: FACTOR, budget_bytes, entries },
            own_share: OWN_SHARE,
            seconds: Some(watch),
            dry_run: true,
        };
        Ok(ProcessWatch { pid, options, prices, assumed, seconds: watch })
    }

    /// Watches until the time is over or `stop` is set.
    ///
    /// # Errors
    /// If the process cannot be watched, or ends meanwhile.
    pub fn run(self, stop: &AtomicBool, listener: &dyn Listener) -> Result<ProcessAdvice, Error> {
        let ProcessWatch { pid, options, prices, assumed, seconds } = self;
        let mut progress = AdviceProgress { bar: listener.shares("watching the process"), seconds };
        let outcome = promote::run(pid, &options, prices, stop, &mut progress);
        drop(progress);
        let summary = outcome.map_err(failed)?;
        if summary.ended == Ended::Process {
            return Err(ended_error(pid));
        }
        let advised = advised(&summary, |ranges| named(pid, ranges).map_err(|_| ended_error(pid)))?;
        // As it is now: its behaviour meanwhile counts.
        let survey = promote::survey(pid).map_err(|_| ended_error(pid))?;
        let settings = if advised.is_empty() && survey.grown.is_none() { Vec::new() } else { settings() };
        let beside = PromotionContext { survey, assumed };
        Ok(ProcessAdvice { pid, summary, file: None, advised, beside, settings })
    }
}

/// What a running process would save by huge pages.
pub struct ProcessAdvice {
    pid: i32,
    summary: PromotionSummary,
    /// The file of samples; none if the process was watched.
    file: Option<String>,
    advised: Vec<AdvisedMemory>,
    beside: PromotionContext,
    settings: Vec<Setting>,
}

impl ProcessAdvice {
    /// Of a process of which a file has samples.
    pub(super) fn of_file(
        pid: i32,
        file: String,
        summary: PromotionSummary,
        assumed: Vec<AssumedPrice>,
        named: impl Fn(&[(u64, u64)]) -> Vec<NamedMemory>,
    ) -> Result<ProcessAdvice, Error> {
        let mut advised = advised(&summary, |ranges| Ok(named(ranges)))?;
        // A region's misses belong to the mapping of its first byte: the rest of it is no range of its own.
        advised.retain(|one| one.misses_per_second > 0.0);
        let settings = if advised.is_empty() { Vec::new() } else { settings() };
        let beside = PromotionContext { survey: Survey::default(), assumed };
        Ok(ProcessAdvice { pid, summary, file: Some(file), advised, beside, settings })
    }

    /// As text; `verbose` lists all ranges.
    pub fn text(&self, verbose: bool) -> String {
        let ProcessAdvice { pid, summary, file, advised, beside, settings } = self;
        let shown = if verbose { advised.len() } else { RANGES_SHOWN.min(advised.len()) };
        let times = summary.times;
        let how = match file {
            Some(file) => format!("sampled for {:.1} s; by {}", times.wall, printable(file)),
            None => format!(
                "watched for {:.1} s, with {:.1} s of processor time; by {}: {}; rounds: {}",
                times.wall,
                times.target,
                summary.way,
                summary.way.title(),
                summary.rounds
            ),
        };
        let mut out =
            format!("process {pid} ({}), {how}\n  {}\n", printable(&summary.program), self.verdict());
        if !advised.is_empty() {
            let _ = writeln!(out, "\n  {:>9}{:>14}{:>18}{:>11}  range", "MiB", "walks/s", "saved", "memory");
        }
        for one in &advised[..shown] {
            let mark = if one.saturated { ">" } else { "" };
            let _ = writeln!(
                out,
                "  {:>9.0}{:>14}{:>18}{:>11}  {}",
                (one.named.end - one.named.start) as f64 / MIB,
                format!("{mark}{:.0}", one.misses_per_second),
                saved(summary, one.misses_per_second, one.saturated),
                format!("+{:.1} MiB", one.memory as f64 / MIB),
                printable(&one.named.what.to_string())
            );
        }
        if shown < advised.len() {
            let _ = writeln!(out, "  and {} more (-v lists all)", advised.len() - shown);
        }
        if !advised.is_empty() {
            out += "  walks in a second of processor time: estimated from samples (>: at least)\n";
            out += "  saved: modelled, from walks that overlap to walks that wait for each other\n";
        }
        out += &text::lines(beside);
        out.extend(settings.iter().map(|setting| format!("  {setting}\n")));
        out + &text::sampling(summary)
    }

    /// As data.
    pub fn document(&self) -> AdviceProcessResult {
        let ProcessAdvice { pid, summary, file, advised, beside, settings } = self;
        let share = |misses: f64| {
            let [low, high] =
                shares(summary, misses).map(|share| Some(share).filter(|share| share.is_finite()));
            SavedShare { class: Class::Modelled, low, high }
        };
        let range = |one: &AdvisedMemory| RangeAdvice {
            range: one.named.what.to_string(),
            start: format!("{:#x}", one.named.start),
            bytes: one.named.end - one.named.start,
            walks_per_processor_second: one.misses_per_second,
            at_least: one.saturated,
            share_saved: share(one.misses_per_second),
            memory_mib: one.memory as f64 / MIB,
        };
        AdviceProcessResult {
            schema: ADVICE_PROCESS_SCHEMA,
            process: *pid,
            program: summary.program.clone(),
            sampler: if file.is_some() { "file" } else { summary.way.name() },
            file: file.clone(),
            seconds: summary.times.wall,
            processor_seconds: summary.times.target,
            sampling_share: summary.times.sampling_share(),
            rounds: summary.rounds,
            prices: AdvicePrices {
                walk_nanoseconds: summary.policy.prices.walk,
                walk_alone_nanoseconds: summary.policy.prices.walk_alone,
                promotion_nanoseconds: summary.policy.prices.collapse,
                assumed: beside.assumed_values(),
            },
            survey: beside.survey_value(),
            host_forbids: host_forbids(settings),
            share_saved: share(all_misses(advised)),
            classes: classes(&FIGURES),
            ranges: advised.iter().map(range).collect(),
            verdict: self.verdict(),
        }
    }

    /// The plan's text, or why there is none.
    pub fn plan(&self) -> Result<String, &'static str> {
        if self.beside.forbids_all() {
            Err("the process forbids huge pages")
        } else if self.advised.is_empty() {
            Err(NOTHING_PAYS)
        } else {
            Ok(plan(&self.summary, &self.advised).to_toml())
        }
    }

    fn verdict(&self) -> String {
        let ProcessAdvice { summary, advised, beside, .. } = self;
        let saved = saved(summary, all_misses(advised), advised.iter().any(|one| one.saturated));
        match advised.len() {
            _ if summary.rounds == 0 => {
                "Not known: no sample was taken; the process has to use its processor, or be watched longer (--watch)."
                    .to_owned()
            }
            _ if beside.forbids_all() => format!(
                "Do nothing from outside: the process itself forbids huge pages. {}",
                match advised.len() {
                    0 => "They would not pay anyway.".to_owned(),
                    _ => format!("If it did not, they should save {saved} of its processor time."),
                }
            ),
            0 if !beside.survey.pools.is_empty() => {
                "Nothing to gain: memory that was set aside (hugetlb) is on huge pages already, and no other part of \
                 it missed the TLB so often that a huge page paid for itself."
                    .to_owned()
            }
            0 => "Do nothing: no part of its memory missed the TLB so often that a huge page paid for itself."
                .to_owned(),
            1 => format!("One range on huge pages should save {saved} of its processor time."),
            many => format!("{many} ranges on huge pages should save {saved} of its processor time."),
        }
    }
}

struct AdviceProgress {
    bar: Arc<dyn Bar>,
    seconds: f64,
}

impl Watcher for AdviceProgress {
    fn decided(&mut self, _: &Decision) {}

    fn passed(&mut self, standing: &PromotionStatus<'_>) {
        let done = (100.0 * standing.times.wall / self.seconds) as u64;
        self.bar.reach(done, &format!("rounds: {}", standing.rounds));
    }
}

/// The error for a process that ended: its memory has no names any more.
fn ended_error(pid: i32) -> Error {
    Error::new(
        Fault::Failed,
        format!("process {pid} ended while it was watched: there is nothing to advise on"),
    )
}

/// Memory that pays, most misses first; `named` gives ranges the names that plans use.
fn advised(
    summary: &PromotionSummary,
    named: impl Fn(&[(u64, u64)]) -> Result<Vec<NamedMemory>, Error>,
) -> Result<Vec<AdvisedMemory>, Error> {
    let paying: Vec<&RegionState> =
        summary.policy.parts().filter(|part| part.fate == Fate::WouldPromote).collect();
    let neighbours = paying.chunk_by(|a, b| a.view.start + HUGE_BYTES == b.view.start);
    let ranges: Vec<(u64, u64)> = neighbours
        .map(|parts| (parts[0].view.start, parts[parts.len() - 1].view.start + HUGE_BYTES))
        .collect();
    let names = named(&ranges)?;
    let of = |named: NamedMemory| {
        let its = paying.iter().filter(|part| (named.start..named.end).contains(&part.view.start));
        let added = |part: &&&RegionState| HUGE_BYTES - u64::from(part.view.resident_pages) * PAGE_BYTES;
        AdvisedMemory {
            misses_per_second: its.clone().filter_map(|part| part.misses_per_second).sum(),
            saturated: its.clone().any(|part| part.saturated),
            memory: its.map(|part| added(&part)).sum(),
            named,
        }
    };
    let mut all: Vec<AdvisedMemory> = names.into_iter().map(of).collect();
    all.sort_by(|a, b| b.misses_per_second.total_cmp(&a.misses_per_second));
    all.truncate(RANGES_MAX);
    Ok(all)
}

/// The share of processor time that misses take: if walks overlap, and if each waits for the one before.
fn shares(summary: &PromotionSummary, misses_per_second: f64) -> [f64; 2] {
    summary.policy.prices.bounds.map(|walk| (misses_per_second * walk * 1e-9).min(1.0))
}

/// The same in words; if sampling saturated, only the least is known.
fn saved(summary: &PromotionSummary, misses_per_second: f64, saturated: bool) -> String {
    let [low, high] = shares(summary, misses_per_second).map(|share| share * 100.0);
    if saturated { format!("at least {low:.2} %") } else { format!("{low:.2} to {high:.2} %") }
}

fn all_misses(advised: &[AdvisedMemory]) -> f64 {
    advised.iter().map(|one| one.misses_per_second).sum()
}

fn plan(summary: &PromotionSummary, advised: &[AdvisedMemory]) -> Plan {
    let range = |one: &AdvisedMemory| pagewalk_plan::PlanRange {
        gain: Gain { memory_mib: Some(one.memory as f64 / MIB), ..Gain::default() },
        ..pagewalk_plan::PlanRange::of(one.named.what.clone())
    };
    let host = HostDescription::detect();
    let path = summary.program.clone();
    let build_id = pagewalk_symbols::build_id(&path);
    // There is no forecast for a whole run.
    Plan {
        host: Some(pagewalk_plan::ForecastHost { kernel: host.kernel, thp: host.thp }),
        ranges: advised.iter().map(range).collect(),
        ..Plan::of(Program { path, build_id, arguments: Vec::new() })
    }
}
