//! Every metric of a run is registered (the harness checks results against the schema), and every registered metric
//! occurs in some run.

use crate::harness::{EXAMPLE_MACHINE, Place};
use pagewalk::report::metrics::{CHAPTERS, all, find, page};
use serde_json::Value;
use std::collections::BTreeSet;

/// Metrics that no run here has, with their origin.
const ELSEWHERE: &[(&str, &str)] = &[
    ("spin_instructions", "profile of a program that waits by spinning: cases.rs"),
    ("misses", "the table of a study: crates/report/tests/sweep.rs"),
    ("cache.{cache}.slow_hits", "conflicts in a column-associative cache: crates/sim/tests/sim/equal"),
    ("cache.{cache}.write_stall_cycles", "stores that fill a write buffer: crates/sim/tests/sim/equal"),
    ("compulsory_misses", "a family of caches: crates/sweep/tests/sweep"),
    ("capacity_misses", "a family of caches: crates/sweep/tests/sweep"),
    ("conflict_misses", "a family of caches: crates/sweep/tests/sweep"),
    ("kernel.promotions.{size}", "simulate of a program under a kernel that builds superpages: offline.rs"),
];

/// The chapter of layout studies: `crates/sweep/src/splits.rs` checks it against the registry.
const OF_LAYOUTS: &str = "Sets of the last level";

/// A machine with prefetching, a walker of two dimensions and a cache of memory.
fn virtual_machine() -> String {
    let cache = "[[cache]]\nname = \"l2\"\nlevel = 2\nserves = [\"fetch\", \"load\", \"store\", \"walk\"]\n\
                 size = \"1M\"\nways = 8\nlatency = 14\n";
    EXAMPLE_MACHINE
        .replace("name = \"example\"", "name = \"virtual\"")
        .replace("ways = 12", "ways = 12\nprefetch = { kind = \"next-page\", entries = 16 }")
        .replace("kind = \"radix\"", "kind = \"nested\"\nhost = { levels = 4, page_size = \"4K\" }")
        .replace("walk_reference = 20", "memory = 200")
        + cache
}

/// Runs that together have every metric except those from elsewhere.
const RUNS: &[&[&str]] = &[
    &["-m", "golden_cove", "-m", "romer_1998", "-m", "./virtual.toml"],
    &["-m", "mips_r2000", "-m", "mips_r4000"],
    &["-m", "mips_r2000", "--by-traps", "16"],
    &["-m", "k8", "--cores", "2"],
    &["-m", "k8", "--structure", "mach3"],
    &["-m", "k8", "--os", "linux:memory.size=64M", "--os", "fixed:memory.size=64K,memory.when_full=oom"],
    &["-m", "karakostas_rmm_lite", "-m", "karakostas_tlb_pred", "-m", "karakostas_segment"],
    &["-m", "park_anchor", "-m", "./collapsing.toml", "-m", "./demand.toml"],
    &["-m", "k8", "--quantum", "100", "good.pwt"],
    &["-m", "romer_remapping", "--os", "fixed:recoloring=true"],
];

/// Names of all metrics of machines in a result.
fn metric_names(result: &Value) -> BTreeSet<String> {
    let own = result.get("metrics").and_then(Value::as_object);
    let own = own.into_iter().flatten().map(|(name, _)| name.clone());
    let inside = match result {
        Value::Object(object) => object.values().flat_map(metric_names).collect(),
        Value::Array(list) => list.iter().flat_map(metric_names).collect(),
        _ => BTreeSet::new(),
    };
    own.chain(inside).collect()
}

#[test]
fn every_registered_metric_is_emitted_by_some_run() {
    let place = Place::with_trace();
    place.write("virtual.toml", virtual_machine());
    let shown = |name: &str| place.good(&["machines", "show", "--toml", name]).stdout;
    let backed = "[ranges]\nbacking = \"demand\"\nmemory = { size = \"64M\" }\n";
    place.write("demand.toml", shown("karakostas_rmm").replace("[ranges]\n", backed));
    place.write("collapsing.toml", shown("karakostas_thp") + "\n[collapse]\ninterval = 100\n");
    let mut emitted = BTreeSet::new();
    for options in RUNS {
        let arguments = [&["simulate", "-q", "--json"], *options, &["good.pwt"]].concat();
        emitted.extend(metric_names(&place.good(&arguments).json()));
    }
    let emitted: BTreeSet<&str> =
        emitted.iter().map(|name| find(name).expect("it fits the schema").id).collect();
    let elsewhere = |id: &str| {
        let of_layouts = CHAPTERS.iter().filter(|chapter| chapter.title == OF_LAYOUTS);
        ELSEWHERE.iter().any(|(known, _)| *known == id)
            || of_layouts.flat_map(|chapter| chapter.metrics).any(|metric| metric.id == id)
    };
    let missing: Vec<&str> =
        all().map(|metric| metric.id).filter(|id| !emitted.contains(id) && !elsewhere(id)).collect();
    assert!(missing.is_empty(), "no run here emits {missing:?}");
    for (id, _) in ELSEWHERE {
        assert!(!emitted.contains(id), "{id} is emitted here");
    }
}

#[test]
fn the_command_prints_the_page() {
    assert_eq!(Place::new().good(&["schema", "metrics"]).stdout, page());
}
