//! The progress and the result of a promotion, for a terminal.

use super::ranges::{RegionRange, join};
use super::survey::PromotionContext;
use pagewalk_live::pages::HUGE_BYTES;
use pagewalk_live::promote::policy::{Fate, PromotionPolicy};
use pagewalk_live::promote::{Ended, PromoteOptions, PromotionStatus, PromotionSummary, Times};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most ranges in the result.
const RANGES_SHOWN: usize = 12;

/// Bytes as MiB.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The picture's first line.
pub fn heading(pid: i32, standing: &PromotionStatus<'_>) -> String {
    let PromotionStatus { times, rounds, way, .. } = standing;
    format!(
        "process {pid}, {:.1} s, {:.1} s of processor time; by {way}, rounds: {rounds}\n",
        times.wall, times.target
    )
}

/// The ranges with most misses.
pub fn table(ranges: &[RegionRange], most: usize) -> String {
    let mut out = format!(
        "  {:<16}{:>9}{:>11}{:>9}{:>7}{:>14}{:>14}\n",
        "range", "MiB", "promoted", "before", "left", "misses/s", "charges"
    );
    for range in ranges.iter().take(most) {
        let bytes = |parts: u64| mib(parts * HUGE_BYTES);
        let mark = if range.saturated { ">" } else { "" };
        let _ = writeln!(
            out,
            "  {:<16x}{:>9.0}{:>11.0}{:>9.0}{:>7.0}{:>14}{:>14.0}",
            range.start,
            bytes(range.parts),
            bytes(range.promoted),
            bytes(range.huge_before),
            bytes(range.left),
            format!("{mark}{:.0}", range.misses_per_second),
            range.charges,
        );
    }
    let hidden = ranges.len().saturating_sub(most);
    if hidden > 0 {
        let _ = writeln!(out, "  and {hidden} more");
    }
    out
}

/// What promotions cost, and what they save.
pub fn balance(policy: &PromotionPolicy, times: Times) -> String {
    let [low, high] = saved_seconds(policy);
    format!(
        "  promotions: {} ({:.0} MiB), {} split since; {:.1} MiB became resident\n  \
         paid (measured): promotions {:.3} s, sampling {:.3} s, the kernel's thread {:.3} s; sampling takes {:.2} % of \
         the process's processor time\n  \
         gained (modelled): {low:.2} to {high:.2} s of processor time that walks would have taken\n",
        policy.promotions,
        mib(policy.promotions * HUGE_BYTES),
        policy.splits,
        mib(policy.added_bytes),
        times.promotions,
        times.own,
        times.kernel,
        100.0 * times.sampling_share(),
    )
}

/// Seconds of walks saved so far: if walks overlap, and if each waits for the one before.
pub fn saved_seconds(policy: &PromotionPolicy) -> [f64; 2] {
    policy.prices.bounds.map(|walk| policy.saved() * walk * 1e-9)
}

/// The result.
pub fn render(
    pid: i32,
    options: &PromoteOptions,
    summary: &PromotionSummary,
    beside: &PromotionContext,
) -> String {
    let times = summary.times;
    let ended = match summary.ended {
        Ended::Process => "it ended",
        Ended::Interrupted => "interrupted",
        Ended::Time => "the time is over",
        Ended::Unsampled => "no way to sample was left",
    };
    let mut out = format!(
        "process {} ({}): {ended} after {:.1} s, with {:.1} s of processor time\n  by {}: {}; rounds: {}\n\n",
        pid,
        summary.program,
        times.wall,
        times.target,
        summary.way,
        summary.way.title(),
        summary.rounds
    );
    let ranges = join(&summary.policy);
    if ranges.is_empty() {
        out += "  no part of 2 MiB of its memory was seen\n";
    } else {
        out += &table(&ranges, RANGES_SHOWN);
    }
    out.push('\n');
    if options.dry_run {
        out += "  nothing was promoted (--dry-run): the table has what would have been\n";
    }
    out += &balance(&summary.policy, times);
    for (reason, parts) in left_by_reason(&summary.policy) {
        let _ = writeln!(out, "  {parts} parts were left: {reason}");
    }
    let over = summary.policy.over_budget();
    if over > 0 {
        let _ = writeln!(
            out,
            "  {over} parts would pay and do not fit under --budget ({:.1} MiB)",
            options.limits.budget_bytes as f64 / f64::from(1 << 20)
        );
    }
    out + &sampling(summary) + &lines(beside)
}

/// The context of the promotion.
pub fn lines(beside: &PromotionContext) -> String {
    beside.lines().iter().map(|line| format!("  {line}\n")).collect()
}

/// Samplers that did not work, and what the sampler skipped.
pub fn sampling(summary: &PromotionSummary) -> String {
    let unable = summary.unable.iter().map(|unable| format!("  not by {unable}\n"));
    unable.chain(summary.notes.iter().map(|note| format!("  {note}\n"))).collect()
}

/// Regions no longer tried, by reason.
pub fn left_by_reason(policy: &PromotionPolicy) -> BTreeMap<&str, u64> {
    let mut reasons = BTreeMap::new();
    for part in policy.parts() {
        if let Fate::Left(reason) = &part.fate {
            *reasons.entry(reason.as_str()).or_default() += 1;
        }
    }
    reasons
}
