//! Counts by thread against the slow models of `oracle`, which tell of each reference whether it walked: on one core by
//! the profile, on one or several by an experiment.

use crate::random::{Op, Program, Random};
use crate::slow::{Slow, feed};
use pagewalk_mm::{Small, ThpMode};
use pagewalk_oracle::{Paging, cases};
use pagewalk_sim::{
    Arrangement, DesignSpec, FunctionWalks, GroupCounts, HeatMap, Profile, ProgramFindings, Simulation,
    SpaceCounts,
};
use pagewalk_trace::{Analysis, Event};
use pagewalk_translate::{Asid, MachineSpec, WalkerSpec};
use pagewalk_units::{RefIndex, ThreadId, VirtAddr};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slow counters by thread, in the order in which they first ran. Their numbers are used again.
#[derive(Default)]
struct ByThread {
    all: Vec<SpaceCounts>,
    living: BTreeMap<ThreadId, usize>,
}

impl ByThread {
    /// Attributes the increase of the machine's counts by an operation to the operation's thread.
    fn op(&mut self, slow: &mut Slow, turn: &Program, op: &Op) {
        let told = |slow: &Slow| (slow.machine.counts, slow.instructions, slow.faults());
        let (before, instructions, faults) = told(slow);
        slow.op(turn, op);
        let Op::Run { addresses, .. } = op else { return };
        let (after, now, touched) = told(slow);
        let counts = SpaceCounts {
            instructions: now - instructions,
            data_references: addresses.len() as u64,
            pages_touched: touched - faults,
            walks_fetch: after.walks_fetch - before.walks_fetch,
            walks_data: after.walks_data - before.walks_data,
            walk_cycles: after.walk_cycles - before.walk_cycles,
        };
        if counts == SpaceCounts::default() {
            // A block without instructions does not count.
            return;
        }
        let all = &mut self.all;
        let place = *self.living.entry(turn.thread).or_insert_with(|| {
            all.push(SpaceCounts::default());
            all.len() - 1
        });
        all[place] += counts;
    }

    /// The groups that there are: none where one thread has done all.
    fn groups(&self) -> Vec<GroupCounts> {
        let group = |(number, &counts): (usize, &SpaceCounts)| GroupCounts {
            kind: "thread",
            space: Asid::default(),
            name: number.to_string(),
            counts,
        };
        let groups: Vec<GroupCounts> = (1..).zip(&self.all).map(group).collect();
        if groups.len() > 1 { groups } else { Vec::new() }
    }
}

/// Turns of random threads, of random lengths.
fn turns(random: &mut Random, threads: u64) -> Vec<Program> {
    let libraries = crate::random::libraries(random);
    let program = crate::random::program(random, true, &libraries);
    let (mut turns, mut done) = (Vec::new(), 0);
    while done < program.ops.len() {
        let end = (done + 1 + random.below(200) as usize).min(program.ops.len());
        let (blocks, ops) = (program.blocks.clone(), program.ops[done..end].to_vec());
        turns.push(Program { thread: ThreadId(1 + random.below(threads) as u32), blocks, ops });
        done = end;
    }
    turns
}

/// A machine whose cores share nothing, so that each is a slow machine of its own.
fn machine(random: &mut Random, pages: crate::random::Pages, cores: usize) -> MachineSpec {
    loop {
        let machine = crate::random::machine(random, 0, pages);
        let in_registers = matches!(machine.walker, WalkerSpec::Radix(_) | WalkerSpec::Software);
        if cores == 1 || in_registers && machine.caches.is_empty() {
            return machine;
        }
    }
}

/// Walks by fetches and by data of each instruction that has some, and their cycles.
fn by_instruction(functions: &[FunctionWalks]) -> BTreeMap<VirtAddr, [u64; 3]> {
    let mut all: BTreeMap<VirtAddr, [u64; 3]> = BTreeMap::new();
    for of in functions.iter().filter(|of| of.walks_fetch + of.walks_data > 0) {
        let sums = all.entry(of.instruction).or_default();
        let own = [of.walks_fetch, of.walks_data, of.walk_cycles];
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    all
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let (cores, threads) = (1 + random.below(3) as usize, 1 + random.below(4));
    let pages = crate::random::pages(&mut random);
    let machine = machine(&mut random, pages, cores);
    let designs = vec![DesignSpec::new(&machine, Arc::new(Small))];
    let arrangement = Arrangement { cores, ..Arrangement::default() };
    let mut experiment = Simulation::new(designs, &arrangement).unwrap().keeping_walks();
    let tries = seed.is_multiple_of(2);
    let mut profile =
        (cores == 1).then(|| Profile::new(std::slice::from_ref(&machine), ThpMode::Never, tries).unwrap());
    let mut slow = Slow::new(&machine, Paging::Small);
    // The place of the core that runs is held by one that never does.
    slow.others = vec![slow.machine.clone(); cores];
    let (mut by_thread, mut seen, mut runs) = (ByThread::default(), Vec::new(), 0);
    for turn in turns(&mut random, threads) {
        if random.below(8) == 0 {
            let Program { thread, .. } = turn;
            let event = Event::ThreadStart { thread: thread.0, parent: 1 };
            experiment.on_event(RefIndex(0), &event);
            profile.iter_mut().for_each(|profile| profile.on_event(RefIndex(0), &event));
            by_thread.living.remove(&thread);
        }
        let (cut, again) = (random.below(1 << 32), random.below(1 << 32));
        feed(&mut experiment, &turn, &mut Random::new(cut));
        if let Some(profile) = &mut profile {
            feed(profile, &turn, &mut Random::new(again));
        }
        // A thread has a core from its first execution on.
        if turn.ops.iter().any(|op| matches!(op, Op::Run { .. })) && !seen.contains(&turn.thread) {
            seen.push(turn.thread);
        }
        let core = seen.iter().position(|&other| other == turn.thread).unwrap_or(0) % cores;
        for other in [std::mem::replace(&mut runs, core), core] {
            std::mem::swap(&mut slow.machine, &mut slow.others[other]);
        }
        turn.ops.iter().for_each(|op| by_thread.op(&mut slow, &turn, op));
    }
    let groups = experiment.groups();
    assert_eq!(groups, by_thread.groups(), "{cores} cores, seed {seed}");
    let whole = experiment.finish().swap_remove(0);
    // Of all cores.
    let mut programs = experiment.programs();
    assert!(programs.len() == 1, "one process, seed {seed}");
    let ProgramFindings { functions, mappings, pages, heat, .. } = programs.remove(0);
    let walks = |of: fn(&FunctionWalks) -> u64| functions.iter().map(of).sum::<u64>();
    let sums = [walks(|of| of.walks_fetch), walks(|of| of.walks_data), walks(|of| of.walk_cycles)];
    assert_eq!(sums, [whole.walks_fetch, whole.walks_data, whole.cycles.walk], "{cores} cores, seed {seed}");
    if !groups.is_empty() {
        let sum = |of: fn(&SpaceCounts) -> u64| groups.iter().map(|group| of(&group.counts)).sum::<u64>();
        let sums = [sum(|of| of.instructions), sum(|of| of.walks_fetch), sum(|of| of.walks_data)];
        assert_eq!(sums, [whole.instructions, whole.walks_fetch, whole.walks_data], "seed {seed}");
        assert_eq!(sum(|of| of.walk_cycles), whole.cycles.walk, "seed {seed}");
    }
    if let Some(mut profile) = profile {
        let mut result = profile.finish();
        assert_eq!(result.groups(), groups, "of the profile, seed {seed}");
        // An instruction's first wait may come before its first walk, when another file was mapped there.
        if machine.caches.is_empty() {
            assert_eq!(functions, result.functions(), "seed {seed}");
        }
        assert_eq!(by_instruction(&functions), by_instruction(&result.functions()), "seed {seed}");
        // An alternative's huge page keeps its mapping's name, though parts of it come to another.
        if !tries {
            let rows = |heat: &HeatMap| heat.rows().collect::<Vec<_>>();
            assert!(rows(heat) == rows(result.heat()), "heat map, seed {seed}");
            assert!(pages == result.pages(), "pages, seed {seed}");
            assert_eq!(mappings, result.mappings(), "seed {seed}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(100), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn threads_count_what_slow_models_count(seed in any::<u64>()) {
        check(seed);
    }
}
