//! Misses in caches by page and by instruction add up to those that the caches count.

use crate::random;
use crate::random::Random;
use crate::slow::feed;
use pagewalk_cache::{CacheSpec, Requester, StoreRule};
use pagewalk_mm::ThpMode;
use pagewalk_oracle::cases;
use pagewalk_setassoc::Geometry;
use pagewalk_sim::{Arrangement, DesignCounts, HostKernel, Library, Profile, Simulation, Waits};
use pagewalk_translate::MachineSpec;
use proptest::prelude::*;

/// What references of the program missed, by the counts of the caches. Stores do not miss a cache that passes them on.
fn missed(machine: &MachineSpec, counts: &DesignCounts) -> Waits {
    let mut waits =
        Waits { cycles: counts.memory.map_or(0, |memory| memory.stall_cycles), ..Waits::default() };
    for totals in counts.caches.iter().filter(|totals| totals.requester != Requester::Walk) {
        let is_it = |cache: &&CacheSpec| cache.name == totals.name;
        let cache = machine.caches.iter().find(is_it).expect("a cache of the machine");
        if totals.requester != Requester::Store || cache.stores == StoreRule::Back {
            waits.misses[usize::from(cache.level) - 1] += totals.counts.lookups - totals.counts.hits;
        }
    }
    waits
}

/// Caches like those of zen4, so small that the second level serves most references.
fn small_caches(random: &mut Random) -> Vec<CacheSpec> {
    let mut caches = Library::get("zen4+caches").unwrap().caches;
    for cache in &mut caches {
        let lines = if cache.level == 1 { 8 } else { random.of(&[64, 256, 1024]) };
        cache.geometry = Geometry::new(lines, Some(random.of(&[4, 8]))).unwrap();
    }
    caches
}

fn check(seed: u64) {
    let mut random = Random::new(seed);
    let pages = random::pages(&mut random);
    let mut machine = random::machine(&mut random, 0, pages);
    if random.below(2) == 0 {
        machine.caches = small_caches(&mut random);
    }
    let libraries = random::libraries(&mut random);
    let program = random::program(&mut random, true, &libraries);
    let mut profile = Profile::new(std::slice::from_ref(&machine), ThpMode::Always, false).unwrap();
    feed(&mut profile, &program, &mut random);
    let findings = profile.finish();
    let sum = |all: &mut dyn Iterator<Item = Waits>| {
        all.fold(Waits::default(), |mut sum, own| {
            sum.add(&own);
            sum
        })
    };
    let expected = missed(&machine, &findings.machines()[0]);
    assert_eq!(sum(&mut findings.waits().into_values()), expected, "pages (seed {seed})");
    let functions = findings.functions();
    assert_eq!(sum(&mut functions.iter().map(|row| row.waits)), expected, "instructions (seed {seed})");
    // In every arrangement, by either engine.
    for arrangement in [
        Arrangement::default(),
        Arrangement { turns: true, ..Arrangement::default() },
        Arrangement { cores: 3, ..Arrangement::default() },
    ] {
        let design = HostKernel::new(ThpMode::Always).design(&machine);
        let mut arranged = Simulation::new(vec![design], &arrangement).unwrap().keeping_walks();
        feed(&mut arranged, &program, &mut random);
        arranged.finish();
        let found = arranged.programs().remove(0);
        assert_eq!(found.waits, findings.waits(), "on {} cores, seed {seed}", arrangement.cores);
        assert_eq!(found.functions, functions, "on {} cores, seed {seed}", arrangement.cores);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(60), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn waits_of_pages_and_of_instructions_add_up(seed in any::<u64>()) {
        check(seed);
    }
}
