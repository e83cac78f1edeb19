//! Designs that share a first level of caches count as they would alone: in one pass, and as alternatives of a profile,
//! some of which begin in mid-run.

use crate::random;
use crate::random::{Program, Random};
use crate::slow::feed;
use pagewalk_cache::{Requester, StoreRule, shares_first_level};
use pagewalk_mm::{Everything, OsSpec, PageSizePolicy, Small, ThpMode};
use pagewalk_oracle::cases;
use pagewalk_sim::{Alternative, AlternativeKind, DesignSpec, Library, NoObserver, Pass, Profile};
use pagewalk_trace::Analysis;
use pagewalk_translate::{Asid, MachineSpec};
use proptest::prelude::*;
use std::sync::Arc;

/// The keys of a cache of this level that holds a few lines.
fn cache(random: &mut Random, name: &str, level: u32, serves: &str) -> String {
    let ways = random.of(&[1, 2, 4]);
    let rules = random::replacement(random, ways, 2).join("\n");
    keys(random, (name, level, serves), (ways, 64), &rules)
}

fn keys(
    random: &mut Random,
    (name, level, serves): (&str, u32, &str),
    (ways, unit): (u32, u32),
    rules: &str,
) -> String {
    let sets = random.of(&[1, 2, 8, 32]);
    format!(
        "[[cache]]\nname = \"{name}\"\nlevel = {level}\nserves = [{serves}]\nsize = \"{}\"\nways = {ways}\n\
         latency = {}\n{rules}\n",
        sets * ways * unit,
        level * 5
    )
}

/// A cache below the first level, with lines of this size: plain, in slices, or with two places for each line.
fn lower(random: &mut Random, name: &str, level: u32, serves: &str, line: u32) -> String {
    let (ways, unit, rules) = match random.below(4) {
        0 => (2, line, "organisation = \"pseudo\"\nslow_latency = 30".to_owned()),
        1 => (1, 2 * line, "organisation = \"column\"\nslow_latency = 30".to_owned()),
        2 => (4, 3 * line, "slices = 3\nslice_hash = \"unknown\"".to_owned()),
        _ => {
            let ways = random.of(&[1, 2, 4]);
            (ways, line, random::replacement(random, ways, 2).join("\n"))
        }
    };
    keys(random, (name, level, serves), (ways, unit), &format!("line = {line}\n{rules}"))
}

const ALL: &str = "\"fetch\", \"load\", \"store\", \"walk\"";

/// The first level of caches.
fn first_level(random: &mut Random) -> String {
    let address = random.of(&["address = \"physical\"\n", "address = \"virtual\"\n"]);
    let mut cache = |name: &str, serves: &str| cache(random, name, 1, serves) + address;
    match cache("l1", "\"fetch\", \"load\", \"store\"") {
        unified if unified.contains("latency = 5\nreplacement = \"lru\"") => unified,
        _ => cache("l1i", "\"fetch\"") + &cache("l1d", "\"load\", \"store\""),
    }
}

/// One or two levels below it; walks go through the last.
fn lower_levels(random: &mut Random) -> String {
    let serves = random.of(&[ALL, "\"load\", \"store\", \"walk\""]);
    let line = random.of(&[64, 64, 128]);
    let mut text = lower(random, "l2", 2, serves, line);
    match random.below(3) {
        0 => {}
        1 => {
            let rules = random::replacement(random, 2, 2).join("\n");
            let rules = format!("line = {line}\nfills = \"victims\"\n{rules}");
            text += &keys(random, ("l3", 3, ALL), (2, line), &rules);
        }
        _ => {
            let line = random.of(&[line, 256]);
            text += &lower(random, "l3", 3, ALL, line);
        }
    }
    text
}

/// A machine with these caches.
fn machine(name: &str, caches: &str) -> MachineSpec {
    let tlb = |name: &str, serves: &str| {
        format!(
            "[[tlb]]\nname = \"{name}\"\nlevel = 1\nserves = [{serves}]\npage_sizes = [\"4K\", \"2M\"]\n\
             entries = 8\nways = 2\n"
        )
    };
    let tlbs = tlb("l1i", "\"fetch\"") + &tlb("l1d", "\"load\", \"store\"");
    let text = format!(
        "schema = 1\nname = \"{name}\"\n{tlbs}{caches}[walker]\nkind = \"radix\"\nlevels = 4\n\
         caches = {{ pde = {{ entries = 2 }} }}\n[cost]\nl2_hit = 7\nmemory = 200\n"
    );
    MachineSpec::from_toml("random.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn program(random: &mut Random, changes: bool) -> Program {
    let libraries = random::libraries(random);
    random::program(random, changes, &libraries)
}

/// Designs with one of two first levels. Some differ in their caches alone.
fn designs(random: &mut Random) -> Vec<DesignSpec> {
    let (first, other) = (first_level(random), first_level(random));
    let policies: [Arc<dyn PageSizePolicy>; 2] = [Arc::new(Small), Arc::new(Everything)];
    let mut designs = Vec::new();
    for index in 0..2 + random.below(3) {
        let first = if random.below(4) > 0 { &first } else { &other };
        let machine = machine(&format!("m{index}"), &format!("{first}{}", lower_levels(random)));
        designs.push(DesignSpec::new(&machine, policies[random.below(2) as usize].clone()));
    }
    designs
}

fn check_passes(seed: u64) {
    let mut random = Random::new(seed);
    let designs = designs(&mut random);
    let program = program(&mut random, true);
    let mut pass = Pass::new(designs.clone(), NoObserver).unwrap();
    feed(&mut pass, &program, &mut random);
    for (design, found) in designs.into_iter().zip(pass.finish()) {
        let mut alone = Pass::new(vec![design], NoObserver).unwrap();
        feed(&mut alone, &program, &mut Random::new(1));
        assert_eq!(found, alone.finish()[0], "{} (seed {seed})", found.name);
    }
}

/// Programs that take turns on one processor.
fn check_turns(seed: u64) {
    let mut random = Random::new(seed);
    let designs = designs(&mut random);
    let programs: Vec<Program> = (0..3).map(|_| program(&mut random, true)).collect();
    let turns: Vec<(usize, Program)> = (0..12)
        .map(|turn| {
            let Program { thread, blocks, ops } = &programs[turn % 3];
            let part = ops.len().div_ceil(4);
            let ops = ops.chunks(part.max(1)).nth(turn / 3).unwrap_or_default().to_vec();
            (turn % 3, Program { thread: *thread, blocks: blocks.clone(), ops })
        })
        .collect();
    let run = |designs: Vec<DesignSpec>| {
        let mut pass = Pass::new(designs, NoObserver).unwrap();
        for (space, turn) in &turns {
            pass.switch_to(Asid::new(*space as u32).unwrap());
            feed(&mut pass, turn, &mut Random::new(3));
        }
        pass.finish()
    };
    let together = run(designs.clone());
    for (design, found) in designs.into_iter().zip(together) {
        assert_eq!(found, run(vec![design])[0], "{} (seed {seed})", found.name);
    }
}

/// Kernels of their own, which promote pages at different times. Those that may kill a program have frames, so each of
/// them is simulated in a system of its own, where nothing is shared.
fn check_kernels(seed: u64) {
    let mut random = Random::new(seed);
    let mut designs = designs(&mut random);
    for design in &mut designs {
        let os = random.of(&["fixed", "asap", "approx-online:threshold=0.01", "linux:thp=always"]);
        let kernel = OsSpec::from_text(os).unwrap().kernel(design.machine.paging, 1 << 9 | 1).unwrap();
        *design = DesignSpec::with_kernel(design.name.clone(), &design.machine, kernel);
    }
    let program = program(&mut random, true);
    let run = |designs: Vec<DesignSpec>| {
        let mut pass = Pass::new(designs, NoObserver).unwrap();
        feed(&mut pass, &program, &mut Random::new(4));
        pass.finish()
    };
    for (design, found) in designs.clone().into_iter().zip(run(designs)) {
        assert_eq!(found, run(vec![design])[0], "{} (seed {seed})", found.name);
    }
}

/// A last level that never evicts, and so may be inclusive without a difference: but then nothing is shared.
fn check_profiles(seed: u64) {
    let mut random = Random::new(seed);
    // What virtual addresses find, no cache can drop above it.
    let caches = first_level(&mut random).replace("virtual", "physical") + &cache(&mut random, "l2", 2, ALL);
    let ways = random.of(&[16, 512]);
    let last = format!(
        "[[cache]]\nname = \"l3\"\nlevel = 3\nserves = [{ALL}]\nsize = \"8M\"\nways = {ways}\nlatency = 20\n"
    );
    let program = program(&mut random, false);
    let look = 1 + random.below(1000);
    let run = |inclusive: bool, has_thread: bool, is_ahead: bool| {
        let machine = machine("m", &format!("{caches}{last}inclusive = {inclusive}\n"));
        assert_eq!(shares_first_level(&machine.caches, &machine.caches), !inclusive);
        let mut profile = Profile::new(&[machine], ThpMode::Never, true).unwrap().with_first_look(look);
        if has_thread {
            profile = profile.on_threads(2);
        }
        let forerunners = if is_ahead { profile.forerunners() } else { Vec::new() };
        assert_eq!(forerunners.is_empty(), !is_ahead);
        for mut forerunner in forerunners {
            feed(&mut forerunner, &program, &mut Random::new(2));
        }
        feed(&mut profile, &program, &mut Random::new(2));
        let mut result = profile.finish();
        let totals = result.machines()[0].caches.clone();
        (totals, result.alternatives(), result.waits(), result.functions(), result.mappings())
    };
    let expected = run(true, false, false).1;
    let alone = run(false, false, false);
    assert_eq!(alone.1, expected, "seed {seed}");
    for (has_thread, is_ahead) in [(true, false), (false, true), (true, true)] {
        let found = run(false, has_thread, is_ahead);
        assert_eq!(found, alone, "second thread: {has_thread}, forerunner: {is_ahead}, seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(40), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn designs_of_one_first_level_count_as_alone(seed in any::<u64>()) {
        check_passes(seed);
    }

    #[test]
    fn designs_of_one_first_level_count_as_alone_for_programs_in_turns(seed in any::<u64>()) {
        check_turns(seed);
    }

    #[test]
    fn designs_of_one_first_level_count_as_alone_under_kernels(seed in any::<u64>()) {
        check_kernels(seed);
    }

    #[test]
    fn alternatives_count_as_without_sharing(seed in any::<u64>()) {
        check_profiles(seed);
    }
}

/// Candidates are found, so that the comparison above covers designs that begin in mid-run.
#[test]
fn some_alternative_begins_in_mid_run() {
    let mut random = Random::new(5);
    let caches = first_level(&mut random) + &cache(&mut random, "l2", 2, ALL);
    let program = program(&mut random, false);
    let mut profile =
        Profile::new(&[machine("m", &caches)], ThpMode::Never, true).unwrap().with_first_look(50);
    feed(&mut profile, &program, &mut random);
    let alternatives = profile.finish().alternatives();
    let is_late = |one: &&Alternative| one.from_instruction > 0 && one.caches.is_some();
    assert!(alternatives.iter().any(|one| is_late(&one)), "{alternatives:?}");
    let wide = alternatives.iter().find(|one| one.kind == AlternativeKind::DoubleWays(2));
    assert!(wide.is_some_and(|wide| wide.caches != wide.baseline_caches), "{wide:?}");
}

/// Machines that a pass of its own would simulate together: each alternative is still the first machine's.
#[test]
fn machines_of_one_first_level_leave_alternatives_as_they_are() {
    let program = program(&mut Random::new(3), true);
    let machines = ["haswell", "sandy_bridge", "zen4"].map(|name| Library::get(name).unwrap());
    let [haswell, sandy_bridge, zen4] = &machines;
    let run = |machines: &[MachineSpec]| {
        let mut profile = Profile::new(machines, ThpMode::Never, true).unwrap().with_first_look(50);
        feed(&mut profile, &program, &mut Random::new(2));
        let mut result = profile.finish();
        (result.alternatives(), result.mappings(), result.reach())
    };
    let pair = [haswell.clone(), sandy_bridge.clone()];
    assert_eq!(run(&pair), run(&pair[..1]));
    let three = [zen4.clone(), haswell.clone(), sandy_bridge.clone()];
    assert_eq!(run(&three), run(&three[..1]));
}

/// Refills by handlers read nothing through the caches, so they never wait for them.
#[test]
fn walks_of_handlers_are_told_and_cost_twins_the_same() {
    let mut machine = Library::get("mips_r2000+caches").unwrap();
    machine.caches.iter_mut().for_each(|cache| cache.stores = StoreRule::Back);
    let mut second = machine.caches[1].clone();
    (second.name, second.level, second.serves) = ("l2".into(), 2, Requester::ALL.into_iter().collect());
    machine.caches.push(second);
    let program = program(&mut Random::new(3), false);
    let mut profile = Profile::new(&[machine], ThpMode::Never, true).unwrap();
    feed(&mut profile, &program, &mut Random::new(2));
    let result = profile.finish();
    let alternatives = result.alternatives();
    let wide = alternatives.iter().find(|one| one.kind == AlternativeKind::DoubleWays(2)).expect("a row");
    assert!(wide.walk_cycles > 0);
    assert_eq!(wide.walk_cycles, wide.baseline_walk_cycles);
    let told: u64 = result.functions().iter().map(|row| row.walks_fetch + row.walks_data).sum();
    assert_eq!(told, wide.walks);
}
