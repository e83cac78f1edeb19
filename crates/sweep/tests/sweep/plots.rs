//! Pictures against a varied key, the best of a key's values, and machines whose handlers belong to one system.

use crate::common::{Silent, program, study, sweep};
use pagewalk_report::schema::Number;
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
