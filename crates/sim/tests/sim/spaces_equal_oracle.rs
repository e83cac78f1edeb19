//! Several address spaces on one processor against the slow models of `oracle`: all counters, with switches at random
//! places, on machines with and without address-space identifiers, with and without global pages.

use crate::equal;
use crate::random;
use crate::random::{Program, Random};
use crate::siblings::sibling;
use crate::slow::{Slow, feed};
use crate::systems::{Systems, one_mapping};
use pagewalk_mm::{Everything, PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_oracle::{Paging, cases};
use pagewalk_sim::{DesignSpec, NoObserver, Pass, SpaceCounts};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::ThreadId;
use proptest::prelude::*;
use std::sync::Arc;

/// A slow machine with a kernel for each space, and who holds its identifiers.
struct Spaces {
    slow: Slow,
    runs: usize,
    holders: Vec<Option<usize>>,
    next: usize,
}

impl Spaces {
    fn new(machine: &MachineSpec, paging: Paging, spaces: usize, global_files: bool) -> Spaces {
        let slow = Slow::new(machine, paging);
        let parked = vec![slow.kernel.clone(); spaces];
        let slow = Slow { parked, global_files, ..slow };
        // Without identifiers, only the running space has entries.
        let mut holders = vec![None; machine.asids.max(1) as usize];
        holders[0] = Some(0);
        let next = 1 % holders.len();
        Spaces { slow, runs: 0, holders, next }
    }

    fn switch_to(&mut self, space: usize) {
        if space == self.runs {
            return;
        }
        // The running one is replaced by an empty one.
        let Slow { kernel, parked, .. } = &mut self.slow;
        std::mem::swap(kernel, &mut parked[self.runs]);
        std::mem::swap(kernel, &mut parked[space]);
        self.runs = space;
        if !self.holders.contains(&Some(space)) {
            if let Some(loser) = self.holders[self.next] {
                self.slow.machine.flush(loser as u64);
            }
            self.holders[self.next] = Some(space);
            self.next = (self.next + 1) % self.holders.len();
        }
        self.slow.machine.space = space as u64;
    }
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let pages = random::pages(&mut random);
    let spaces = 2 + random.below(3) as usize;
    let libraries = random::libraries(&mut random);
    let programs: Vec<Program> =
        (0..spaces).map(|_| random::program(&mut random, true, &libraries)).collect();
    // Global pages are base pages: not those of `Everything`.
    let global_files = random.below(3) > 0;
    let policies = if global_files { 2 } else { 3 };
    let pagings: [(Paging, Arc<dyn PageSizePolicy>); 3] = [
        (Paging::Small, Arc::new(Small)),
        (Paging::Thp, Arc::new(Thp { mode: ThpMode::Always })),
        (Paging::Everything, Arc::new(Everything)),
    ];
    let (mut specs, mut slows) = (Vec::new(), Vec::new());
    let mut machines: Vec<(MachineSpec, usize)> = Vec::new();
    for index in 0..3 + random.below(3) as usize {
        let (machine, paging) = match index {
            0..3 => {
                let machine = random::machine(&mut random, index, pages);
                let asids = random.below(4) as u32;
                (MachineSpec { asids, ..machine }, random.below(policies) as usize)
            }
            _ => {
                let (first, paging) = machines[random.below(2) as usize].clone();
                let asids = first.asids;
                (MachineSpec { asids, ..sibling(&mut random, index, pages, &first) }, paging)
            }
        };
        machines.push((machine.clone(), paging));
        let (paging, policy) = &pagings[paging];
        let name = format!("{} {paging:?} {} identifiers", machine.name, machine.asids);
        slows.push(Spaces::new(&machine, *paging, spaces, global_files));
        specs.push(DesignSpec { name, ..DesignSpec::new(&machine, Arc::clone(policy)) });
    }
    // The slow models know no policy for one mapping.
    for (machine, _) in &machines[..2] {
        specs.extend(one_mapping(&mut random, machine, spaces as u64));
    }
    let mut systems = Systems::new(&specs, 1);
    let mut pass = Pass::new(specs, NoObserver).unwrap();
    if global_files {
        pass = pass.with_global_files().unwrap();
        systems = systems.with_global_files();
    }
    let mut both = (pass, systems);
    let mut done = vec![0; spaces];
    while (0..spaces).any(|space| done[space] < programs[space].ops.len()) {
        let space = random.below(spaces as u64) as usize;
        let program = &programs[space];
        let end = (done[space] + 1 + random.below(300) as usize).min(program.ops.len());
        let turn = Program {
            thread: ThreadId(1),
            blocks: program.blocks.clone(),
            ops: program.ops[done[space]..end].to_vec(),
        };
        done[space] = end;
        both.0.switch_to(Asid::new(space as u32).unwrap());
        both.1.switch_to(Asid::new(space as u32).unwrap());
        feed(&mut both, &turn, &mut random);
        for slow in &mut slows {
            slow.switch_to(space);
            turn.ops.iter().for_each(|op| slow.slow.op(&turn, op));
        }
    }
    let (mut pass, systems) = both;
    let counts = pass.finish();
    systems.assert_equal(&counts, seed);
    let by_space = pass.space_counts();
    assert_eq!(systems.0[0].space_counts(), by_space, "by process (seed {seed})");
    let mut sum =
        |of: fn(&SpaceCounts) -> u64| pass.space_counts().iter().map(|(_, counts)| of(counts)).sum::<u64>();
    assert_eq!(sum(|space| space.walks_fetch + space.walks_data), counts[0].walks());
    assert_eq!(sum(|space| space.walk_cycles), counts[0].cycles.walk);
    for (fast, slow) in counts.iter().zip(&slows) {
        equal::assert_all_equal(fast, &slow.slow, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(60), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_counter_equals_the_oracles(seed in any::<u64>()) {
        check(seed);
    }
}

/// The last page of a huge page goes while a global page beside it becomes the process's own.
#[test]
fn huge_pages_live_on_with_pages_that_are_no_longer_global() {
    check(14634697768550017456);
}
