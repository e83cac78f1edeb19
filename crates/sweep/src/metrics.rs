//! A design's counts under their long names.

use crate::data_side::add_data_side;
use pagewalk_mm::Account;
use pagewalk_report::metrics::{add_quotients, record, record_count};
use pagewalk_report::schema::{Metrics, Number, PartitionMove};
use pagewalk_sim::{CacheTotals, DesignCounts, KernelTotals, SoftwareTotals, SpaceCounts, StructureCounts};
use pagewalk_translate::{MachineSpec, MissClass};

/// The counts by their names in the registry, with derived quotients.
pub fn metrics(counts: &DesignCounts) -> Metrics {
    match counts.host_misses {
        Some(host_misses) => by_traps(counts, host_misses),
        None => in_full(counts),
    }
}

fn in_full(counts: &DesignCounts) -> Metrics {
    let mut metrics = Metrics::new();
    let mut count = |name: String, value: u64| record_count(&mut metrics, name, value);
    count("instructions".into(), counts.instructions);
    if counts.spin_instructions > 0 {
        count("spin_instructions".into(), counts.spin_instructions);
    }
    count("references".into(), counts.fetch_references + counts.data_references);
    count("references_data".into(), counts.data_references);
    // A data side reports neither fetches nor pages without walks.
    if counts.data_side.is_none() {
        count("references_fetch".into(), counts.fetch_references);
        count("pages_touched".into(), counts.pages_touched);
        count("walks_fetch".into(), counts.walks_fetch);
    }
    for array in &counts.arrays {
        count(format!("tlb.{}.lookups", array.name), array.lookups);
        count(format!("tlb.{}.hits", array.name), array.hits);
        count(format!("tlb.{}.misses", array.name), array.lookups - array.hits);
    }
    for prefetcher in &counts.prefetchers {
        let (name, counts) = (&prefetcher.name, prefetcher.counts);
        count(format!("tlb.{name}.prefetches"), counts.issued);
        count(format!("tlb.{name}.prefetches_useful"), counts.useful);
        count(format!("tlb.{name}.prefetch_walk_references"), counts.walk_references);
    }
    for (level, &misses) in (1..).zip(&counts.level_misses) {
        count(format!("tlb.level{level}.misses"), misses);
    }
    count("walks".into(), counts.walks());
    count("walks_data".into(), counts.walks_data);
    count("walk_references".into(), counts.walk_references);
    if let Some(read) = counts.nested_walk_references {
        count("walk_references_guest".into(), read.guest);
        count("walk_references_host".into(), read.host);
    }
    for cache in &counts.walk_caches {
        count(format!("walk_cache.{}.lookups", cache.name), cache.lookups);
        count(format!("walk_cache.{}.hits", cache.name), cache.hits);
    }
    for cache in &counts.caches {
        let (name, requester) = (&cache.name, cache.requester.name());
        count(format!("cache.{name}.{requester}_lookups"), cache.counts.lookups);
        count(format!("cache.{name}.{requester}_hits"), cache.counts.hits);
        count(format!("cache.{name}.{requester}_misses"), cache.counts.lookups - cache.counts.hits);
    }
    of_whole_caches(&counts.caches, &mut count);
    if let Some(memory) = counts.memory {
        count("memory.walk_references".into(), memory.walk_references);
        count("memory.stall_cycles".into(), memory.stall_cycles);
    }
    count("walk_cycles".into(), counts.cycles.walk);
    count("l2_hit_cycles".into(), counts.cycles.lower_hit);
    if let Some(kernel) = &counts.kernel {
        of_kernel(kernel, &mut count);
    }
    if let Some(software) = &counts.software {
        of_software(software, &mut count);
        let mean = software.mean_lower(counts.instructions);
        record(&mut metrics, "partition.lower_mean", Number::Real(mean));
    }
    record(&mut metrics, "total_cycles", Number::Real(counts.cycles.total()));
    if let Some(totals) = &counts.data_side {
        add_data_side(&mut metrics, totals, counts.cycles.lower_hit.saturating_add(counts.cycles.walk));
    }
    add_quotients(&mut metrics);
    metrics
}

/// Counts of each cache of memory, for all its requesters together.
fn of_whole_caches(caches: &[CacheTotals], count: &mut impl FnMut(String, u64)) {
    for of_cache in caches.chunk_by(|a, b| a.name == b.name) {
        let sum = |of: fn(&CacheTotals) -> u64| of_cache.iter().map(of).sum();
        let name = &of_cache[0].name;
        count(format!("cache.{name}.writebacks"), sum(|cache| cache.counts.writebacks));
        if let slow @ 1.. = sum(|cache| cache.counts.slow_hits) {
            count(format!("cache.{name}.slow_hits"), slow);
        }
        if let waited @ 1.. = sum(|cache| cache.counts.write_stall_cycles) {
            count(format!("cache.{name}.write_stall_cycles"), waited);
        }
    }
}

/// A moving partition's positions, its start first; empty if it does not move.
pub fn partition(counts: &DesignCounts) -> Vec<PartitionMove> {
    let moves = counts.software.iter().flat_map(|software| &software.moves);
    moves.map(|&(instructions, lower)| PartitionMove { instructions, lower }).collect()
}

/// The counts of a part of a run.
pub fn group_metrics(counts: &SpaceCounts) -> Metrics {
    let all = [
        ("instructions", counts.instructions),
        ("references_data", counts.data_references),
        ("pages_touched", counts.pages_touched),
        ("walks", counts.walks_fetch + counts.walks_data),
        ("walks_fetch", counts.walks_fetch),
        ("walks_data", counts.walks_data),
        ("walk_cycles", counts.walk_cycles),
    ];
    let mut metrics = Metrics::new();
    all.into_iter().for_each(|(name, count)| record_count(&mut metrics, name, count));
    metrics
}

/// Adds what an operating system's kernel and servers did.
pub fn add_structure(metrics: &mut Metrics, counts: &StructureCounts) {
    let all = [
        ("system_calls", counts.calls),
        ("clock_ticks", counts.ticks),
        ("server_visits", counts.server_visits),
        ("kernel_references", counts.kernel_references),
        ("server_references", counts.server_references),
    ];
    all.into_iter().for_each(|(name, count)| record_count(metrics, name, count));
}

/// Misses of a software-managed TLB by class, with their cycles, and its partition's moves.
fn of_software(software: &SoftwareTotals, mut count: impl FnMut(String, u64)) {
    for class in MissClass::ALL {
        count(format!("misses.{}", class.name()), software.counts.of(class));
        count(format!("miss_cycles.{}", class.name()), software.counts.cycles[class as usize]);
    }
    count("misses.all".into(), software.counts.misses.iter().sum());
    count("miss_cycles.all".into(), software.counts.total_cycles());
    count("partition.lower".into(), software.lower.into());
    count("partition.moves".into(), software.moves.len().saturating_sub(1) as u64);
}

/// Which misses of a software-managed TLB have no price, if any: all sums are without their cycles.
pub fn unpriced(machine: &MachineSpec, metrics: &Metrics) -> Option<String> {
    let system = &machine.software()?.system;
    let occurred =
        |class: MissClass| metrics.get(&format!("misses.{}", class.name())).map_or(0.0, |n| n.as_f64());
    let class = MissClass::ALL
        .into_iter()
        .find(|&class| system.cycles[class as usize].is_none() && occurred(class) > 0.0)?;
    let priced = MissClass::ALL.into_iter().filter(|&class| system.cycles[class as usize].is_some());
    let priced: Vec<&str> = priced.map(MissClass::name).collect();
    Some(format!(
        "machine `{}`: {} misses of class {} occurred, and [walker.mapped.systems.{}] has no cycles for them (it has \
         {})",
        machine.name,
        occurred(class),
        class.name(),
        system.name,
        priced.join(", ")
    ))
}

/// A kernel's actions, and its cycles by account.
fn of_kernel(kernel: &KernelTotals, mut count: impl FnMut(String, u64)) {
    let (counts, accounts) = (&kernel.counts, &kernel.accounts);
    let events = [
        ("faults", counts.faults),
        ("promotions", counts.promotions.iter().sum()),
        ("promotions_in_place", counts.promotions_in_place),
        ("demotions", counts.demotions),
        ("refused_area", counts.refused_area),
        ("promoted_bytes", counts.promoted_bytes),
        ("trimmed_bytes", counts.trimmed_bytes),
        ("backed_bytes_peak", counts.backed_bytes_peak),
        ("untouched_bytes_peak", counts.untouched_bytes_peak),
        ("foreign_bytes_peak", counts.foreign_bytes_peak),
        ("file_faults", counts.file_faults),
        ("file_reads", counts.file_reads),
        ("copies_on_write", counts.copies_on_write),
        ("reused", counts.reused),
        ("write_notices", counts.write_notices),
    ];
    for (name, value) in events {
        count(format!("kernel.{name}"), value);
    }
    if let Some(killed) = kernel.killed {
        count("kernel.killed_at".into(), killed.instructions);
        count("kernel.killed_for_bytes".into(), killed.bytes);
    }
    if let Some(memory) = kernel.memory {
        let events = [
            ("faults_fallen_back", counts.faults_fallen_back),
            ("refused_memory", counts.refused_memory),
            ("compactions", counts.compactions),
            ("frames_moved", counts.frames_moved),
            ("reservations_refused", counts.reservations_refused),
            ("reservations_broken", counts.reservations_broken),
            ("eager_areas", counts.eager_areas),
            ("eager_bytes", counts.eager_bytes),
            ("eager_runs", counts.eager_runs),
            ("eager_left", counts.eager_left),
            ("swap_outs", counts.swap_outs),
            ("swap_ins", counts.swap_ins),
            ("frames", memory.frames),
            ("frames_free", memory.free),
        ];
        for (name, value) in events {
            count(format!("kernel.{name}"), value);
        }
        // Blocks of 2^n frames.
        for order in (0..memory.usable.len()).filter(|&order| order > 0) {
            count(format!("kernel.frames_free_in_blocks.{order}"), memory.usable[order]);
        }
    }
    if kernel.places {
        let moves = [
            ("recolorings", counts.recolorings),
            ("recolorings_repeated", counts.recolorings_repeated),
            ("recolorings_refused", counts.recolorings_refused),
            ("pages_recolored", counts.pages_recolored),
            ("pages_copied", counts.pages_copied),
            ("pages_copied_by_both", counts.pages_copied_by_both),
            ("pages_unlisted", counts.pages_unlisted),
        ];
        for (name, value) in moves {
            count(format!("kernel.{name}"), value);
        }
    }
    for account in Account::ALL.into_iter().filter(|&account| kernel.places || account != Account::Recolor) {
        count(format!("kernel.{account}_cycles"), accounts.of(account));
    }
    count("kernel.cycles".into(), accounts.total());
}

/// The miss classes that a TLB simulated by traps takes part in.
pub const TRAPPED: [MissClass; 4] = [MissClass::L1u, MissClass::L1k, MissClass::L2, MissClass::L3];

/// What traps tell: the misses of a TLB, not what hits.
fn by_traps(of: &DesignCounts, host_misses: u64) -> Metrics {
    let counts = of.software.as_ref().map(|software| software.counts).unwrap_or_default();
    let mut metrics = Metrics::new();
    for class in TRAPPED {
        record_count(&mut metrics, format!("misses.{}", class.name()), counts.of(class));
    }
    let others = [
        ("instructions", of.instructions),
        ("walks", counts.of(MissClass::L1u) + counts.of(MissClass::L1k)),
        ("walk_references", TRAPPED.iter().map(|&class| counts.of(class)).sum()),
        ("walk_cycles", counts.total_cycles()),
        ("host_misses", host_misses),
    ];
    others.into_iter().for_each(|(name, count)| record_count(&mut metrics, name, count));
    add_quotients(&mut metrics);
    metrics
}
