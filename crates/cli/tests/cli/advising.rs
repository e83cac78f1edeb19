//! `pagewalk advise`: the ranges it finds, and what it refuses.

use crate::classes::all_are_told;
use crate::harness::{BAD_INPUT, Place, USAGE};
use pagewalk::live::probe::memory::huge_pages_are_at_hand;
use pagewalk_skip::{Need, skip};
use serde_json::json;
use std::process::Command;

/// Touches a table of 32 MiB at random and often, another of the same size once, and two pages of a third.
const PROGRAM: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
static char *map(void) {
    return mmap(0, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int main(void) {
    char *once = map(), *often = map(), *hardly = map();
    uint32_t random = 1;
    for (int i = 0; i < 32 << 20; i += 4096) once[i] = 1;
    for (int i = 0; i < 1000000; i++) {
        random = random * 1664525 + 1013904223;
        often[random >> 7]++;
    }
    hardly[0] = hardly[4 << 20] = 1;
    char line[9] = "nothing";
    fgets(line, sizeof line, stdin);
    puts(line);
    return 0;
}"#;

fn with_program() -> Place {
    let place = Place::new();
    place.write("p.c", PROGRAM);
    let mut gcc = Command::new("gcc");
    place.settle(gcc.args(["-O1", "-o", "p", "p.c"]));
    assert!(gcc.status().expect("gcc is here").success());
    place.write("probe.json", probe());
    place
}

/// A probe with round figures, as the first versions wrote it.
pub fn probe() -> String {
    let figure = |name: &str, value: f64| {
        format!(
            "{{\"name\":\"{name}\",\"title\":\"\",\"unit\":\"ns\",\"class\":\"measured\",\"repeats\":9,\
             \"value\":{value},\"low\":{value},\"high\":{value},\"cycles\":null,\"refused\":null}}"
        )
    };
    let figures = [
        ("tlb.4k.walk_extra", 20.0),
        ("tlb.2m.walk_extra", 10.0),
        ("walk_extra.32m.chains_1", 40.0),
        ("walk_extra.32m.chains_8", 8.0),
        ("fault.anonymous_4k", 1000.0),
        ("fault.anonymous_2m", 100_000.0),
        ("collapse.2m", 200_000.0),
    ];
    let tlb = "{\"page\":\"4K\",\"level\":2,\"entries\":1536,\"ways\":12,\"between\":[1500,1600],\"refused\":null,\
               \"conflicts\":[],\"assumed\":{\"entries\":1536,\"ways\":12},\"machine_entries\":null}";
    let figures: Vec<String> = figures.iter().map(|(name, value)| figure(name, *value)).collect();
    format!(
        "{{\"schema\":\"pagewalk.probe/1\",\"version\":\"0\",\"host\":{{\"cpu\":\"\",\"kernel\":\"\",\"thp\":\"\"}},\
         \"surroundings\":{{\"cpu\":0,\"cpus_allowed\":[0],\"hypervisor\":false,\"tsc_ghz\":1.0,\"tsc_constant\":true,\
         \"available_bytes\":0,\"load\":null}},\"quick\":false,\"seconds\":1.0,\"tlbs\":[{tlb}],\
         \"figures\":[{}],\"curves\":[],\"notes\":[]}}",
        figures.join(",")
    )
}

const ADVISE: [&str; 7] = ["advise", "-m", "golden_cove", "--probe", "probe.json", "--no-trial", "--json"];

#[test]
fn what_is_touched_pays_and_is_named_so_that_it_is_found_again() {
    let place = with_program();
    let advise = |more: &[&str]| place.good(&[&ADVISE[..], more, &["--", "./p"]].concat()).json();
    let found = advise(&["--warm"]);
    assert_eq!(found["schema"], "pagewalk.advice/1");
    assert!(
        found["warmed_mib"].as_f64() >= Some(64.0) && found["notes"].to_string().contains("--warm"),
        "{found}"
    );
    all_are_told(&found, &[]);
    let ranges = found["ranges"].as_array().unwrap();
    let named = |name: &str| ranges.iter().find(|range| range["name"].as_str().unwrap().starts_with(name));
    let once = named("anonymous 0x2000000 number 1").expect("its faults pay");
    let often = named("anonymous 0x2000000 number 2").expect("its walks pay");
    assert_eq!(named("anonymous 0x2000000 number 3"), None, "two pages do not");
    let seconds = |range: &serde_json::Value, key: &str| range[key].as_f64().unwrap();
    // Sixteen regions: 512 pages of 1 µs each less one huge page of 100 µs.
    for range in [once, often] {
        assert!((seconds(range, "fault_seconds") - 16.0 * (512e-6 - 100e-6)).abs() < 30e-6, "{range}");
        assert_eq!(range["memory_mib"], 0.0);
    }
    assert!(seconds(often, "walk_seconds") > 10.0 * seconds(once, "walk_seconds"), "{found}");
    assert!(found["walks"].as_u64() > found["huge_walks"].as_u64());
    let (runs, forecast) = (&found["runs"][0], &found["forecast"]);
    assert_eq!((&runs["what"], &runs["median"]["class"]), (&"as it is".into(), &"measured".into()));
    assert_eq!(forecast["class"], "modelled");
}

/// Arrays outside the heap and mappings: in the program as it is, and with another beginning.
#[test]
fn static_data_is_named_by_the_programs_file() {
    let place = Place::new();
    place.write("probe.json", probe());
    let source = "static char all[32 << 20];\nint main(void) {\n    unsigned random = 1;\n\
                  for (int i = 0; i < 1000000; i++) all[(random = random * 1664525 + 1013904223) >> 7]++;\n\
                  return 0;\n}\n";
    for (name, flags) in [("pie", "-pie"), ("fixed", "-no-pie"), ("static", "-static")] {
        place.write("p.c", source);
        let mut gcc = Command::new("gcc");
        place.settle(gcc.args(["-O1", flags, "-o", name, "p.c"]));
        assert!(gcc.status().expect("gcc is here").success());
        place.good(&["record", "-q", "-o", "p.pwt", "--", &format!("./{name}"), "one", "two"]);
        let advise =
            ["advise", "p.pwt", "-m", "golden_cove", "--probe", "probe.json", "--json", "-o", "plan.toml"];
        let found = place.good(&[&advise[..], &["--seconds", "0.1"]].concat()).json();
        let ranges = found["ranges"].as_array().unwrap();
        assert_eq!(ranges.len(), 1, "{found}");
        assert!(ranges[0]["bytes"].as_u64().unwrap() >= 30 << 20, "{found}");
        let plan = String::from_utf8(place.read("plan.toml")).unwrap();
        assert!(plan.contains("what = \"file\"") && plan.contains(&format!("/{name}\"\noffset")), "{plan}");
        assert!(plan.contains("arguments = [\"one\", \"two\"]"), "{plan}");
        // Whether it takes effect depends on the host; where plans do, this one does.
        let dry = place.run(&["apply", "plan.toml", "--dry-run", "--json"]);
        if dry.code == 0 && dry.json()["mode"] != "never" && huge_pages_are_at_hand(64 << 20) {
            let outcome = place.run(&["apply", "plan.toml", "--json", "--", &format!("./{name}")]);
            assert_eq!((outcome.code, &outcome.json()["in_effect"]), (0, &true.into()), "{}", outcome.stderr);
        }
    }
}

#[test]
fn a_plan_is_written_if_something_pays() {
    let place = with_program();
    let advise = |program: &[&str]| {
        place.good(&[&ADVISE[..], &["--runs", "5", "-o", "plan.toml", "--"], program].concat())
    };
    // Whether its interval is narrow enough depends on the host: one of the two holds.
    let outcome = advise(&["./p"]);
    match outcome.json()["ranges"].as_array().unwrap().len() {
        0 => assert!(outcome.stderr.contains("no plan is written") && !place.has("plan.toml")),
        count => {
            let plan = String::from_utf8(place.read("plan.toml")).unwrap();
            assert!(plan.starts_with("schema = \"pagewalk.plan/2\""), "{plan}");
            assert_eq!(plan.matches("[[range]]").count(), count);
            assert!(outcome.stderr.contains("next: pagewalk verify plan.toml"), "{}", outcome.stderr);
        }
    }
    let nothing = advise(&["true"]);
    assert!(nothing.json()["verdict"].as_str().unwrap().starts_with("Do nothing"), "{}", nothing.stdout);
    assert!(nothing.stderr.contains("nothing pays, so no plan is written"), "{}", nothing.stderr);
    // A plan from other timings is not mistaken for this one.
    place.write("plan.toml", "older");
    let nothing = advise(&["true"]);
    assert!(nothing.stderr.contains("plan.toml was there before and stays as it is"), "{}", nothing.stderr);
    assert_eq!(place.read("plan.toml"), b"older");
}

/// grep stops at the first match if it sees that its output is discarded.
#[test]
fn programs_do_all_their_work_in_measured_runs() {
    let place = with_program();
    let shell = ["sh", "-c", "! [ /proc/self/fd/1 -ef /dev/null ]"];
    place.good(&[&ADVISE[..], &["--runs", "5", "--"], &shell].concat());
}

#[test]
fn a_trace_and_a_time_do_instead_of_runs() {
    let place = with_program();
    place.good(&["record", "-o", "p.pwt", "--", "./p"]);
    let advise =
        ["advise", "p.pwt", "-m", "golden_cove", "--probe", "probe.json", "--json", "-o", "plan.toml"];
    let of_trace = |seconds: &str| place.good(&[&advise[..], &["--seconds", seconds]].concat());
    let one = of_trace("0.5").json();
    let live = place.good(&[&ADVISE[..], &["--", "./p"]].concat()).json();
    for key in ["program", "walks", "huge_walks"] {
        assert_eq!(one[key], live[key], "{key}");
    }
    assert_eq!(one["runs"][0]["seconds"].as_array().unwrap(), &[0.5]);
    assert_eq!(one["runs"][0]["wall_seconds"], serde_json::Value::Null);
    assert!(one["notes"][0].as_str().unwrap().contains("one timing"), "{one}");
    assert!(one["forecast"]["high"].as_f64().unwrap() < 0.5 && place.has("plan.toml"), "{one}");
    let several = of_trace("0.5,0.52,0.48,0.5").json();
    assert!(several["forecast"]["high"].as_f64() > one["forecast"]["high"].as_f64(), "{several}");
    // Memory that the kernel gives huge pages already has nothing to gain by them.
    let huge = place.good(&[&advise[..], &["--seconds", "0.5", "--thp", "always"]].concat()).json();
    assert_eq!((&huge["ranges"], &huge["always"]), (&json!([]), &json!(null)), "{huge}");
    // A trace without mappings has inferred ones, as in `simulate`.
    place.good(&["trace", "export", "--format", "drmemtrace", "-o", "p.zip", "p.pwt"]);
    place.good(&["trace", "import", "p.zip", "-o", "imported.pwt"]);
    let words = ["advise", "imported.pwt", "-m", "golden_cove", "--probe", "probe.json", "--json"];
    let imported = place.good(&[&words[..], &["--seconds", "0.5"]].concat()).json();
    assert!(imported["huge_walks"].as_u64() < one["walks"].as_u64().map(|walks| walks / 10), "{imported}");
    // Times that contradict the prices.
    let contrary = of_trace("0.0001").json();
    let verdict = contrary["verdict"].as_str().unwrap();
    assert!(verdict.contains("Nothing can be said") && verdict.contains("another program"), "{contrary}");
    assert_eq!((&contrary["ranges"], &contrary["always"]), (&json!([]), &json!(null)), "{contrary}");
}

/// By samples; the plan names the memory so that the process's memory is found again.
#[test]
fn a_running_process_is_advised_on() {
    let lab = crate::promoting::Lab::new();
    let pid = lab.child.id().to_string();
    let words =
        ["advise", "--pid", &pid, "--watch", "4", "--probe", "probe.json", "-o", "plan.toml", "--json"];
    let outcome = lab.place.run(&words);
    if outcome.code == 4 {
        return skip(Need::Sampling, &outcome.stderr);
    }
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let json = outcome.json();
    assert_eq!(
        (&json["schema"], &json["process"]),
        (&"pagewalk.advice-process/1".into(), &lab.child.id().into())
    );
    all_are_told(&json, &[]);
    let ranges = json["ranges"].as_array().unwrap();
    // On a busy host it may have had too little processor time for anything to pay.
    if ranges.is_empty() {
        assert!(json["processor_seconds"].as_f64().unwrap() < 2.0, "{json}");
        return;
    }
    assert!(ranges[0]["range"].as_str().unwrap().starts_with("anonymous 0x2000000 number 1"), "{json}");
    assert!(ranges[0]["walks_per_processor_second"].as_f64().unwrap() > 0.0);
    // Whether or not this user may do it.
    let dry = lab.place.run(&["apply", "plan.toml", "--pid", &pid, "--dry-run", "--json"]).json();
    assert!(dry["ranges"][0]["touched_block_bytes"].as_u64() > Some(0), "{dry}");
    lab.place.run(&["advise", "--pid", "99999999", "--probe", "probe.json"]).refuses(USAGE, &["99999999"]);
    lab.place.run(&["advise", "--pid", &pid, "--", "true"]).refuses(USAGE, &["--pid"]);
    lab.place.run(&["advise", "--pid", &pid, "--watch", "1e30"]).refuses(USAGE, &["--watch", "1e9 at most"]);
    lab.place.run(&["advise", "--watch", "3", "--", "true"]).refuses(USAGE, &["--watch"]);
    let mut child = Command::new("sleep").arg("0.7").spawn().unwrap();
    let pid = child.id().to_string();
    let watched = lab.place.run(&["advise", "--pid", &pid, "--watch", "60", "--probe", "probe.json"]);
    watched.refuses(1, &[&format!("process {pid} ended while it was watched")]);
    child.wait().unwrap();
}

#[test]
fn what_cannot_be_advised_on_is_refused() {
    let place = with_program();
    let advise = |more: &[&str]| place.run(&[&ADVISE[..], more].concat());
    advise(&["--", "./none"]).refuses(USAGE, &["none"]);
    advise(&["--", "false"]).refuses(1, &["ended with exit 1", "exits with 0"]);
    place
        .run(&["advise", "-m", "karakostas_thp", "--", "./p"])
        .refuses(USAGE, &["`karakostas_thp` is simulated in order"]);
    advise(&["-i", "none", "--", "./p"]).refuses(BAD_INPUT, &["--input none"]);
    advise(&["--budget", "7X", "--", "./p"]).refuses(USAGE, &["7X", "64K, 512M or 2G"]);
    advise(&["--runs", "1", "--", "./p"]).refuses(USAGE, &["--runs"]);
    advise(&["-m", "zen4", "--", "./p"]).refuses(USAGE, &["one machine"]);
    let of_trace =
        |more: &[&str]| place.run(&[&["advise", "none.pwt", "--probe", "probe.json"], more].concat());
    of_trace(&[])
        .refuses(USAGE, &["none.pwt: a trace does not say how long", "advise none.pwt --seconds 1.2"]);
    of_trace(&["--seconds", "0"]).refuses(USAGE, &["give more than 0"]);
    of_trace(&["--seconds", "1", "--", "./p"]).refuses(USAGE, &["CMD"]);
    of_trace(&["--seconds", "1", "-m", "golden_cove"]).refuses(BAD_INPUT, &["none.pwt"]);
    place.write("probe.json", "{}");
    advise(&["--", "./p"]).refuses(BAD_INPUT, &["probe.json", "pagewalk probe -o"]);
}

/// As of a host that was busy while it was probed.
#[test]
fn a_probe_that_lacks_figures_does() {
    let place = with_program();
    let advise = |probe: String| {
        place.write("probe.json", probe);
        place.good(&[&ADVISE[..], &["--", "./p"]].concat()).json()
    };
    let whole = advise(probe());
    assert_eq!(whole["assumed"], serde_json::json!([]));
    let lacking =
        advise(probe().replace("fault.anonymous_2m", "other").replace("walk_extra.32m", "walk_extra.none"));
    all_are_told(&lacking, &[]);
    let assumed = lacking["assumed"].as_array().unwrap();
    let named = |name: &str| assumed.iter().find(|one| one["figure"] == name).expect(name);
    for name in ["fault.anonymous_2m", "walk_extra.32m.chains_1", "walk_extra.1g.chains_8"] {
        let of = |key: &str| named(name)[key].as_f64().unwrap();
        assert!(0.0 < of("low") && of("low") < of("value") && of("value") < of("high"), "{name}");
        assert!(
            lacking["notes"].to_string().contains(&format!("{name} is assumed, not measured")),
            "{lacking}"
        );
    }
    let width = |found: &serde_json::Value| {
        let end = |key: &str| found["forecast_share"][key].as_f64().unwrap();
        end("high") - end("low")
    };
    assert!(lacking["ranges"] == serde_json::json!([]) || width(&lacking) > width(&whole), "{lacking}");
}

/// Grows to 64 MiB by 1 MiB at a time, each piece touched before the next, and visits all of it.
const GROWS: &str = r#"
#include <string.h>
#include <sys/mman.h>
int main(void) {
    unsigned long huge = 2 << 20, random = 1;
    char *base = mmap(0, (64 << 20) + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base = (char *)(((unsigned long)base + huge - 1) & ~(huge - 1));
    for (char *at = base; at < base + (64 << 20); at += 1 << 20) {
        mprotect(at, 1 << 20, PROT_READ | PROT_WRITE);
        memset(at, 1, 1 << 20);
    }
    for (int i = 0; i < 1000000; i++)
        base[(random = random * 6364136223846793005ul + 1442695040888963407ul) >> 38]++;
    return 0;
}"#;

/// Marks do not help then.
#[test]
fn memory_that_grows_by_pieces_is_told_to_grow_whole() {
    let place = with_program();
    place.compile("grow", GROWS);
    let found = place.good(&[&ADVISE[..], &["--", "./grow"]].concat()).json();
    let blocks = found["grown"]["blocks"].as_u64().unwrap();
    assert!((28..=32).contains(&blocks), "{found}");
    assert!(found["grown"]["remedy"].as_str().unwrap().starts_with("grow by whole 2 MiB"), "{found}");
    assert!(found["notes"].to_string().contains("grow by whole 2 MiB"), "{found}");
    let whole = place.good(&[&ADVISE[..], &["--", "./p"]].concat()).json();
    assert_eq!(whole["grown"], serde_json::Value::Null, "{whole}");
}

/// The joined estimate lies between the trial's and the model's.
#[test]
fn a_forecast_and_its_trial_are_joined() {
    let place = with_program();
    let words = ["advise", "-m", "golden_cove", "--probe", "probe.json", "--json", "--", "./p"];
    let found = place.good(&words).json();
    all_are_told(&found, &[]);
    let estimates = &found["estimates"];
    if estimates.is_null() {
        assert!(found["notes"].to_string().contains("a plan could not be followed here"), "{found}");
        return;
    }
    let share = |name: &str| estimates[name]["share"].as_f64().unwrap();
    let (model, trial, joined) = (share("model"), share("trial"), share("joined"));
    assert!(model.min(trial) - 1e-9 <= joined && joined <= model.max(trial) + 1e-9, "{estimates}");
    assert_eq!(
        (&estimates["trial"]["class"], &estimates["joined"]["class"]),
        (&"measured".into(), &"modelled".into())
    );
    let ranges = found["ranges"].as_array().unwrap();
    if ranges.is_empty() {
        return;
    }
    let saved: f64 = ranges
        .iter()
        .map(|range| range["walk_seconds"].as_f64().unwrap() + range["fault_seconds"].as_f64().unwrap())
        .sum();
    let now = found["runs"][0]["median"]["seconds"].as_f64().unwrap();
    assert!((now - saved - found["forecast"]["seconds"].as_f64().unwrap()).abs() < 1e-6, "{found}");
}
