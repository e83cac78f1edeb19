//! Arrangements, kernels and machines combine; what cannot is refused with a reason.

use crate::harness::{EXAMPLE_MACHINE, Outcome, Place, USAGE, joined, metric};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Two threads, each with twice the pages that the second level holds.
const WORK: &str = r#"
    #include <pthread.h>
    #include <stdlib.h>
    static void* work(void* at) {
        volatile char* memory = aligned_alloc(2 << 20, 16 << 20);
        for (int round = 0; round < 3; round++)
            for (long i = 0; i < 16 << 20; i += 4096) memory[i] += (long)at;
        free((char*)memory);
        return 0;
    }
    int main(void) {
        pthread_t threads[2];
        for (long i = 0; i < 2; i++) pthread_create(threads + i, 0, work, (void*)i);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
        return 0;
    }
"#;

/// A trace of that, and one of nothing.
fn recorded() -> Place {
    let (place, work) = Place::with_program("work", WORK);
    place.good(&["record", "-q", "-o", "t.pwt", "--", &work]);
    place
        .run(&["record", "-q", "-o", "empty.pwt", "--skip", "1000000000", "--", "/bin/true"])
        .refuses(USAGE, &["nothing was counted"]);
    place
}

fn simulate(place: &Place, options: &[&str]) -> Value {
    place
        .good(&joined(&[&["simulate", "-q", "-m", "golden_cove", "--thp", "never", "--json"], options]))
        .json()
}

/// Walks, faults and superpages of each kernel, by name.
fn kernels(result: &Value) -> Vec<(String, Vec<Option<u64>>)> {
    let rows = result["processes"][0]["kernels"].as_array().expect("rows of kernels");
    let of = |row: &Value| {
        let counts = ["walks", "kernel.faults", "kernel.promotions", "kernel.cycles"];
        let counts = counts.map(|name| row["metrics"][name].as_u64());
        (row["policy"].as_str().expect("a name").to_owned(), counts.to_vec())
    };
    rows.iter().map(of).collect()
}

#[test]
fn one_of_anything_is_as_none() {
    let place = recorded();
    let policies = [
        "--os",
        "linux",
        "--os",
        "asap",
        "--os",
        "candidates:budget=1,promote_sleep_millisecs=1",
        "--os",
        "approx-online",
        "--os",
        "offline:build_cycles_per_kib=3,replays=1",
    ];
    let with = |more: &[&str]| kernels(&simulate(&place, &joined(&[&policies, more])));
    let alone = with(&["t.pwt"]);
    assert_eq!(alone.len(), 6);
    assert_eq!(with(&["--cores", "1", "t.pwt"]), alone);
    // The second process does nothing.
    assert_eq!(with(&["--quantum", "1000000000000", "t.pwt", "empty.pwt"]), alone);
    let walks = |kernels: &[(String, Vec<Option<u64>>)], name: &str| {
        kernels
            .iter()
            .find(|(policy, _)| policy.starts_with(name))
            .and_then(|(_, counts)| counts[0])
            .expect("walks")
    };
    for policy in ["linux", "asap"] {
        assert!(walks(&alone, policy) < walks(&alone, "host"), "{policy}: {alone:?}");
    }
}

/// The rows of alternatives that every arrangement has, without those of a single process.
fn alternatives(result: &Value) -> Vec<Value> {
    let everywhere = ["all_4k", "thp", "all_2m", "double_tlb", "perfect_tlb"];
    let rows = result["processes"][0]["what_if"].as_array().expect("rows");
    let all = rows.iter().filter(|row| everywhere.contains(&row["id"].as_str().expect("an id")));
    all.cloned().collect()
}

#[test]
fn alternatives_go_with_every_arrangement() {
    let place = recorded();
    let with = |more: &[&str]| simulate(&place, &joined(&[&["--what-if"], more]));
    let alone = with(&["t.pwt"]);
    let rows = alternatives(&alone);
    assert_eq!(rows.len(), 5);
    let kernels = ["--os", "asap", "--os", "offline"];
    let under = with(&joined(&[&kernels, &["t.pwt"]]));
    let without = |result: &Value| {
        let mut process = result["processes"][0].clone();
        process["what_if"].as_array_mut().expect("rows").retain(|row| row["id"] != "kernel");
        ["machines", "attribution", "what_if", "heat", "reach"].map(|part| process[part].clone())
    };
    assert_eq!(without(&under), without(&alone), "kernels change nothing of the host's");
    let bare = simulate(&place, &joined(&[&kernels, &["t.pwt"]]));
    assert_eq!(under["processes"][0]["kernels"], bare["processes"][0]["kernels"]);
    assert_eq!(alternatives(&with(&["--cores", "1", "t.pwt"])), rows);
    // The second process does nothing.
    let turns = ["--quantum", "1000000000000", "t.pwt", "empty.pwt"];
    let in_turns = with(&turns);
    let counts = |rows: &[Value]| rows.iter().map(|row| row["walks"].as_u64()).collect::<Vec<_>>();
    assert_eq!(counts(&alternatives(&in_turns)), counts(&rows));
    // The maximum, and a case in which no page could be huge and global.
    for more in [&["--cores", "16", "t.pwt"][..], &["--quantum", "9999", "--global-files", "t.pwt", "t.pwt"]]
    {
        assert!(alternatives(&with(more)).len() >= 4, "{more:?}");
    }
    for more in [
        &["--cores", "2", "--structure", "mach3", "--os", "linux", "t.pwt"][..],
        &["--quantum", "1000", "--cores", "2", "--os", "linux", "t.pwt", "t.pwt"],
    ] {
        let found = with(more);
        let walks = |id: &str| {
            let rows = found["processes"][0]["what_if"].as_array().expect("rows");
            rows.iter().find(|row| row["id"] == id).and_then(|row| row["walks"].as_u64()).expect("walks")
        };
        assert_eq!(walks("all_4k"), walks("baseline"), "{more:?}: THP is never on");
        assert!(walks("all_2m") < walks("baseline") && walks("kernel") > 0, "{more:?}");
    }
}

/// The rows of single mappings: name, program and walks.
fn single_mappings(result: &Value) -> Vec<(String, Value, u64)> {
    let rows = result["processes"][0]["what_if"].as_array().expect("rows").iter();
    let single = rows.filter(|row| row["id"] == "mapping_2m");
    let of = |row: &Value| {
        let name = row["mapping"].as_str().expect("a name").to_owned();
        (name, row["process"].clone(), row["walks"].as_u64().expect("walks"))
    };
    single.map(of).collect()
}

#[test]
fn single_mappings_go_with_every_arrangement() {
    let place = recorded();
    let with = |more: &[&str]| simulate(&place, &joined(&[&["--what-if"], more]));
    let one_core = with(&["--cores", "1", "t.pwt"]);
    let of_one_core = single_mappings(&one_core);
    let baseline = metric(&one_core, "walks");
    // Each of the two areas has about half of the walks.
    for (name, program, walks) in &of_one_core[..2] {
        assert!(name.starts_with("[anonymous ") && program.is_null(), "{of_one_core:?}");
        assert!(walks * 10 < baseline * 6, "{of_one_core:?}");
    }
    // Whichever engine runs them, however long a turn is if there is no other.
    for same in [
        &["--quantum", "1000000000000", "t.pwt", "empty.pwt"][..],
        &["--os", "linux", "--cores", "1", "t.pwt"],
    ] {
        let found = single_mappings(&with(same));
        let counts = |rows: &[(String, Value, u64)]| {
            rows.iter().map(|(name, _, walks)| (name.clone(), *walks)).collect::<Vec<_>>()
        };
        assert_eq!(counts(&found), counts(&of_one_core), "{same:?}");
    }
    // A mapping is one program's: of two that run alike, each has its own rows.
    let twice = single_mappings(&with(&["--quantum", "100000", "--cores", "2", "t.pwt", "t.pwt"]));
    let programs: Vec<&str> = twice.iter().filter_map(|(_, program, _)| program.as_str()).collect();
    assert!(programs.len() == twice.len() && programs.len() >= 4, "{twice:?}");
    assert!(
        ["trace 1", "trace 2"].iter().all(|of| programs.iter().any(|name| name.contains(of))),
        "{twice:?}"
    );
    // Pages of files are global there, so no huge page has them.
    let global = with(&["--quantum", "100000", "--global-files", "t.pwt", "empty.pwt"]);
    assert!(single_mappings(&global).iter().all(|(name, ..)| name.starts_with('[')), "{global:?}");
    let advice = global["processes"][0]["advice"].as_str().expect("words");
    assert!(advice.starts_with("Without global pages, taking turns "), "{advice}");
    assert!(advice.contains("; with them it takes "), "{advice}");
    assert_eq!(single_mappings(&with(&["--structure", "mach3", "t.pwt"])).len(), of_one_core.len());
    // What can be read once only has no such rows, and says so.
    let mut piped = Command::new("cat").arg(place.path("t.pwt")).stdout(Stdio::piped()).spawn().expect("cat");
    let mut command = place.command(&[
        "simulate",
        "-m",
        "golden_cove",
        "--cores",
        "2",
        "--what-if",
        "--json",
        "/dev/stdin",
    ]);
    command.stdin(piped.stdout.take().expect("a pipe"));
    let outcome = Outcome::of(command.output().expect("the output"));
    assert!(piped.wait().expect("cat ends").success());
    let note = "no mapping is tried alone on huge pages: that reads a trace twice, and /dev/stdin is no file";
    assert!(outcome.stderr.contains(note), "{}", outcome.stderr);
    assert_eq!(single_mappings(&outcome.json()), []);
}

#[test]
fn every_arrangement_names_the_functions_that_walk() {
    let place = recorded();
    let functions = |more: &[&str]| {
        let result = simulate(&place, more);
        let attribution = result["processes"][0]["attribution"].clone();
        (attribution["functions"].as_array().expect("functions").clone(), result)
    };
    let (alone, _) = functions(&["t.pwt"]);
    assert_eq!(alone[0]["name"], "work", "{alone:?}");
    for same in [
        &["--cores", "1", "t.pwt"][..],
        &["--os", "asap", "t.pwt"],
        &["--quantum", "1000000000000", "t.pwt", "empty.pwt"],
    ] {
        assert_eq!(functions(same).0, alone, "{same:?}");
    }
    for more in [
        &["--cores", "2", "t.pwt"][..],
        &["--cores", "2", "--structure", "mach3", "t.pwt"],
        &["--quantum", "1000", "--structure", "mach3", "--os", "linux", "t.pwt", "t.pwt"],
    ] {
        let (found, result) = functions(more);
        let sum = |rows: &[Value], key: &str| rows.iter().filter_map(|row| row[key].as_u64()).sum::<u64>();
        let walks = sum(&found, "walks_fetch") + sum(&found, "walks_data");
        let groups = result["processes"][0]["attribution"]["groups"].as_array().expect("groups");
        let programs = groups.iter().filter(|group| group["kind"] == "process");
        let of_programs: u64 = programs.filter_map(|group| group["metrics"]["walks"].as_u64()).sum();
        let all = if of_programs > 0 { of_programs } else { metric(&result, "walks") };
        assert_eq!((found[0]["name"].as_str(), walks), (Some("work"), all), "{more:?}");
    }
}

#[test]
fn a_program_that_runs_goes_where_its_trace_does() {
    let (place, work) = Place::with_program("work", WORK);
    for options in [&["--cores", "2"][..], &["--structure", "mach3"], &["--what-if", "--os", "linux"]] {
        let command = joined(&[options, &["--", &work]]);
        assert!(metric(&simulate(&place, &command), "walks") > 1000, "{options:?}");
    }
    let command = ["simulate", "--quantum", "9", "--", &work];
    place.run(&command).refuses(USAGE, &["wait for each other's turns", "pagewalk record -o T.pwt"]);
}

#[test]
fn arrangements_go_together() {
    let place = recorded();
    let two = simulate(&place, &["--os", "linux", "--cores", "2", "t.pwt"]);
    assert_eq!(kernels(&two).len(), 2);
    assert!(metric(&two, "walks") > 0);
    let inside = simulate(&place, &["--os", "linux", "--structure", "mach3", "--cores", "2", "t.pwt"]);
    assert_eq!(inside["processes"][0]["structure"], "mach3");
    let groups = inside["processes"][0]["attribution"]["groups"].as_array().expect("groups");
    for (kind, name) in [("core", "1"), ("server", "unix"), ("kernel", "mach3")] {
        assert!(groups.iter().any(|group| group["kind"] == kind && group["name"] == name), "{groups:?}");
    }
    let turns = simulate(
        &place,
        &[
            "--os",
            "ingens",
            "--os",
            "offline:build_cycles_per_kib=3,replays=1",
            "--cores",
            "2",
            "--structure",
            "osf1",
            "--quantum",
            "1000",
            "--global-files",
            "t.pwt",
            "t.pwt",
        ],
    );
    let of_kernels = kernels(&turns);
    assert_eq!(of_kernels.len(), 3);
    let walks = |row: usize| of_kernels[row].1[0];
    assert!(walks(2) < walks(0), "superpages of both processes: {of_kernels:?}");
    assert!(metric(&turns, "switches") > 10);
}

/// Cores have caches of their own or share one, as the machine file says.
#[test]
fn caches_serve_a_core_or_all() {
    let place = recorded();
    let machine = |shared: bool| {
        let name = if shared { "shared.toml" } else { "private.toml" };
        let cache = format!(
            "[[cache]]\nname = \"l2\"\nlevel = 2\nserves = [\"load\", \"store\", \"walk\"]\nsize = \"1M\"\nways = 8\n\
             latency = 14\nshared = {shared}\n"
        );
        place.write(name, EXAMPLE_MACHINE.replace("walk_reference = 20", "memory = 200") + &cache);
        let machine = format!("./{name}");
        let run = |cores: &str| {
            let result =
                place.good(&["simulate", "-q", "-m", &machine, "--cores", cores, "--json", "t.pwt"]).json();
            metric(&result, "cache.l2.load_hits")
        };
        (run("1"), run("2"))
    };
    let ((one, private), (one_shared, shared)) = (machine(false), machine(true));
    assert_eq!(one, one_shared);
    assert_eq!(shared, one, "one cache sees the same references, whoever makes them");
    assert_ne!(private, one);
}
