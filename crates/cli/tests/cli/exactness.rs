//! A trace gives exactly what `profile` gave online, and the same input always gives the same bytes.

use crate::harness::{BAD_INPUT, Outcome, Place, USAGE, assert_same, joined, metric};
use serde_json::Value;

/// Touches 16 MiB at random in three parts, the middle one between marks 1 and 2, and prints.
const WORK: &str = r#"
    #include "pagewalk.h"
    #include <stdio.h>
    #include <stdlib.h>
    static unsigned state = 1;
    static long visit(unsigned char* table, int times) {
        long sum = 0;
        for (int i = 0; i < times; i++) {
            state = state * 1664525u + 1013904223u;
            sum += table[state >> 8]++;
        }
        return sum;
    }
    int main(void) {
        unsigned char* table = calloc(1, 1 << 24);
        long sum = visit(table, 100000);
        PAGEWALK_MARK(1);
        sum += visit(table, 50000);
        PAGEWALK_MARK(2);
        sum += visit(table, 100000);
        printf("{\"not\": \"ours\", \"sum\": %ld}\n", sum);
        return 0;
    }
"#;

/// A machine whose TLBs hold pages of any size.
const ANY_SIZE: &str = r#"
schema = 1
name = "any_size"
[[tlb]]
name = "itlb"
level = 1
serves = ["fetch"]
page_sizes = ["4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M", "4M", "8M"]
entries = 32
[[tlb]]
name = "dtlb"
level = 1
serves = ["load", "store"]
page_sizes = ["4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M", "4M", "8M"]
entries = 32
[walker]
kind = "software"
refill_cycles = 30
[cost]
l2_hit = 0
"#;

/// A result without what differs between two runs of a program: process ids, and our own command line.
fn comparable(mut result: Value) -> Value {
    result["tool"]["command_line"] = Value::Null;
    for process in result["processes"].as_array_mut().expect("a list of processes") {
        process["pid"] = Value::Null;
        process["parent"] = Value::Null;
    }
    result
}

/// Records and profiles `program`, and compares all results.
fn assert_trace_equals_profile(place: &Place, options: &[&str], program: &[&str]) -> Value {
    place.good(&joined(&[&["profile", "-q", "-o", "online.json"], options, &["--"], program]));
    place.good(&joined(&[&["record", "-q", "-o", "t.pwt", "--"], program]));
    place.good(&joined(&[&["simulate", "-q", "--what-if", "-o", "offline.json"], options, &["t.pwt"]]));
    let (online, offline) = (comparable(place.json("online.json")), comparable(place.json("offline.json")));
    assert_same(&online, &offline, &program.join(" "));
    online
}

#[test]
fn a_trace_gives_what_profile_gave() {
    let (place, work) = Place::with_program("work", WORK);
    // A machine size that the program's pages exceed, whatever the host.
    let result = assert_trace_equals_profile(&place, &["-m", "golden_cove"], &[&work]);
    assert!(metric(&result, "walks") > 100_000, "{}", metric(&result, "walks"));
    let alternatives = result["processes"][0]["what_if"].as_array().unwrap();
    let has = |id: &str| alternatives.iter().any(|alternative| alternative["id"] == id);
    for id in ["baseline", "all_4k", "thp", "all_2m", "mapping_2m", "double_tlb", "perfect_tlb"] {
        assert!(has(id), "{id} in {alternatives:?}");
    }
}

#[test]
fn so_it_does_for_a_program_with_libraries() {
    let place = Place::new();
    let text: String = (0..4000).map(|i| format!("line {} of a text\n", i * 7919 % 4001)).collect();
    place.write("text", text);
    let result = assert_trace_equals_profile(&place, &[], &["gzip", "-c", "text"]);
    let mappings = result["processes"][0]["attribution"]["mappings"].as_array().unwrap();
    let named = |end: &str| mappings.iter().any(|row| row["name"].as_str().unwrap().ends_with(end));
    assert!(named("/gzip") && named("/libc.so.6"), "{mappings:?}");
}

#[test]
fn machines_together_count_as_each_alone() {
    let (place, work) = Place::with_program("work", WORK);
    let both = ["-m", "zen4", "-m", "skylake_sp"];
    let result = assert_trace_equals_profile(&place, &both, &[&work]);
    for (index, machine) in ["zen4", "skylake_sp"].into_iter().enumerate() {
        let alone = place.good(&["simulate", "--json", "-m", machine, "t.pwt"]).json();
        assert_eq!(alone["machines"].as_array().unwrap().len(), 1);
        assert_same(&alone["machines"][0], &result["machines"][index], "a machine");
        assert_same(
            &alone["processes"][0]["machines"][0],
            &result["processes"][0]["machines"][index],
            "a machine of the process",
        );
        assert_eq!(alone["processes"][0]["what_if"], Value::Array(vec![]));
    }
    // The first machine determines whose mappings' walks are shown.
    let other = place.good(&["simulate", "--json", "-m", "skylake_sp", "-m", "zen4", "t.pwt"]).json();
    assert_eq!(other["machines"][1], result["machines"][0]);
    // Their names tell results apart.
    place.write(
        "my.toml",
        include_str!("../../../../machines/zen4.toml").replace("entries = 72", "entries = 36"),
    );
    let twice = ["simulate", "-m", "zen4", "-m", "./my.toml", "t.pwt"];
    place.run(&twice).refuses(USAGE, &["two machines are named `zen4`", "each machine once"]);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let (place, work) = Place::with_program("work", WORK);
    place.good(&["record", "-o", "a.pwt", "--", &work]);
    let simulate = ["simulate", "--what-if", "--json", "-o", "report.html", "a.pwt"];
    let first = (place.good(&simulate).stdout, place.read("report.html"));
    let second = (place.good(&simulate).stdout, place.read("report.html"));
    assert!(first == second);
    place.good(&["profile", "-o", "b.json", "--", &work]);
    place.good(&["profile", "-o", "c.json", "--", &work]);
    assert_same(&comparable(place.json("b.json")), &comparable(place.json("c.json")), "twice the same");
}

/// Each way to select a part of the run: online, while recording, and when reading the trace.
#[test]
fn a_region_is_the_same_online_and_in_a_trace() {
    let (place, work) = Place::with_program("work", WORK);
    place.good(&["record", "-o", "whole.pwt", "--", &work]);
    let whole = metric(&place.good(&["simulate", "--json", "whole.pwt"]).json(), "instructions");
    let marks = ["--from-marker", "1", "--to-marker", "2"];
    for (region, expected) in [
        (&marks[..], 50_000 * 7..50_000 * 20),
        (&["--from-marker", "2"], 100_000 * 7..100_000 * 20 + 20_000),
        (&["--to-marker", "1"], 100_000 * 7..100_000 * 20 + 20_000),
        (&["--skip", "200000"], whole - 200_000 - 100..whole - 200_000 + 1),
        (&["--max-instructions", "300000"], 300_000..300_100),
        (&["--skip", "1000", "--max-instructions", "300000"], 300_000..300_100),
        (&joined(&[&marks, &["--skip", "5000", "--max-instructions", "70000"]]), 70_000..70_100),
    ] {
        place.good(&joined(&[&["profile", "-o", "online.json"], region, &["--", &work]]));
        let online = comparable(place.json("online.json"));
        let read = joined(&[&["simulate", "--what-if", "--json"], region, &["whole.pwt"]]);
        assert_same(&comparable(place.good(&read).json()), &online, &format!("{region:?} of a whole trace"));
        place.good(&joined(&[&["record", "-o", "part.pwt"], region, &["--", &work]]));
        let part = comparable(place.good(&["simulate", "--what-if", "--json", "part.pwt"]).json());
        assert_same(&part, &online, &format!("{region:?}"));
        let instructions = metric(&online, "instructions");
        assert!(expected.contains(&instructions), "{region:?}: {instructions} of {whole}");
    }
}

#[test]
fn a_region_that_never_begins_is_an_error_that_says_how_much_there_is() {
    let (place, work) = Place::with_program("work", WORK);
    let outcome = place.run(&["profile", "--from-marker", "7", "--skip", "3", "-o", "r.json", "--", &work]);
    let message = "nothing was counted: the program never came to where --from-marker 7 --skip 3 begins";
    outcome.refuses(USAGE, &[message, ", markers: 1, 2"]);
    assert!(!place.path("r.json").exists());
    let outcome = place.run(&["record", "--skip", "1000000000", "-o", "t.pwt", "--", &work]);
    outcome.refuses(USAGE, &["where --skip 1000000000 begins"]);
    place.write("d.din", "2 1000\n0 2000\n2 1004\n1 3000\n");
    place.good(&["trace", "import", "-o", "d.pwt", "d.din"]);
    for command in [&["simulate"][..], &["trace", "dump"], &["layout", "analyze"]] {
        let outcome = place.run(&joined(&[command, &["--skip", "9", "d.pwt"]]));
        outcome.refuses(USAGE, &["where --skip 9 begins; instructions in all: 2, records: 4"]);
    }
}

/// A trace that is cut off has figures of a beginning, but a region before the cut is whole.
#[test]
fn what_is_lost_behind_a_region_does_not_matter() {
    let (place, work) = Place::with_program("work", WORK);
    place.good(&["record", "-q", "-o", "t.pwt", "--", &work]);
    let whole = place.read("t.pwt");
    place.write("cut.pwt", &whole[..whole.len() - 20]);
    let simulate = |more: &[&str]| place.run(&joined(&[&["simulate", "-q", "--what-if", "--json"], more]));
    let cut = simulate(&["cut.pwt"]);
    cut.tells_damage(&["is cut off at byte"]);
    let process = &cut.json()["processes"][0];
    assert!(process["cut_short"].as_str().is_some_and(|why| why.contains("is cut off at byte")), "{process}");
    assert_eq!(process["advice"], "");
    let region = |trace| {
        let told = simulate(&["--max-instructions", "100000", trace]);
        assert_eq!((told.code, told.stderr.as_str()), (0, ""));
        let mut result = comparable(told.json());
        result["processes"][0]["ended"] = Value::Null;
        result
    };
    assert_same(&region("cut.pwt"), &region("t.pwt"), "a region before the cut");
    let turns = simulate(&["--quantum", "1000", "--max-instructions", "100000", "cut.pwt", "t.pwt"]);
    assert_eq!((turns.code, &turns.json()["processes"][0]["losses"]), (0, &Value::Array(Vec::new())));
}

#[test]
fn a_trace_that_never_comes_to_the_region_is_named_beside_others() {
    let place = Place::new();
    place.write("long.din", "2 1000\n0 2000\n".repeat(20));
    place.write("short.din", "2 1000\n0 2000\n2 1004\n");
    for name in ["long", "short"] {
        let (pwt, din) = (format!("{name}.pwt"), format!("{name}.din"));
        let told = place.good(&["trace", "import", "-o", &pwt, &din]).stderr;
        assert!(told.contains("`din` has no sizes"), "{told}");
    }
    place
        .run(&["trace", "import", "-o", "x.pwt", "long.pwt"])
        .refuses(BAD_INPUT, &["a trace of pagewalk already"]);
    for turns in [&[][..], &["--quantum", "3"]] {
        let told =
            place.good(&joined(&[&["simulate"], turns, &["--skip", "9", "short.pwt", "long.pwt"]])).stderr;
        let why = "short.pwt: nothing of it counts: the program never came to where --skip 9 begins";
        assert!(told.contains(why) && !told.contains("long.pwt: nothing"), "{told}");
    }
}

#[test]
fn a_region_that_never_ends_is_explained() {
    let (place, work) = Place::with_program("work", WORK);
    let told = |outcome: Outcome, id: &str| {
        outcome.stderr.contains(&format!("the mark of --to-marker {id} never came"))
    };
    let marks = |id: &'static str| ["--from-marker", "1", "--to-marker", id];
    let profile = |id| place.good(&joined(&[&["profile", "-q"], &marks(id), &["--", &work]]));
    assert!(told(profile("22"), "22") && !told(profile("2"), "2"));
    place.good(&["record", "-q", "-o", "t.pwt", "--", &work]);
    assert!(told(place.good(&joined(&[&["simulate"], &marks("22"), &["t.pwt"]])), "22"));
    assert!(told(place.good(&joined(&[&["record", "-q", "-o", "u.pwt"], &marks("7"), &["--", &work]])), "7"));
}

/// Machines without identifiers flush at each switch: one process after the other costs what each costs alone.
#[test]
fn processes_in_turns_cost_what_they_cost_alone_but_for_switches() {
    let (place, work) = Place::with_program("work", WORK);
    place.good(&["record", "-q", "-o", "a.pwt", "--", &work]);
    place.good(&["record", "-q", "-o", "b.pwt", "--", "/bin/true"]);
    place.good(&["simulate", "-q", "-m", "k8", "-o", "apart.json", "a.pwt", "b.pwt"]);
    let turns = |quantum: &str, to: &str| {
        place.good(&["simulate", "-q", "-m", "k8", "--quantum", quantum, "-o", to, "a.pwt", "b.pwt"]);
        place.json(to)
    };
    let (apart, whole, short) =
        (place.json("apart.json"), turns("1000000000000", "whole.json"), turns("1000", "short.json"));
    let metrics = |result: &Value| {
        let mut metrics = result["machines"][0]["metrics"].as_object().expect("metrics").clone();
        metrics.remove("switches");
        metrics
    };
    assert_eq!(metrics(&whole), metrics(&apart));
    assert_eq!(metric(&whole, "switches"), 1);
    assert_eq!(whole["processes"][0]["program"], "work + true");
    assert!(metric(&short, "switches") > 10);
    for count in ["instructions", "references", "pages_touched"] {
        assert_eq!(metric(&short, count), metric(&apart, count), "{count}");
    }
    assert!(metric(&short, "walks") > metric(&apart, "walks"));
    let rows = short["processes"][0]["what_if"].as_array().expect("rows");
    let walks = |id: &str| rows.iter().find(|row| row["id"] == id).expect(id)["walks"].as_u64();
    assert_eq!(walks("flush"), walks("baseline"));
    assert_eq!(walks("alone"), Some(metric(&apart, "walks")));
    assert!(walks("identifiers") < walks("flush"));
}

/// The ring's token is passed in the order of the traces: each visit is a turn, and so is what precedes the first.
#[test]
fn turns_end_where_processes_wait_for_the_token() {
    let (place, ring) = Place::with_program("ring", include_str!("../../../../workloads/ring.c"));
    place.good(&["record", "-q", "-o", "ring.pwt", "--", &ring, "3", "4", "50"]);
    let calls = |trace: &&str| {
        let info = place.good(&["trace", "info", "--json", trace]).json();
        info["events"]["syscall"].as_u64().expect("calls")
    };
    // Children are numbered as they begin, in any order. The ring's first reads once more than the others.
    let mut children = ["ring.1.pwt", "ring.2.pwt", "ring.3.pwt"];
    children.sort_by_key(|trace| std::cmp::Reverse(calls(trace)));
    let run = |options: &[&str]| {
        let command = ["simulate", "-q", "-m", "mips_r2000", "--switch-at", "read", "--json", "ring.pwt"];
        place.good(&joined(&[&command, options, &children])).json()
    };
    let result = run(&[]);
    assert_eq!(result["processes"][0]["program"], "4 × ring");
    // The parent starts, then three processes do; each is visited fifty times. The first one takes the token back and
    // ends; then the parent goes on, and ends too.
    assert_eq!(metric(&result, "switches"), 1 + 3 + 150 + 1 + 1 - 1);
    let shorter = run(&["--quantum", "100"]);
    assert!(metric(&shorter, "switches") > metric(&result, "switches"));
    assert_eq!(metric(&shorter, "instructions"), metric(&result, "instructions"));
    assert!(run(&["--switch-at", "0"])["processes"] == result["processes"], "by number too");
    let bad = place.run(&["simulate", "--switch-at", "nonesuch", "ring.pwt"]);
    assert_eq!(bad.code, USAGE);
    assert!(bad.stderr.contains("--switch-at: \"nonesuch\""), "{}", bad.stderr);
    let bad = place.run(&["simulate", "--global-files", "ring.pwt"]);
    assert_eq!(bad.code, USAGE);
}

/// A structure adds the kernel's and its servers' work, and leaves the program's counters as they are.
#[test]
fn structures_add_to_what_programs_do() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "ls.pwt", "--", "ls", "-l", "/usr/include"]);
    let run = |options: &[&str]| {
        place.good(&joined(&[&["simulate", "-q", "-m", "mips_r2000", "--json"], options])).json()
    };
    let alone = run(&["ls.pwt"]);
    let under = |structure: &str| run(&["--structure", structure, "ls.pwt"]);
    let (ultrix, osf1, mach3) = (under("ultrix"), under("osf1"), under("mach3"));
    for (name, result) in [("ultrix", &ultrix), ("osf1", &osf1), ("mach3", &mach3)] {
        assert_eq!(result["processes"][0]["structure"], name);
        for count in ["instructions", "references", "pages_touched"] {
            assert_eq!(metric(result, count), metric(&alone, count), "{name}, {count}");
        }
        let rows = result["processes"][0]["what_if"].as_array().expect("rows");
        let program = rows.iter().find(|row| row["id"] == "program").expect("a row");
        assert_eq!(program["walks"].as_u64(), Some(metric(&alone, "walks")));
        assert_eq!(metric(result, "system_calls"), metric(&ultrix, "system_calls"));
    }
    // The calls of two regions are those of the run.
    let first = run(&["--structure", "mach3", "--max-instructions", "100000", "ls.pwt"]);
    let rest = metric(&first, "instructions").to_string();
    let rest = run(&["--structure", "mach3", "--skip", &rest, "ls.pwt"]);
    let calls = |result| metric(result, "system_calls");
    assert!(calls(&first) > 0 && calls(&first) + calls(&rest) == calls(&mach3), "{first}, {rest}");
    // Outside, those that report a child's end count as little as others.
    place.good(&["record", "-q", "-o", "sh.pwt", "--", "sh", "-c", "/bin/true; /bin/true; :"]);
    let shell = |more: &[&str]| run(&joined(&[&["--structure", "mach3", "sh.pwt"], more]));
    let (whole, start) = (shell(&[]), shell(&["--max-instructions", "1"]));
    let end = shell(&["--skip", &metric(&start, "instructions").to_string()]);
    assert!(calls(&start) == 0 && calls(&end) == calls(&whole), "{start}, {end}");
    let kernel = |result| metric(result, "kernel_references");
    assert!(kernel(&osf1) > 5 * kernel(&ultrix));
    assert!(metric(&alone, "walks") < metric(&ultrix, "walks"));
    assert!(metric(&ultrix, "walks") < metric(&osf1, "walks"));
    assert!(metric(&osf1, "walks") < metric(&mach3, "walks"));
    assert_eq!(metric(&osf1, "server_references"), 0);
    assert!(metric(&mach3, "server_references") > 0);
    // The same in one turn, with another process after it that does nothing.
    place
        .run(&["record", "-q", "-o", "empty.pwt", "--skip", "1000000000", "--", "/bin/true"])
        .refuses(USAGE, &["nothing was counted"]);
    let turns = run(&["--structure", "mach3", "--switch-at", "wait4", "ls.pwt", "empty.pwt"]);
    assert_eq!(turns["processes"][0]["structure"], "mach3");
    assert!(metric(&turns, "walks") >= metric(&mach3, "walks"));
    place.write("bad.toml", "schema = 1\nname = \"bad\"\n[kernel]\nstores = 2.0\n");
    let cases: [(&str, i32, &[&str]); 3] = [
        ("nonesuch", USAGE, &["nonesuch", "mach3_afs_out"]),
        ("./bad.toml", BAD_INPUT, &["./bad.toml", "missing field", "docs/reference/structure-files.md"]),
        ("./absent.toml", BAD_INPUT, &["./absent.toml"]),
    ];
    for (structure, code, parts) in cases {
        let bad = place.run(&["simulate", "--structure", structure, "ls.pwt"]);
        assert_eq!(bad.code, code, "{}", bad.stderr);
        parts.iter().for_each(|part| assert!(bad.stderr.contains(part), "{part}: {}", bad.stderr));
    }
}

/// The row about global pages shows what the option does, and vice versa.
#[test]
fn processes_of_one_program_share_global_pages() {
    let (place, work) = Place::with_program("work", WORK);
    place.good(&["record", "-q", "-o", "a.pwt", "--", &work]);
    place.good(&["record", "-q", "-o", "b.pwt", "--", &work]);
    let run = |machine: &str, options: &[&str]| {
        let command = ["simulate", "-q", "-m", machine, "--quantum", "1000", "--json", "a.pwt", "b.pwt"];
        let result = place.good(&joined(&[&command, options])).json();
        let rows = result["processes"][0]["what_if"].as_array().expect("rows").clone();
        let row = move |id: &str| {
            let row = rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id}"));
            ["walks", "walk_cycles"].map(|count| row[count].as_u64())
        };
        (metric(&result, "pages_touched"), row)
    };
    for machine in ["k8", "skylake_sp"] {
        let (pages, private) = run(machine, &[]);
        let (pages_with, global) = run(machine, &["--global-files"]);
        assert_eq!(pages, pages_with);
        assert_eq!(private("global"), global("baseline"));
        assert_eq!(private("baseline"), global("no_global"));
        assert_eq!(private("alone"), global("alone"));
        assert!(global("baseline") < private("baseline"), "{machine}");
        assert!(global("flush") < private("flush"), "{machine}");
    }
}

/// On a machine whose TLB holds no huge page the kernel gives none, in every way of simulating it.
#[test]
fn a_machine_without_huge_pages_is_given_none() {
    let (place, work) = Place::with_program("work", WORK);
    place.good(&["record", "-q", "-o", "t.pwt", "--", &work]);
    let simulate = |options: &[&str]| {
        let command: &[&str] = &["simulate", "-q", "-m", "mips_r2000", "--thp", "always", "--json"];
        let result = place.good(&joined(&[command, options])).json();
        ["walks", "walk_references", "walk_cycles"].map(|name| metric(&result, name))
    };
    let alone = simulate(&["t.pwt"]);
    assert_eq!(simulate(&["--cores", "1", "t.pwt"]), alone);
    place
        .run(&["record", "-q", "-o", "empty.pwt", "--skip", "1000000000", "--", "true"])
        .refuses(USAGE, &["nothing was counted"]);
    assert_eq!(simulate(&["--quantum", "1000000000000", "t.pwt", "empty.pwt"]), alone);
    place.write(
        "s.toml",
        "schema = 1\nname = \"s\"\ntraces = [\"t.pwt\"]\nmachines = [\"mips_r2000\"]\nthp = \"always\"\n",
    );
    let cells = place.good(&["sweep", "-q", "--json", "-o", "out", "s.toml"]).json();
    let of_sweep = ["walks", "walk_references", "walk_cycles"]
        .map(|name| cells["machines"][0]["metrics"][name].as_u64());
    assert_eq!(of_sweep, alone.map(Some));
}

/// Kernels beside the host's: base pages only are what the host's kernel gives without huge pages, and superpages that
/// are built take what they promise. A program's run gives the same as its trace.
#[test]
fn kernels_are_compared_in_one_pass() {
    let (place, work) = Place::with_program("work", WORK);
    place.write("any_size.toml", ANY_SIZE);
    place.good(&["record", "-q", "-o", "t.pwt", "--", &work]);
    let kernels = [
        "--os",
        "fixed",
        "--os",
        "fixed:page=8M",
        "--os",
        "asap",
        "--os",
        "approx-online:max_page=64K,threshold=0.001",
        "--os",
        "fixed:memory.size=256K,memory.when_full=oom",
    ];
    let command: &[&str] = &["simulate", "-q", "-m", "./any_size.toml", "--thp", "never", "--json"];
    let of_trace = place.good(&joined(&[command, &kernels, &["t.pwt"]])).json();
    place.good(&joined(&[&command[..6], &kernels, &["-o", "live.json", "--", &work]]));
    let rows = |result: &Value| result["processes"][0]["kernels"].as_array().expect("rows").clone();
    assert_eq!(rows(&place.json("live.json")), rows(&of_trace));
    place.write("own.toml", ANY_SIZE.to_owned() + "[os]\npolicy = \"fixed\"\npage = \"8M\"\n");
    let own = place.good(&["simulate", "-q", "-m", "./own.toml", "--thp", "never", "--json", "t.pwt"]).json();
    assert_eq!(rows(&own)[1]["metrics"], rows(&of_trace)[2]["metrics"]);
    let row = |policy: &str| {
        let row = rows(&of_trace).into_iter().find(|row| row["policy"] == policy).expect(policy);
        row["metrics"].as_object().expect("metrics").clone()
    };
    let count = |policy: &str, name: &str| row(policy)[name].as_u64().expect(name);
    for name in ["walks", "walk_cycles", "tlb.dtlb.misses", "pages_touched"] {
        assert_eq!(count("fixed", name), count("host", name), "{name}");
    }
    assert_eq!(count("host", "walks"), metric(&of_trace, "walks"));
    assert!(count("fixed:page=8M", "walks") * 20 < count("host", "walks"));
    assert!(count("approx-online:max_page=64K,threshold=0.001", "kernel.promotions.64K") > 0);
    assert!(count("approx-online:max_page=64K,threshold=0.001", "kernel.copy_cycles") > 0);
    assert_eq!(count("asap", "kernel.untouched_bytes_peak"), 0);
    // 64 frames: the 65th page that is touched finds none.
    let killed = "fixed:memory.size=256K,memory.when_full=oom";
    assert_eq!((count(killed, "kernel.faults"), count(killed, "pages_touched")), (65, 64));
    assert_eq!(count(killed, "kernel.killed_at"), count(killed, "instructions"));
    assert!(count(killed, "instructions") < count("host", "instructions"));
    let last = |policy: &str| {
        let row = rows(&of_trace).into_iter().find(|row| row["policy"] == policy).expect(policy);
        row["memory"].as_array().and_then(|samples| samples.last().cloned()).expect("samples")
    };
    assert_eq!(last("fixed")["touched_bytes"], last("asap")["touched_bytes"]);
}

/// Four threads that read one table at random. They live at one time: the number of one that has ended may be given to
/// the next.
const THREADS: &str = r#"
    #include <pthread.h>
    #include <stdlib.h>
    static unsigned char* table;
    static pthread_barrier_t all;
    static void* work(void* seed) {
        unsigned state = (unsigned)(long)seed * 7919 + 1;
        long sum = 0;
        pthread_barrier_wait(&all);
        for (int i = 0; i < 50000; i++) {
            state = state * 1664525u + 1013904223u;
            sum += table[state >> 10];
        }
        return (void*)sum;
    }
    int main(void) {
        pthread_t threads[4];
        table = calloc(1, 1 << 22);
        pthread_barrier_init(&all, 0, 4);
        for (long i = 0; i < 4; i++) pthread_create(threads + i, 0, work, (void*)i);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        return 0;
    }
"#;

#[test]
fn threads_on_cores_of_their_own_walk_on_each() {
    let (place, work) = Place::with_program("threads", THREADS);
    place.good(&["record", "-q", "-o", "t.pwt", "--", &work]);
    let simulate = |options: &[&str], to: &str| {
        place.good(&joined(&[&["simulate", "-q", "-m", "skylake_sp", "-o", to], options, &["t.pwt"]]));
        place.json(to)
    };
    let (plain, one, four) = (
        simulate(&[], "plain.json"),
        simulate(&["--cores", "1"], "one.json"),
        simulate(&["--cores", "4"], "four.json"),
    );
    let metrics = |result: &Value| {
        let mut metrics = result["machines"][0]["metrics"].as_object().expect("metrics").clone();
        metrics.remove("cores");
        metrics
    };
    assert_eq!(metrics(&one), metrics(&plain));
    assert!(metric(&four, "walks") > 2 * metric(&plain, "walks"));
    let groups = four["processes"][0]["attribution"]["groups"].as_array().expect("groups").iter();
    assert_eq!(groups.filter(|group| group["kind"] == "core").count(), 4);
    let refused = place.run(&["simulate", "-m", "skylake_sp", "--cores", "0", "t.pwt"]);
    assert_eq!(refused.code, 2);
}

/// With caches of memory the latencies are the price, in every row.
#[test]
fn processes_in_turns_pay_the_latencies_of_caches() {
    let place = Place::new();
    let example = crate::harness::EXAMPLE_MACHINE.replace("walk_reference = 20", "memory = 200");
    let cache = "[[cache]]\nname = \"l2\"\nlevel = 2\nserves = [\"load\", \"store\", \"walk\"]\nsize = \"256K\"\n\
                 ways = 8\nlatency = 14\n";
    place.write("cached.toml", example + cache);
    place.good(&["record", "-q", "-o", "a.pwt", "--", "/bin/true"]);
    let run = ["simulate", "-q", "-m", "./cached.toml", "--quantum", "1000", "--json", "a.pwt", "a.pwt"];
    let result = place.good(&run).json();
    let process = &result["processes"][0];
    assert_eq!(process["program"], "2 × true");
    assert!(metric(&result, "walk_cycles") < 200 * metric(&result, "walk_references"));
    let groups = process["attribution"]["groups"].as_array().expect("groups").iter();
    let cycles = groups.map(|group| group["metrics"]["walk_cycles"].as_u64().expect("a count"));
    assert_eq!(cycles.sum::<u64>(), metric(&result, "walk_cycles"));
    assert_eq!(process["what_if"][0]["walk_cycles"], metric(&result, "walk_cycles"));
}
