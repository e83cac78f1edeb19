//! FreeBSD's reservations on a physical memory against a slow model: all counts, the page table, every frame, after
//! each operation of random programs.

use crate::common::Process;
use pagewalk_mm::frames::{Buddy, Frame};
use pagewalk_mm::promotion::FreeBsd;
use pagewalk_mm::{FullMemoryAction, Superpage};
use pagewalk_oracle::backing::Memory;
use pagewalk_oracle::reservations::{Events, ReservationModel};
use pagewalk_oracle::{Frames, cases};
use pagewalk_trace::MappingKind::{Anonymous, File, SharedAnonymous};
use proptest::prelude::*;
use std::collections::BTreeSet;

const PAGES: u64 = 64;
const DONTNEED: i32 = 4;

#[derive(Clone, Debug)]
enum Op {
    /// Of a file, or shared or private memory.
    Map(u64, u64, u8),
    Unmap(u64, u64),
    Discard(u64, u64),
    Touch(u64, u64),
    Walk(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let page = 0..PAGES;
    prop_oneof![
        2 => (page.clone(), 1..40u64, 0..4u8).prop_map(|(first, pages, kind)| Op::Map(first, pages, kind)),
        1 => (page.clone(), 1..12u64).prop_map(|(first, pages)| Op::Unmap(first, pages)),
        2 => (page.clone(), 1..6u64).prop_map(|(first, pages)| Op::Discard(first, pages)),
        20 => (page.clone(), 1..9u64).prop_map(|(first, pages)| Op::Touch(first, pages)),
        5 => page.prop_map(Op::Walk),
    ]
}

fn check(fast: &Process, slow: &ReservationModel, others: u64) {
    let kernel = &fast.kernel;
    let counts = kernel.counts();
    let found = Events {
        faults: counts.faults,
        promotions: counts.promotions.iter().sum(),
        demotions: counts.demotions,
        refused_area: counts.refused_area,
        refused_memory: counts.refused_memory,
        reservations_refused: counts.reservations_refused,
        reservations_broken: counts.reservations_broken,
    };
    assert_eq!(found, slow.events);
    assert_eq!([counts.swap_outs, counts.swap_ins], slow.memory.swaps);
    assert_eq!(kernel.killed().is_some(), slow.memory.killed);
    for page in 0..PAGES + 40 {
        let unit = kernel.table().mapped(page);
        let of = slow.table.get(&page);
        assert_eq!(unit, of.map(|&(order, _)| Superpage::around(page, order)), "page {page}");
        assert_eq!(kernel.table().is_touched(page), of.is_some_and(|&(_, touched)| touched), "page {page}");
        assert_eq!(kernel.frame_of(page), slow.memory.frame.get(&page).map(|&frame| Frame(frame)));
    }
    // What is reserved and not handed out is used too.
    let reserved = slow.reservations.list.iter().flat_map(|of| &of.handed_out).filter(|&&is| !is).count();
    let used = slow.memory.frame.len() as u64 + reserved as u64 + others;
    assert_eq!(kernel.memory().map(Buddy::used_frames), Some(used));
}

fn apply(fast: &mut Process, slow: &mut ReservationModel, areas: &mut u64, op: &Op) {
    let unmap = |fast: &mut Process, slow: &mut ReservationModel, first: u64, pages: u64| {
        fast.unmap(first, pages);
        for run in runs(slow, first, pages) {
            run.clone().for_each(|page| _ = slow.areas.remove(&page));
            slow.gone(run);
        }
    };
    match *op {
        Op::Map(first, pages, kind) => {
            // What lies over a file's own pages would be named after it.
            unmap(fast, slow, first, pages);
            *areas += 1;
            let (made, number) = match kind {
                0 => (File, *areas),
                1 => (SharedAnonymous, *areas),
                _ => (Anonymous, 0),
            };
            (first..first + pages).for_each(|page| _ = slow.areas.insert(page, (number, kind > 0)));
            fast.map(first, pages, made);
        }
        Op::Unmap(first, pages) => unmap(fast, slow, first, pages),
        Op::Discard(first, pages) => {
            fast.advise(first, pages, DONTNEED);
            slow.gone(first..first + pages);
        }
        Op::Touch(first, pages) => {
            for page in first..first + pages {
                if !slow.memory.killed {
                    fast.touch(page);
                    slow.touch(page);
                }
            }
        }
        Op::Walk(page) => {
            fast.kernel.walked(page);
            slow.walk(page);
        }
    }
}

/// What is mapped of a range, neighbours together.
fn runs(slow: &ReservationModel, first: u64, pages: u64) -> Vec<std::ops::Range<u64>> {
    let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
    for (&page, _) in slow.areas.range(first..first + pages) {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reservations_equal_the_oracles(
        order in 1..4u8,
        frames in 6..100u64,
        ((broken_by_gaps, kills), taken) in (any::<(bool, bool)>(), 0..4u64),
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let (mut buddy, mut of_slow) = (Buddy::new(frames, 4), Frames::new(frames, 4));
        // Others' frames, apart from each other.
        let others: BTreeSet<u64> = (0..taken).map(|number| number * 3 % frames).collect();
        for &frame in &others {
            prop_assert!(buddy.allocate_at(Frame(frame), 0));
            of_slow.set((frame, 0), false);
        }
        let others = others.len() as u64;
        let mut policy = FreeBsd::new(order).expect("possible");
        policy.broken_by_gaps = broken_by_gaps;
        let when_full = if kills { FullMemoryAction::Oom } else { FullMemoryAction::Swap };
        let mut fast = Process::new(Box::new(policy)).when_full(buddy, true, when_full);
        fast.space.start_running();
        let mut slow = ReservationModel::new(order, broken_by_gaps, Memory { kills, ..Memory::new(of_slow, true) });
        let mut areas = 0;
        for op in &ops {
            apply(&mut fast, &mut slow, &mut areas, op);
            check(&fast, &slow, others);
            if slow.memory.killed {
                break;
            }
        }
    }
}
