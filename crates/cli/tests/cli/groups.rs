//! The parts of a run with counters of their own add up in every arrangement, and the report shows them.

use crate::harness::{BAD_INPUT, Place, joined};
use pagewalk::report::groups::{DIVISIONS, DivisionTotal, PROCESSES};
use pagewalk::report::metrics::{Aggregation, find};
use pagewalk::report::schema::{FunctionRow, MappingRow, Metrics, Number, ProcessResult, RunResult};
use pagewalk::report::{Class, from_json};
use std::collections::BTreeSet;

/// Two threads, one of which visits eight times as many pages.
const TWO_THREADS: &str = r#"
    #include <pthread.h>
    #include <stdlib.h>
    static char* memory;
    static void* visit(void* pages) {
        for (int round = 0; round < 8; round++)
            for (long page = 0; page < (long)pages; page++) memory[page << 12]++;
        return 0;
    }
    int main(void) {
        memory = aligned_alloc(1 << 12, 4096 << 12);
        pthread_t threads[2];
        pthread_create(&threads[0], 0, visit, (void*)512);
        pthread_create(&threads[1], 0, visit, (void*)4096);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
        return 0;
    }
"#;

/// A metric of each group of this kind, by name.
fn groups(process: &ProcessResult, kind: &str, metric: &str) -> Vec<(String, u64)> {
    let groups = process.attribution.groups.iter().filter(|group| group.kind == kind);
    groups.map(|group| (group.name.clone(), count(&group.metrics, metric).expect("a count"))).collect()
}

fn count(metrics: &Metrics, name: &str) -> Option<u64> {
    match metrics.get(name)? {
        Number::Count(count) => Some(*count),
        Number::Real(_) => None,
    }
}

/// The sum over processes, if they are groups.
fn of_processes(process: &ProcessResult, metric: &str) -> Option<u64> {
    let groups = PROCESSES.groups(process).filter(|(kind, _)| !kind.beside_programs);
    groups.filter_map(|(_, group)| count(&group.metrics, metric)).reduce(|sum, count| sum + count)
}

/// Expects the groups of each division to add up to their whole in each metric that does and that the whole has.
/// Returns the kinds of groups, without repetition.
#[track_caller]
fn add_up(result: &RunResult) -> Vec<&str> {
    let process = &result.processes[0];
    let machine = &process.machines[0].metrics;
    for division in DIVISIONS {
        let names: BTreeSet<&String> =
            division.groups(process).flat_map(|(_, group)| group.metrics.keys()).collect();
        for name in names {
            let metric = find(name).unwrap_or_else(|| panic!("`{name}` is not registered"));
            assert_eq!(metric.adds, Aggregation::Sum, "{name}");
            let is_measured = metric.class == Class::Measured;
            // The measure of programs is reported only for them.
            let groups = division.groups(process).filter(|(kind, _)| !(is_measured && kind.beside_programs));
            let sum: u64 = groups.filter_map(|(_, group)| count(&group.metrics, name)).sum();
            let whole = match division.whole {
                DivisionTotal::Machine => count(machine, name),
                DivisionTotal::Processes => of_processes(process, name).or_else(|| count(machine, name)),
            };
            if let Some(whole) = whole {
                assert_eq!(sum, whole, "{name} of {:?}", process.attribution.groups);
            }
        }
    }
    let mut kinds: Vec<&str> = process.attribution.groups.iter().map(|group| group.kind.as_str()).collect();
    kinds.dedup();
    for (kind, whole) in [("kernel", "kernel_references"), ("server", "server_references")] {
        let all = ["instructions", "references_data"].iter().flat_map(|name| groups(process, kind, name));
        let sum: u64 = all.map(|(_, count)| count).sum();
        assert_eq!(sum, count(machine, whole).unwrap_or(0), "{whole}");
    }
    kinds
}

const THREADS: &[&str] = &["thread"];
const ON_CORES: &[&str] = &["core", "thread"];
const IN_TURNS: &[&str] = &["process", "thread"];
const IN_MACH: &[&str] = &["process", "kernel", "server", "thread"];

#[test]
fn groups_add_up_in_every_arrangement() {
    let (place, program) = Place::with_program("two", TWO_THREADS);
    place.good(&["record", "-q", "-o", "t.pwt", "--", &program]);
    let simulate = |machine: &str, options: &[&str]| {
        let usual = ["simulate", "-q", "--json", "-m", machine, "--thp", "never"];
        from_json(&place.good(&joined(&[&usual, options, &["t.pwt"]])).stdout).expect("a result")
    };
    let alone = simulate("k8", &[]);
    assert_eq!(add_up(&alone), THREADS);
    // Whichever of the two ran first.
    let mut walks = groups(&alone.processes[0], "thread", "walks_data");
    walks.sort_unstable_by_key(|&(_, walks)| std::cmp::Reverse(walks));
    assert!(walks.len() == 3 && walks[0].1 > 4096 * 7 && walks[1].1 >= 512, "{walks:?}");
    let with_rows = simulate("k8", &["--what-if"]);
    assert_eq!(with_rows.processes[0].attribution.groups, alone.processes[0].attribution.groups);
    let arrangements: [(&[&str], &[&str]); 11] = [
        (&["--os", "linux"], THREADS),
        (&["--cores", "2"], ON_CORES),
        (&["--cores", "1"], ON_CORES),
        (&["--cores", "2", "--os", "linux"], ON_CORES),
        (&["--structure", "mach3"], IN_MACH),
        (&["--structure", "mach3", "--os", "linux"], IN_MACH),
        (&["--structure", "mach3", "--cores", "2"], &["process", "kernel", "server", "core", "thread"]),
        (&["--structure", "osf1", "--cores", "2", "--os", "linux"], &["process", "kernel", "core", "thread"]),
        (&["--quantum", "1000", "t.pwt"], IN_TURNS),
        (&["--quantum", "1000", "--global-files", "--os", "linux", "t.pwt"], IN_TURNS),
        (
            &["--quantum", "1000", "--structure", "mach3", "--cores", "2", "t.pwt"],
            &["process", "kernel", "server", "core", "thread"],
        ),
    ];
    for machine in ["k8", "mips_r2000", "karakostas_thp"] {
        for (options, kinds) in arrangements {
            let result = simulate(machine, options);
            assert_eq!(add_up(&result), kinds, "{machine} {options:?}");
            check_payers(&result, &format!("{machine} {options:?}"));
        }
    }
    let turns = simulate("k8", &["--quantum", "1000", "t.pwt"]);
    let names: Vec<(String, u64)> = groups(&turns.processes[0], "thread", "walks");
    assert!(names.iter().all(|(name, _)| name.contains(" of ") && name.contains("(pid ")), "{names:?}");
    let owners = turns.processes[0].attribution.mappings.iter().map(|row| row.process.as_deref());
    assert!(owners.clone().all(|owner| owner.is_some_and(|owner| owner.contains("(pid "))));
    assert!(owners.collect::<BTreeSet<_>>().len() == 2, "the same trace twice is told apart");
}

/// Mappings, functions and the heat map each have all walks of the programs.
fn check_payers(result: &RunResult, what: &str) {
    let process = &result.processes[0];
    let programs = groups(process, "process", "walks");
    let all = match programs.is_empty() {
        true => process.machines[0].metrics["walks"].as_f64() as u64,
        false => programs.iter().map(|(_, walks)| walks).sum(),
    };
    let attribution = &process.attribution;
    assert!(attribution.pages_left_out > 0 || all < 1000, "{what}: more than are shown");
    assert_eq!(attribution.mappings.iter().map(MappingRow::walks).sum::<u64>(), all, "{what}");
    assert_eq!(attribution.functions.iter().map(FunctionRow::walks).sum::<u64>(), all, "{what}");
    let heat: u64 = process.heat.rows.iter().flat_map(|row| &row.walks).sum();
    assert_eq!(heat, if process.origin == "interleaved" { 0 } else { all }, "{what}");
    let touched: u64 = attribution.mappings.iter().map(|row| row.pages_touched).sum();
    // Data sides do not count pages.
    if let Some(all) = process.machines[0].metrics.get("pages_touched") {
        assert_eq!(touched as f64, all.as_f64(), "{what}");
    }
}

#[test]
fn the_report_shows_threads_hottest_first() {
    let (place, program) = Place::with_program("two", TWO_THREADS);
    let profile = ["profile", "-m", "k8", "--thp", "never", "-o", "r.json", "-o", "r.html", "--", &program];
    let text = place.good(&profile).stderr;
    let result = from_json(&String::from_utf8(place.read("r.json")).expect("text")).expect("a result");
    assert_eq!(add_up(&result), THREADS);
    let table = text.split("Thread ").nth(1).unwrap_or_else(|| panic!("no table of threads: {text}"));
    let mut cycles = groups(&result.processes[0], "thread", "walk_cycles");
    cycles.sort_by_key(|&(_, cycles)| std::cmp::Reverse(cycles));
    let rows: Vec<&str> =
        table.lines().skip(1).take(3).filter_map(|line| line.split_whitespace().next()).collect();
    let names: Vec<&str> = cycles.iter().take(3).map(|(name, _)| name.as_str()).collect();
    assert_eq!(rows, names, "{table}");
    let page = String::from_utf8(place.read("r.html")).expect("text");
    assert!(page.contains("<section id=\"threads\"><h2>Walks by thread</h2>"));
    // A program of one thread has no groups.
    let one = place.good(&["profile", "-q", "--json", "--", "/bin/true"]).json();
    assert!(one["processes"][0]["attribution"]["groups"].is_null());
}

/// Results saved by an older version are readable, alone and with others.
#[test]
fn results_of_version_1_make_the_same_page() {
    let place = Place::with_trace();
    let simulate = ["simulate", "-q", "-m", "k8", "--thp", "never", "-o", "r.json", "good.pwt"];
    place.good(&simulate);
    let text = String::from_utf8(place.read("r.json")).expect("text");
    place.write("old.json", text.replacen("pagewalk.result/2", "pagewalk.result/1", 1));
    place.good(&["report", "-o", "old.html", "old.json"]);
    place.good(&["report", "-o", "r.html", "r.json"]);
    assert!(place.read("old.html") == place.read("r.html"));
    place.good(&["report", "-o", "both.html", "old.json", "r.json"]);
    place.write("newer.json", text.replacen("pagewalk.result/2", "pagewalk.result/3", 1));
    place.run(&["report", "-o", "newer.html", "newer.json"]).refuses(
        BAD_INPUT,
        &[
            "newer.json",
            "\"pagewalk.result/3\"",
            "`report` reads pagewalk.result/2, pagewalk.result/1",
            "profile",
        ],
    );
}
