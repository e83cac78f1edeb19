//! The profiler's alternatives: those that share the baseline's design until they part from it, those that
//! begin in mid-run, and the family of sizes, against passes and slow models of their own.

mod random;
mod slow;

use pagewalk_mm::{Everything, PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_oracle::Paging;
use pagewalk_sim::{AlternativeKind, DesignSpec, NoObserver, Pass, Profile};
use pagewalk_translate::MachineSpec;
use proptest::prelude::*;
use random::{Op, Program, Random, cases};
use slow::{Slow, feed};
use std::sync::Arc;

fn walks(program: &Program, machine: &MachineSpec, policy: Arc<dyn PageSizePolicy>) -> (u64, u64) {
    let spec =
        DesignSpec { name: "alone".to_owned(), machine: machine.clone(), policy, reach: None, kernel: None };
    let mut pass = Pass::new(vec![spec], NoObserver).unwrap();
    feed(&mut pass, program, &mut Random::new(1));
    let counts = &pass.finish()[0];
    (counts.walks(), counts.walk_references)
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
    for alternative in findings.alternatives() {
        let baseline: Arc<dyn PageSizePolicy> =
            if machine.has_huge_pages() { Arc::new(Thp { mode }) } else { Arc::new(Small) };
        let (machine, policy): (MachineSpec, Arc<dyn PageSizePolicy>) = match alternative.kind {
            AlternativeKind::Baseline => (machine.clone(), baseline),
            AlternativeKind::AllSmall => (machine.clone(), Arc::new(Small)),
            AlternativeKind::ThpAlways => (machine.clone(), Arc::new(Thp { mode: ThpMode::Always })),
            AlternativeKind::AllHuge => (machine.clone(), Arc::new(Everything)),
            AlternativeKind::DoubleTlb => (machine.doubled(), baseline),
            AlternativeKind::Mapping(_) | AlternativeKind::PerfectTlb => continue,
        };
        let expected = walks(&program, &machine, policy);
        let found = (alternative.walks, alternative.walk_references);
        assert_eq!(found, expected, "{:?} (seed {seed})", alternative.kind);
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
        let info = findings.space().info(mapping);
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
