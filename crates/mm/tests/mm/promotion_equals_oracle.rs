//! Compares today's policies with the slow models of `oracle`: the mapping of every page after every event, in random
//! programs on blocks of 16 pages.

use crate::common::{PAGE, Process};
use pagewalk_mm::promotion::{
    FreeBsd, HawkEye, HawkEyeSettings, Ingens, IngensSettings, Khugepaged, Linux, LinuxSettings,
    MADV_COLLAPSE, Mthp, Policy, SizeMode,
};
use pagewalk_mm::{KernelCosts, ThpMode};
use pagewalk_oracle::cases;
use pagewalk_oracle::promotion::{self as slow, PromotionModel, Rules};
use pagewalk_trace::MappingKind::{Anonymous, SharedAnonymous};
use pagewalk_trace::ThpDisable;
use proptest::prelude::*;

/// log2 of the pages of a block.
const HUGE: u8 = 4;
const BLOCK: u64 = 1 << HUGE;

/// The region in which everything happens: seven aligned blocks.
const REGION: u64 = 10 * BLOCK;
const PAGES: u64 = 7 * BLOCK;

/// Ranges are from the region's first page.
#[derive(Clone, Debug)]
enum Op {
    Map(u64, u64, bool),
    Unmap(u64, u64),
    Protect(u64, u64, bool),
    Advise(u64, u64, i32),
    Discard(u64, u64),
    Collapse(u64, u64),
    /// Every so many pages of a range, so that blocks fill up.
    Touch(u64, u64, u64),
    Wait(u64),
    /// As long as that, but asleep.
    Sleep(u64),
    /// Blocks of hugetlb.
    MapHugetlb(u64, u64),
    Forbid(u64),
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    let end = prop_oneof![(0..=7u64).prop_map(|block| block * BLOCK), 0..=PAGES];
    (end.clone(), end)
        .prop_map(|(a, b)| (a.min(b), a.abs_diff(b).max(1).min(PAGES - a.min(b)).max(1)))
        .prop_map(|(first, pages)| (first.min(PAGES - 1), pages))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (range(), prop::bool::weighted(0.2)).prop_map(|((a, n), shared)| Op::Map(a, n, shared)),
        1 => range().prop_map(|(a, n)| Op::Unmap(a, n)),
        1 => (range(), any::<bool>()).prop_map(|((a, n), write)| Op::Protect(a, n, write)),
        2 => (range(), prop_oneof![Just(14), Just(14), Just(15)]).prop_map(|((a, n), b)| Op::Advise(a, n, b)),
        1 => range().prop_map(|(a, n)| Op::Discard(a, n)),
        1 => range().prop_map(|(a, n)| Op::Collapse(a, n)),
        6 => (range(), 1..6u64).prop_map(|((a, n), step)| Op::Touch(a, n, step)),
        4 => (1..40u64).prop_map(Op::Wait),
        2 => (1..90u64).prop_map(Op::Sleep),
        1 => (0..7u64, 1..3u64).prop_map(|(block, blocks)| Op::MapHugetlb(block, blocks.min(7 - block))),
        1 => (0..3u64).prop_map(Op::Forbid),
    ]
}

/// A policy and its rules.
#[derive(Clone, Debug)]
enum Choice {
    Linux {
        enabled: usize,
        sizes: [usize; 3],
        scan: Option<(u64, u64, u64, (usize, bool))>,
    },
    Reservations(bool),
    Ingens {
        percent: u64,
        fragmented: bool,
        period: u64,
    },
    HawkEye {
        at_fault: bool,
        period: u64,
        window: u64,
        bucket: u64,
        weight: u64,
        run: u64,
        promotions: usize,
        memory: Option<u64>,
    },
}

const MODES: [&str; 4] = ["always", "madvise", "never", "inherit"];
const MTHP: [&str; 3] = ["never", "strict", "scaled"];

fn linux() -> impl Strategy<Value = Choice> {
    let max_none = prop_oneof![Just(0), Just(BLOCK - 1), 0..BLOCK];
    let scan = prop::option::weighted(0.8, (1..50u64, 1..150u64, max_none, (0..MTHP.len(), any::<bool>())));
    (0..3usize, [0..4usize, 0..4, 0..4], scan).prop_map(|(enabled, sizes, scan)| Choice::Linux {
        enabled,
        sizes,
        scan,
    })
}

fn others() -> impl Strategy<Value = Choice> {
    let ingens = (1..=100u64, any::<bool>(), 1..50u64)
        .prop_map(|(percent, fragmented, period)| Choice::Ingens { percent, fragmented, period });
    let memory = prop::option::of(1..PAGES);
    let hawkeye = (any::<bool>(), 2..60u64, 1..30u64, 1..6u64, 0..=100u64, 1..60u64, 1..3usize, memory)
        .prop_map(|(at_fault, period, window, bucket, weight, run, promotions, memory)| {
            let window = window.min(period - 1);
            Choice::HawkEye { at_fault, period, window, bucket, weight, run, promotions, memory }
        });
    prop_oneof![1 => any::<bool>().prop_map(Choice::Reservations), 2 => ingens, 3 => hawkeye]
}

fn build(choice: &Choice) -> (Box<dyn Policy>, Rules) {
    match *choice {
        Choice::Linux { enabled, sizes, scan } => {
            let mode = ThpMode::from_name(MODES[enabled]).expect("one of the first three");
            let mut settings = LinuxSettings::new(HUGE, mode);
            for (order, size) in (2..).zip(sizes) {
                settings.sizes[order] = SizeMode::from_name(MODES[size]).expect("one of the four");
            }
            settings.khugepaged =
                scan.map(|(period, pages_to_scan, max_ptes_none, (mthp, mthp_remains))| Khugepaged {
                    pages_to_scan,
                    mthp: Mthp::from_name(MTHP[mthp]).expect("one of the three"),
                    mthp_remains,
                    scan_sleep_millisecs: period,
                    max_ptes_none,
                    instructions_per_millisecond: 1,
                    ..Khugepaged::new(HUGE)
                });
            let names = ["never", "never"].into_iter().chain(sizes.map(|size| MODES[size])).collect();
            let scanning =
                scan.map(|(period, pages_to_scan, max_none, (mthp, mthp_remains))| slow::ScanSettings {
                    period,
                    pages_to_scan,
                    max_none,
                    mthp: MTHP[mthp],
                    mthp_remains,
                    position: None,
                });
            let rules = slow::Linux { enabled: MODES[enabled], sizes: names, scanning };
            (Box::new(Linux::new(settings).expect("possible settings")), Rules::Linux(rules))
        }
        Choice::Reservations(broken_by_gaps) => {
            let mut policy = FreeBsd::new(HUGE).expect("a possible order");
            policy.broken_by_gaps = broken_by_gaps;
            (Box::new(policy), Rules::Reservations { broken_by_gaps })
        }
        Choice::Ingens { percent, fragmented, period } => {
            let settings = IngensSettings {
                utilisation: percent as f64 / 100.0,
                fragmentation: if fragmented { 0.8 } else { 0.2 },
                promote_sleep_millisecs: period,
                instructions_per_millisecond: 1,
                ..IngensSettings::new(HUGE)
            };
            let threshold = if fragmented { (percent * BLOCK).div_ceil(100) } else { 1 };
            (Box::new(Ingens::new(settings).expect("possible settings")), Rules::Ingens { threshold, period })
        }
        Choice::HawkEye { at_fault, period, window, bucket, weight, run, promotions, memory } => {
            let settings = HawkEyeSettings {
                at_fault,
                sample_millisecs: period,
                window_millisecs: window,
                bucket_pages: bucket,
                buckets: 4,
                sample_weight: weight,
                promote_sleep_millisecs: run,
                promotions,
                memory: memory.map(|pages| pages * PAGE),
                wasted_pages: 6,
                instructions_per_millisecond: 1,
                ..HawkEyeSettings::new(HUGE)
            };
            let rules = slow::HawkEye {
                at_fault,
                period,
                window,
                bucket_pages: bucket,
                buckets: 4,
                weight,
                run_period: run,
                promotions,
                memory,
                wasted: 6,
                since: None,
                blocks: Vec::new(),
                recovers: false,
            };
            (Box::new(HawkEye::new(settings).expect("possible settings")), Rules::HawkEye(rules))
        }
    }
}

/// Applies the same operation to both sides.
fn run(op: &Op, piece: u64, fast: &mut Process, slow: &mut PromotionModel) {
    let all = |first: u64, pages: u64| REGION + first..REGION + first + pages;
    // The kernel refuses calls on pages of hugetlb in part.
    let op = &match *op {
        Op::Map(first, pages, shared) => {
            let whole = slow.whole(all(first, pages));
            Op::Map(whole.start - REGION, whole.end - whole.start, shared)
        }
        Op::Unmap(first, pages) => {
            let whole = slow.whole(all(first, pages));
            Op::Unmap(whole.start - REGION, whole.end - whole.start)
        }
        Op::Discard(first, pages) => {
            let whole = slow.whole(all(first, pages));
            Op::Discard(whole.start - REGION, whole.end - whole.start)
        }
        ref other => other.clone(),
    };
    // What was mapped by a call of its own keeps its areas apart, which the slow model does not know once they change.
    let is_private =
        |slow: &PromotionModel, first, pages| slow.memory.range(all(first, pages)).all(|(_, a)| a.piece == 0);
    match *op {
        Op::Map(first, pages, shared) => {
            fast.map(REGION + first, pages, if shared { SharedAnonymous } else { Anonymous });
            slow.map(all(first, pages), if shared { piece } else { 0 });
        }
        Op::Unmap(first, pages) => {
            fast.unmap(REGION + first, pages);
            slow.unmap(all(first, pages));
        }
        Op::Protect(first, pages, write) if is_private(slow, first, pages) => {
            fast.protect(REGION + first, pages, write);
            slow.protect(all(first, pages), write);
        }
        Op::Advise(first, pages, advice) if is_private(slow, first, pages) => {
            fast.advise(REGION + first, pages, advice);
            slow.advise(all(first, pages), advice);
        }
        Op::Discard(first, pages) => {
            fast.advise(REGION + first, pages, 4);
            slow.discard(all(first, pages));
        }
        Op::Collapse(first, pages) => {
            fast.advise(REGION + first, pages, MADV_COLLAPSE);
            slow.collapse(all(first, pages));
        }
        Op::Touch(first, pages, step) => {
            for page in all(first, pages).step_by(step as usize) {
                if slow.memory.contains_key(&page) {
                    fast.touch(page);
                    slow.touch(page);
                }
            }
        }
        Op::Wait(time) => {
            fast.wait(time);
            slow.wait(time);
        }
        Op::Sleep(time) => {
            // Clocks have an instruction in a millisecond here.
            fast.sleep(time * 1_000_000);
            slow.wait(time);
        }
        Op::MapHugetlb(block, blocks) => {
            let (first, pages) = (block * BLOCK, blocks * BLOCK);
            fast.map_hugetlb(REGION + first, pages, BLOCK);
            slow.map_hugetlb(all(first, pages), piece);
        }
        Op::Forbid(mode) => {
            fast.forbid(ThpDisable::from_code(mode).expect("a mode"));
            slow.forbidden = mode as u8;
        }
        Op::Protect(..) | Op::Advise(..) => {}
    }
}

fn check(choice: &Choice, ops: &[Op]) -> Result<(), TestCaseError> {
    let (policy, rules) = build(choice);
    let mut fast = Process::with_costs(policy, KernelCosts::TODAY);
    fast.kernel.map_hugetlb_by(HUGE);
    let mut slow = PromotionModel::new(rules, HUGE);
    for (n, op) in ops.iter().enumerate() {
        run(op, 1 + n as u64, &mut fast, &mut slow);
        for page in REGION..REGION + PAGES {
            let orders = (fast.order(page), slow.mapped.get(&page).copied());
            prop_assert_eq!(orders.0, orders.1, "page {} after {:?}, the {}th", page - REGION, op, n + 1);
            prop_assert_eq!(fast.kernel.table().is_touched(page), slow.touched.contains(&page));
        }
        prop_assert_eq!(fast.kernel.table().backed(), slow.mapped.len() as u64);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(400), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn linux_maps_every_page_as_the_oracle_does(
        choice in linux(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        check(&choice, &ops)?;
    }

    #[test]
    fn other_policies_map_every_page_as_the_oracle_does(
        choice in others(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        check(&choice, &ops)?;
    }
}
