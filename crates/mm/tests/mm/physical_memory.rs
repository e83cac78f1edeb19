//! Kernels with a physical memory: behaviour without a free block of frames, and no frame lost or owned twice.

use crate::common::{PAGE, Process};
use pagewalk_mm::frames::{BlockState, Buddy, Frame};
use pagewalk_mm::promotion::{
    Actions, Asap, AsapShare, Eager, EagerSettings, Fixed, FreeBsd, HawkEye, HawkEyeSettings, Ingens,
    IngensSettings, Khugepaged, Linux, LinuxSettings, Mthp, Policy, PolicyEvent, Rules, SizeMode,
};
use pagewalk_mm::{
    Account, FileRules, ForkRules, FullMemoryAction, KernelCosts, OomKill, Remap, Superpage, ThpMode,
    TlbEntry, Vma,
};
use pagewalk_trace::MappingKind::{Anonymous, File};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const HUGE: u8 = 9;
const DONTNEED: i32 = 4;

fn linux(scan: Option<Khugepaged>) -> Box<dyn Policy> {
    let mut settings = LinuxSettings::new(HUGE, ThpMode::Always);
    settings.khugepaged = scan;
    Box::new(Linux::new(settings).expect("possible settings"))
}

/// 2,048 frames, of which one in the middle of each huge block is used by others, except in the blocks `free`.
fn fragmented(free: &[u64]) -> Buddy {
    let mut memory = Buddy::new(2048, 10);
    for block in (0..4).filter(|block| !free.contains(block)) {
        assert!(memory.allocate_at(Frame((block << HUGE) + 256), 0));
    }
    memory
}

#[test]
fn a_fault_falls_back_where_there_is_no_block() {
    let mut p = Process::new(linux(None)).with_memory(fragmented(&[2]), true);
    p.map(0, 2048, Anonymous);
    [0, 600, 601].into_iter().for_each(|page| p.touch(page));
    assert_eq!([0, 600, 601].map(|page| p.order(page)), [Some(9), Some(0), Some(0)]);
    assert_eq!(p.kernel.frame_of(5), Some(Frame(1024 + 5)));
    // The second fault of its block could have had no huge page anyway.
    assert_eq!(p.kernel.counts().faults_fallen_back, 1);
    assert_eq!(p.kernel.accounts().of(Account::Compaction), 0, "faults do not compact");
}

/// Linux's policy, which also records the superpages that end.
#[derive(Clone)]
struct Hearing {
    inner: Box<dyn Policy>,
    ended: Arc<Mutex<Vec<Superpage>>>,
}

impl Policy for Hearing {
    fn rules(&self) -> Rules {
        Rules { watches_tlbs: true, ..self.inner.rules() }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        if let PolicyEvent::Demoted(unit) = event {
            self.ended.lock().unwrap().push(unit);
        }
        self.inner.on(event, actions);
    }

    fn fault_orders(&self, page: u64, area: Option<&Vma>) -> u32 {
        self.inner.fault_orders(page, area)
    }
}

/// Its translation leaves the TLBs later, each by itself.
#[test]
fn a_superpage_that_is_swapped_out_is_told_once() {
    let ended: Arc<Mutex<Vec<Superpage>>> = Arc::default();
    let policy = Hearing { inner: linux(None), ended: Arc::clone(&ended) };
    let mut p = Process::new(Box::new(policy)).with_memory(Buddy::new(1024, 10), false);
    p.map(0, 2048, Anonymous);
    [0, 512, 1024].into_iter().for_each(|page| p.touch(page));
    let [unit] = ended.lock().unwrap()[..] else { panic!("one makes room") };
    assert_eq!(p.order(unit.first), None);
    [0, 1].into_iter().for_each(|tlb| p.kernel.left(tlb, TlbEntry::of(unit)));
    assert_eq!(*ended.lock().unwrap(), [unit]);
}

#[test]
fn khugepaged_compacts_or_sleeps_longer() {
    let scan =
        Khugepaged { scan_sleep_millisecs: 10, instructions_per_millisecond: 1, ..Khugepaged::new(HUGE) };
    for compact in [true, false] {
        let mut p = Process::new(linux(Some(scan))).with_memory(fragmented(&[]), compact);
        p.map(0, 1024, Anonymous);
        [0, 1].into_iter().for_each(|page| p.touch(page));
        p.wait(10);
        let counts = *p.kernel.counts();
        if compact {
            assert_eq!((counts.compactions, counts.frames_moved, counts.refused_memory), (1, 1, 0));
            assert_eq!((p.order(0), p.kernel.accounts().of(Account::Compaction)), (Some(9), 7));
            continue;
        }
        assert_eq!((counts.compactions, counts.refused_memory, p.order(0)), (0, 1, Some(0)));
        // After `alloc_sleep_millisecs` it comes by again.
        p.wait(59_999);
        assert_eq!(p.kernel.counts().refused_memory, 1);
        p.wait(1);
        assert_eq!(p.kernel.counts().refused_memory, 2);
    }
}

/// Linux that collapses to huge pages of an order and to a smaller size, where advised; a page suffices.
fn collapsing(huge: u8, smaller: usize) -> Box<dyn Policy> {
    let mut settings = LinuxSettings::new(huge, ThpMode::Madvise);
    settings.sizes[smaller] = SizeMode::Inherit;
    settings.khugepaged = Some(Khugepaged {
        scan_sleep_millisecs: 10,
        instructions_per_millisecond: 1,
        mthp: Mthp::Strict,
        ..Khugepaged::new(huge)
    });
    Box::new(Linux::new(settings).expect("possible settings"))
}

#[test]
fn khugepaged_tries_smaller_sizes_before_it_sleeps_longer() {
    let mut p = Process::new(collapsing(HUGE, 4)).with_memory(fragmented(&[]), false);
    p.map(0, 1024, Anonymous);
    [0, 1, 40].into_iter().for_each(|page| p.touch(page));
    p.advise(0, 1024, 14);
    p.wait(10);
    assert_eq!((p.kernel.counts().refused_memory, p.order(0)), (1, Some(0)));
    p.wait(1);
    assert_eq!([0, 16, 40].map(|page| p.order(page)), [Some(4), None, Some(4)]);
    // It has collapsed something, and sleeps no longer than ever. The next time there is nothing smaller to collapse.
    p.wait(9);
    assert_eq!(p.kernel.counts().refused_memory, 2);
    p.wait(59_999);
    assert_eq!(p.kernel.counts().refused_memory, 2);
    p.wait(1);
    assert_eq!(p.kernel.counts().refused_memory, 3);
}

#[test]
fn khugepaged_tries_smaller_sizes_where_a_part_is_swapped_out() {
    let mut p = Process::new(collapsing(4, 2)).with_memory(Buddy::new(20, 4), true);
    p.map(0, 16, Anonymous);
    p.map(100, 5, Anonymous);
    (0..16).chain(100..105).for_each(|page| p.touch(page));
    assert_eq!((p.order(0), p.kernel.counts().swap_outs), (None, 1));
    p.unmap(100, 5);
    p.advise(0, 16, 14);
    p.wait(11);
    assert_eq!([0, 1, 4, 8, 12].map(|page| p.order(page)), [None, Some(0), Some(2), Some(2), Some(2)]);
    // The block, and of its parts the first.
    assert_eq!(p.kernel.counts().refused_memory, 2);
}

#[test]
fn ingens_looks_at_the_memory() {
    for (memory, order) in [(Buddy::new(2048, 10), 9), (fragmented(&[]), 0)] {
        let policy = Ingens::new(IngensSettings::new(HUGE)).expect("possible settings");
        let mut p = Process::new(Box::new(policy)).with_memory(memory, true);
        p.map(0, 512, Anonymous);
        p.touch(3);
        p.wait(100_000_000);
        assert_eq!(p.order(3), Some(order));
    }
}

#[test]
fn hawkeye_takes_back_what_huge_pages_waste_when_memory_runs_short() {
    let usual = HawkEyeSettings::new(2);
    let settings = HawkEyeSettings {
        promote_sleep_millisecs: 10,
        instructions_per_millisecond: 1,
        wasted_pages: 2,
        ..usual
    };
    let policy = HawkEye::new(settings).expect("possible settings");
    let mut memory = Buddy::new(40, 3);
    // 20 % of it is others'.
    (32..40).for_each(|frame| assert!(memory.allocate_at(Frame(frame), 0)));
    let mut p = Process::new(Box::new(policy)).with_memory(memory, true);
    p.map(0, 64, Anonymous);
    let used = |p: &Process| p.kernel.memory().map(Buddy::used_frames);
    // Six huge pages, a page of each touched: 80 % of the frames are used, which is not too much.
    (0..6).for_each(|block| p.touch(4 * block));
    p.wait(10);
    assert_eq!((used(&p), p.kernel.counts().trimmed_bytes), (Some(32), 0));
    // 90 %. The first pages are taken apart, until 70 % or less are used.
    p.touch(24);
    p.wait(10);
    assert_eq!((used(&p), p.kernel.counts().trimmed_bytes), (Some(27), 9 * PAGE));
    assert_eq!([0, 8, 12].map(|page| p.order(page)), [Some(0), Some(0), Some(2)]);
    assert_eq!([1, 9].map(|page| p.order(page)), [None, None]);
}

#[test]
fn what_compaction_moves_is_told() {
    let mut p = Process::new(Box::new(Asap::new(2))).with_memory(Buddy::new(8, 3), true);
    p.map(0, 16, Anonymous);
    // Frames 0 to 6; then 0, 2, 4, 6 and 7 are free.
    (0..7).for_each(|page| p.touch(2 * page));
    [0, 4, 8].into_iter().for_each(|page| p.unmap(page, 1));
    p.remaps.clear();
    // Pages 12 and 13 are two frames; two in one block are cleared for them.
    p.touch(13);
    let counts = p.kernel.counts();
    assert_eq!((counts.compactions, counts.frames_moved, counts.promotions[1]), (1, 1, 1));
    let moved = p.remaps.iter().filter(|remap| matches!(remap, Remap::Moved(_))).count();
    assert_eq!(moved, 1, "{:?}", p.remaps);
    assert_eq!(p.kernel.frame_of(12).map(|frame| frame.0 % 2), Some(0));
}

#[test]
fn reservations_are_superpages_in_place_and_break_for_want_of_frames() {
    let mut p =
        Process::new(Box::new(FreeBsd::new(2).expect("possible"))).with_memory(Buddy::new(8, 3), true);
    p.map(0, 32, Anonymous);
    (0..4).for_each(|page| p.touch(page));
    assert_eq!((p.order(0), p.kernel.frame_of(3)), (Some(2), Some(Frame(3))));
    assert_eq!(p.kernel.memory().map(Buddy::used_frames), Some(4));
    p.touch(8);
    assert_eq!((p.kernel.frame_of(8), p.kernel.memory().map(Buddy::used_frames)), (Some(Frame(4)), Some(8)));
    // No block is left: page 12 gets none, and the reservation of page 8 is broken for it.
    p.touch(12);
    let counts = p.kernel.counts();
    assert_eq!((counts.reservations_refused, counts.reservations_broken), (1, 1));
    assert_eq!(p.kernel.frame_of(12), Some(Frame(5)));
    // A block that lost its reservation does not become a superpage when it is full.
    (9..11).for_each(|page| p.touch(page));
    assert_eq!(p.kernel.counts().swap_outs, 0);
    p.touch(11);
    assert_eq!((p.order(11), p.kernel.counts().swap_outs), (Some(0), 4), "the superpage was backed first");
    assert_eq!(p.remaps.last(), Some(&Remap::Evicted(Superpage { first: 0, order: 2 })));
    p.touch(0);
    assert_eq!((p.kernel.counts().swap_ins, p.kernel.accounts().of(Account::Swap)), (1, 5 * 11));
}

#[test]
fn walks_save_pages_from_the_clock() {
    let mut p = Process::new(Box::new(Fixed { order: 0 })).with_memory(Buddy::new(3, 3), true);
    p.map(0, 8, Anonymous);
    [0, 1, 2].into_iter().for_each(|page| p.touch(page));
    p.kernel.walked(0);
    p.touch(3);
    assert_eq!([0, 1, 2, 3].map(|page| p.order(page)), [Some(0), None, Some(0), Some(0)]);
    p.touch(1);
    assert_eq!([0, 1, 2, 3].map(|page| p.order(page)), [Some(0), Some(0), None, Some(0)]);
    let counts = p.kernel.counts();
    assert_eq!((counts.faults, counts.swap_outs, counts.swap_ins), (5, 2, 1));
}

#[test]
fn a_process_that_outgrows_memory_without_swap_is_killed() {
    let policy = Linux::new(LinuxSettings::new(2, ThpMode::Always)).expect("possible settings");
    let mut p = Process::new(Box::new(policy)).when_full(Buddy::new(6, 2), true, FullMemoryAction::Oom);
    p.map(0, 16, Anonymous);
    [0, 4, 5].into_iter().for_each(|page| p.touch(page));
    assert_eq!((p.order(0), p.order(4), p.kernel.killed()), (Some(2), Some(0), None));
    p.kernel.reached(77);
    let spent = *p.kernel.accounts();
    p.touch(6);
    let counts = p.kernel.counts();
    assert_eq!(p.kernel.killed(), Some(OomKill { instructions: 77, bytes: PAGE }));
    assert_eq!((p.order(6), counts.swap_outs, counts.faults, *p.kernel.accounts()), (None, 0, 4, spent));
    // A reservation gives way first.
    let policy = FreeBsd::new(2).expect("possible");
    let mut p = Process::new(Box::new(policy)).when_full(Buddy::new(4, 2), true, FullMemoryAction::Oom);
    p.map(0, 16, Anonymous);
    [0, 4, 8, 12].into_iter().for_each(|page| p.touch(page));
    assert_eq!((p.kernel.killed(), p.kernel.counts().reservations_broken), (None, 1));
    p.touch(1);
    assert!(p.kernel.killed().is_some());
}

#[test]
fn eager_paging_backs_areas_by_the_largest_blocks() {
    let eager = |limit| {
        let usual = EagerSettings::new(HUGE);
        Eager::new(EagerSettings { fragmentation_limit: limit, ..usual }).expect("possible settings")
    };
    let mut p = Process::new(Box::new(eager(0.5))).with_memory(Buddy::new(4096, 12), true);
    // 1,024 and 8 pages: the large block lies aligned, as the area does.
    p.map(512, 1032, Anonymous);
    let unit = |first, order| Superpage { first, order };
    assert_eq!(p.units(512, 1032), [unit(512, 9), unit(1024, 9), unit(1536, 3)]);
    assert_eq!([512, 1536].map(|page| p.kernel.frame_of(page)), [Some(Frame(0)), Some(Frame(1024))]);
    let counts = *p.kernel.counts();
    assert_eq!((counts.eager_areas, counts.eager_runs, counts.eager_bytes), (1, 1, 1032 * PAGE));
    p.touch(700);
    assert_eq!((p.kernel.counts().faults, p.kernel.accounts().of(Account::Zero)), (0, 1032 * 4 * 100));
    // The area begins 8 pages after a huge page, its frames where one begins: pages of 8 at most lie aligned in both.
    p.map(4096 + 8, 512, Anonymous);
    assert!(p.units(4096, 1024).iter().all(|unit| unit.order == 3), "{:?}", p.units(4096, 1024));
    // Files, small requests, and requests for more than is free are left to demand paging.
    p.map(10_000, 512, File);
    p.map(11_000, 7, Anonymous);
    assert_eq!(p.kernel.counts().eager_left, 0);
    p.map(20_000, 4096, Anonymous);
    assert_eq!((p.kernel.counts().eager_areas, p.kernel.counts().eager_left), (2, 1));
    p.touch(20_000);
    assert_eq!((p.order(20_000), p.order(20_001)), (Some(0), None));
    // All of it is in blocks smaller than a huge page.
    for (limit, areas) in [(0.5, 0), (1.0, 1)] {
        let mut p = Process::new(Box::new(eager(limit))).with_memory(fragmented(&[]), true);
        p.map(0, 512, Anonymous);
        assert_eq!((p.kernel.counts().eager_areas, p.kernel.counts().eager_left), (areas, 1 - areas));
    }
}

/// A policy that builds superpages of a few pages.
pub fn policy(number: u8) -> Box<dyn Policy> {
    let scan = Khugepaged { scan_sleep_millisecs: 3, instructions_per_millisecond: 1, ..Khugepaged::new(3) };
    let mut settings = LinuxSettings::new(3, ThpMode::Always);
    settings.khugepaged = Some(scan);
    let millisecond = 1;
    match number {
        0 => Box::new(Asap::new(3)),
        1 => Box::new(AsapShare { order: 2, pages: 2 }),
        2 => Box::new(Fixed { order: 2 }),
        3 => Box::new(FreeBsd::new(2).expect("possible")),
        4 => {
            let mut policy = FreeBsd::new(3).expect("possible");
            policy.broken_by_gaps = false;
            Box::new(policy)
        }
        5 => Box::new(Linux::new(settings).expect("possible")),
        6 => {
            settings.sizes[2] = SizeMode::Always;
            settings.khugepaged = Some(Khugepaged { mthp: Mthp::Strict, ..scan });
            Box::new(Linux::new(settings).expect("possible"))
        }
        7 => {
            let usual = IngensSettings::new(3);
            let settings = IngensSettings {
                utilisation: 0.5,
                promote_sleep_millisecs: 3,
                instructions_per_millisecond: millisecond,
                ..usual
            };
            Box::new(Ingens::new(settings).expect("possible"))
        }
        8 => {
            let settings = EagerSettings { least_pages: 1, ..EagerSettings::new(3) };
            Box::new(Eager::new(settings).expect("possible"))
        }
        _ => {
            let settings = HawkEyeSettings {
                sample_millisecs: 4,
                window_millisecs: 2,
                promote_sleep_millisecs: 3,
                memory: Some(20 * PAGE),
                wasted_pages: 1,
                instructions_per_millisecond: millisecond,
                ..HawkEyeSettings::new(3)
            };
            Box::new(HawkEye::new(settings).expect("possible"))
        }
    }
}

/// What a program does to pages: from the first, so many.
#[derive(Clone, Debug)]
pub enum Op {
    Map(u64, u64, bool),
    Unmap(u64, u64),
    Protect(u64, u64, bool),
    Discard(u64, u64),
    Touch(u64),
    Load(u64),
    Fork,
    Walk(u64),
    Wait(u64),
}

pub fn op() -> impl Strategy<Value = Op> {
    let page = 0..64u64;
    prop_oneof![
        2 => (page.clone(), 1..40u64, any::<bool>()).prop_map(|(first, pages, file)| Op::Map(first, pages, file)),
        1 => (page.clone(), 1..20u64).prop_map(|(first, pages)| Op::Unmap(first, pages)),
        1 => (page.clone(), 1..20u64, any::<bool>()).prop_map(|(first, pages, write)| Op::Protect(first, pages, write)),
        1 => (page.clone(), 1..20u64).prop_map(|(first, pages)| Op::Discard(first, pages)),
        15 => page.clone().prop_map(Op::Touch),
        5 => page.clone().prop_map(Op::Load),
        1 => Just(Op::Fork),
        5 => page.prop_map(Op::Walk),
        2 => (0..5u64).prop_map(Op::Wait),
    ]
}

/// Does it to a process, with pages counted from `from`.
pub fn act(p: &mut Process, op: &Op, from: u64) {
    match *op {
        Op::Map(first, pages, file) => p.map(from + first, pages, if file { File } else { Anonymous }),
        Op::Unmap(first, pages) => p.unmap(from + first, pages),
        Op::Protect(first, pages, write) => p.protect(from + first, pages, write),
        Op::Discard(first, pages) => p.advise(from + first, pages, DONTNEED),
        Op::Touch(page) => p.touch(from + page),
        Op::Load(page) => p.load(from + page),
        Op::Fork => p.kernel.forked(1, &p.space, &mut p.remaps),
        Op::Walk(page) => p.kernel.walked(from + page),
        Op::Wait(time) => {
            p.wait(time);
            p.kernel.reached(p.now);
        }
    }
}

/// Checks that every backed page has its own frame, a unit's frames lie in one block, and others keep their frames.
pub fn check(p: &Process, others: &[u64], keeps: bool) {
    let memory = p.kernel.memory().expect("it has one");
    let mut owned: BTreeSet<u64> = others.iter().copied().collect();
    let own = |unit: &Superpage| !p.kernel.table().is_foreign(unit.first);
    for unit in p.units(0, 128).into_iter().filter(own) {
        let first = p.kernel.frame_of(unit.first).expect("a backed page has a frame");
        assert_eq!(first.0 % unit.len(), 0, "{unit:?} is not aligned");
        for (page, frame) in unit.pages().zip(first.0..) {
            assert_eq!(p.kernel.frame_of(page), Some(Frame(frame)));
            assert!(owned.insert(frame), "frame {frame} is owned twice");
        }
        let (block, state) = memory.block_of(first).expect("it exists");
        assert!(state == BlockState::Movable && block.order >= u32::from(unit.order), "{unit:?}: {block:?}");
    }
    assert!(keeps || memory.used_frames() == owned.len() as u64, "frames are lost");
    let (mut frames, mut free) = (0, 0);
    for (block, state) in memory.blocks() {
        frames += block.frames();
        free += if state == BlockState::Free { block.frames() } else { 0 };
    }
    assert_eq!((frames, free), (memory.frames(), memory.free_frames()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_frame_is_lost_or_owned_twice(
        number in 0..10u8,
        frames in 4..80u64,
        others in 0..4u64,
        compact in any::<bool>(),
        // Whether pages are shared with files and children, and whether files are read first.
        (shares, cold) in any::<(bool, bool)>(),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut memory = Buddy::new(frames, 4);
        // Pinned, so that they stay where they are.
        let others: Vec<u64> = (0..others).map(|n| n * 7 % frames).collect::<BTreeSet<u64>>().into_iter().collect();
        let others = &others[..others.len().min(frames as usize - 1)];
        for &frame in others {
            prop_assert!(memory.allocate_at(Frame(frame), 0));
            memory.pin(Frame(frame), 0);
        }
        let mut p = Process::new(policy(number)).with_memory(memory, compact);
        if shares {
            let files = FileRules { cold, around: 4, read_ahead: 8, read_cycles: 5 };
            let fork = ForkRules { child_instructions: 5, ..ForkRules::default() };
            p.kernel = p.kernel.with_sharing(Some(files), fork);
        }
        for op in ops {
            act(&mut p, &op, 0);
            check(&p, others, shares || matches!(number, 3 | 4));
        }
        p.kernel.gone(0..128, &p.space, &mut p.remaps);
        // Children have ended.
        p.kernel.reached(1 << 40);
        if shares && cold {
            return Ok(());
        }
        let used = p.kernel.memory().map(Buddy::used_frames);
        prop_assert_eq!(used, Some(others.len() as u64), "all is given back");
    }
}

/// Dropping translations is charged only if there are some, and once for pages that are unmapped.
#[test]
fn what_was_never_mapped_is_not_flushed() {
    let mut p = Process::new(Box::new(Fixed { order: 0 }));
    let flush = KernelCosts::TODAY.flush;
    let spent = |p: &Process| p.kernel.accounts().of(Account::Flush);
    p.map(0, 8, Anonymous);
    p.unmap(0, 2);
    p.protect(2, 2, false);
    assert_eq!(spent(&p), 0);
    (4..8).for_each(|page| p.touch(page));
    p.protect(4, 2, false);
    assert_eq!(spent(&p), flush);
    p.unmap(4, 4);
    assert_eq!(spent(&p), 2 * flush);
}

/// If children have all frames, nothing can be swapped out: the simulated process ends, but pagewalk continues.
#[test]
fn a_memory_that_children_have_kills_the_process() {
    let mut p = Process::new(Box::new(Fixed { order: 0 })).with_memory(Buddy::new(1, 0), true);
    let fork = ForkRules { child_instructions: 1 << 40, ..ForkRules::default() };
    p.kernel = p.kernel.with_sharing(None, fork);
    p.map(0, 4, Anonymous);
    p.touch(0);
    p.kernel.forked(1, &p.space, &mut p.remaps);
    p.touch(0);
    assert_eq!(p.kernel.killed().map(|killed| killed.bytes), Some(PAGE));
    // The only frame is the child's, and stays unused when the child ends.
    assert_eq!(p.order(0), None);
    p.kernel.reached(1 << 41);
    p.touch(1);
    assert_eq!(p.kernel.memory().map(Buddy::used_frames), Some(0));
}

/// Building a superpage in place would make pages writable that a child shares.
#[test]
fn pages_that_a_child_has_too_are_not_joined_in_place() {
    let joined = |forks: bool| {
        let mut p = Process::new(policy(3)).with_memory(Buddy::new(64, 6), true);
        let fork = ForkRules { child_instructions: 1 << 40, ..ForkRules::default() };
        p.kernel = p.kernel.with_sharing(None, fork);
        p.map(0, 4, Anonymous);
        (0..3).for_each(|page| p.touch(page));
        if forks {
            p.kernel.forked(1, &p.space, &mut p.remaps);
        }
        p.touch(3);
        p.kernel.counts().promotions_in_place
    };
    assert_eq!((joined(false), joined(true)), (1, 0));
}
