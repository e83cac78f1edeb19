//! Compares the profiler's alternatives with separate passes and slow models: alternatives that share the baseline's
//! design until they diverge, alternatives that begin in mid-run, and the family of sizes.

use crate::random;
use crate::random::{Op, Program, Random};
use crate::slow::{Slow, feed};
use crate::stream::{LOAD, one_block};
use pagewalk_mm::{Everything, PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_oracle::{Paging, cases};
use pagewalk_setassoc::{Geometry, Replacement};
use pagewalk_sim::{Alternative, AlternativeKind, CacheCosts, DesignSpec, NoObserver, Pass, Profile};
use pagewalk_trace::{Analysis, Event};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{RefIndex, ThreadId, VirtAddr};
use proptest::prelude::*;
use std::sync::Arc;

/// Walks, their references, their cycles and bytes backed for nothing; and what caches cost.
type Found = ([u64; 4], Option<CacheCosts>);

fn alone(program: &Program, machine: &MachineSpec, policy: Arc<dyn PageSizePolicy>) -> Found {
    let spec = DesignSpec { name: "alone".to_owned(), ..DesignSpec::new(machine, policy) };
    let mut pass = Pass::new(vec![spec], NoObserver).unwrap();
    feed(&mut pass, program, &mut Random::new(1));
    let counts = &pass.finish()[0];
    let walks = [counts.walks(), counts.walk_references, counts.cycles.walk, counts.untouched_bytes];
    (walks, counts.cache_costs())
}

fn check_whole_runs(seed: u64) {
    let mut random = Random::new(seed);
    let pages = random::pages(&mut random);
    let machine = random::machine(&mut random, 0, pages);
    let libraries = random::libraries(&mut random);
    let program = random::program(&mut random, true, &libraries);
    let mode = [ThpMode::Never, ThpMode::Madvise, ThpMode::Always][random.below(3) as usize];
    let mut profile = Profile::new(std::slice::from_ref(&machine), mode, true).unwrap();
    feed(&mut profile, &program, &mut random);
    let findings = profile.finish();
    let baseline: Arc<dyn PageSizePolicy> =
        if machine.has_huge_pages() { Arc::new(Thp { mode }) } else { Arc::new(Small) };
    let ([.., of_baseline], of_caches) = alone(&program, &machine, baseline.clone());
    for alternative in findings.alternatives() {
        let baseline = baseline.clone();
        let (machine, policy): (MachineSpec, Arc<dyn PageSizePolicy>) = match alternative.kind {
            AlternativeKind::Baseline => (machine.clone(), baseline),
            AlternativeKind::AllSmall => (machine.clone(), Arc::new(Small)),
            AlternativeKind::ThpAlways => (machine.clone(), Arc::new(Thp { mode: ThpMode::Always })),
            AlternativeKind::AllHuge => (machine.clone(), Arc::new(Everything)),
            AlternativeKind::DoubleTlb => (machine.doubled(), baseline),
            AlternativeKind::DoubleWays(level) => (machine.widened(level).unwrap(), baseline),
            AlternativeKind::Mapping(_) | AlternativeKind::PerfectTlb => continue,
        };
        let ([walks, references, cycles, untouched], caches) = alone(&program, &machine, policy);
        let expected = ([walks, references, cycles, untouched.saturating_sub(of_baseline)], caches);
        let Alternative { walks, walk_references, walk_cycles, untouched_bytes, .. } = alternative;
        let found = ([walks, walk_references, walk_cycles, untouched_bytes], alternative.caches);
        assert_eq!(found, expected, "{:?} (seed {seed})", alternative.kind);
        assert_eq!(alternative.baseline_caches, of_caches, "{:?} (seed {seed})", alternative.kind);
    }
}

/// A candidate taken up in mid-run equals a slow machine that is copied there, with the mapping's pages dropped.
fn check_candidate(seed: u64) {
    let mut random = Random::new(seed);
    let pages = random::pages(&mut random);
    let machine = random::machine(&mut random, 0, pages);
    let program = random::program(&mut random, false, &[]);
    let mut profile = Profile::new(std::slice::from_ref(&machine), ThpMode::Never, true).unwrap();
    profile = profile.with_first_look(1 + random.below(1000));
    feed(&mut profile, &program, &mut random);
    let findings = profile.finish();
    let candidates = findings.alternatives();
    let candidates = candidates.iter().filter(|a| matches!(a.kind, AlternativeKind::Mapping(_)));
    for candidate in candidates.filter(|candidate| candidate.to_instruction.is_none()) {
        let AlternativeKind::Mapping(mapping) = candidate.kind else { unreachable!("filtered") };
        let info = findings.space().info(mapping.mapping);
        let base = machine.paging.base();
        let (start, end) = (base.number(info.start), (info.start.0 + info.bytes_max).div_ceil(base.bytes()));
        let mut slow = Slow::new(&machine, Paging::Small);
        let (mut instructions, mut before) = (0, None);
        for op in &program.ops {
            if instructions >= candidate.from_instruction && before.is_none() {
                before = Some(slow.machine.counts);
                let touched: Vec<u64> = slow.kernel.touched.range(start..end).copied().collect();
                touched.into_iter().for_each(|vpn| slow.machine.drop_page(base.shift(), vpn));
                slow.kernel.paging = Paging::Range(start, end);
            }
            if let Op::Run { block, .. } = op {
                instructions += program.blocks.get(*block).instructions.len() as u64;
            }
            slow.op(&program, op);
        }
        let before = before.unwrap_or(slow.machine.counts);
        let counts = slow.machine.counts;
        let walks = counts.walks_fetch + counts.walks_data - before.walks_fetch - before.walks_data;
        assert_eq!(candidate.walks, walks, "walks of {} (seed {seed})", info.name);
        let references = counts.walk_references - before.walk_references;
        assert_eq!(candidate.walk_references, references, "walk references of {} (seed {seed})", info.name);
    }
}

/// Machines of different page formats run beside each other as they would alone.
fn check_formats(seed: u64) {
    let mut random = Random::new(seed);
    let machines: Vec<MachineSpec> = (0..4)
        .map(|index| {
            let pages = random::pages(&mut random);
            random::machine(&mut random, index, pages)
        })
        .collect();
    let libraries = random::libraries(&mut random);
    let program = random::program(&mut random, true, &libraries);
    let mut profile = Profile::new(&machines, ThpMode::Always, false).unwrap();
    feed(&mut profile, &program, &mut random);
    let together: Vec<_> = profile.finish().machines().to_vec();
    for (machine, found) in machines.iter().zip(&together) {
        let mut alone = Profile::new(std::slice::from_ref(machine), ThpMode::Always, false).unwrap();
        feed(&mut alone, &program, &mut Random::new(1));
        assert_eq!(found, &alone.finish().machines()[0], "{} (seed {seed})", machine.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(200), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn alternatives_of_whole_runs_equal_passes_of_their_own(seed in any::<u64>()) {
        check_whole_runs(seed);
    }

    #[test]
    fn machines_of_different_pages_count_as_alone(seed in any::<u64>()) {
        check_formats(seed);
    }

    #[test]
    fn candidates_equal_a_machine_copied_in_mid_run(seed in any::<u64>()) {
        check_candidate(seed);
    }
}

#[test]
fn candidates_are_found() {
    let mut random = Random::new(3);
    let machine = pagewalk_sim::Library::get("skylake_sp").unwrap();
    let program = random::program(&mut random, false, &[]);
    let mut profile = Profile::new(&[machine], ThpMode::Never, true).unwrap().with_first_look(50);
    feed(&mut profile, &program, &mut random);
    let alternatives = profile.finish().alternatives();
    assert!(alternatives.iter().any(|a| matches!(a.kind, AlternativeKind::Mapping(_))));
}

#[test]
fn the_machines_own_size_lies_on_the_reach_curve() {
    let mut random = Random::new(11);
    let machine = pagewalk_sim::Library::get("skylake_sp").unwrap();
    let libraries = random::libraries(&mut random);
    let program = random::program(&mut random, true, &libraries);
    let mut profile = Profile::new(&[machine], ThpMode::Never, true).unwrap();
    feed(&mut profile, &program, &mut random);
    let findings = profile.finish();
    let own: Vec<u64> = findings.reach().iter().filter(|point| point.own).map(|point| point.walks).collect();
    let all_huge = findings.alternatives().iter().find(|a| a.kind == AlternativeKind::AllHuge).unwrap().walks;
    assert_eq!(own, [findings.machines()[0].walks(), all_huge]);
}

/// Machines beyond the room of the first's pass count as alone, and leave room for its alternatives.
#[test]
fn any_number_of_machines_has_room() {
    let first = pagewalk_sim::Library::get("skylake_sp").unwrap();
    let sized = |entries: usize| {
        let mut machine = MachineSpec { name: format!("skylake_{entries}"), ..first.clone() };
        machine.tlbs[0].geometry = Geometry::new(entries as u32, None).unwrap();
        machine.tlbs[0].replacement = Replacement::Lru;
        machine
    };
    let machines: Vec<MachineSpec> = [first.clone()].into_iter().chain((1..150).map(sized)).collect();
    let program = random::program(&mut Random::new(3), false, &[]);
    let profile = |machines: &[MachineSpec], what_if: bool| {
        let profile = Profile::new(machines, ThpMode::Never, what_if).unwrap();
        let mut profile = profile.with_first_look(50).on_threads(2);
        feed(&mut profile, &program, &mut Random::new(1));
        let result = profile.finish();
        (result.machines().to_vec(), result.alternatives())
    };
    let (together, alternatives) = profile(&machines, true);
    let alone = profile(&machines[..1], true);
    assert!(alternatives.iter().any(|a| matches!(a.kind, AlternativeKind::Mapping(_))));
    assert_eq!(alternatives, alone.1);
    for (machine, found) in machines.iter().zip(&together) {
        assert_eq!(found, &profile(std::slice::from_ref(machine), false).0[0], "{}", machine.name);
    }
}

/// First pages of two mappings of 2 MiB, far from each other and from the code.
const A: u64 = 1 << 20;
const B: u64 = 1 << 21;

/// A profile with alternatives in which the kernel has backed [`A`] by a huge page, of which one page was touched, and
/// split it as another was discarded; then pages of these numbers are loaded from.
fn split_then(mode: ThpMode, pages: &[u64]) -> Profile {
    let (blocks, block) = one_block(0x10_0000, &[LOAD]);
    let load = |&page: &u64| Op::Run { block, addresses: vec![page << 12] };
    let map = |start: u64| Op::Map { start, pages: 512, anonymous: true };
    let program = |ops| Program { thread: ThreadId(1), blocks: blocks.clone(), ops };
    let machine = pagewalk_sim::Library::get("skylake_sp").unwrap();
    let mut profile = Profile::new(&[machine], mode, true).unwrap().with_first_look(3);
    feed(&mut profile, &program(vec![map(A), map(B)]), &mut Random::new(1));
    let huge = Event::Advise { start: VirtAddr(A << 12), bytes: 512 << 12, advice: 14 };
    profile.on_event(RefIndex(0), &huge);
    let split = vec![load(&A), Op::Discard { start: A + 9, pages: 1 }];
    feed(&mut profile, &program(split), &mut Random::new(1));
    feed(&mut profile, &program(pages.iter().map(load).collect()), &mut Random::new(1));
    profile
}

fn price(profile: &mut Profile, wanted: impl Fn(AlternativeKind) -> bool) -> u64 {
    let alternatives = profile.finish().alternatives();
    alternatives.iter().find(|found| wanted(found.kind)).unwrap().untouched_bytes / 4096
}

#[test]
fn an_alternative_that_parts_has_what_splits_have_left() {
    let mut profile = split_then(ThpMode::Madvise, &[B]);
    // 510 pages of the one mapping and 511 of the other, beside the 511 that the baseline had backed at first.
    assert_eq!(price(&mut profile, |kind| kind == AlternativeKind::ThpAlways), 510);
}

#[test]
fn a_candidate_maps_what_splits_have_left_as_one_huge_page() {
    let mut profile = split_then(ThpMode::Always, &[A, A, A, A]);
    assert_eq!(price(&mut profile, |kind| matches!(kind, AlternativeKind::Mapping(_))), 0);
}
