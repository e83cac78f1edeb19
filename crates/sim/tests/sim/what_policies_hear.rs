//! What a policy hears of the watched TLBs is what they hold, also where an entry maps several pages: random machines,
//! streams and superpages.

use crate::cores_equal_oracle::run;
use crate::kernels_equal_oracle::{config, whole_machine};
use crate::random::{self, Random};
use crate::sides;
use pagewalk_mm::frames::Buddy;
use pagewalk_mm::promotion::{Actions, Policy, PolicyEvent, Rules};
use pagewalk_mm::{FullMemoryAction, Kernel, KernelCosts, MemoryRules, Superpage};
use pagewalk_sim::{DesignSpec, System, held_orders};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::{PageSize, RefIndex};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// Entries, each with the number of its TLB. Pages of two sizes may have entries of one block.
type Entries = Vec<(usize, Superpage)>;

/// Builds some superpages around pages that miss, and follows the entries that it hears of.
#[derive(Clone)]
struct Listener {
    orders: u32,
    random: Random,
    held: Arc<Mutex<Entries>>,
    misses: Arc<Mutex<u64>>,
}

impl Policy for Listener {
    fn rules(&self) -> Rules {
        Rules { watches_tlbs: true, ignores_areas: true, ..Rules::new(self.orders) }
    }

    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn on(&mut self, event: PolicyEvent<'_>, _: &mut Actions) {
        let mut held = self.held.lock().unwrap();
        match event {
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

/// A system, whose TLBs hold what its policy has heard after each batch and event.
struct Overheard {
    system: System,
    held: Arc<Mutex<Entries>>,
    seed: u64,
}

impl Overheard {
    fn check(&self) {
        let mut heard = self.held.lock().unwrap().clone();
        let mut held = self.system.watched(Asid::default());
        heard.sort_unstable();
        held.sort_unstable();
        assert_eq!(heard, held, "seed {}", self.seed);
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

/// Walks that the policy heard of.
fn misses(seed: u64, machine: impl Fn(&mut Random) -> MachineSpec) -> u64 {
    let mut random = Random::new(seed);
    let mut program = random::program(&mut random, true, &[]);
    if random.below(3) == 0 {
        random::add_hugetlb(&mut random, &mut program);
    }
    let machine = machine(&mut random);
    let (held, misses) = (Arc::default(), Arc::default());
    let orders = held_orders(&machine) | 1;
    let policy = Listener {
        orders,
        random: Random::new(seed + 1),
        held: Arc::clone(&held),
        misses: Arc::clone(&misses),
    };
    let mut kernel = Kernel::new(PageSize::FOUR_KIB, Box::new(policy), KernelCosts::ROMER);
    if random.below(3) > 0 {
        let frames = random.of(&[64, 600, 4096]);
        let rules = MemoryRules {
            compact: random.below(2) == 0,
            migration_cycles: 7,
            swap_cycles: 11,
            when_full: FullMemoryAction::Swap,
        };
        kernel = kernel.with_memory(Buddy::new(frames, 10), rules);
    }
    let spec = DesignSpec::with_kernel("m".to_owned(), &machine, kernel);
    // Some machines cannot be watched: a segment backs memory by itself.
    let cores = random.of(&[1, 1, 2, 3]);
    let Ok(system) = System::new(spec, cores) else { return 0 };
    run(&program, cores as u64, &mut Overheard { system, held, seed }, &mut [], &mut random);
    *misses.lock().unwrap()
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_data_side_tells_what_it_holds(seed in any::<u64>()) {
        misses(seed, |random| sides::machine(random, 0));
    }

    #[test]
    fn a_whole_machine_tells_what_it_holds(seed in any::<u64>()) {
        misses(seed, |random| {
            let radix = random.below(4) == 0;
            whole_machine(random, 0, radix)
        });
    }
}

/// Most random machines can be watched, and programs make them miss.
#[test]
fn most_are_heard_of() {
    let of = |machine: &dyn Fn(&mut Random) -> MachineSpec| {
        (0..50).filter(|&seed| misses(seed, machine) > 0).count()
    };
    let heard = [of(&|random| sides::machine(random, 0)), of(&|random| whole_machine(random, 0, false))];
    assert!(heard.iter().all(|&heard| heard > 25), "{heard:?} of 50 machines each");
}
