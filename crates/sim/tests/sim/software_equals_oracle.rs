//! Software-managed TLBs whose page tables are mapped, against the slow model of `oracle`: every class, on random
//! machines, beside others, and streams with unmaps, kernel pages and several address spaces.

use crate::equal;
use crate::random;
use crate::random::{Op, Pages, Program, Random};
use crate::slow::{Slow, feed};
use crate::systems::Systems;
use pagewalk_mm::Small;
use pagewalk_oracle::{Paging, cases};
use pagewalk_sim::{DesignSpec, NoObserver, Pass};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::ThreadId;
use proptest::prelude::*;
use std::sync::Arc;

/// A machine; small, so that a short stream fills it.
pub fn machine(random: &mut Random, index: usize, (base, huge): Pages) -> MachineSpec {
    let ways = random.of(&[None, None, Some(1), Some(2), Some(4)]);
    let slots = random.of(&[8, 16, 32, 64]);
    let placement = random.of(&["a", "b", "c", "d"]);
    let multiple = ways.unwrap_or(1);
    let lower = if placement == "d" { 0 } else { multiple * (1 + random.below(slots / multiple - 1)) };
    let replacement = |random: &mut Random, key: &str, seed: &str| match random.below(2) {
        0 => format!("{key} = \"fifo\"\n"),
        _ => format!("{key} = \"random\"\n{seed} = {}\n", random.below(9)),
    };
    let mut text = format!("schema = 1\nname = \"m{index}\"\nasids = {}\n", random.below(4));
    text += "[[tlb]]\nname = \"tlb\"\nlevel = 1\nserves = [\"fetch\", \"load\", \"store\"]\n";
    text += &format!("page_sizes = [\"{base}\"]\n");
    text += &format!("entries = {slots}\n");
    text += &ways.map_or(String::new(), |ways| format!("ways = {ways}\n"));
    text += &replacement(random, "replacement", "seed");
    text += &format!("[paging]\nbase = \"{base}\"\nhuge = \"{huge}\"\n");
    text += &format!(
        "[walker]\nkind = \"software\"\n[walker.mapped]\nplacement = \"{placement}\"\nlower = {lower}\n"
    );
    text += &replacement(random, "lower_replacement", "lower_seed");
    text += &format!("entry_bytes = {}\n", random.of(&[4, 8, 1024, 2048]));
    if placement != "d" && ways.is_none() && random.below(2) == 0 {
        let least = 1 + random.below(lower);
        let most = lower + random.below(slots - lower);
        text += &format!(
            "[walker.mapped.tuning]\nperiod = {}\nstep = {}\nthreshold = {}\nlower_min = {least}\nlower_max = {most}\n\
             objective = \"{}\"\nprobe_after = {}\n",
            1 + random.below(30),
            1 + random.below(3),
            random.of(&["0.0", "0.03", "0.3"]),
            random.of(&["instructions", "misses"]),
            random.below(4)
        );
    }
    let (tables, modify) = (1 + random.below(3), random.below(3) > 0);
    text += &format!("[walker.mapped.systems.one]\ntables = {tables}\nmodify = {modify}\n");
    text += "cycles = { l1u = 20, l1k = 294, l2 = 407, l3 = 286, modify = 499, invalid = 267 }\n[cost]\n";
    MachineSpec::from_toml("test", &text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

/// Some of its data references are to pages of the kernel instead.
fn with_kernel(random: &mut Random, mut program: Program) -> Program {
    let share = random.below(8);
    for op in &mut program.ops {
        if let Op::Run { addresses, .. } = op {
            addresses.iter_mut().filter(|_| random.below(20) < share).for_each(|address| *address |= 1 << 56);
        }
    }
    program
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let spaces = 1 + random.below(3) as usize;
    let pages = random::pages(&mut random);
    let libraries = random::libraries(&mut random);
    let programs: Vec<Program> = (0..spaces)
        .map(|_| {
            let program = random::program(&mut random, true, &libraries);
            with_kernel(&mut random, program)
        })
        .collect();
    let mut machines: Vec<MachineSpec> =
        (0..1 + random.below(4) as usize).map(|index| machine(&mut random, index, pages)).collect();
    let others = random.below(2) as usize;
    machines.extend((0..others).map(|index| {
        let asids = random.below(4) as u32;
        MachineSpec { asids, ..random::machine(&mut random, 9 + index, pages) }
    }));
    let mut slows: Vec<Slow> = machines.iter().map(|machine| Slow::new(machine, Paging::Small)).collect();
    for slow in &mut slows {
        slow.parked = vec![slow.kernel.clone(); spaces];
    }
    let mut holders: Vec<Vec<Option<usize>>> =
        machines.iter().map(|machine| vec![None; machine.asids.max(1) as usize]).collect();
    holders.iter_mut().for_each(|holders| holders[0] = Some(0));
    let mut next: Vec<usize> = holders.iter().map(|holders| 1 % holders.len()).collect();
    let specs: Vec<DesignSpec> =
        machines.iter().map(|machine| DesignSpec::new(machine, Arc::new(Small))).collect();
    let systems = Systems::new(&specs, 1);
    let mut both = (Pass::new(specs, NoObserver).unwrap(), systems);
    let (mut done, mut runs) = (vec![0; spaces], 0);
    while (0..spaces).any(|space| done[space] < programs[space].ops.len()) {
        let space = random.below(spaces as u64) as usize;
        let program = &programs[space];
        let end = (done[space] + 1 + random.below(300) as usize).min(program.ops.len());
        let ops = program.ops[done[space]..end].to_vec();
        let turn = Program { thread: ThreadId(1), blocks: program.blocks.clone(), ops };
        done[space] = end;
        both.0.switch_to(Asid::new(space as u32).unwrap());
        both.1.switch_to(Asid::new(space as u32).unwrap());
        feed(&mut both, &turn, &mut random);
        for ((slow, holders), next) in slows.iter_mut().zip(&mut holders).zip(&mut next) {
            if space != runs {
                std::mem::swap(&mut slow.kernel, &mut slow.parked[runs]);
                std::mem::swap(&mut slow.kernel, &mut slow.parked[space]);
                if !holders.contains(&Some(space)) {
                    if let Some(loser) = holders[*next] {
                        slow.machine.flush(loser as u64);
                    }
                    holders[*next] = Some(space);
                    *next = (*next + 1) % holders.len();
                }
                slow.machine.space = space as u64;
            }
            turn.ops.iter().for_each(|op| slow.op(&turn, op));
        }
        runs = space;
    }
    let (mut pass, systems) = both;
    systems.assert_equal(&pass.finish(), seed);
    for ((fast, slow), machine) in pass.finish().iter().zip(&slows).zip(&machines) {
        let Some(software) = &fast.software else {
            equal::assert_all_equal(fast, slow, seed);
            continue;
        };
        let expected = slow.machine.software.as_ref().unwrap();
        let mut misses = expected.misses;
        if !machine.software().unwrap().system.modify {
            misses[pagewalk_oracle::software::MODIFY] = 0;
        }
        assert_eq!(software.counts.misses, misses, "{} (seed {seed})", fast.name);
        let cycles: [u64; 6] = std::array::from_fn(|class| misses[class] * expected.cycles[class]);
        assert_eq!(software.counts.cycles, cycles, "cycles of {} (seed {seed})", fast.name);
        assert_eq!(software.lower as usize, expected.lower, "partition of {} (seed {seed})", fast.name);
        let counts = &slow.machine.counts;
        let found = (fast.walks_fetch, fast.walks_data, fast.walk_references, fast.cycles.walk);
        let walks = (counts.walks_fetch, counts.walks_data, counts.walk_references, counts.walk_cycles);
        assert_eq!(found, walks, "walks of {} (seed {seed})", fast.name);
        let array = &slow.machine.arrays[0];
        assert_eq!(
            (fast.arrays[0].lookups, fast.arrays[0].hits),
            (array.lookups, array.hits),
            "(seed {seed})"
        );
        assert_eq!(fast.level_misses, [array.lookups - array.hits]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(120), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_class_equals_the_oracles(seed in any::<u64>()) {
        check(seed);
    }
}
