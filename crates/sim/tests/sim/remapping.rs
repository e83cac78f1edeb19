//! Where pages lie in physical memory, and policies that move them: findings of Romer's thesis (1998) on small
//! synthetic programs, and equalities. Tests are named after the targets.

use crate::stream::{Numbers, Stream, spent};
use pagewalk_mm::{Account, KernelCounts, OsSpec};
use pagewalk_sim::{DesignCounts, DesignSpec, Library, System, held_orders};
use pagewalk_translate::{Asid, MachineSpec};

/// A system under a kernel by its description.
fn system(machine: &MachineSpec, os: &str) -> System {
    let os = OsSpec::from_text(os).unwrap_or_else(|error| panic!("{os}: {error}"));
    let kernel = os.kernel(machine.paging, held_orders(machine)).unwrap_or_else(|error| panic!("{error}"));
    System::new(DesignSpec::with_kernel("design".to_owned(), machine, kernel), 1).unwrap()
}

/// Simulates a kernel by its description.
fn under(stream: &Stream, machine: &MachineSpec, os: &str) -> DesignCounts {
    let mut system = system(machine, os);
    stream.play(&mut system);
    system.counts()
}

fn workstation() -> MachineSpec {
    Library::get("romer_remapping").unwrap()
}

/// Cycles of the second level's misses and of recoloring, for each instruction: L2 MCPI without its TLB part.
fn l2_mcpi(counts: &DesignCounts) -> f64 {
    let misses: u64 = counts
        .caches
        .iter()
        .filter(|cache| cache.name == "l2")
        .map(|cache| cache.counts.lookups - cache.counts.hits)
        .sum();
    (25 * misses + spent(counts, Account::Recolor)) as f64 / counts.instructions as f64
}

/// The artificial program of section 4.4: alternates between two pages of one color.
fn strawman() -> Stream {
    Stream { instructions: 5, ..Stream::new((0..400_000).map(|n| n % 2 * 128).collect()) }
}

#[test]
fn u8_a_policy_ends_the_conflict_of_the_strawman() {
    let (stream, machine) = (strawman(), workstation());
    let of = |os: &str| l2_mcpi(&under(&stream, &machine, &format!("fixed:page=8K,{os}")));
    let static_mapping = of("placement.policy=page-coloring");
    assert!((static_mapping - 5.0).abs() < 0.01, "25 cycles each, one load in five: {static_mapping}");
    assert!(of("placement.policy=bin-hopping") < 0.01);
    for (policy, at_most) in [
        ("cml", 0.02),
        ("space-saving", 0.02),
        ("sites", 0.1),
        ("snapshot-miss", 0.2),
        ("snapshot-delay", 2.5),
        ("active-naive", 0.02),
        ("active-delay", 0.03),
    ] {
        let recolored = of(&format!("recoloring.policy={policy}"));
        assert!(recolored < at_most, "{policy}: {recolored}");
    }
}

#[test]
fn each_conflict_is_moved_apart_once() {
    let (stream, machine) = (strawman(), workstation());
    let counts = under(&stream, &machine, "fixed:page=8K,recoloring.policy=cml");
    let kernel = counts.kernel.unwrap();
    assert_eq!((kernel.counts.recolorings, kernel.counts.recolorings_refused), (1, 0));
    // An interrupt, the copy of 8 KiB, the mapping, and waits for two times 256 lines of memory at most.
    let cycles = spent(&counts, Account::Recolor);
    assert!((970 + 4800 + 200..970 + 4800 + 200 + 512 * 30).contains(&cycles), "{cycles}");
}

#[test]
fn a_policy_waits_for_its_own_code_and_data() {
    let (stream, machine) = (strawman(), workstation());
    let of = |more: &str| {
        let counts = under(&stream, &machine, &format!("fixed:page=8K,recoloring.policy=cml{more}"));
        (counts.kernel.unwrap().counts.recolorings, spent(&counts, Account::Recolor))
    };
    let (moves, without) = of("");
    // 970 cycles reach 3880 bytes of code, in 122 lines, and all 1024 bytes of data. Line 0 of the code evicts one of
    // the two that the program uses: its copy finds it no more.
    let lines = 122 + 32;
    let (same, with) = of(",recoloring.code_bytes=8192,recoloring.data_bytes=1024");
    assert_eq!((moves, same), (1, 1));
    assert!((lines * 30..=lines * 30 + 30).contains(&(with - without)), "{without} to {with}");
}

/// The policies' code evicts the program's, also between fetches from one line. In a first level of two lines, the
/// program evicts it again before the next block.
#[test]
fn beside_a_policy_in_the_caches_repetitions_count_as_lookups_do() {
    let text = include_str!("../../../../machines/romer_remapping.toml");
    let text = text.replacen("size = \"8K\"", "size = \"64\"", 1);
    let machine = MachineSpec::from_toml("two.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let mut random = Numbers(7);
    let pages = (0..20_000).map(|n| if n % 3 == 0 { random.below(300) } else { n % 2 * 128 }).collect();
    let stream = Stream { instructions: 40, ..Stream::new(pages) };
    for recoloring in [
        "policy=cml,recoloring.interrupt_at=4,recoloring.interrupt_cycles=4000,recoloring.target=coldest-ref",
        "policy=space-saving,recoloring.interrupt_at=4,recoloring.interrupt_cycles=4000",
        "policy=sites,recoloring.period=2,recoloring.samples=8,recoloring.recolor_above=1",
        "policy=snapshot-miss,recoloring.period=50,recoloring.delay=10,recoloring.length=20",
        "policy=active-naive",
    ] {
        let os = format!(
            "fixed:page=8K,recoloring.code_bytes=8192,recoloring.data_bytes=512,recoloring.{recoloring}"
        );
        let (mut fast, mut slow) = (system(&machine, &os), system(&machine, &os).with_every_lookup());
        stream.play(&mut fast);
        stream.play(&mut slow);
        assert!(fast.counts().kernel.unwrap().counts.recolorings > 0, "{recoloring}");
        assert_eq!(fast.counts(), slow.counts(), "{recoloring}");
    }
}

/// A dropped translation changes neither the other translations nor the frames that the system remembers, of each
/// process its own.
#[test]
fn policies_that_drop_translations_count_as_the_slow_twin_does() {
    let machine = workstation();
    // Pages of each color, among many that conflict.
    let pages = (0..30_000u64).map(|n| n * n % 97 % 64 * 16 + n / 7000);
    let stream = Stream { instructions: 7, ..Stream::new(pages.collect()) };
    for policy in ["active-naive", "active-delay", "active-throttle", "snapshot-miss"] {
        let os = format!("fixed:page=8K,recoloring.policy={policy}");
        let counted = |mut system: System| {
            for turn in 0..4 {
                system.switch_to(Asid::new(turn % 2 + 1).unwrap());
                stream.play(&mut system);
            }
            (system.counts(), system.space_counts())
        };
        let fast = counted(system(&machine, &os));
        assert_eq!(fast, counted(system(&machine, &os).with_every_lookup()), "{policy}");
        assert!(fast.0.kernel.unwrap().counts.recolorings > 0, "{policy}");
    }
}

/// Three of four colors are in use, and a page moves to one of them unless the kernel knows better.
#[test]
fn a_page_moves_to_the_color_that_the_cache_is_asked_for_least() {
    let text = include_str!("../../../../machines/romer_remapping.toml").replace("\"512K\"", "\"32K\"");
    let machine = MachineSpec::from_toml("four.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let stream = Stream::new((0..100_000).map(|n| [0, 8, 2, 4][n % 4]).collect());
    let moves = |target: &str| {
        let os = format!("fixed:page=8K,recoloring.policy=cml,recoloring.target={target}");
        under(&stream, &machine, &os).kernel.unwrap().counts.recolorings
    };
    assert_eq!((moves("sequential"), moves("coldest-ref")), (3, 1));
}

/// Figure 6-1: a cache of two base pages and a TLB of one entry, and a program that alternates between addresses one
/// cache size apart.
#[test]
fn u10_one_mapping_misses_the_tlb_and_the_other_the_cache() {
    let tlb = |name: &str, serves: &str| {
        format!(
            "[[tlb]]\nname = \"{name}\"\nlevel = 1\nserves = [{serves}]\npage_sizes = [\"4K\", \"16K\"]\n\
             entries = 1\n"
        )
    };
    let cache = "[[cache]]\nname = \"l2\"\nlevel = 1\nserves = [\"load\", \"store\"]\nsize = \"8K\"\nways = 1\n\
                 line = 32\nlatency = 5\n";
    let (code, data) = (tlb("itlb", "\"fetch\""), tlb("dtlb", "\"load\", \"store\""));
    let walker = "[walker]\nkind = \"software\"\nrefill_cycles = 30\n";
    let text = format!(
        "schema = 1\nname = \"two\"\n[paging]\nbase = \"4K\"\nhuge = \"16K\"\n{code}{data}{cache}{walker}[cost]\n\
         l2_hit = 0\nmemory = 30\n"
    );
    let machine = MachineSpec::from_toml("two.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let stream = Stream::new((0..20_000).map(|n| n % 2 * 2).collect());
    let misses = |os: &str| {
        let counts = under(&stream, &machine, os);
        let load = counts.caches.iter().find(|cache| cache.requester.name() == "load").unwrap().counts;
        (counts.walks_data, load.lookups - load.hits)
    };
    assert_eq!(misses("fixed:page=16K,placement.policy=bin-hopping"), (1, 20_000), "one large page");
    assert_eq!(misses("fixed:page=4K,placement.policy=bin-hopping"), (20_000, 2), "small pages");
}

/// Pages in the order of their addresses have frames in the same sets as their virtual addresses have.
#[test]
fn page_coloring_of_one_process_counts_like_virtual_addresses() {
    let mut random = Numbers(7);
    let stream = Stream::new((0..30_000).map(|_| random.below(700)).collect());
    let machine = workstation();
    let plain = under(&stream, &machine, "fixed:page=8K");
    let placed = under(&stream, &machine, "fixed:page=8K,placement.policy=page-coloring");
    assert_eq!((plain.caches, plain.memory, plain.cycles), (placed.caches, placed.memory, placed.cycles));
}

#[test]
fn a_described_memory_gives_frames_of_the_wanted_colors_while_it_has_them() {
    let (stream, machine) = (strawman(), workstation());
    let of = |os: &str| under(&stream, &machine, &format!("fixed:page=8K,memory.size=16M,{os}"));
    let colored = l2_mcpi(&of("placement.policy=page-coloring"));
    assert!((colored - 5.0).abs() < 0.01, "{colored}");
    assert!(l2_mcpi(&of("placement.policy=bin-hopping")) < 0.01);
    let moved = of("recoloring.policy=cml");
    assert_eq!(moved.kernel.unwrap().counts.recolorings, 1);
    assert!(l2_mcpi(&moved) < 0.02);
    // Frames from the lowest on: first touches in turn have neighbouring frames.
    assert!(l2_mcpi(&of("costs.fault=0")) < 0.01);
}

#[test]
fn superpages_leave_a_page_behind_that_moves() {
    let machine = MachineSpec::from_toml(
        "superpages.toml",
        &include_str!("../../../../machines/romer_remapping.toml")
            .replace("[\"8K\"]", "[\"8K\", \"16K\", \"4M\"]"),
    )
    .unwrap();
    // So many superpages fill the cache once, and the one after them lies over the first.
    let touched = (0..33).map(|superpage| superpage * 4);
    let stream = Stream { instructions: 5, ..Stream::new(touched.chain(strawman().pages).collect()) };
    let counts = under(&stream, &machine, "fixed:page=16K,recoloring.policy=cml");
    let kernel = counts.kernel.unwrap();
    assert_eq!((kernel.counts.recolorings, kernel.counts.demotions), (1, 1));
    assert!(l2_mcpi(&counts) < 0.02);
}

/// COMBINED (section 6.6.1): what recoloring splits, promotion builds again, which brings the conflict back.
#[test]
fn a_page_of_a_superpage_moves_to_and_fro_until_a_cap_ends_it() {
    // A superpage covers the cache twice, so its pages 0 and 128 compete.
    let text = include_str!("../../../../machines/romer_remapping.toml")
        .replace("base = \"8K\"", "base = \"4K\"\nhuge = \"1M\"")
        .replace("[\"8K\"]", "[\"4K\", \"1M\"]");
    let machine = MachineSpec::from_toml("two.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let mut random = Numbers(7);
    const ROUNDS: u64 = 8;
    let mut pages = Vec::new();
    for _ in 0..ROUNDS {
        pages.extend((0..4000).map(|_| random.below(256)));
        pages.extend((0..2000).map(|n| n % 2 * 128));
    }
    let stream = Stream::new(pages);
    let of = |more: &str| {
        let os = format!("approx-online:threshold=0.02,placement.policy=page-coloring{more}");
        under(&stream, &machine, &os).kernel.unwrap().counts
    };
    let made = |counts: KernelCounts| (counts.promotions[8], counts.demotions, counts.recolorings);
    let cml = ",recoloring.policy=cml";
    assert_eq!(made(of("")), (1, 0, 0));
    let combined = of(cml);
    assert_eq!(made(combined), (ROUNDS, ROUNDS, ROUNDS));
    // One of them five times, and the other the rest.
    assert_eq!((combined.recolorings_repeated, combined.pages_recolored), (5, 2));
    assert_eq!((combined.pages_copied, combined.pages_copied_by_both), (256, 2));
    let capped = of(&format!("{cml},recoloring.copies_max_of_page=2,recoloring.copies_cycles=1000000000"));
    assert_eq!((made(capped), capped.recolorings_repeated), ((3, 2, 2), 0));
    let rare = of(&format!("{cml},recoloring.copies_max=3,recoloring.copies_cycles=1000000000"));
    assert_eq!(made(rare), (4, 3, 3));
}

#[test]
fn a_machine_without_the_colors_is_refused_with_the_choices() {
    let refusal = |machine: &MachineSpec, os: &str| {
        let kernel = OsSpec::from_text(os).unwrap().kernel(machine.paging, held_orders(machine)).unwrap();
        match System::new(DesignSpec::with_kernel("design".to_owned(), machine, kernel), 1) {
            Ok(_) => panic!("{os} is taken"),
            Err(error) => error.to_string(),
        }
    };
    let without = refusal(&Library::get("romer_1998").unwrap(), "fixed:recoloring.policy=cml");
    assert!(without.contains("`romer_1998` has no cache that physical addresses find lines in"), "{without}");
    let wrong = refusal(&workstation(), "fixed:page=8K,placement.cache=l1d");
    assert!(
        wrong.contains("`l1d` of `romer_remapping` has none") && wrong.ends_with(": choose l2"),
        "{wrong}"
    );
    let unknown = refusal(&workstation(), "fixed:page=8K,placement.cache=l3");
    assert!(unknown.contains("has no cache `l3`"), "{unknown}");
    let with = |more: &str| {
        let text = include_str!("../../../../machines/romer_remapping.toml").replace("[walker]", more);
        MachineSpec::from_toml("more.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    };
    let last = "[[cache]]\nname = \"l3\"\nlevel = 3\nserves = [\"load\"]\nline = 32\nlatency = 5\n";
    let hashed =
        with(&format!("{last}size = \"3M\"\nways = 8\nslices = 6\nslice_hash = \"unknown\"\n[walker]"));
    let single = with(&format!("{last}size = \"64K\"\nways = 8\n[walker]"));
    for (machine, why) in [(&hashed, "a hash that nobody has published"), (&single, "has a single color")] {
        for os in ["fixed:page=8K,placement.cache=l3", "fixed:page=8K,recoloring.policy=cml"] {
            let refused = refusal(machine, os);
            assert!(refused.contains("`l3` of `romer_remapping` has"), "{refused}");
            assert!(refused.contains(why) && refused.ends_with(": choose l2"), "{refused}");
        }
    }
}
