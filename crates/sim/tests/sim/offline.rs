//! Compares OFFLINE with policies that do not know the future, on random small programs: it is greedy, but so close to
//! the optimum that hardly any policy is better. In arrangements, equalities hold.

use crate::random::Random;
use crate::stream::{Stream, cost};
use pagewalk_mm::promotion::{
    ApproxOnline, Asap, AsapShare, BreakEven, ChoicesPerReplay, ChosenSuperpages, Fixed, OfflineSettings,
    Online, Policy,
};
use pagewalk_mm::{Kernel, KernelCosts, Superpage};
use pagewalk_oracle::cases;
use pagewalk_sim::{Arrangement, DesignSpec, OfflineResult, Replay, Simulation, Structures, offline};
use pagewalk_trace::{Interleave, Turns};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::PageSize;
use std::convert::Infallible;

/// Largest order of superpages.
const TOP: u8 = 6;

fn machine(entries: u64) -> MachineSpec {
    let sizes = r#"["4K", "8K", "16K", "32K", "64K", "128K", "256K"]"#;
    let tlb = |name, serves| {
        format!(
            "[[tlb]]\nname = \"{name}\"\nlevel = 1\nserves = [{serves}]\npage_sizes = {sizes}\nentries = {entries}\n"
        )
    };
    let text = format!(
        "schema = 1\nname = \"small\"\n{}{}[walker]\nkind = \"software\"\nrefill_cycles = 30\n[cost]\nl2_hit = 0\n\
         [paging]\nbase = \"4K\"\nhuge = \"256K\"\n",
        tlb("itlb", "\"fetch\""),
        tlb("dtlb", "\"load\", \"store\"")
    );
    MachineSpec::from_toml("small.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Phases, each with a working set and a way through it.
fn program(random: &mut Random) -> Stream {
    let memory = random.of(&[32, 128, 512]);
    let mut pages = Vec::new();
    for _ in 0..1 + random.below(5) {
        let most = random.of(&[8, 40, 200]).min(memory);
        let set = 1 + random.below(most);
        let first = random.below(memory - set + 1);
        let longest = random.of(&[1, 2, 9, 70]);
        let stride = 1 + random.below(longest);
        let way = random.below(3);
        let most = random.of(&[100, 1000, 4000]);
        for n in 0..random.below(most) {
            pages.push(match way {
                0 => first + n * stride % set,
                1 => first + random.below(set),
                // Mostly a few pages of it.
                _ if random.below(4) > 0 => first + random.below(4) * stride % set,
                _ => first + random.below(set),
            });
        }
    }
    let growth = random.of(&[0, 0, 5, 33, 64]);
    Stream { growth, ..Stream::new(pages) }
}

/// Why `better` is better than OFFLINE's choice.
fn explain(
    stream: &Stream,
    machine: &MachineSpec,
    costs: KernelCosts,
    (offline, online): (u64, u64),
    built: &[Superpage],
) -> String {
    let orders = (2 << TOP) - 2;
    let from_the_start = cost(&stream.under(
        machine,
        Box::new(ChosenSuperpages::new(orders, built.iter().map(|&block| (0, block)))),
        costs,
    ));
    match from_the_start {
        cost if cost <= online => format!(
            "the same {} superpages from the start cost {cost}, against {offline}: they pay together, and none of them \
             that would have had to come first pays alone, or it did and stood in the way",
            built.len()
        ),
        cost => format!(
            "the same {} superpages from the start cost {cost}: it was better to build them late, where what they \
             had replaced before was of use",
            built.len()
        ),
    }
}

/// The number of random programs in which some policy is better than OFFLINE.
fn compare(take: ChoicesPerReplay) {
    let (mut worse, mut chosen, all) = (0, 0, cases(400));
    for seed in 0..u64::from(all) {
        let mut random = Random::new(seed);
        let machine = machine(random.of(&[2, 4, 8, 16]));
        let stream = program(&mut random);
        let copy_per_kib = random.of(&[2, 10, 40, 200]);
        let costs = KernelCosts { copy_per_kib, ..KernelCosts::ROMER };
        let settings = OfflineSettings { costs, take, ..OfflineSettings::default() };
        let result = stream.offline(&machine, &settings);
        let least = cost(&result.counts);
        chosen += u32::from(!result.blocks.is_empty());
        let replays = result.replays.iter().map(|replay| replay.cycles);
        assert_eq!(replays.min(), Some(least), "seed {seed}");
        let prices = BreakEven { base: PageSize::FOUR_KIB, copy_per_kib, miss_cycles: 30 };
        let share = random.of(&[0.125, 0.5, 1.0]);
        let policies: [(&str, Box<dyn Policy>); 5] = [
            ("FIXED 4K", Box::new(Fixed { order: 0 })),
            ("ASAP", Box::new(Asap::new(TOP))),
            ("ASAP-4-64", Box::new(AsapShare { order: 4, pages: 8 })),
            ("APPROX-ONLINE", Box::new(ApproxOnline::new(TOP, &prices, share, 100))),
            ("ONLINE", Box::new(Online::new(TOP, &prices, share, 5.0 * share, 2570))),
        ];
        let mut is_worse = false;
        for (name, policy) in policies {
            let (found, built) = stream.under_and_built(&machine, policy, costs);
            let online = cost(&found);
            if online < least {
                is_worse = true;
                let why = explain(&stream, &machine, costs, (least, online), &built);
                println!("seed {seed}: {name} costs {online}, OFFLINE {least}: {why}");
            }
        }
        worse += u32::from(is_worse);
    }
    println!(
        "{take:?}: OFFLINE was above some policy in {worse} of {all} programs; it built superpages in {chosen}"
    );
    assert!(chosen * 2 > all, "programs that superpages help");
    assert!(worse * 100 <= all, "{worse} of {all}");
}

#[test]
fn hardly_any_policy_is_better_than_offline_block_by_block() {
    compare(ChoicesPerReplay::One);
}

#[test]
fn hardly_any_policy_is_better_than_offline_many_blocks_at_a_time() {
    compare(OfflineSettings::default().take);
}

/// Plays streams in turns of `quantum` instructions; one stream without.
fn play(streams: &[Stream], quantum: u64, to: &mut Simulation) {
    let readers = streams.iter().map(Stream::open).collect();
    let mut all = Interleave::new(readers, Turns::of(quantum));
    let mut runs = None;
    while let Some((stream, item)) = all.next_item().unwrap_or_else(|(_, error)| panic!("{error}")) {
        if streams.len() > 1 && runs != Some(stream) {
            to.switch_to(Asid::new(stream as u32).unwrap());
            runs = Some(stream);
        }
        item.play(to);
    }
}

fn arranged(
    streams: &[Stream],
    quantum: u64,
    machine: &MachineSpec,
    arrangement: &Arrangement,
    settings: &OfflineSettings,
) -> OfflineResult {
    let play = |replay: &mut Simulation| {
        play(streams, quantum, replay);
        Ok::<_, Infallible>(())
    };
    offline(play, machine, arrangement, settings, |_| {}).unwrap()
}

fn settings(random: &mut Random) -> OfflineSettings {
    let costs = KernelCosts { copy_per_kib: random.of(&[2, 10, 40]), ..KernelCosts::ROMER };
    OfflineSettings { costs, ..OfflineSettings::default() }
}

/// One process in turns is that process; one core, or the first of several, is none; a structure that nothing calls is
/// none.
#[test]
fn a_process_alone_in_an_arrangement_gets_the_superpages_of_a_process_alone() {
    let quiet = Structures::get("mach3").unwrap();
    let mut chosen = 0;
    for seed in 0..u64::from(cases(12)) {
        let mut random = Random::new(seed);
        let (machine, stream) = (machine(random.of(&[2, 8, 16])), program(&mut random));
        let settings = settings(&mut random);
        let alone = stream.offline(&machine, &settings);
        chosen += alone.blocks.len();
        assert!(alone.counts.instructions < quiet.kernel.tick_instructions);
        for (what, arrangement) in [
            ("in turns", Arrangement { turns: true, ..Arrangement::default() }),
            ("on one core", Arrangement { cores: 1, ..Arrangement::default() }),
            ("on the first of three", Arrangement { cores: 3, ..Arrangement::default() }),
            ("in a structure", Arrangement { structure: Some(quiet.clone()), ..Arrangement::default() }),
        ] {
            let found = arranged(std::slice::from_ref(&stream), 100, &machine, &arrangement, &settings);
            assert_eq!(found.replays, alone.replays, "{what}, seed {seed}");
            assert_eq!(found.blocks, alone.blocks, "{what}, seed {seed}");
            assert_eq!(found.counts, alone.counts, "{what}, seed {seed}");
            assert_eq!(found.left_out, alone.left_out, "{what}, seed {seed}");
        }
    }
    assert!(chosen > 0);
}

/// Each core belongs to one process, so each replay is the sum of those of the processes alone. One that has found all
/// its superpages repeats its last replay until the other has.
#[test]
fn processes_that_share_no_core_get_the_superpages_that_each_would_get_alone() {
    let mut chosen = [0; 2];
    for seed in 0..u64::from(cases(12)) {
        let mut random = Random::new(seed);
        let machine = machine(random.of(&[2, 4, 8]));
        let streams = [program(&mut random), program(&mut random)];
        let settings = settings(&mut random);
        let arrangement = Arrangement { turns: true, cores: 2, ..Arrangement::default() };
        let quantum = random.of(&[7, 100, 5000]);
        let together = arranged(&streams, quantum, &machine, &arrangement, &settings);
        let alone = streams.each_ref().map(|stream| stream.offline(&machine, &settings));
        for (index, replay) in together.replays.iter().enumerate() {
            let [a, b] = alone.each_ref().map(|one| one.replays.get(index).or(one.replays.last()).unwrap());
            let sum = Replay {
                superpages: a.superpages + b.superpages,
                misses: a.misses + b.misses,
                cycles: a.cycles + b.cycles,
                chosen: a.chosen + b.chosen,
            };
            assert_eq!(*replay, sum, "replay {index}, seed {seed}");
        }
        let longest = alone.iter().map(|one| one.replays.len()).max();
        assert_eq!(Some(together.replays.len()), longest, "seed {seed}");
        for of in &together.blocks {
            chosen[of.process.index()] += 1;
        }
    }
    assert!(chosen.iter().all(|&blocks| blocks > 0), "{chosen:?}");
}

/// Processes that share a TLB: the result is what the system counts with these superpages given, and it costs no more
/// than no superpages.
#[test]
fn superpages_of_processes_in_turns_cost_what_the_system_counts_with_them() {
    let mut gains = 0;
    for seed in 0..u64::from(cases(12)) {
        let mut random = Random::new(seed);
        let machine = MachineSpec { asids: random.of(&[0, 8]), ..machine(random.of(&[4, 8, 16])) };
        let streams = [program(&mut random), program(&mut random), program(&mut random)];
        let (settings, quantum) = (settings(&mut random), random.of(&[50, 1000]));
        let arrangement = Arrangement { turns: true, ..Arrangement::default() };
        let found = arranged(&streams, quantum, &machine, &arrangement, &settings);
        let blocks = found.blocks.iter().map(|of| (of.process.index() as u32, of.block));
        let given = Box::new(ChosenSuperpages::new((2 << TOP) - 2, blocks));
        let kernel = Kernel::new(PageSize::FOUR_KIB, given, settings.costs);
        let design = DesignSpec::with_kernel("offline".to_owned(), &machine, kernel);
        let mut system = Simulation::new(vec![design], &arrangement).unwrap();
        play(&streams, quantum, &mut system);
        assert_eq!(system.finish().remove(0), found.counts, "seed {seed}");
        let [first, least] = [found.replays[0].cycles, cost(&found.counts)];
        assert!(least <= first, "seed {seed}: {least}, {first} without superpages");
        gains += u32::from(least < first);
    }
    assert!(gains > 0);
}
