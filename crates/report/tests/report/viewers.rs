//! Profiles for other tools' viewers: their totals are the result's, and the tools read them.

use crate::fixtures;
use crate::hostile::hostile;
use pagewalk_report::schema::{Group, MemoryPoint, Number, PartitionMove, RunResult};
use pagewalk_report::viewers::{REST, VIEWERS, viewer};
use pagewalk_report::{from_json, to_json};
use pagewalk_skip::{Need, skip};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

fn rendered(format: &str, result: &RunResult) -> String {
    (viewer(format).expect("a format").render)(result)
}

/// A metric of the first machine, summed over the processes.
fn total(result: &RunResult, metric: &str) -> u64 {
    let of_process = |number: Option<&Number>| match number {
        Some(Number::Count(count)) => *count,
        Some(Number::Real(real)) => *real as u64,
        None => 0,
    };
    result.processes.iter().map(|process| of_process(process.machines[0].metrics.get(metric))).sum()
}

/// What functions have, if that is more than the machine: fixtures are made up.
fn attributed(result: &RunResult, of: impl Fn(&pagewalk_report::schema::FunctionRow) -> u64) -> u64 {
    result.processes.iter().flat_map(|process| &process.attribution.functions).map(of).sum()
}

fn expected_cycles(result: &RunResult) -> u64 {
    total(result, "walk_cycles").max(attributed(result, |row| row.walk_cycles))
}

fn weights(thread: &Value) -> u64 {
    thread["samples"]["weight"].as_array().map_or(0, |all| all.iter().filter_map(Value::as_u64).sum())
}

#[test]
fn totals_are_those_of_the_result() {
    for (name, result) in [("gups", fixtures::random_access()), ("cpython", fixtures::cpython())] {
        let expected = expected_cycles(&result);
        let folded = rendered("folded", &result);
        let costs = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
        assert_eq!(costs.sum::<u64>(), expected, "{name}");
        let callgrind = rendered("callgrind", &result);
        let (_, totals) = callgrind.split_once("totals: ").unwrap();
        let totals: Vec<u64> = totals.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let walks = total(&result, "walks").max(attributed(&result, |row| row.walks()));
        assert_eq!((totals[0], totals[3]), (walks, expected), "{name}");
        assert_eq!(totals[0], totals[1] + totals[2], "{name}");
        let firefox: Value = serde_json::from_str(&rendered("firefox", &result)).unwrap();
        assert_eq!(weights(&firefox["threads"][0]), expected, "{name}");
    }
}

#[test]
fn stacks_are_process_object_and_function() {
    let mut result = fixtures::random_access();
    let process = &mut result.processes[0];
    process.machines[0].metrics.insert("walks_data".to_owned(), Number::Count(20_000_000));
    let folded = rendered("folded", &result);
    assert!(folded.starts_with("./gups (pid 811);gups;update_table (gups.c:41) "), "{folded}");
    let callgrind = rendered("callgrind", &result);
    let (walks, data) = (15_335_378, 15_335_376);
    assert!(callgrind.contains(&format!("ob=./gups\nfl=gups.c\nfn=update_table\n41 {walks} {data} 2 ")));
    let rest = 20_000_000 - 15_335_376 - 65_536 - 465;
    assert!(callgrind.contains(&format!("fn={REST}\n0 {rest} {rest} 0 ")), "{callgrind}");
}

/// Every index of a column points into its table.
fn check_firefox(profile: &Value) {
    let strings = |thread: &Value| thread["stringArray"].as_array().unwrap().len() as u64;
    let numbers = |column: &Value| {
        let all = column.as_array().expect("a column").iter();
        all.filter_map(Value::as_u64).collect::<Vec<u64>>()
    };
    let length = |table: &Value| table["length"].as_u64().expect("a length");
    let threads = profile["threads"].as_array().expect("threads");
    assert!(!threads.is_empty());
    for thread in threads {
        let below = |column: &Value, end: u64| assert!(numbers(column).iter().all(|index| *index < end));
        below(&thread["samples"]["stack"], length(&thread["stackTable"]));
        below(&thread["stackTable"]["frame"], length(&thread["frameTable"]));
        below(&thread["stackTable"]["prefix"], length(&thread["stackTable"]));
        below(&thread["frameTable"]["func"], length(&thread["funcTable"]));
        below(&thread["funcTable"]["name"], strings(thread));
        below(&thread["markers"]["name"], strings(thread));
        let markers = length(&thread["markers"]) as usize;
        for column in ["data", "name", "startTime", "endTime", "phase", "category"] {
            assert_eq!(thread["markers"][column].as_array().map(Vec::len), Some(markers), "{column}");
        }
        let samples = length(&thread["samples"]) as usize;
        for column in ["stack", "weight", "timeDeltas"] {
            assert_eq!(thread["samples"][column].as_array().map(Vec::len), Some(samples), "{column}");
        }
    }
    let kinds: Vec<&str> = profile["meta"]["markerSchema"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind["name"].as_str().unwrap())
        .collect();
    for thread in threads {
        for data in thread["markers"]["data"].as_array().unwrap() {
            assert!(kinds.contains(&data["type"].as_str().unwrap()), "{data}");
        }
    }
}

#[test]
fn firefox_profiles_have_sound_tables_markers_and_counters() {
    for (_, result) in fixtures::all() {
        check_firefox(&serde_json::from_str(&rendered("firefox", &result)).unwrap());
    }
    let mut result = fixtures::kernels();
    let process = &mut result.processes[0];
    process.machines[0].partition = vec![PartitionMove { instructions: 5_000_000, lower: 7 }];
    let metrics = [("walk_cycles".to_owned(), Number::Count(17))].into();
    process.attribution.groups = vec![Group { kind: "thread".to_owned(), name: "1".to_owned(), metrics }];
    let point = |instructions, backed_bytes| MemoryPoint { instructions, backed_bytes, touched_bytes: 1 };
    process.kernels[0].memory = vec![point(1 << 20, 4096), point(2 << 20, 2 << 20)];
    let profile: Value = serde_json::from_str(&rendered("firefox", &result)).unwrap();
    check_firefox(&profile);
    let data = profile["threads"][0]["markers"]["data"].as_array().unwrap();
    assert!(data.iter().any(|marker| marker["type"] == "phase"));
    let counter = &profile["counters"][0];
    assert_eq!(counter["category"], "Memory");
    assert_eq!(counter["samples"]["count"], serde_json::json!([4096.0, (2 << 20) as f64 - 4096.0]));
    assert_eq!(
        (weights(&profile["threads"][1]), &profile["threads"][1]["name"]),
        (17, &Value::from("thread 1"))
    );
}

/// The heat map's walks are a track for each mapping.
#[test]
fn walks_over_time_are_markers_of_their_mapping() {
    let result = fixtures::random_access();
    let profile: Value = serde_json::from_str(&rendered("firefox", &result)).unwrap();
    let data = profile["threads"][0]["markers"]["data"].as_array().unwrap();
    let walks =
        data.iter().filter(|marker| marker["type"] == "walks").filter_map(|marker| marker["walks"].as_f64());
    let expected: u64 = result.processes[0].heat.rows.iter().flat_map(|row| &row.walks).sum();
    assert_eq!(walks.sum::<f64>(), expected as f64);
}

#[test]
fn names_cannot_end_frames_or_lines() {
    let mut result = fixtures::random_access();
    result.processes[0].attribution.functions[0].name = "(1) a;b\nfn=c".to_owned();
    let folded = rendered("folded", &result);
    assert!(folded.starts_with("./gups (pid 811);gups;(1) a:b fn=c (gups.c:41) "), "{folded}");
    assert!(rendered("callgrind", &result).contains("\nfn=_(1) a;b fn=c\n41 "));
    let evil = from_json(&hostile(&to_json(&result), &["schema"])).unwrap();
    for format in VIEWERS {
        assert!(!(format.render)(&evil).is_empty(), "{}", format.name);
    }
}

/// Costs that no run has neither overflow nor make endless files.
#[test]
fn absurd_costs_are_written_in_larger_units() {
    let mut result = fixtures::random_access();
    for row in &mut result.processes[0].attribution.functions {
        (row.walk_cycles, row.walks_data) = (u64::MAX, u64::MAX);
    }
    result.processes[0].heat.instructions_per_column = u64::MAX;
    let profile = rendered("firefox", &result);
    assert!(profile.len() < 1_000_000, "{} bytes", profile.len());
    let profile: Value = serde_json::from_str(&profile).unwrap();
    check_firefox(&profile);
    assert_eq!(profile["meta"]["product"], "pagewalk: walk cycles in units of 1000000000");
}

/// Runs a program with this on its standard input; `None` if the host does not have it.
fn ran(need: Need, program: &str, arguments: &[&str], input: &str) -> Option<String> {
    let mut child =
        match Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => {
                skip(need, format!("{program}: {error}"));
                return None;
            }
        };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}: {}", output.status);
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn node_reads_firefox_profiles() {
    let result = fixtures::cpython();
    let script = "const p = JSON.parse(require('fs').readFileSync(0)); \
                  console.log(p.meta.preprocessedProfileVersion > 40, p.threads[0].samples.length)";
    let Some(said) = ran(Need::Node, "node", &["-e", script], &rendered("firefox", &result)) else { return };
    let mut functions = result.processes[0].attribution.functions.len();
    functions += usize::from(expected_cycles(&result) > attributed(&result, |row| row.walk_cycles));
    assert_eq!(said, format!("true {functions}\n"));
}

#[test]
fn callgrind_annotate_finds_the_same_totals() {
    let result = fixtures::cpython();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("callgrind.out");
    std::fs::write(&path, rendered("callgrind", &result)).unwrap();
    let arguments = ["--auto=no", "--threshold=100", path.to_str().unwrap()];
    let Some(said) = ran(Need::Programs, "callgrind_annotate", &arguments, "") else { return };
    let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let line = said.lines().find(|line| line.ends_with("PROGRAM TOTALS")).expect("totals");
    let totals: Vec<u64> = line.split_whitespace().filter_map(number).collect();
    let walks = total(&result, "walks").max(attributed(&result, |row| row.walks()));
    assert_eq!((totals[0], totals[3]), (walks, expected_cycles(&result)), "{said}");
    assert!(said.contains("Objects/dictobject.c:insertdict [/usr/bin/python3.11]"), "{said}");
}
