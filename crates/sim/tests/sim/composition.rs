//! Arrangements (turns, cores, structures) compose with kernels and machines: equalities that must hold for every
//! combination, on random programs and machines, under every policy of `[os]`.
//!
//! A single process with a kernel runs in a pass, everything else in the system engine, so each equality also compares
//! the two engines.

use crate::random::{self, Op, Program, Random};
use crate::sides;
use crate::slow::feed;
use crate::stream::{LOAD, one_block};
use crate::systems::one_mapping;
use pagewalk_mm::frames::Buddy;
use pagewalk_mm::{FullMemoryAction, MappingId, MemoryRules, OsKernel, OsSpec, Small, ThpMode};
use pagewalk_oracle::cases;
use pagewalk_sim::{
    Arrangement, DataSideTotals, DesignCounts, DesignSpec, FunctionWalks, Library, MappingCounts, PageWalks,
    Profile, ProgramFindings, Simulation, Structures, System, Waits, held_orders,
};
use pagewalk_trace::{Analysis, Event};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::{RefIndex, ThreadId, VirtAddr};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Machines with radix, nested and hashed walkers, memory caches, and handlers with tables in registers or in memory.
const MACHINES: [&str; 6] = ["golden_cove", "zen4", "alpha_21064", "romer_1998", "p550", "mips_r2000"];

/// Kernels with background work, whose threads run while these short programs do.
const AWAKE: [&str; 4] = [
    "hawkeye:sample_millisecs=2,window_millisecs=1,promote_sleep_millisecs=1,instructions_per_millisecond=100",
    "ingens:promote_sleep_millisecs=1,instructions_per_millisecond=100",
    "candidates:promote_sleep_millisecs=1,instructions_per_millisecond=100",
    "linux:khugepaged.scan_sleep_millisecs=1,khugepaged.alloc_sleep_millisecs=1,\
     khugepaged.instructions_per_millisecond=100",
];

/// Every policy that works on a machine, with defaults and awake; `keys` are appended to its name.
pub fn kernels(machine: &MachineSpec, keys: &str) -> Vec<DesignSpec> {
    let design = |name: &str| {
        let keys = if name.contains(':') { keys.replacen(':', ",", 1) } else { keys.to_owned() };
        let built = OsSpec::from_text(&format!("{name}{keys}"))
            .unwrap_or_else(|error| panic!("{name}{keys}: {error}"))
            .build(machine.paging, held_orders(machine))
            .ok()?;
        let OsKernel::Running(kernel) = built else { return None };
        let design = DesignSpec::with_kernel(name.to_owned(), machine, *kernel);
        Simulation::new(vec![design.clone()], &Arrangement::default()).is_ok().then_some(design)
    };
    OsSpec::policies().map(|(name, _)| name).chain(AWAKE).filter_map(design).collect()
}

/// A machine of the library or a random one, with caches of memory or without, or a data side.
fn machine(random: &mut Random) -> MachineSpec {
    match random.below(5) {
        0 | 1 => Library::get(random.of(&MACHINES)).unwrap(),
        2 | 3 => {
            let pages = random::pages(random);
            random::machine(random, 0, pages)
        }
        _ => side(random),
    }
}

fn side(random: &mut Random) -> MachineSpec {
    let machine = sides::machine(random, 0);
    MachineSpec { asids: random.of(&[0, 1, 8]), ..machine }
}

/// A memory that never runs short, one that does, or none.
fn memory(random: &mut Random) -> &'static str {
    random.of(&["", "", ":memory.size=256M", ":memory.size=1M"])
}

/// The machine under the host's kernel, and under all others.
fn designs(random: &mut Random, machine: MachineSpec) -> Vec<DesignSpec> {
    let mut designs = one_mapping(random, &machine, 1).to_vec();
    if !machine.has_huge_pages() || machine.software().is_some() {
        designs.clear();
    }
    designs.extend(kernels(&machine, memory(random)));
    designs
}

fn run(
    designs: &[DesignSpec],
    arrangement: &Arrangement,
    program: &Program,
    random: &mut Random,
) -> Vec<DesignCounts> {
    run_whole(designs, arrangement, program, random).0
}

/// The counts of all designs, and who pays on the first.
fn run_whole(
    designs: &[DesignSpec],
    arrangement: &Arrangement,
    program: &Program,
    random: &mut Random,
) -> (Vec<DesignCounts>, Vec<Payers>) {
    let mut experiment = Simulation::new(designs.to_vec(), arrangement).unwrap().keeping_walks();
    feed(&mut experiment, program, random);
    let counts = experiment.finish();
    let payers = payers(&mut experiment, &counts[0]);
    (counts, payers)
}

/// Who pays in a program.
#[derive(Debug, PartialEq)]
struct Payers {
    process: Asid,
    functions: Vec<FunctionWalks>,
    mappings: BTreeMap<MappingId, MappingCounts>,
    pages: Vec<PageWalks>,
    waits: BTreeMap<(MappingId, VirtAddr), Waits>,
    heat: Vec<(VirtAddr, MappingId, Vec<u64>)>,
}

/// Who pays in each program on the first machine, whose counts these are. Functions, mappings, pages and heat maps each
/// have a program's walks, and its mappings its pages.
fn payers(experiment: &mut Simulation, first: &DesignCounts) -> Vec<Payers> {
    let programs = experiment.program_counts();
    let of = |of: ProgramFindings<'_>| Payers {
        heat: of.heat.rows().collect(),
        process: of.process,
        functions: of.functions,
        mappings: of.mappings,
        pages: of.pages,
        waits: of.waits,
    };
    let all: Vec<Payers> = experiment.programs().into_iter().map(of).collect();
    let was_killed = first.kernel.as_ref().is_some_and(|kernel| kernel.killed.is_some());
    if was_killed || all.is_empty() {
        assert!(was_killed || first.data_side.is_some() || first.walks() == 0);
        return all;
    }
    assert!(all.iter().map(|of| of.process).eq(programs.iter().map(|&(process, _)| process)));
    for (of, (_, counts)) in all.iter().zip(&programs) {
        let walks = [counts.walks_fetch, counts.walks_data];
        let sum = |one: fn(&FunctionWalks) -> u64| of.functions.iter().map(one).sum::<u64>();
        assert_eq!([sum(|one| one.walks_fetch), sum(|one| one.walks_data)], walks);
        assert_eq!(sum(|one| one.walk_cycles), counts.walk_cycles);
        let sum = |one: fn(&MappingCounts) -> u64| of.mappings.values().map(one).sum::<u64>();
        assert_eq!([sum(|one| one.walks_fetch), sum(|one| one.walks_data)], walks);
        assert_eq!(sum(|one| one.walk_cycles), counts.walk_cycles);
        // Data sides that share an engine do not count pages.
        if first.data_side.is_none() {
            assert_eq!(sum(|one| one.pages_touched), counts.pages_touched);
        }
        let sum = |one: fn(&PageWalks) -> u64| of.pages.iter().map(one).sum::<u64>();
        assert_eq!([sum(|one| one.walks_fetch), sum(|one| one.walks_data)], walks);
        assert_eq!(of.heat.iter().flat_map(|(_, _, row)| row).sum::<u64>(), walks.iter().sum::<u64>());
    }
    all
}

fn program(random: &mut Random) -> Program {
    let mut program = random::program(random, true, &[]);
    if random.below(3) == 0 {
        random::add_hugetlb(random, &mut program);
    }
    program
}

/// One process in turns is that process; one core is no cores; threads that all run on the first of several are those
/// of one; a structure that nothing calls is none.
fn check_alone(seed: u64, machine: fn(&mut Random) -> MachineSpec) {
    let mut random = Random::new(seed);
    let machine = machine(&mut random);
    let designs = designs(&mut random, machine);
    if designs.is_empty() {
        return;
    }
    let program = program(&mut random);
    let (alone, own_payers) = run_whole(&designs, &Arrangement::default(), &program, &mut random);
    // Programs here make no calls, and end before its clock ticks.
    let quiet = Structures::get("mach3").unwrap();
    assert!(alone[0].instructions < quiet.kernel.tick_instructions);
    for (what, arrangement) in [
        ("in turns", Arrangement { turns: true, ..Arrangement::default() }),
        ("on one core", Arrangement { cores: 1, ..Arrangement::default() }),
        ("on the first of three", Arrangement { cores: 3, ..Arrangement::default() }),
        ("in a quiet structure", Arrangement { structure: Some(quiet), ..Arrangement::default() }),
    ] {
        let (found, payers) = run_whole(&designs, &arrangement, &program, &mut random);
        for (design, (found, alone)) in designs.iter().zip(found.iter().zip(&alone)) {
            assert_eq!(found, alone, "{} {what}, seed {seed}", design.name);
        }
        assert!(payers == own_payers, "{} {what}, seed {seed}", designs[0].name);
    }
}

/// Two programs in turns of random lengths, to their ends.
fn for_turns(
    programs: &[Program; 2],
    random: &mut Random,
    mut take: impl FnMut(usize, &Program, &mut Random),
) {
    let mut done = [0, 0];
    while (0..2).any(|space| done[space] < programs[space].ops.len()) {
        let space = random.below(2) as usize;
        let Program { thread, blocks, ops } = &programs[space];
        let end = (done[space] + 1 + random.below(200) as usize).min(ops.len());
        let turn = Program { thread: *thread, blocks: blocks.clone(), ops: ops[done[space]..end].to_vec() };
        done[space] = end;
        take(space, &turn, random);
    }
}

/// The same with its kernel, if it has one of its own, on so many frames.
fn on_memory(design: DesignSpec, frames: u64) -> DesignSpec {
    let rules = MemoryRules {
        compact: true,
        migration_cycles: 7,
        swap_cycles: 11,
        when_full: FullMemoryAction::Swap,
    };
    let kernel = design.kernel.map(|kernel| kernel.with_memory(Buddy::new(frames, 4), rules));
    DesignSpec { kernel, ..design }
}

/// An engine that counts repetitions without lookups gives the same counts as one that looks up everything: two
/// processes in turns, on one or two cores.
fn check_repetitions(seed: u64) {
    let mut random = Random::new(seed);
    let cores = 1 + random.below(2) as usize;
    let shares_files = random.below(2) == 0;
    let frames = Some(40 + random.below(200)).filter(|_| random.below(2) == 0);
    let machine = machine(&mut random);
    let designs = designs(&mut random, machine);
    let programs = [program(&mut random), program(&mut random)];
    for design in designs {
        let design = match frames {
            Some(frames) => on_memory(design, frames),
            None => design,
        };
        let counted = |is_slow: bool| {
            let mut system = System::new(design.clone(), cores).unwrap();
            if shares_files {
                system = system.with_global_files();
            }
            if is_slow {
                system = system.with_every_lookup();
            }
            let mut random = Random::new(seed);
            for_turns(&programs, &mut random, |space, turn, random| {
                system.switch_to(Asid::new(space as u32).unwrap());
                feed(&mut system, turn, random);
            });
            (system.counts(), system.space_counts())
        };
        let (counts, by_space) = counted(false);
        // Hugetlb memory is reserved apart.
        let reserves = |program: &Program| program.ops.iter().any(|op| matches!(op, Op::MapHuge { .. }));
        let frames = frames.filter(|_| !programs.iter().any(reserves));
        if let (Some(kernel), Some(frames)) = (&counts.kernel, frames) {
            let memory = frames * design.machine.paging.base().bytes();
            let used = kernel.counts.backed_bytes_peak;
            assert!(used <= memory, "{used} of {memory} bytes, {}, seed {seed}", design.name);
        }
        assert_eq!((counts, by_space), counted(true), "{} on {cores} cores, seed {seed}", design.name);
    }
}

/// Two processes that take turns with an identifier each do not disturb each other's kernels: what kernels did is the
/// sum of what they did alone, and no array hits more than alone.
fn check_turns(seed: u64) {
    let mut random = Random::new(seed);
    let machine = machine(&mut random);
    let designs: Vec<DesignSpec> =
        designs(&mut random, machine).into_iter().filter(|design| design.kernel.is_some()).collect();
    if designs.is_empty() {
        return;
    }
    let programs = [program(&mut random), program(&mut random)];
    let alone: Vec<Vec<DesignCounts>> =
        programs.iter().map(|program| run(&designs, &Arrangement::default(), program, &mut random)).collect();
    let arrangement =
        Arrangement { turns: true, global_files: random.below(2) == 0, ..Arrangement::default() };
    let simulation = || Simulation::new(designs.clone(), &arrangement).unwrap().keeping_walks();
    let (mut experiment, mut held) = (simulation(), simulation().on_threads(2, 100));
    let mut done = [0, 0];
    while (0..2).any(|space| done[space] < programs[space].ops.len()) {
        let space = random.below(2) as usize;
        let Program { blocks, ops, .. } = &programs[space];
        let end = (done[space] + 1 + random.below(200) as usize).min(ops.len());
        let turn =
            Program { thread: ThreadId(1), blocks: blocks.clone(), ops: ops[done[space]..end].to_vec() };
        done[space] = end;
        for simulation in [&mut experiment, &mut held] {
            simulation.switch_to(Asid::new(space as u32).unwrap());
            feed(simulation, &turn, &mut random);
        }
    }
    let counts = experiment.finish();
    assert_eq!((held.finish(), held.program_counts()), (counts.clone(), experiment.program_counts()));
    assert_eq!(payers(&mut held, &counts[0]), payers(&mut experiment, &counts[0]), "seed {seed}");
    for (at, both) in counts.iter().enumerate() {
        let [a, b] = [&alone[0][at], &alone[1][at]];
        let name = format!("{}, seed {seed}", designs[at].name);
        let sum = |of: fn(&DesignCounts) -> u64| of(a) + of(b);
        assert_eq!(both.instructions, sum(|one| one.instructions), "{name}");
        assert_eq!(both.pages_touched, sum(|one| one.pages_touched), "{name}");
        assert_eq!(both.data_references, sum(|one| one.data_references), "{name}");
    }
}

/// Designs of machines with any pages count together as each does alone, in any arrangement, on any threads.
fn check_together(seed: u64) {
    let mut random = Random::new(seed);
    let arrangement = Arrangement {
        turns: random.below(2) == 0,
        cores: 1 + random.below(3) as usize,
        global_files: random.below(2) == 0,
        structure: (random.below(3) == 0).then(|| Structures::get("mach3").unwrap()),
    };
    let mut all = Vec::new();
    for _ in 0..3 {
        let machine = machine(&mut random);
        all.extend(designs(&mut random, machine));
    }
    let some: Vec<DesignSpec> =
        (0..all.len().min(8)).map(|_| all[random.below(all.len() as u64) as usize].clone()).collect();
    if some.is_empty() {
        return;
    }
    let program = program(&mut random);
    let mut simulation = Simulation::new(some.clone(), &arrangement).unwrap().keeping_walks();
    if random.below(2) == 0 {
        simulation = simulation.on_threads(2, 1 + random.below(500) as usize);
    }
    feed(&mut simulation, &program, &mut random);
    let together = simulation.finish();
    payers(&mut simulation, &together[0]);
    for (design, found) in some.iter().zip(&together) {
        let alone = run(std::slice::from_ref(design), &arrangement, &program, &mut random);
        assert_eq!(found, &alone[0], "{} on {}, seed {seed}", design.name, design.machine.name);
    }
}

/// A program that loads from pages of an area, one after the other.
fn loads(pages: impl Iterator<Item = u64>) -> Program {
    const AREA: u64 = 1 << 20;
    let (blocks, block) = one_block(0x1000, &[LOAD]);
    let run = |page: u64| Op::Run { block, addresses: vec![(AREA + page) << 12] };
    let map = Op::Map { start: AREA, pages: 64, anonymous: true };
    Program { thread: ThreadId(1), blocks, ops: std::iter::once(map).chain(pages.map(run)).collect() }
}

/// Pages in the kernel's half belong to all processes; each calls their mappings by its own names.
#[test]
fn pages_of_the_kernel_have_each_programs_own_mapping() {
    let high = 1 << (VirtAddr::BITS - 1 - 12);
    let touching = |maps: &[u64], pages: &[u64]| {
        let mut program = loads(pages.iter().copied());
        let map = |&start: &u64| Op::Map { start, pages: 1, anonymous: true };
        program.ops.splice(0..1, maps.iter().map(map));
        program
    };
    // `loads` counts pages from its area on.
    let area = 1 << 20;
    let one = touching(&[area, area + 8, area + 16, high], &[0, 8, high - area]);
    let other = touching(&[high], &[high - area, high - area]);
    let machine = Library::get("skylake_sp").unwrap();
    let turns = Arrangement { turns: true, ..Arrangement::default() };
    let design = DesignSpec::new(&machine, Arc::new(Small));
    let mut experiment = Simulation::new(vec![design], &turns).unwrap().keeping_walks();
    let mut random = Random::new(1);
    for (space, program) in [(0, &one), (1, &other)] {
        experiment.switch_to(Asid::new(space).unwrap());
        feed(&mut experiment, program, &mut random);
    }
    experiment.finish();
    for of in experiment.programs() {
        let known = of.space.mappings().count() as u32;
        assert!(of.mappings.keys().chain(of.pages.iter().map(|page| &page.mapping)).all(|id| id.0 < known));
    }
    // Alone, its references have their mappings.
    let mut profile = Profile::new(&[machine], ThpMode::Never, false).unwrap();
    feed(&mut profile, &one, &mut random);
    let mappings = profile.finish().mappings();
    assert_eq!(mappings.values().map(|counts| counts.references_data).sum::<u64>(), 3);
}

/// Processes in turns share a memory. What one process takes from another is gone from the TLBs, too: where these are
/// larger than the memory, pages are walked for when they are touched first, or have been swapped out.
#[test]
fn what_one_process_takes_the_others_walk_for_again() {
    let machine = Library::get("golden_cove").unwrap();
    let fixed = kernels(&machine, "").into_iter().find(|design| design.name == "fixed").unwrap();
    let mut random = Random::new(1);
    let programs = [(); 2].map(|()| loads((0..1000).map(|_| random.below(8))));
    let run = |design: DesignSpec| {
        let turns = Arrangement { turns: true, ..Arrangement::default() };
        let mut experiment = Simulation::new(vec![design], &turns).unwrap();
        for_turns(&programs, &mut Random::new(2), |space, turn, random| {
            experiment.switch_to(Asid::new(space as u32).unwrap());
            feed(&mut experiment, turn, random);
        });
        experiment.finish().remove(0)
    };
    let pages = 2 * (8 + 1);
    for frames in [pages, pages - 1, pages / 2] {
        let found = run(on_memory(fixed.clone(), frames));
        let kernel = found.kernel.unwrap();
        let [ins, outs] = [kernel.counts.swap_ins, kernel.counts.swap_outs];
        assert_eq!((found.pages_touched, found.walks()), (pages, pages + ins), "{frames} frames");
        assert_eq!(outs - ins, pages - frames);
        assert_eq!(ins > 0, frames < pages, "{frames} frames: {ins} swapped in");
        let memory = kernel.memory.unwrap();
        assert_eq!((memory.frames, memory.free), (frames, 0));
    }
}

/// A data side meets the same pages under a kernel that builds no superpages as under a host that gives base pages.
fn check_base_pages(seed: u64) {
    let mut random = Random::new(seed);
    let machine = side(&mut random);
    let program = random::program(&mut random, true, &[]);
    let kernel = OsSpec::from_text("fixed").unwrap().build(machine.paging, held_orders(&machine)).unwrap();
    let OsKernel::Running(kernel) = kernel else { unreachable!() };
    let host = DesignSpec::new(&machine, Arc::new(Small));
    let own = DesignSpec::with_kernel("fixed".to_owned(), &machine, *kernel);
    let counts = run(&[host, own], &Arrangement::default(), &program, &mut random);
    let of = |at: usize| DataSideTotals { collapses: None, ..*counts[at].data_side.clone().unwrap() };
    assert_eq!(of(1), of(0), "seed {seed}");
    assert_eq!(counts[1].cycles, counts[0].cycles, "seed {seed}");
}

/// A process that ends gives its frames back while others run; the last one keeps them, as one that is alone does.
#[test]
fn what_a_process_had_is_free_when_it_has_ended() {
    for event in [Event::Exit { status: 0 }, Event::Replaced] {
        check_end(&event);
    }
}

fn check_end(event: &Event) {
    let machine = Library::get("golden_cove").unwrap();
    let fixed = kernels(&machine, "").into_iter().find(|design| design.name == "fixed").unwrap();
    let turns = Arrangement { turns: true, ..Arrangement::default() };
    let mut experiment = Simulation::new(vec![on_memory(fixed, 40)], &turns).unwrap();
    let mut free = Vec::new();
    for space in 0..2 {
        experiment.switch_to(Asid::new(space).unwrap());
        feed(&mut experiment, &loads(0..8), &mut Random::new(1));
    }
    for space in [None, Some(0), Some(1)] {
        if let Some(space) = space {
            experiment.switch_to(Asid::new(space).unwrap());
            experiment.on_event(RefIndex(0), event);
        }
        free.push(experiment.finish()[0].kernel.unwrap().memory.unwrap().free);
    }
    // Eight pages of data and one of code each.
    assert_eq!(free, [40 - 18, 40 - 9, 40 - 9]);
}

/// The kernel's work reaches the TLBs of all cores: two cores that run the same thing by turns walk for whatever was
/// unmapped, whoever unmapped it.
#[test]
fn what_one_core_unmaps_the_others_forget() {
    let machine = Library::get("golden_cove").unwrap();
    let designs = kernels(&machine, "");
    assert!(designs.len() >= 8, "{}", designs.len());
    let mut random = Random::new(1);
    let first = random::program(&mut random, false, &[]);
    let touch = |thread: u32| {
        let ops = first.ops.iter().filter(|op| matches!(op, Op::Run { .. })).take(1).cloned().collect();
        Program { thread: ThreadId(thread), blocks: first.blocks.clone(), ops }
    };
    let maps = Program {
        thread: ThreadId(1),
        blocks: first.blocks.clone(),
        ops: first.ops.iter().filter(|op| !matches!(op, Op::Run { .. })).cloned().collect(),
    };
    let walks = |drops: bool| {
        let arrangement = Arrangement { cores: 2, ..Arrangement::default() };
        let mut experiment = Simulation::new(designs.clone(), &arrangement).unwrap();
        feed(&mut experiment, &maps, &mut Random::new(2));
        for thread in [1, 2] {
            feed(&mut experiment, &touch(thread), &mut Random::new(2));
        }
        let all = Event::Advise { start: pagewalk_units::VirtAddr(0), bytes: 1 << 47, advice: 4 };
        if drops {
            experiment.on_event(RefIndex(0), &all);
        }
        let before: Vec<u64> = experiment.core_counts(1).iter().map(DesignCounts::walks).collect();
        feed(&mut experiment, &touch(2), &mut Random::new(2));
        let after = experiment.core_counts(1);
        after.iter().zip(before).map(|(after, before)| after.walks() - before).collect::<Vec<u64>>()
    };
    assert!(walks(false).iter().all(|&walks| walks == 0), "{:?}", walks(false));
    assert!(walks(true).iter().all(|&walks| walks > 0), "{:?}", walks(true));
}

/// Processes of one thread each that take turns on as many cores do not disturb each other: each walks as alone, though
/// its machine has no identifiers.
#[test]
fn who_has_a_core_for_itself_keeps_its_tlbs() {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let name = if seed % 2 == 0 { "zen4" } else { "karakostas_thp" };
        let machine = MachineSpec { asids: 0, ..Library::get(name).unwrap() };
        let designs = kernels(&machine, "");
        let programs = [0, 1].map(|thread| Program { thread: ThreadId(thread), ..program(&mut random) });
        let alone =
            programs.each_ref().map(|program| run(&designs, &Arrangement::default(), program, &mut random));
        let arrangement = Arrangement { turns: true, cores: 2, ..Arrangement::default() };
        let mut experiment = Simulation::new(designs.clone(), &arrangement).unwrap();
        for_turns(&programs, &mut random, |space, turn, random| {
            experiment.switch_to(Asid::new(space as u32).unwrap());
            feed(&mut experiment, turn, random);
        });
        for (at, design) in designs.iter().enumerate() {
            // Time in turns is that of both, so what kernels do in the background comes earlier.
            if ["fixed", "asap", "asap-4-64", "approx-online", "online"].contains(&design.name.as_str()) {
                // Who comes first has the first core.
                let mut walks = [0, 1].map(|core| experiment.core_counts(core)[at].walks());
                let mut expected = alone.each_ref().map(|alone| alone[at].walks());
                walks.sort_unstable();
                expected.sort_unstable();
                assert_eq!(walks, expected, "{}, seed {seed}", design.name);
            }
        }
    }
}

/// A throttle that never triggers changes nothing, for any policy.
fn check_throttled(seed: u64) {
    let mut random = Random::new(seed);
    let machine = machine(&mut random);
    let memory = memory(&mut random);
    let never = if memory.is_empty() { ":throttle.window=1000000000" } else { ",throttle.window=1000000000" };
    let throttled = kernels(&machine, &format!("{memory}{never}"));
    let mut plain = kernels(&machine, memory);
    plain.retain(|plain| throttled.iter().any(|throttled| throttled.name == plain.name));
    if plain.is_empty() {
        return;
    }
    let program = program(&mut random);
    let arrangement = Arrangement::default();
    let [plain, throttled] =
        [plain, throttled].map(|designs| run(&designs, &arrangement, &program, &mut Random::new(seed)));
    assert_eq!(throttled, plain, "{memory} on {machine:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(25), failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default()
    })]

    #[test]
    fn a_throttle_that_never_looks_changes_nothing(seed: u64) {
        check_throttled(seed);
    }

    #[test]
    fn what_is_alone_counts_as_alone(seed in any::<u64>()) {
        check_alone(seed, machine);
    }

    #[test]
    fn data_sides_that_are_alone_count_as_alone(seed in any::<u64>()) {
        check_alone(seed, side);
    }

    #[test]
    fn a_kernel_without_superpages_is_the_hosts_with_base_pages(seed in any::<u64>()) {
        check_base_pages(seed);
    }

    #[test]
    fn repetitions_need_no_lookup(seed in any::<u64>()) {
        check_repetitions(seed);
    }

    #[test]
    fn machines_of_any_pages_count_as_alone(seed in any::<u64>()) {
        check_together(seed);
    }

    #[test]
    fn turns_lose_nothing(seed in any::<u64>()) {
        check_turns(seed);
    }
}
