//! Promotes regions of running programs: what is promoted, what is not, and what is left behind.

mod common;

use common::Program;
use pagewalk_live::pages::{Mode, mode};
use pagewalk_live::probe::memory::huge_pages_are_at_hand;
use pagewalk_live::promote::policy::{Fate, PolicyLimits};
use pagewalk_live::promote::{
    Decision, DecisionKind, Ended, PromoteError, PromoteOptions, PromotionCosts, PromotionStatus,
    PromotionSummary, SamplerKind, Watcher, check_host, run,
};
use pagewalk_skip::{Need, skip};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

const PARTS: u64 = 31;
/// Prices of a host on which promotion pays soon.
const PRICES: PromotionCosts =
    PromotionCosts { walk: 30.0, walk_alone: 100.0, collapse: 200_000.0, bounds: [30.0, 100.0] };
/// A time limit for runs, in case other work holds everything up.
const SECONDS_MAX: f64 = 600.0;

/// There is only one DAMON, and one set of processors.
static ALONE: Mutex<()> = Mutex::new(());

/// `visits.c`.
fn visits(words: &[&str]) -> Program {
    Program::start("visits", words).unwrap()
}

/// Stops when enough was seen, and keeps the decisions.
struct Enough<'a> {
    stop: &'a AtomicBool,
    is_enough: fn(&PromotionStatus<'_>) -> bool,
    decisions: Vec<Decision>,
}

impl Watcher for Enough<'_> {
    fn decided(&mut self, decision: &Decision) {
        self.decisions.push(decision.clone());
    }

    fn passed(&mut self, standing: &PromotionStatus<'_>) {
        if (self.is_enough)(standing) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

fn options(way: SamplerKind) -> PromoteOptions {
    PromoteOptions {
        way: Some(way),
        limits: PolicyLimits { factor: 0.125, budget_bytes: 0, entries: 1536 },
        own_share: 1.0,
        seconds: Some(SECONDS_MAX),
        dry_run: false,
    }
}

fn promote(
    pid: i32,
    options: &PromoteOptions,
    is_enough: fn(&PromotionStatus<'_>) -> bool,
) -> Result<(PromotionSummary, Vec<Decision>), PromoteError> {
    let stop = AtomicBool::new(false);
    let mut watcher = Enough { stop: &stop, is_enough, decisions: Vec::new() };
    let summary = run(pid, options, PRICES, &stop, &mut watcher)?;
    Ok((summary, watcher.decisions))
}

/// The outcome, unless this host or user cannot, which is printed.
fn unless_host_cannot<T>(outcome: Result<T, PromoteError>) -> Option<T> {
    match outcome {
        Err(
            error @ (PromoteError::NoSampler { .. }
            | PromoteError::Forbidden { .. }
            | PromoteError::Kernel { .. }),
        ) => {
            assert!(!error.enable().is_empty());
            skip(Need::Sampling, error);
            None
        }
        other => Some(other.unwrap_or_else(|error| panic!("{error}"))),
    }
}

/// Whether memory is on small pages by default, and could be on huge ones.
fn small_pages() -> bool {
    let small = matches!(mode(), Some(Mode::Madvise | Mode::Never));
    // Collapsing needs free blocks in every mode; the test needs a mode in which marks count.
    let at_hand = mode() == Some(Mode::Never) || huge_pages_are_at_hand(128 << 20);
    if !small {
        skip(Need::HugePages, format_args!("huge pages are {:?} here", mode()));
    } else if !at_hand {
        skip(Need::HugePages, "the host gives no 128 MiB on huge pages");
    }
    small && at_hand
}

fn kdamonds() -> String {
    fs::read_to_string("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds").unwrap_or_default()
}

#[test]
fn parts_that_miss_are_promoted() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !small_pages() {
        return;
    }
    let before = kdamonds();
    for way in SamplerKind::ALL {
        let program = visits(&["random"]);
        let enough = |standing: &PromotionStatus<'_>| standing.policy.promotions >= PARTS;
        let Some((summary, decisions)) = unless_host_cannot(promote(program.pid(), &options(way), enough))
        else {
            continue;
        };
        assert_eq!(summary.ended, Ended::Interrupted, "{way}: {} promotions", summary.policy.promotions);
        let promoted =
            decisions.iter().filter(|decision| matches!(decision.what, DecisionKind::Promoted { .. }));
        assert_eq!(promoted.count() as u64, summary.policy.promotions);
        assert!(summary.times.promotions > 0.0 && summary.times.own > 0.0 && summary.times.target > 0.0);
        assert!(summary.policy.prices.collapse != PRICES.collapse, "what they took is known");
        let on_huge_pages = fs::read_to_string(format!("/proc/{}/smaps_rollup", program.pid())).unwrap();
        let line = on_huge_pages.lines().find(|line| line.starts_with("AnonHugePages:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kib >= PARTS * 2048, "{way}: {line}");
    }
    assert_eq!(kdamonds(), before, "DAMON is as it was");
}

/// Sixteen pages that always stay in the TLB are never walked for, and the rest is never touched.
#[test]
fn hot_pages_are_left_alone() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !small_pages() {
        return;
    }
    let program = visits(&["hot"]);
    let enough = |standing: &PromotionStatus<'_>| standing.rounds >= 12;
    let outcome = promote(program.pid(), &options(SamplerKind::Damon), enough);
    let Some((summary, decisions)) = unless_host_cannot(outcome) else { return };
    assert!(summary.rounds >= 1, "it was looked at");
    assert_eq!(decisions.len(), 0, "{decisions:?}");
}

#[test]
fn a_dry_run_changes_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !small_pages() {
        return;
    }
    let program = visits(&["random"]);
    let options = PromoteOptions { dry_run: true, ..options(SamplerKind::Referenced) };
    let enough = |standing: &PromotionStatus<'_>| standing.policy.promotions >= PARTS;
    let Some((summary, decisions)) = unless_host_cannot(promote(program.pid(), &options, enough)) else {
        return;
    };
    assert!(summary.policy.promotions >= PARTS && summary.times.promotions == 0.0);
    assert!(decisions.iter().all(|decision| decision.what == DecisionKind::WouldPromote));
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", program.pid())).unwrap();
    assert!(text.lines().any(|line| line.starts_with("AnonHugePages:") && line.ends_with(" 0 kB")), "{text}");
}

#[test]
fn what_refuses_is_left_with_the_reason() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = visits(&["refusing"]);
    let enough = |standing: &PromotionStatus<'_>| {
        standing.policy.parts().any(|part| matches!(part.fate, Fate::Left(_)))
    };
    let outcome = promote(program.pid(), &options(SamplerKind::Referenced), enough);
    let Some((summary, decisions)) = unless_host_cannot(outcome) else { return };
    assert_eq!((summary.policy.promotions, summary.policy.splits), (0, 0));
    let Some(Decision { what: DecisionKind::Failed { reason, again }, .. }) = decisions.first() else {
        panic!("{decisions:?}")
    };
    assert!(!again && reason.contains("MADV_NOHUGEPAGE"), "{reason}");
}

#[test]
fn it_ends_with_the_process() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for way in SamplerKind::ALL {
        let program = visits(&["random", "60"]);
        let outcome = promote(program.pid(), &options(way), |_| false);
        let Some((summary, _)) = unless_host_cannot(outcome) else { continue };
        assert_eq!(summary.ended, Ended::Process);
        assert!(summary.times.wall < SECONDS_MAX);
    }
}

#[test]
fn what_is_not_there_is_told() {
    let Err(error) = promote(99_999_999, &options(SamplerKind::Referenced), |_| true) else {
        panic!("it is refused")
    };
    let text = error.to_string();
    // An old kernel is reported first.
    assert!(text.contains("there is no process 99999999") || text.contains("PAGEMAP_SCAN"), "{text}");
    assert!(!error.enable().is_empty());
}

#[test]
fn the_host_is_told_of() {
    match check_host() {
        Ok(host) => assert_eq!(host.able.len() + host.unable.len(), SamplerKind::ALL.len()),
        Err(error) => assert!(matches!(error, PromoteError::Kernel { .. }), "{error}"),
    }
}
