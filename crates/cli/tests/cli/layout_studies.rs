//! Studies of layouts: cells equal single commands, plans are files that these accept, mistakes are named.

use crate::harness::{BAD_INPUT, Place, metric};
use serde_json::Value;
use std::process::Command;

const STUDY: &str = r#"schema = 1
name = "s"
thp = "never"
traces = ["t.pwt", "u.pwt"]
machines = ["konireddygari_split64", "konireddygari_u256"]

[[layout]]
name = "single"
planner = "single"
weighed = true

[[layout]]
name = "callgraph"
planner = "callgraph"

[[layout]]
name = "search"
planner = "search"
starts = 1

[[layout]]
name = "together"
planner = "search"
for = "all"

[[layout]]
name = "random"
planner = "random"
count = 3
seed = 7

[[layout]]
name = "of_t"
planner = "search"
from = "t"
traces = ["u"]

[[plot]]
title = "Walks"
x = "machine"
y = ["walks"]
at = { layout = "random" }
"#;

const COMPARE: &str = r#"
[[compare]]
title = "Never worse than recorded"
source = "nobody"
said = "1.005"
machines = ["konireddygari_split64", "konireddygari_u256"]
upper = { layout = "search" }
lower = { layout = "recorded" }
most = 1.005
on = "all"
strict = true

[[compare]]
title = "Fewer conflicts than the one in the middle"
source = "nobody"
said = "more than none"
machines = ["konireddygari_split64", "konireddygari_u256"]
provided = { upper = { metric = "last_level.conflict_misses" }, lower = { metric = "last_level.misses" }, least = 0.99 }
upper = { layout = "search", metric = "last_level.conflict_misses", reduction_from = "recorded" }
lower = { layout = "random", draws = "median", metric = "last_level.conflict_misses", reduction_from = "recorded" }
least = 1
on = "average"
"#;

/// A program whose own memory lies where plans usually place libraries.
const IN_THE_WAY: &str = "
#include <sys/mman.h>
int main(void) {
    char *all = mmap((void *)0x800000000, 1 << 30, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return all == MAP_FAILED;
}";

#[test]
fn plans_move_to_where_a_program_leaves_room() {
    let place = Place::new();
    place.write("p.c", IN_THE_WAY);
    let mut gcc = Command::new("gcc");
    place.settle(gcc.args(["-o", "p", "p.c"]));
    assert!(gcc.status().expect("gcc is here").success());
    place.good(&["record", "-q", "-o", "t.pwt", "--", "./p"]);
    let layouts: String = ["single", "search", "random"]
        .map(|planner| format!("[[layout]]\nname = \"{planner}\"\nplanner = \"{planner}\"\n"))
        .concat();
    let head = "schema = 1\nname = \"s\"\nthp = \"never\"\ntraces = [\"t.pwt\"]\nmachines = [\"konireddygari_u256\"]\n";
    place.write("s.toml", format!("{head}{layouts}"));
    place.good(&["sweep", "-q", "-o", "out", "s.toml"]);
    let plan = place.run(&["layout", "plan", "-q", "-m", "konireddygari_u256", "-o", "plan.toml", "t.pwt"]);
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    let text = String::from_utf8(place.read("plan.toml")).unwrap();
    assert!(text.contains("arena = \"0x840000000\""), "{text}");
}

fn with_traces() -> Place {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "ls", "/usr"]);
    place.good(&["record", "-q", "-o", "u.pwt", "--", "ls", "-l", "/"]);
    place.write("s.toml", format!("{STUDY}{COMPARE}"));
    place
}

fn cells<'a>(result: &'a Value, trace: usize, machine: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = result["machines"].as_array().unwrap().iter();
    all.filter(move |cell| cell["trace"] == trace && cell["machine"] == machine)
}

#[test]
fn cells_are_what_single_commands_find() {
    let place = with_traces();
    let result = place.good(&["sweep", "-q", "--json", "-o", "out", "s.toml"]).json();
    for (trace, file) in ["t.pwt", "u.pwt"].into_iter().enumerate() {
        for machine in ["konireddygari_split64", "konireddygari_u256"] {
            let all: Vec<_> = cells(&result, trace, machine).collect();
            assert_eq!(all.len(), 8 + trace, "five layouts, three draws, and one that is of the other trace");
            for cell in all {
                let plan = plan_of(&result, cell);
                let layout = plan.as_ref().map_or(Vec::new(), |plan| vec!["--layout", plan.as_str()]);
                let same = |command: &[&str]| {
                    place.good(&[command, &layout, &["-m", machine, file]].concat()).json()
                };
                let simulated = same(&["simulate", "--json", "--thp", "never"]);
                let metrics = cell["metrics"].as_object().unwrap();
                for (name, value) in metrics.iter().filter(|(name, _)| !name.starts_with("last_level.")) {
                    assert_eq!(*value, simulated["machines"][0]["metrics"][name], "{name} {plan:?}");
                }
                let analyzed = same(&["layout", "analyze", "--json"]);
                for array in analyzed["arrays"].as_array().unwrap() {
                    let name = array["name"].as_str().unwrap();
                    for kind in ["compulsory", "capacity", "conflict", "spared"] {
                        let count = &metrics[&format!("last_level.{name}.{kind}_misses")];
                        assert_eq!(*count, array[kind], "{name} {kind} {plan:?}");
                    }
                }
                assert_eq!(metrics["last_level.misses"], metric(&simulated, "walks"));
            }
        }
    }
    let comparisons = result["comparisons"].as_array().unwrap();
    assert_eq!(
        (&comparisons[0]["agrees"], comparisons[0]["found"].as_array().unwrap().len()),
        (&true.into(), 4)
    );
    assert_eq!(comparisons[1]["left_out"].as_array().unwrap().len(), 4);
}

/// The file of a cell's plan.
fn plan_of(result: &Value, cell: &Value) -> Option<String> {
    if cell["layout"] == "recorded" {
        return None;
    }
    let is_its = |plan: &&Value| {
        plan["layout"] == cell["layout"]
            && plan["layout_seed"] == cell["layout_seed"]
            && (plan["trace"] == cell["trace"] || cell["layout"] == "of_t")
            && (plan["machine"].is_null() || plan["machine"] == cell["machine"])
    };
    let plan = result["plans"].as_array().unwrap().iter().find(is_its).expect("it has a plan");
    Some(format!("out/plans/{}", plan["file"].as_str().unwrap()))
}

#[test]
fn units_and_plans_are_kept_and_equal_on_any_number_of_threads() {
    let place = with_traces();
    let run = |threads: &str, folder: &str| {
        place.good(&["sweep", "-q", "--json", "--threads", threads, "-o", folder, "s.toml"]).stdout
    };
    let first = run("1", "one");
    assert_eq!(first, run("3", "three"));
    assert!(place.read("one/results.parquet") == place.read("three/results.parquet"));
    assert!(place.read("one/index.html") == place.read("three/index.html"));
    let left = place.good(&["sweep", "--dry-run", "-o", "one", "s.toml"]).stdout;
    // Five plans for each machine or trace, and 16 or 18 cells.
    assert!(left.contains("t: 28 of 28 done before") && left.contains("to do: 0"), "{left}");
    let text = place.good(&["sweep", "-o", "one", "s.toml"]).stdout;
    assert!(text.contains("random (3)") && text.contains("left out: t on"), "{text}");
    let page = String::from_utf8(place.read("one/index.html")).unwrap();
    assert!(page.contains("<section id=\"layouts\">") && page.contains("random (3)"));
    assert!(place.has("one/pictures/layouts-u.svg") && place.has("one/pictures/plot-1-t.svg"));
    let changed = format!("{STUDY}{COMPARE}").replace("seed = 7", "seed = 8");
    place.write("s.toml", changed);
    let left = place.good(&["sweep", "--dry-run", "-o", "one", "s.toml"]).stdout;
    // One draw more than before on each machine, and its plan.
    assert!(left.contains("t: 25 of 28 done before, to do: 3"), "{left}");
}

/// Layouts and comparisons that name a single stream are left out with it.
#[test]
fn a_study_can_be_of_other_traces() {
    let place = with_traces();
    let of_t = "\n[[compare]]\ntitle = \"As planned on t\"\nsource = \"nobody\"\nsaid = \"1\"\n\
                upper = { machine = \"konireddygari_u256\", layout = \"of_t\" }\n\
                lower = { machine = \"konireddygari_u256\" }\ntraces = [\"u\"]\n\
                most = 2\non = \"all\"\n";
    place.write("s.toml", format!("{STUDY}{COMPARE}{of_t}"));
    let whole = place.good(&["sweep", "-q", "--json", "-o", "whole", "s.toml"]).json();
    assert_eq!(whole["comparisons"].as_array().unwrap().len(), 3);
    std::fs::rename(place.path("u.pwt"), place.path("v.pwt")).unwrap();
    let words = ["sweep", "--json", "-o", "v", "s.toml", "--traces", "v.pwt"];
    let outcome = place.good(&words);
    for part in
        ["left out with --traces: layout `of_t`", "left out with --traces: compare \"As planned on t\""]
    {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
    let v = outcome.json();
    assert_eq!((v["traces"].as_array().unwrap().len(), &v["traces"][0]["name"]), (1, &"v".into()));
    assert_eq!(v["comparisons"].as_array().unwrap().len(), 2);
    let machine = "konireddygari_u256";
    for (of_v, of_u) in
        cells(&v, 0, machine).zip(cells(&whole, 1, machine).filter(|cell| cell["layout"] != "of_t"))
    {
        assert_eq!((&of_v["layout"], &of_v["metrics"]), (&of_u["layout"], &of_u["metrics"]));
    }
    place.run(&[&words[..], &["v.pwt"]].concat()).refuses(BAD_INPUT, &["two traces are named `v`"]);
    place.run(&["sweep", "-q", "s.toml", "--traces", "none.pwt"]).refuses(BAD_INPUT, &["none.pwt"]);
}

#[test]
fn a_finding_that_must_hold_ends_the_study_otherwise() {
    let place = with_traces();
    let must = COMPARE.replace("most = 1.005", "most = 0.0001");
    place.write("s.toml", format!("{STUDY}{must}"));
    let outcome = place.run(&["sweep", "-q", "s.toml"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\"Never worse than recorded\""), "{}", outcome.stderr);
}

#[test]
fn mistakes_in_layouts_are_named() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    place.write("u.pwt", place.read("t.pwt"));
    let study = |from: &str, to: &str| {
        let text = format!("{STUDY}{COMPARE}");
        assert!(text.contains(from), "{from}");
        place.write("s.toml", text.replace(from, to));
        place.run(&["sweep", "-q", "s.toml"])
    };
    let refused = |from: &str, to: &str, parts: &[&str]| study(from, to).refuses(BAD_INPUT, parts);
    refused("planner = \"callgraph\"", "planner = \"best\"", &["`callgraph`", "recorded, search, single"]);
    refused("planner = \"callgraph\"", "planner = \"pack\"\nfor = \"each\"", &["`pack` looks at no machine"]);
    refused("weighed = true", "for = \"all\"", &["`single`", "plans for one machine"]);
    refused("weighed = true", "starts = 3", &["`single`", "starts: `single` has no such key"]);
    refused("count = 3", "count = 0", &["`random`", "count = 0", "1 to 1000"]);
    refused("name = \"callgraph\"", "name = \"single\"", &["two layouts are named `single`"]);
    refused("name = \"callgraph\"", "name = \"recorded\"", &["`recorded`", "no other"]);
    refused("from = \"t\"", "from = \"v\"", &["`of_t`", "\"v\"", "t, u"]);
    refused(
        "\"konireddygari_split64\"",
        "\"golden_cove\"",
        &["golden_cove", "l1d_load", "loads or stores alone"],
    );
    refused(", draws = \"median\"", "", &["3 are drawn", "draws = \"median\""]);
    refused(
        "upper = { layout = \"search\" }",
        "upper = { layout = \"x\" }",
        &["layout = \"x\"", "together, random"],
    );
    refused(
        "upper = { layout = \"search\" }",
        "upper = { layout = \"search\", metric = \"x\" }",
        &["\"x\"", "`pagewalk simulate --json` lists all "],
    );
}
