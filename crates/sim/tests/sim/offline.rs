//! Compares OFFLINE with policies that do not know the future, on random small programs: it is greedy, but so close to
//! the optimum that hardly any policy is better.

use crate::random::{Random, cases};
use crate::stream::{Stream, cost};
use pagewalk_mm::promotion::{
    ApproxOnline, Asap, AsapShare, BreakEven, ChoicesPerReplay, ChosenSuperpages, Fixed, OfflineSettings,
    Online, Policy,
};
use pagewalk_mm::{KernelCosts, Superpage};
use pagewalk_sim::offline;
use pagewalk_translate::MachineSpec;
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
    let from_the_start =
        cost(&stream.under(machine, Box::new(ChosenSuperpages::new(orders, built.iter().copied())), costs));
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
        let open = || Ok::<_, Infallible>(stream.open());
        let result = offline(open, &machine, &settings, |_| {}).unwrap();
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
