//! Threads on several cores against the slow models of `oracle`, core by core: all counters, with switches at random
//! places, and with last levels that the cores share.

mod equal;
mod random;
mod slow;

use pagewalk_mm::{Everything, PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_oracle::{Machine, Paging};
use pagewalk_sim::{DesignSpec, Pass};
use pagewalk_translate::{MachineSpec, WalkerSpec};
use pagewalk_units::ThreadId;
use proptest::prelude::*;
use random::{Program, Random};
use slow::{Slow, feed};
use std::sync::Arc;

/// The cores of a slow machine.
struct Cores {
    slow: Slow,
    runs: usize,
    shared: Vec<bool>,
}

impl Cores {
    fn new(machine: &MachineSpec, paging: Paging, cores: usize) -> Cores {
        let mut slow = Slow::new(machine, paging);
        // Index 0 holds the place of the one that runs.
        slow.others = vec![slow.machine.clone(); cores];
        Cores { slow, runs: 0, shared: machine.tlbs.iter().map(|tlb| tlb.shared).collect() }
    }

    fn run_on(&mut self, core: usize) {
        if core == self.runs {
            return;
        }
        let before = std::mem::replace(&mut self.runs, core);
        std::mem::swap(&mut self.slow.machine, &mut self.slow.others[before]);
        std::mem::swap(&mut self.slow.machine, &mut self.slow.others[core]);
        for (at, _) in self.shared.iter().enumerate().filter(|(_, shared)| **shared) {
            std::mem::swap(&mut self.slow.machine.arrays[at], &mut self.slow.others[before].arrays[at]);
        }
    }

    fn core(&self, core: usize) -> &Machine {
        if core == self.runs { &self.slow.machine } else { &self.slow.others[core] }
    }
}

/// A machine that can have several cores; its last level may be shared.
fn machine(random: &mut Random, index: usize, pages: random::Pages) -> MachineSpec {
    loop {
        let mut machine = random::machine(random, index, pages);
        if matches!(machine.walker, WalkerSpec::Radix(_) | WalkerSpec::Software) && machine.caches.is_empty()
        {
            let last = machine.last_level();
            for tlb in machine.tlbs.iter_mut().filter(|tlb| tlb.level > 1 && tlb.level == last) {
                tlb.shared = random.below(2) == 0;
            }
            return machine;
        }
    }
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let pages = random::pages(&mut random);
    let (cores, threads) = (1 + random.below(4) as usize, 1 + random.below(5));
    let program = random::program(&mut random, true);
    let pagings: [(Paging, Arc<dyn PageSizePolicy>); 3] = [
        (Paging::Small, Arc::new(Small)),
        (Paging::Everything, Arc::new(Everything)),
        (Paging::Thp, Arc::new(Thp { mode: ThpMode::Always })),
    ];
    let (mut specs, mut slows) = (Vec::new(), Vec::new());
    for index in 0..3 {
        let machine = machine(&mut random, index, pages);
        let (paging, policy) = &pagings[random.below(3) as usize];
        let name = format!("{} {paging:?}, {cores} cores", machine.name);
        slows.push(Cores::new(&machine, *paging, cores));
        specs.push(DesignSpec { name, machine, policy: Arc::clone(policy), reach: None });
    }
    let mut pass = Pass::with_cores(specs, cores).unwrap();
    let (mut done, mut seen) = (0, Vec::new());
    while done < program.ops.len() {
        let thread = random.below(threads) as u32;
        let end = (done + 1 + random.below(200) as usize).min(program.ops.len());
        let (blocks, ops) = (program.blocks.clone(), program.ops[done..end].to_vec());
        let turn = Program { thread: ThreadId(thread), blocks, ops };
        done = end;
        // A batch, even one without executions, tells which thread runs.
        feed(&mut pass, &turn, &mut random);
        if !seen.contains(&thread) {
            seen.push(thread);
        }
        let core = seen.iter().position(|&other| other == thread).unwrap() % cores;
        for slow in &mut slows {
            slow.run_on(core);
            turn.ops.iter().for_each(|op| slow.slow.op(&turn, op));
        }
    }
    let sums = pass.finish();
    for core in 0..cores {
        for (fast, slow) in pass.core_counts(core).iter().zip(&slows) {
            equal::assert_equal(fast, slow.core(core), seed);
        }
    }
    for (index, (sum, slow)) in sums.iter().zip(&slows).enumerate() {
        let walks = (0..cores).map(|core| pass.core_counts(core)[index].walks()).sum::<u64>();
        assert_eq!(sum.walks(), walks, "walks of {} (seed {seed})", sum.name);
        assert_eq!(sum.pages_touched, slow.slow.kernel.faults, "pages of {} (seed {seed})", sum.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_counter_of_every_core_equals_the_oracles(seed in any::<u64>()) {
        check(seed);
    }
}

/// Random programs per run; `PAGEWALK_CASES` makes it a long one.
fn cases() -> u32 {
    std::env::var("PAGEWALK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100)
}
