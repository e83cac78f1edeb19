//! A machine's structure, for results.

use pagewalk_cache::{CacheFills, CacheSpec, StoreRule};
use pagewalk_report::schema::{
    CacheDescription, MachineDescription, Number, TlbDescription, WalkCacheDescription,
};
use pagewalk_translate::{MachineSpec, MissClass, WalkerSpec};
use pagewalk_units::Kind;

/// The machine file's prices of walks, in cycles, by key or by miss class.
pub fn walk_prices(machine: &MachineSpec) -> Vec<(&'static str, u64)> {
    if let Some(cycles) = machine.side_walk_cycles() {
        return vec![("walk", cycles)];
    }
    let key = match &machine.walker {
        WalkerSpec::Mapped(software) => {
            let price = |class: MissClass| Some((class.name(), software.system.cycles[class as usize]?));
            return MissClass::ALL.into_iter().filter_map(price).collect();
        }
        WalkerSpec::Software => "refill_cycles",
        _ if !machine.caches.is_empty() => "memory",
        _ => "walk_reference",
    };
    vec![(key, machine.cost.walk_reference)]
}

/// The caches of memory, level by level.
fn caches_of_memory(machine: &MachineSpec) -> Vec<CacheDescription> {
    let page = machine.paging.base().bytes();
    let of = |cache: &CacheSpec| CacheDescription {
        name: cache.name.clone(),
        level: cache.level.into(),
        serves: cache.serves.iter().map(|requester| requester.name().to_owned()).collect(),
        bytes: cache.bytes(),
        line_bytes: 1 << cache.line_shift,
        ways: cache.geometry.ways() as u64,
        colors: cache.colors(page).unwrap_or(0),
        latency: cache.latency,
        writes_through: cache.stores == StoreRule::Through,
        holds_victims: cache.fills == CacheFills::Victims,
        shared: cache.shared,
    };
    let mut caches: Vec<CacheDescription> = machine.caches.iter().map(of).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// A machine's structure, for the report.
pub fn description(machine: &MachineSpec) -> MachineDescription {
    let kinds = [(Kind::Fetch, "fetch"), (Kind::Load, "load"), (Kind::Store, "store")];
    let tlb = |tlb: &pagewalk_translate::TlbSpec| TlbDescription {
        name: tlb.name.clone(),
        level: tlb.level.into(),
        serves: kinds
            .iter()
            .filter(|(k, _)| tlb.serves.has(*k))
            .map(|(_, name)| (*name).to_owned())
            .collect(),
        page_sizes: tlb.page_sizes.iter().map(ToString::to_string).collect(),
        entries: tlb.entries(),
        pages_per_entry: tlb.pages_per_entry.into(),
        reserved: tlb.reserved.into(),
        ways: tlb.ways(),
        replacement: tlb.replacement.name().to_owned(),
        fills: tlb.fills.name().to_owned(),
        prefetch_entries: tlb.prefetch.map(|buffer| buffer.geometry.entries() as u64),
    };
    let caches = machine.walker.caches().into_iter().map(|(name, cache)| WalkCacheDescription {
        name,
        entries: cache.geometry.entries() as u64,
        ways: cache.geometry.ways() as u64,
    });
    let mut prices = walk_prices(machine);
    if !machine.caches.is_empty() && prices.iter().all(|(key, _)| *key != "memory") {
        prices.push(("memory", machine.cost.memory));
    }
    let walks = prices.into_iter().map(|(key, cycles)| (key, Number::Count(cycles)));
    let cost = [
        ("l2_hit", Number::Count(machine.cost.l2_hit)),
        ("cycles_per_instruction", Number::Real(machine.cost.cycles_per_instruction)),
    ];
    MachineDescription {
        name: machine.name.clone(),
        tlbs: machine.tlbs.iter().map(tlb).collect(),
        base_page: machine.paging.base().to_string(),
        huge_page: machine.paging.huge().to_string(),
        walker: machine.walker.to_string(),
        walk_levels: if let WalkerSpec::Radix(radix) = &machine.walker { radix.levels.into() } else { 0 },
        walk_caches: caches.collect(),
        caches: caches_of_memory(machine),
        cost: cost.into_iter().chain(walks).map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}
