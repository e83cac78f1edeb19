//! The pass against the slow models of `oracle`: all counters, on random machines of random page formats and random
//! streams with page crossings, unmaps, discards, advice and protections. Mappings are not aligned to larger base
//! pages.

use crate::equal;
use crate::random;
use crate::random::{Op, Program, Random};
use crate::siblings::sibling;
use crate::slow::{Slow, feed};
use crate::systems::{Systems, one_mapping};
use pagewalk_mm::{Everything, PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_oracle::{Paging, cases};
use pagewalk_setassoc::RelevantHits;
use pagewalk_sim::{DesignSpec, NoObserver, Pass};
use pagewalk_trace::Event;
use pagewalk_translate::{Fills, MachineSpec, TlbSpec};
use pagewalk_units::Kind;
use proptest::prelude::*;
use std::sync::Arc;

/// A machine whose misses depend on nothing else, with separate arrays for fetches and data.
fn plain_machine(random: &mut Random, index: usize, pages: random::Pages) -> MachineSpec {
    let is_plain = |tlb: &TlbSpec| {
        let of_both =
            tlb.serves.has(Kind::Fetch) && (tlb.serves.has(Kind::Load) || tlb.serves.has(Kind::Store));
        tlb.prefetch.is_none()
            && tlb.fills == Fills::Walks
            && !(tlb.level == 1 && (of_both || tlb.relevant_hits() == RelevantHits::Changes))
    };
    loop {
        let machine = random::machine(random, index, pages);
        if machine.caches.is_empty() && machine.tlbs.iter().all(is_plain) {
            return machine;
        }
    }
}

/// `plain`: all machines are plain ones, and no page is huge.
fn check(seed: u64, plain: bool) {
    let mut random = Random::new(seed);
    let pages = random::pages(&mut random);
    let machine = if plain { plain_machine } else { random::machine };
    let mut machines: Vec<MachineSpec> = (0..3).map(|i| machine(&mut random, i, pages)).collect();
    for i in 3..3 + random.below(4) as usize {
        let first = random.of(&[0, 0, 1]);
        machines.push(sibling(&mut random, i, pages, &machines[first].clone()));
    }
    let libraries = random::libraries(&mut random);
    let mut program = random::program(&mut random, true, &libraries);
    if random.below(2) == 0 {
        random::add_hugetlb(&mut random, &mut program);
    }
    let pagings: [(Paging, Arc<dyn PageSizePolicy>); 3] = [
        (Paging::Small, Arc::new(Small)),
        (Paging::Everything, Arc::new(Everything)),
        (Paging::Thp, Arc::new(Thp { mode: ThpMode::Always })),
    ];
    // Without huge pages, the pass processes more at once.
    let pagings = if plain || random.below(4) == 0 { &pagings[..1] } else { &pagings };
    let mut specs = Vec::new();
    let mut slows = Vec::new();
    for machine in &machines {
        for (paging, policy) in pagings.iter().filter(|_| random.below(4) > 0 || seed.is_multiple_of(7)) {
            specs.push(DesignSpec {
                name: format!("{} {paging:?}", machine.name),
                ..DesignSpec::new(machine, Arc::clone(policy))
            });
            slows.push(Slow::new(machine, *paging));
        }
    }
    if specs.is_empty() {
        return;
    }
    if !plain {
        // The slow models know no policy for one mapping.
        let all = specs.iter().map(|spec| spec.machine.clone()).take(2).collect::<Vec<_>>();
        specs.extend(all.iter().flat_map(|machine| one_mapping(&mut random, machine, 1)));
    }
    let systems = Systems::new(&specs, 1);
    let mut both = (Pass::new(specs, NoObserver).unwrap(), systems);
    feed(&mut both, &program, &mut random);
    let (mut pass, systems) = both;
    systems.assert_equal(&pass.finish(), seed);
    for slow in &mut slows {
        program.ops.iter().for_each(|op| slow.op(&program, op));
    }
    for (fast, slow) in pass.finish().iter().zip(&slows) {
        equal::assert_all_equal(fast, slow, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(80), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_counter_equals_the_oracles(seed in any::<u64>()) {
        check(seed, false);
    }

    #[test]
    fn so_it_does_where_misses_are_plain(seed in any::<u64>()) {
        check(seed, true);
    }
}

#[test]
fn events_reach_both_sides() {
    let mut random = Random::new(7);
    let libraries = random::libraries(&mut random);
    let programs: Vec<Program> = (0..5).map(|_| random::program(&mut random, true, &libraries)).collect();
    let ops = programs.iter().flat_map(|program| &program.ops);
    let events: Vec<Event> = ops.filter(|op| !matches!(op, Op::Run { .. })).map(Op::event).collect();
    assert!(events.iter().any(|event| matches!(event, Event::Unmap { .. })));
    assert!(events.iter().any(|event| matches!(event, Event::Advise { .. })));
    assert!(events.iter().any(|event| matches!(event, Event::Map(mapping) if mapping.file.is_some())));
}
