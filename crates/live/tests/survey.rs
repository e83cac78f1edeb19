//! What keeps a process's memory off huge pages, or has put it there already: processes that forbid them, hugetlb
//! memory, memory that grew by less than a huge page at a time.

mod common;

use common::Program;
use pagewalk_live::pages::{Mode, mode};
use pagewalk_live::promote::policy::{Fate, PolicyLimits};
use pagewalk_live::promote::{
    Decision, DecisionKind, HugePageBan, PromoteOptions, PromotionCosts, PromotionStatus, SamplerKind,
    Watcher, run, survey,
};
use pagewalk_skip::{Need, skip};
use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// hugetlb pages are shared by the whole host.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_process_that_forbids_huge_pages_is_known() {
    let free = Program::start("nothp", &[]).unwrap();
    assert_eq!(survey(free.pid()).unwrap().forbids, None);
    for word in ["off", "child"] {
        let program = Program::start("nothp", &[word]).unwrap();
        assert_eq!(survey(program.pid()).unwrap().forbids, Some(HugePageBan::All), "{word}");
    }
    // It may have huge pages where marked, so only mode `always` shows the ban.
    if let Some(program) = Program::start("nothp", &["except"]) {
        let expected = (mode() == Some(Mode::Always)).then_some(HugePageBan::Unmarked);
        assert_eq!(survey(program.pid()).unwrap().forbids, expected);
    }
}

struct Decisions(Vec<Decision>);

impl Watcher for Decisions {
    fn decided(&mut self, decision: &Decision) {
        self.0.push(decision.clone());
    }

    fn passed(&mut self, _: &PromotionStatus<'_>) {}
}

/// No region of it is tried, and each is reported with the reason.
#[test]
fn a_process_that_forbids_huge_pages_is_left_alone() {
    let program = Program::start("nothp", &["off"]).unwrap();
    let options = PromoteOptions {
        way: Some(SamplerKind::Referenced),
        limits: PolicyLimits { factor: 1e-9, budget_bytes: u64::MAX, entries: 1536 },
        own_share: 1.0,
        seconds: Some(2.0),
        dry_run: false,
    };
    let prices = PromotionCosts { walk: 30.0, walk_alone: 100.0, collapse: 200_000.0, bounds: [30.0, 100.0] };
    let mut decisions = Decisions(Vec::new());
    let outcome = run(program.pid(), &options, prices, &AtomicBool::new(false), &mut decisions);
    let summary = match outcome {
        Ok(summary) => summary,
        Err(error) => return skip(Need::Sampling, error),
    };
    assert_eq!(summary.policy.promotions, 0);
    for Decision { what, .. } in &decisions.0 {
        let DecisionKind::Failed { reason, again: false } = what else { panic!("{what:?}") };
        assert!(reason.contains("PR_SET_THP_DISABLE"), "{reason}");
    }
    let left = summary.policy.parts().filter(|part| matches!(part.fate, Fate::Left(_))).count();
    assert_eq!(left, decisions.0.len());
}

/// hugetlb pages reserved for a test, and returned after it.
struct Pool(String);

const POOL: &str = "/proc/sys/vm/nr_hugepages";

impl Pool {
    fn of(pages: u32) -> Option<Pool> {
        let before = fs::read_to_string(POOL).ok()?;
        let already: u32 = before.trim().parse().ok()?;
        fs::write(POOL, (already + pages).to_string()).ok()?;
        let pool = Pool(before);
        let now: u32 = fs::read_to_string(POOL).ok()?.trim().parse().ok()?;
        (now >= already + pages).then_some(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = fs::write(POOL, self.0.trim());
    }
}

#[test]
fn memory_that_was_set_aside_is_huge_already() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(_pool) = Pool::of(34) else {
        return skip(Need::Hugetlb, "this user, or this host's memory, cannot set huge pages aside");
    };
    for word in ["private", "memfd", "shm"] {
        let program = Program::start("hugetlb", &[word]).unwrap_or_else(|| panic!("{word}"));
        let found = survey(program.pid()).unwrap();
        assert_eq!(found.pools.into_iter().collect::<Vec<_>>(), [(2 << 20, 64 << 20)], "{word}");
        assert_eq!((found.forbids, found.grown), (None, None), "{word}");
    }
}

#[test]
fn memory_that_grew_by_pieces_is_told_from_what_grew_whole() {
    let grown = |step| survey(Program::start("grow", &[step]).unwrap().pid()).unwrap().grown;
    if !matches!(mode(), Some(Mode::Always | Mode::Madvise)) {
        return skip(Need::HugePages, format_args!("huge pages are {:?} here", mode()));
    }
    // khugepaged may have collapsed a few meanwhile.
    for step in ["1024", "132"] {
        let found = grown(step).unwrap_or_else(|| panic!("{step}"));
        assert!((24..=32).contains(&found.blocks) && found.heap_blocks == 0, "{step}: {found:?}");
    }
    // If the kernel is out of huge pages, some memory is small all the same, and the kernel counts that.
    let whole = grown("2048");
    assert!(whole.is_none_or(|whole| whole.blocks < 24 || !whole.is_certain), "{whole:?}");
}
