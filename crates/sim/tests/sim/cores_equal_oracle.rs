//! Threads on several cores against the slow models of `oracle`, core by core: all counters, with switches at random
//! places, and with last levels that the cores share.

use crate::equal;
use crate::random;
use crate::random::{Op, Program, Random};
use crate::slow::{Slow, feed};
use crate::stream::{LOAD, one_block};
use crate::systems::{Systems, one_mapping};
use pagewalk_mm::{Everything, PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_oracle::{Machine, Paging, cases};
use pagewalk_sim::{DesignSpec, Library, Pass, System};
use pagewalk_trace::Analysis;
use pagewalk_translate::{MachineSpec, WalkerSpec};
use pagewalk_units::ThreadId;
use proptest::prelude::*;
use std::sync::Arc;

/// The cores of a slow machine.
struct Cores {
    slow: Slow,
    runs: usize,
    shared: Vec<bool>,
    shared_caches: Vec<bool>,
}

impl Cores {
    fn new(machine: &MachineSpec, paging: Paging, cores: usize) -> Cores {
        let mut slow = Slow::new(machine, paging);
        // Index 0 stands for the running one.
        slow.others = vec![slow.machine.clone(); cores];
        let shared = machine.tlbs.iter().map(|tlb| tlb.shared).collect();
        Cores {
            slow,
            runs: 0,
            shared,
            shared_caches: machine.caches.iter().map(|cache| cache.shared).collect(),
        }
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
        // The cores walk the same page tables.
        self.slow.machine.tables = std::mem::take(&mut self.slow.others[before].tables);
        let caches =
            [&mut self.slow.machine, &mut self.slow.others[before]].map(|core| core.memories.as_mut());
        if let [Some(own), Some(other)] = caches {
            for (at, _) in self.shared_caches.iter().enumerate().filter(|(_, shared)| **shared) {
                std::mem::swap(&mut own.caches[at], &mut other.caches[at]);
            }
        }
    }

    fn core(&self, core: usize) -> &Machine {
        if core == self.runs { &self.slow.machine } else { &self.slow.others[core] }
    }
}

/// Runs a program as threads that take random turns, on cores round robin in order of appearance.
fn run(program: &Program, threads: u64, fast: &mut impl Analysis, slows: &mut [Cores], random: &mut Random) {
    let (mut done, mut seen) = (0, Vec::new());
    while done < program.ops.len() {
        let thread = random.below(threads) as u32;
        let end = (done + 1 + random.below(200) as usize).min(program.ops.len());
        let (blocks, ops) = (program.blocks.clone(), program.ops[done..end].to_vec());
        let turn = Program { thread: ThreadId(thread), blocks, ops };
        done = end;
        // A batch, even one without executions, tells which thread runs.
        feed(fast, &turn, random);
        if !seen.contains(&thread) {
            seen.push(thread);
        }
        let number = seen.iter().position(|&other| other == thread).unwrap();
        for slow in &mut *slows {
            slow.run_on(number % slow.slow.others.len());
            turn.ops.iter().for_each(|op| slow.slow.op(&turn, op));
        }
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
    let libraries = random::libraries(&mut random);
    let program = random::program(&mut random, true, &libraries);
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
        specs.push(DesignSpec { name, ..DesignSpec::new(&machine, Arc::clone(policy)) });
    }
    // The slow models know no policy for one mapping.
    let first = specs[0].machine.clone();
    specs.extend(one_mapping(&mut random, &first, 1));
    let systems = Systems::new(&specs, cores);
    let mut both = (Pass::with_cores(specs, cores).unwrap(), systems);
    run(&program, threads, &mut both, &mut slows, &mut random);
    let (mut pass, systems) = both;
    let sums = pass.finish();
    systems.assert_equal(&sums, seed);
    for core in 0..cores {
        for (system, pass) in systems.0.iter().zip(pass.core_counts(core)) {
            assert_eq!(system.core_counts(core), pass, "core {core} of {} (seed {seed})", pass.name);
        }
        for (fast, slow) in pass.core_counts(core).iter().zip(&slows) {
            equal::assert_equal(fast, slow.core(core), slow.slow.instructions, seed);
        }
    }
    for (index, (sum, slow)) in sums.iter().zip(&slows).enumerate() {
        let walks = (0..cores).map(|core| pass.core_counts(core)[index].walks()).sum::<u64>();
        assert_eq!(sum.walks(), walks, "walks of {} (seed {seed})", sum.name);
        assert_eq!(sum.pages_touched, slow.slow.faults(), "pages of {} (seed {seed})", sum.name);
        assert_eq!(sum.untouched_bytes, slow.slow.untouched_bytes(), "price of {} (seed {seed})", sum.name);
    }
}

/// A machine with caches of memory. Cores share the last level, and sometimes the one above. What shared inclusive ones
/// drop from other cores is tested beside the caches.
fn machine_with_caches(random: &mut Random) -> MachineSpec {
    loop {
        // Tables of some pages are hashed or in software, and no caches come with them.
        let pages = random::pages(random);
        let mut machine = random::machine(random, 0, pages);
        let Some(last) = machine.caches.iter().map(|cache| cache.level).max() else { continue };
        let first_shared = random.of(&[last, last, last.max(2) - 1]);
        for cache in machine.caches.iter_mut().filter(|cache| cache.level >= first_shared) {
            (cache.shared, cache.inclusive, cache.write_buffer) = (true, false, None);
        }
        if matches!(machine.walker, WalkerSpec::Radix(_) | WalkerSpec::Software) {
            return machine;
        }
    }
}

/// Private first levels and shared last ones, core by core.
fn check_caches(seed: u64) {
    let mut random = Random::new(seed);
    let (cores, threads) = (1 + random.below(4) as usize, 1 + random.below(5));
    let libraries = random::libraries(&mut random);
    let program = random::program(&mut random, true, &libraries);
    let machine = machine_with_caches(&mut random);
    let mut slow = Cores::new(&machine, Paging::Small, cores);
    let spec = DesignSpec { name: "m".to_owned(), ..DesignSpec::new(&machine, Arc::new(Small)) };
    let mut system = System::new(spec, cores).unwrap();
    run(&program, threads, &mut system, std::slice::from_mut(&mut slow), &mut random);
    for core in 0..cores {
        equal::assert_equal(&system.core_counts(core), slow.core(core), slow.slow.instructions, seed);
    }
}

/// A block is as recent as the latest of its units, also where a unit has the number of one that is gone.
#[test]
fn a_number_given_again_brings_no_time_with_it() {
    let machine = "schema = 1\nname = \"m\"\n[[tlb]]\nname = \"l1i\"\nlevel = 1\nserves = [\"fetch\"]\n\
                   page_sizes = [\"4K\", \"2M\"]\nentries = 1\n[[tlb]]\nname = \"l1d\"\nlevel = 1\nentries = 3\n\
                   serves = [\"load\", \"store\"]\npage_sizes = [\"4K\", \"2M\"]\n\
                   [walker]\nkind = \"radix\"\nlevels = 4\n[cost]\nwalk_reference = 20\n";
    let machine = MachineSpec::from_toml("m.toml", machine).unwrap();
    let (blocks, load) = one_block(1 << 40, &[LOAD]);
    let read = |page: u64| Op::Run { block: load, addresses: vec![page << 12] };
    let map = |start: u64, anonymous: bool| Op::Map { start, pages: 1, anonymous };
    let [p, q, r, s, t] = [1, 2, 3, 4, 5].map(|block: u64| block * 512);
    let turns = [
        (0, [p, q, r, s, t].map(|page| map(page, true)).to_vec()),
        (1, vec![read(q), read(r), read(p)]),
        // The unit in the block of `q` is given the number of that in the block of `p`, latest on the other core.
        (0, vec![Op::Unmap { start: p, pages: 1 }, map(q + 100, false), read(q + 100)]),
        // `t` takes the place of `q`.
        (1, vec![read(s), read(t), read(r)]),
    ];
    let policy: Arc<dyn PageSizePolicy> = Arc::new(Everything);
    let spec = DesignSpec { name: "m".to_owned(), ..DesignSpec::new(&machine, policy) };
    let mut pass = Pass::with_cores(vec![spec], 2).unwrap();
    let mut slow = Cores::new(&machine, Paging::Everything, 2);
    for (core, ops) in turns {
        let turn = Program { thread: ThreadId(core as u32), blocks: blocks.clone(), ops };
        feed(&mut pass, &turn, &mut Random::new(1));
        slow.run_on(core);
        turn.ops.iter().for_each(|op| slow.slow.op(&turn, op));
    }
    pass.finish();
    for core in 0..2 {
        equal::assert_equal(&pass.core_counts(core)[0], slow.core(core), slow.slow.instructions, 1);
    }
    assert_eq!(pass.core_counts(1)[0].walks_data, 5);
}

/// Two cores with the largest possible prices in cycles.
#[test]
fn cycles_of_all_cores_stop_at_the_most_there_can_be() {
    let mut machine = Library::get("skylake_sp").unwrap();
    (machine.cost.walk_reference, machine.cost.l2_hit) = (u64::MAX / 2, u64::MAX);
    let (blocks, block) = one_block(0x1000, &[LOAD; 2]);
    let mut pass = Pass::with_cores(vec![DesignSpec::new(&machine, Arc::new(Small))], 2).unwrap();
    for core in 0..2 {
        // A walk of each core, and a hit of the second level by what the fetch has brought there.
        let ops = vec![Op::Run { block, addresses: vec![1 << 40, 0x1000] }];
        let turn = Program { thread: ThreadId(core), blocks: blocks.clone(), ops };
        feed(&mut pass, &turn, &mut Random::new(1));
    }
    let sum = pass.finish().remove(0);
    assert_eq!((sum.lower_hits, sum.cycles.walk, sum.cycles.lower_hit), (2, u64::MAX, u64::MAX));
    assert_eq!(sum.cycles.total(), 2.0 * u64::MAX as f64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(60), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn private_and_shared_caches_equal_the_oracle(seed in any::<u64>()) {
        check_caches(seed);
    }

    #[test]
    fn every_counter_of_every_core_equals_the_oracles(seed in any::<u64>()) {
        check(seed);
    }
}
