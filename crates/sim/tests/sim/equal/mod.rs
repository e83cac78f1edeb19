//! Compares all counters of a design with its slow model.

use crate::slow::Slow;
use pagewalk_cache::{CacheCounts, Requester};
use pagewalk_cost::Cycles;
use pagewalk_oracle::{Cache, Counts, Machine, Prefetch};
use pagewalk_sim::DesignCounts;
use pagewalk_translate::PrefetchCounts;

/// Checks that all counters are equal; `seed` is printed to reproduce a failure.
pub fn assert_all_equal(fast: &DesignCounts, slow: &Slow, seed: u64) {
    assert_equal(fast, &slow.machine, slow.instructions, seed);
    assert_eq!(fast.pages_touched, slow.faults(), "pages of {} (seed {seed})", fast.name);
    assert_eq!(fast.untouched_bytes, slow.untouched_bytes(), "price of {} (seed {seed})", fast.name);
    let levels = slow.machine.arrays.iter().map(|array| array.level).max().unwrap();
    assert_eq!(fast.level_misses.len(), usize::from(levels), "levels of {} (seed {seed})", fast.name);
}

/// Checks the counters of a machine; `instructions` is the total number executed.
pub fn assert_equal(fast: &DesignCounts, machine: &Machine, instructions: u64, seed: u64) {
    let arrays: Vec<_> = fast.arrays.iter().map(|a| (a.lookups, a.hits)).collect();
    let expected: Vec<_> = machine.arrays.iter().map(|a| (a.lookups, a.hits)).collect();
    assert_eq!(arrays, expected, "arrays of {} (seed {seed})", fast.name);
    let prefetches: Vec<_> = fast.prefetchers.iter().map(|p| p.counts).collect();
    let expected = machine.arrays.iter().filter_map(|array| array.prefetch.as_ref());
    let expected: Vec<_> = expected
        .map(|&Prefetch { issued, useful, walk_references, .. }| PrefetchCounts {
            issued,
            useful,
            walk_references,
        })
        .collect();
    assert_eq!(prefetches, expected, "prefetches of {} (seed {seed})", fast.name);
    let mut level_misses = machine.counts.level_misses;
    level_misses[..fast.level_misses.len()].copy_from_slice(&fast.level_misses);
    let counts = Counts {
        level_misses,
        translations: fast.translations,
        walks_fetch: fast.walks_fetch,
        walks_data: fast.walks_data,
        walk_references: fast.walk_references,
        lower_hits: fast.lower_hits,
        walk_cycles: fast.cycles.walk,
    };
    assert_eq!(counts, machine.counts, "walks of {} (seed {seed})", fast.name);
    let lower_hit = machine.hit_price * machine.counts.lower_hits;
    let walk = machine.counts.walk_cycles;
    let memory = machine.memories.as_ref().map_or(0, |memories| memories.stall_cycles);
    let executed = instructions as f64 * machine.instruction_price;
    let expected = Cycles { instructions: executed, walk, lower_hit, traps: 0, memory };
    assert_eq!(fast.instructions, instructions, "instructions of {} (seed {seed})", fast.name);
    assert_eq!(fast.cycles, expected, "cycles of {} (seed {seed})", fast.name);
    if let Some(memories) = &machine.memories {
        let of = |requester: Requester| {
            let caches = memories.caches.iter().enumerate();
            let serving = caches.filter(move |(_, cache)| cache.serves[requester as usize]);
            serving.map(move |(at, cache)| {
                let of = |counts: [u64; 4]| counts[requester as usize];
                let counts = CacheCounts {
                    lookups: of(cache.lookups),
                    hits: of(cache.hits),
                    slow_hits: of(cache.slow_hits),
                    writebacks: of(cache.writebacks),
                    write_stall_cycles: if requester == Requester::Store {
                        cache.write_stall_cycles
                    } else {
                        0
                    },
                };
                (at, requester, counts)
            })
        };
        let mut expected: Vec<_> = Requester::ALL.into_iter().flat_map(of).collect();
        expected.sort_by_key(|&(at, requester, _)| (at, requester));
        let expected: Vec<_> = expected.into_iter().map(|(_, requester, c)| (requester, c)).collect();
        let found: Vec<_> = fast.caches.iter().map(|c| (c.requester, c.counts)).collect();
        assert_eq!(found, expected, "caches of {} (seed {seed})", fast.name);
        assert_eq!(fast.memory.map(|memory| memory.stall_cycles), Some(memory), "waits (seed {seed})");
    }
    let caches: Vec<_> = fast.walk_caches.iter().map(|c| (c.lookups, c.hits)).collect();
    let mut expected: Vec<&Cache> = machine.caches.iter().collect();
    if let Some(nested) = &machine.nested {
        let read = fast.nested_walk_references.map(|read| (read.guest, read.host));
        assert_eq!(read, Some((nested.guest, nested.host)), "entries of {} (seed {seed})", fast.name);
        expected.extend(&nested.caches);
        expected.extend(nested.nested_tlb.iter().chain(&nested.entry_cache));
    }
    let expected: Vec<_> = expected.iter().map(|c| (c.lookups, c.hits)).collect();
    assert_eq!(caches, expected, "walk caches of {} (seed {seed})", fast.name);
}
