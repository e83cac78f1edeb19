//! Designs that share a first level of caches count as they would alone: in one pass, and as alternatives of a profile,
//! some of which begin in mid-run.

use crate::random;
use crate::random::{Program, Random, cases};
use crate::slow::feed;
use pagewalk_cache::shares_first_level;
use pagewalk_mm::{Everything, PageSizePolicy, Small, ThpMode};
use pagewalk_sim::{Alternative, DesignSpec, NoObserver, Pass, Profile};
use pagewalk_translate::MachineSpec;
use proptest::prelude::*;
use std::sync::Arc;

/// The keys of a cache of this level that holds a few lines.
fn cache(random: &mut Random, name: &str, level: u32, serves: &str) -> String {
    let (sets, ways) = (random.of(&[1, 2, 8, 32]), random.of(&[1, 2, 4]));
    let rules = random::replacement(random, ways, 2).join("\n");
    format!(
        "[[cache]]\nname = \"{name}\"\nlevel = {level}\nserves = [{serves}]\nsize = \"{}\"\nways = {ways}\n\
         latency = {}\n{rules}\n",
        sets * ways * 64,
        level * 5
    )
}

const ALL: &str = "\"fetch\", \"load\", \"store\", \"walk\"";

/// The first level of caches.
fn first_level(random: &mut Random) -> String {
    match random.below(3) {
        0 => cache(random, "l1", 1, "\"fetch\", \"load\", \"store\""),
        _ => cache(random, "l1i", 1, "\"fetch\"") + &cache(random, "l1d", 1, "\"load\", \"store\""),
    }
}

/// One or two levels below it; walks go through the last.
fn lower_levels(random: &mut Random) -> String {
    let serves = random.of(&[ALL, "\"load\", \"store\", \"walk\""]);
    let mut text = cache(random, "l2", 2, serves);
    if random.below(3) > 0 {
        text += &cache(random, "l3", 3, ALL);
        text += random.of(&["", "fills = \"victims\"\n", "address = \"physical\"\n"]);
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

fn check_passes(seed: u64) {
    let mut random = Random::new(seed);
    let (first, other) = (first_level(&mut random), first_level(&mut random));
    let mut designs = Vec::new();
    for index in 0..2 + random.below(3) {
        let first = if random.below(4) > 0 { &first } else { &other };
        let machine = machine(&format!("m{index}"), &format!("{first}{}", lower_levels(&mut random)));
        let policy: [Arc<dyn PageSizePolicy>; 2] = [Arc::new(Small), Arc::new(Everything)];
        designs.push(DesignSpec::new(&machine, policy[random.below(2) as usize].clone()));
    }
    let program = program(&mut random, true);
    let mut pass = Pass::new(designs.clone(), NoObserver).unwrap();
    feed(&mut pass, &program, &mut random);
    for (design, found) in designs.into_iter().zip(pass.finish()) {
        let mut alone = Pass::new(vec![design], NoObserver).unwrap();
        feed(&mut alone, &program, &mut Random::new(1));
        assert_eq!(found, alone.finish()[0], "{} (seed {seed})", found.name);
    }
}

/// A last level that never evicts, and so may be inclusive without a difference: but then nothing is shared.
fn check_profiles(seed: u64) {
    let mut random = Random::new(seed);
    let caches = first_level(&mut random) + &cache(&mut random, "l2", 2, ALL);
    let last = format!(
        "[[cache]]\nname = \"l3\"\nlevel = 3\nserves = [{ALL}]\nsize = \"2M\"\nways = 512\nlatency = 20\n"
    );
    let program = program(&mut random, false);
    let look = 1 + random.below(1000);
    let alternatives = |inclusive: bool| -> Vec<Alternative> {
        let machine = machine("m", &format!("{caches}{last}inclusive = {inclusive}\n"));
        assert_eq!(shares_first_level(&machine.caches, &machine.caches), !inclusive);
        let mut profile = Profile::new(&[machine], ThpMode::Never, true).unwrap().with_first_look(look);
        feed(&mut profile, &program, &mut Random::new(2));
        profile.finish().alternatives()
    };
    assert_eq!(alternatives(false), alternatives(true), "seed {seed}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(40), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn designs_of_one_first_level_count_as_alone(seed in any::<u64>()) {
        check_passes(seed);
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
    let wide = alternatives.iter().find(|one| one.kind == pagewalk_sim::AlternativeKind::DoubleWays(2));
    assert!(wide.is_some_and(|wide| wide.caches != wide.baseline_caches), "{wide:?}");
}
