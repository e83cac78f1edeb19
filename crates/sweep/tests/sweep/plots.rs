//! Pictures against a varied key, the best of a key's values, and machines whose handlers belong to one system.

use crate::common::{Silent, program, study, sweep};
use pagewalk_report::schema::Number;
use pagewalk_report::sweep::schema::Value;
use pagewalk_report::sweep::{from_json, pictures, render_html, to_json};
use pagewalk_sweep::Study;

const STUDY: &str = r#"
thp = "never"
traces = ["a.pwt"]
machines = ["mips_r2000"]
structures = ["osf1", "mach3"]

[vary]
"walker.mapped.system" = ["osf1", "mach3"]
"walker.mapped.lower" = [4, 8, 60]

[[plot]]
title = "The split"
x = "walker.mapped.lower"
y = ["miss_cycles.all"]
lines = "structure"

[[compare]]
title = "The best split"
source = "nobody"
said = "nothing"
upper = { machine = "mips_r2000", structure = "mach3", metric = "walks", best = "walker.mapped.lower", place = true }
lower = { machine = "mips_r2000", structure = "mach3", metric = "walks", best = "walker.mapped.lower" }
least = 0
on = "all"
"#;

#[test]
fn the_best_of_a_key_is_found_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    program(7, 4000).write(&folder.path().join("a.pwt"));
    let study = study(folder.path(), STUDY);
    let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
    // Each system in its own structure.
    assert_eq!(result.machines.len(), 6);
    let of_mach = || result.machines.iter().filter(|cell| cell.structure.as_deref() == Some("mach3"));
    let misses = |cell: &pagewalk_report::sweep::schema::MachineCell| match cell.metrics["walks"] {
        Number::Count(misses) => misses,
        Number::Real(_) => unreachable!("it is a count"),
    };
    let best = of_mach().min_by_key(|cell| misses(cell)).unwrap();
    let found = &result.comparisons[0].found[0];
    assert_eq!(found.upper.to_string(), best.parameters["walker.mapped.lower"].to_string());
    assert_eq!(found.lower, misses(best) as f64);
    let files = pictures(&result);
    let plots: Vec<_> = files.iter().filter(|file| file.name.starts_with("plot-")).collect();
    assert_eq!(plots.len(), 1, "one trace, a line for each structure");
    assert_eq!(plots[0].svg.matches("<polyline").count(), 2);
    assert!(plots[0].svg.contains(">mach3<") && plots[0].svg.contains(">60<"), "{}", plots[0].svg);
    assert!(render_html(&result).contains("The split"));
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
}

/// The tuned R2000 with a short period, so that its partition moves.
const OVER_TIME: &str = r#"
thp = "never"
traces = ["a.pwt"]
machines = ["tuned.toml", "mips_r2000"]

[vary]
"walker.mapped.lower" = [8, 12]

[[plot]]
title = "The partition"
x = "instructions"
y = ["partition.lower"]
lines = "walker.mapped.lower"
"#;

fn write_tuned(folder: &std::path::Path) {
    let machine = include_str!("../../../../machines/mips_r2000.toml").replacen(
        "name = \"mips_r2000\"",
        "name = \"tuned\"",
        1,
    );
    let tuning = "[walker.mapped.tuning]\nperiod = 20\nprobe_after = 1\n\n[walker.mapped.systems.ultrix]";
    let machine = machine.replacen("[walker.mapped.systems.ultrix]", tuning, 1);
    assert!(machine.contains("period = 20"));
    std::fs::write(folder.join("tuned.toml"), machine).unwrap();
}

/// Values that no machine has together draw nothing, and are no mistake.
#[test]
fn a_picture_may_be_empty() {
    let folder = tempfile::tempdir().unwrap();
    program(7, 100).write(&folder.path().join("a.pwt"));
    let at = "at = { structure = \"osf1\", \"walker.mapped.system\" = \"mach3\" }\n\n[[compare]]";
    let text = STUDY.replace("lines = \"structure\"\n", "").replace("[[compare]]", at);
    let study = study(folder.path(), &text);
    assert_eq!(study.plots[0].at.len(), 2);
    let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
    assert!(pictures(&result).iter().all(|file| !file.name.starts_with("plot-")));
}

#[test]
fn where_a_partition_went_is_told_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    program(7, 20_000).write(&folder.path().join("a.pwt"));
    write_tuned(folder.path());
    let result = sweep(&study(folder.path(), OVER_TIME), folder.path(), 2, "t").run(&Silent).unwrap();
    for cell in &result.machines {
        if cell.machine != "tuned" {
            assert!(cell.partition.is_empty());
            continue;
        }
        let (first, last) = (cell.partition[0], cell.partition[cell.partition.len() - 1]);
        assert_eq!(first.instructions, 0);
        assert_eq!(Value::Integer(first.lower.into()), cell.parameters["walker.mapped.lower"]);
        assert_eq!(cell.metrics["partition.lower"], Number::Count(last.lower.into()));
        assert_eq!(cell.metrics["partition.moves"], Number::Count(cell.partition.len() as u64 - 1));
        assert!(cell.partition.len() > 2 && cell.partition.is_sorted_by_key(|moved| moved.instructions));
    }
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
    let files = pictures(&result);
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].svg.matches("<polyline").count(), 2, "a line for each start, none for what stays");
    assert!(!files[0].svg.contains("<title>"), "no square marks a least");
    // A step is level or upright.
    let points = files[0].svg.split("<polyline").nth(1).unwrap().split('"').nth(3).unwrap();
    let points: Vec<(&str, &str)> = points.split(' ').map(|point| point.split_once(',').unwrap()).collect();
    assert!(points.windows(2).all(|pair| pair[0].0 == pair[1].0 || pair[0].1 == pair[1].1), "{points:?}");
    // A unit that is kept has it too.
    let again = sweep(&study(folder.path(), OVER_TIME), folder.path(), 1, "t").run(&Silent).unwrap();
    assert_eq!(again, result);
}

/// Machines with and without what a bar has parts for.
const BARS: &str = r#"
thp = "always"
traces = ["a.pwt"]
machines = ["karakostas_4k", "karakostas_rmm_lite", "karakostas_segment"]

[[plot]]
title = "Energy"
x = "machine"
y = ["energy_pj.l1_4k.searches", "energy_pj.l1_range.searches"]
"#;

#[test]
fn machines_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    program(7, 2000).write(&folder.path().join("a.pwt"));
    let result = sweep(&study(folder.path(), BARS), folder.path(), 2, "t").run(&Silent).unwrap();
    let files = pictures(&result);
    let plots: Vec<_> = files.iter().filter(|file| file.name.starts_with("plot-")).collect();
    assert_eq!(plots.len(), 1, "one trace, a bar for each machine");
    let svg = &plots[0].svg;
    let bars = |class: &str| svg.matches(&format!("<rect class=\"{class}\"")).count();
    // Two bars and a place in the legend, one and a place.
    assert_eq!((bars("f0"), bars("f1")), (3, 2), "{svg}");
    // A machine without prices has no energy, and no bar.
    assert!(svg.contains(">karakostas_rmm_lite<") && !svg.contains("karakostas_segment"), "{svg}");
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
    for (from, to, parts) in [
        ("x = \"machine\"", "x = \"machine\"\nlines = \"trace\"", ["machine", "leave out lines"]),
        ("l1_range.searches\"", "l1_range.walks\"", ["l1_range.walks", "did you mean `energy_pj."]),
    ] {
        let text = format!("schema = 1\nname = \"s\"\n{}", BARS.replacen(from, to, 1));
        let why = Study::from_toml("s.toml", &text, folder.path()).unwrap_err().to_string();
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    }
}

#[test]
fn mistakes_over_time_are_named() {
    let folder = tempfile::tempdir().unwrap();
    program(7, 100).write(&folder.path().join("a.pwt"));
    write_tuned(folder.path());
    for (from, to, parts) in [
        ("y = [\"partition.lower\"]", "y = [\"walks\"]", ["instructions", "partition.lower"]),
        ("\"tuned.toml\", ", "", ["no machine", "[walker.mapped.tuning]"]),
    ] {
        let text = format!("schema = 1\nname = \"s\"\n{}", OVER_TIME.replacen(from, to, 1));
        let why = Study::from_toml("s.toml", &text, folder.path()).unwrap_err().to_string();
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    }
}

#[test]
fn mistakes_are_named_with_the_choices() {
    let folder = tempfile::tempdir().unwrap();
    program(7, 100).write(&folder.path().join("a.pwt"));
    let wrong = |from: &str, to: &str| {
        let text = format!("schema = 1\nname = \"s\"\n{}", STUDY.replacen(from, to, 1));
        Study::from_toml("s.toml", &text, folder.path()).unwrap_err().to_string()
    };
    for (from, to, parts) in [
        (
            "x = \"walker.mapped.lower\"",
            "x = \"walker.mapped.system\"",
            ["whole numbers", "walker.mapped.lower"],
        ),
        ("y = [\"miss_cycles.all\"]", "y = [\"miss_cycles.l4\"]", ["miss_cycles.l4", "miss_cycles.l3"]),
        (
            "lines = \"structure\"",
            "lines = \"structures\"",
            ["\"structures\"", "trace, machine, os, structure"],
        ),
        (
            "best = \"walker.mapped.lower\", place",
            "best = \"walker.mapped.system\", place",
            ["best", "whole numbers"],
        ),
        (", best = \"walker.mapped.lower\", place", ", place", ["place", "best"]),
    ] {
        let why = wrong(from, to);
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    }
}
