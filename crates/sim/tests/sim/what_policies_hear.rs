//! What a policy hears of the watched TLBs is what they hold, also where an entry maps several pages: random machines,
//! processes in turns, cores and superpages.

use crate::kernels_equal_oracle::{config, whole_machine};
use crate::random::{self, Op, Program, Random};
use crate::sides;
use crate::slow::feed;
use crate::software_equals_oracle;
use pagewalk_mm::frames::Buddy;
use pagewalk_mm::promotion::{Actions, Policy, PolicyEvent, Rules};
use pagewalk_mm::{FullMemoryAction, Kernel, KernelCosts, MemoryRules, Superpage};
use pagewalk_sim::{DesignSpec, System, held_orders};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::{RefIndex, ThreadId};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// By process: entries, each with the number of its TLB. Pages of two sizes may have entries of one block.
type Entries = BTreeMap<u32, Vec<(usize, Superpage)>>;

/// Builds some superpages around pages that miss, and follows the entries that it hears of.
#[derive(Clone)]
struct Listener {
    orders: u32,
    random: Random,
    process: u32,
    held: Arc<Mutex<Entries>>,
    misses: Arc<Mutex<u64>>,
}

impl Policy for Listener {
    fn rules(&self) -> Rules {
        Rules { watches_tlbs: true, ignores_areas: true, ..Rules::new(self.orders) }
    }

    fn on(&mut self, event: PolicyEvent<'_>, _: &mut Actions) {
        let mut all = self.held.lock().unwrap();
        let held = all.entry(self.process).or_default();
        match event {
            PolicyEvent::Process(number) => self.process = number,
            PolicyEvent::Missed { miss, .. } => {
                *self.misses.lock().unwrap() += 1;
                assert!(miss.entry.holds(miss.unit), "{miss:?}");
            }
            PolicyEvent::Entered { tlb, entry } => {
                held.push((tlb, entry));
            }
            PolicyEvent::Left { tlb, entry, .. } => {
                let at = held.iter().position(|&held| held == (tlb, entry));
                held.swap_remove(at.unwrap_or_else(|| panic!("it was not there: {entry:?}")));
            }
            PolicyEvent::Promoted(block) => held.retain(|&(_, entry)| !block.holds(entry)),
            _ => {}
        }
    }

    fn due(&mut self, unit: Superpage) -> Option<Superpage> {
        let orders = (unit.order + 1..u32::BITS as u8).filter(|order| self.orders >> order & 1 == 1);
        let order = orders.take(1).find(|_| self.random.below(8) == 0)?;
        Some(Superpage::around(unit.first, order))
    }
}

/// A system of several processes, whose TLBs hold what its policy has heard after each batch and event.
struct Overheard {
    system: System,
    held: Arc<Mutex<Entries>>,
    processes: u32,
    seed: u64,
}

impl Overheard {
    fn check(&self) {
        for process in 0..self.processes {
            let mut heard = self.held.lock().unwrap().get(&process).cloned().unwrap_or_default();
            let mut held = self.system.watched(Asid::new(process).unwrap());
            heard.sort_unstable();
            held.sort_unstable();
            assert_eq!(heard, held, "process {process} (seed {})", self.seed);
        }
    }

    /// Runs the programs, each in a process of its own, in random turns.
    fn run(&mut self, programs: &[Program], random: &mut Random) {
        let mut done = vec![0; programs.len()];
        while programs.iter().zip(&done).any(|(program, &done)| done < program.ops.len()) {
            let process = random.below(programs.len() as u64) as usize;
            let Program { blocks, ops, .. } = &programs[process];
            let end = (done[process] + 1 + random.below(200) as usize).min(ops.len());
            let ops = ops[done[process]..end].to_vec();
            let thread = ThreadId(1 + random.below(3) as u32);
            done[process] = end;
            self.system.switch_to(Asid::new(process as u32).unwrap());
            self.check();
            feed(self, &Program { thread, blocks: blocks.clone(), ops }, random);
        }
    }
}

impl Analysis for Overheard {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.system.on_batch(batch);
        self.check();
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.system.on_event(at, event);
        self.check();
    }
}

/// A program, maybe with hugetlb memory and references to the kernel's half.
fn program(random: &mut Random) -> Program {
    let mut program = random::program(random, true, &[]);
    if random.below(3) == 0 {
        random::add_hugetlb(random, &mut program);
    }
    let share = random.of(&[0, 0, 0, 1, 3]);
    for op in &mut program.ops {
        if let Op::Run { addresses, .. } = op {
            addresses.iter_mut().filter(|_| random.below(20) < share).for_each(|address| *address |= 1 << 56);
        }
    }
    program
}

/// A memory that the programs may fill, or none.
fn memory(random: &mut Random, kernel: Kernel) -> Kernel {
    if random.below(3) == 0 {
        return kernel;
    }
    let frames = random.of(&[64, 600, 4096]);
    let rules = MemoryRules {
        compact: random.below(2) == 0,
        migration_cycles: 7,
        swap_cycles: 11,
        when_full: FullMemoryAction::Swap,
    };
    kernel.with_memory(Buddy::new(frames, 10), rules)
}

/// Walks that the policy heard of.
fn misses(seed: u64, machine: impl Fn(&mut Random) -> MachineSpec) -> u64 {
    let mut random = Random::new(seed);
    let mut machine = machine(&mut random);
    machine.asids = random.of(&[0, 1, 2, 3, 8]);
    if machine.data_side.is_some() {
        for tlb in machine.tlbs.iter_mut().filter(|tlb| tlb.level == 2) {
            tlb.shared = random.below(2) == 0;
        }
    }
    let programs: Vec<Program> = (0..random.of(&[1, 1, 2, 4])).map(|_| program(&mut random)).collect();
    let (held, misses) = (Arc::default(), Arc::default());
    let policy = Listener {
        orders: held_orders(&machine) | 1,
        random: Random::new(seed + 1),
        process: 0,
        held: Arc::clone(&held),
        misses: Arc::clone(&misses),
    };
    let kernel = Kernel::new(machine.paging.base(), Box::new(policy), KernelCosts::ROMER);
    let kernel = memory(&mut random, kernel);
    let spec = DesignSpec::with_kernel("m".to_owned(), &machine, kernel);
    // Some machines cannot be watched: a segment backs memory by itself.
    let Ok(mut system) = System::new(spec, random.of(&[1, 1, 2, 3])) else { return 0 };
    if random.below(2) == 0 {
        system = system.with_global_files();
    }
    let processes = programs.len() as u32;
    Overheard { system, held, processes, seed }.run(&programs, &mut random);
    *misses.lock().unwrap()
}

fn mapped_tables(random: &mut Random) -> MachineSpec {
    software_equals_oracle::machine(random, 0, ("4K", "2M"))
}

fn whole(random: &mut Random) -> MachineSpec {
    let radix = random.below(4) == 0;
    whole_machine(random, 0, radix)
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_data_side_tells_what_it_holds(seed in any::<u64>()) {
        misses(seed, |random| sides::machine(random, 0));
    }

    #[test]
    fn a_whole_machine_tells_what_it_holds(seed in any::<u64>()) {
        misses(seed, whole);
    }

    #[test]
    fn a_machine_with_mapped_tables_tells_what_it_holds(seed in any::<u64>()) {
        misses(seed, mapped_tables);
    }
}

/// Most random machines can be watched, and programs make them miss.
#[test]
fn most_are_heard_of() {
    let of = |machine: &dyn Fn(&mut Random) -> MachineSpec| {
        (0..50).filter(|&seed| misses(seed, machine) > 0).count()
    };
    let heard = [of(&|random| sides::machine(random, 0)), of(&whole), of(&mapped_tables)];
    assert!(heard.iter().all(|&heard| heard > 25), "{heard:?} of 50 machines each");
}
