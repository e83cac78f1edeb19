//! Machines that traps simulate too.

use crate::common::{Silent, counted, program, structure, sweep};
use pagewalk_report::sweep::pictures;
use pagewalk_report::sweep::schema::{MachineCell, Value};
use pagewalk_sim::{Arrangement, DesignSpec, Simulation, TrapSpec};
use pagewalk_sweep::Study;
use pagewalk_trace::Stretch;
use pagewalk_trace::pwt::Reader;
use pagewalk_translate::NestedMisses;
use std::fs::File;

const STUDY: &str = r#"
schema = 1
name = "t"
traces = ["a.pwt"]
machines = ["mips_r2000"]
structures = ["none", "mach3"]
cores = [1, 2]
by_traps = [8, 64]

[[os]]
policy = "fixed"

[[os]]
policy = "host"

[[plot]]
title = "traps of the host"
x = "by_traps"
y = ["host_misses"]
lines = "nested_misses"
at = { cores = 1, structure = "none" }

[[plot]]
title = "by one rule"
x = "cores"
y = ["walks", "host_misses"]
lines = "by_traps"
at = { nested_misses = "counted", structure = "none" }
"#;

fn text(cell: &MachineCell, key: &str) -> Option<String> {
    cell.parameters.get(key).map(Value::to_string)
}

/// Each cell by traps counts as a simulation of it alone; those in full count as without the key.
#[test]
fn cells_by_traps_count_as_alone() {
    let folder = tempfile::tempdir().unwrap();
    program(3, 2000).write(&folder.path().join("a.pwt"));
    let study = Study::from_toml("t.toml", STUDY, folder.path()).unwrap();
    let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
    let (full, by_traps): (Vec<&MachineCell>, Vec<&MachineCell>) =
        result.machines.iter().partition(|cell| text(cell, "by_traps").unwrap() == "no");
    // In each system and on each number of cores: under two kernels, and by traps on two TLBs by two rules.
    assert_eq!((full.len(), by_traps.len()), (2 * 2 * 2, 2 * 2 * 2 * 2));
    for cell in by_traps {
        assert_eq!(cell.os, None, "traps see base pages alone");
        let nested = match text(cell, "nested_misses").unwrap().as_str() {
            "counted" => NestedMisses::Counted,
            "with_parent" => NestedMisses::WithParent,
            other => unreachable!("{other}"),
        };
        let host = text(cell, "by_traps").unwrap().parse().unwrap();
        let machine = &study.machines[0].machine;
        let design = DesignSpec::by_traps(machine.name.clone(), machine, TrapSpec { host, nested });
        let arrangement = Arrangement {
            cores: text(cell, "cores").unwrap().parse().unwrap(),
            structure: structure(cell),
            ..Arrangement::default()
        };
        let mut alone = Simulation::new(vec![design], &arrangement).unwrap();
        let mut reader = Reader::new(File::open(folder.path().join("a.pwt")).unwrap()).unwrap();
        let mut stretch = Stretch::default();
        while stretch.read(&mut reader, 1000).unwrap() {
            stretch.play(&mut alone);
        }
        assert_eq!(cell.metrics, counted(&mut alone), "{:?}", cell.parameters);
        assert!(cell.metrics["host_misses"].as_f64() > cell.metrics["walks"].as_f64());
    }
    let files = pictures(&result);
    let plots: Vec<_> = files.iter().filter(|file| file.name.starts_with("plot-")).collect();
    assert_eq!(plots.len(), 2, "a panel each, as nothing else differs");
    let lines: Vec<usize> = plots.iter().map(|plot| plot.svg.matches("<polyline").count()).collect();
    // By two rules; walks and traps, by two TLBs of a host.
    assert_eq!(lines, [2, 4]);
    let without = STUDY.split("[[plot]]").next().unwrap().replace("by_traps = [8, 64]\n", "");
    let without = Study::from_toml("t.toml", &without, folder.path()).unwrap();
    let without = sweep(&without, folder.path(), 2, "without").run(&Silent).unwrap();
    let metrics =
        |cells: Vec<&MachineCell>| cells.into_iter().map(|cell| cell.metrics.clone()).collect::<Vec<_>>();
    assert_eq!(metrics(full), metrics(without.machines.iter().collect()));
}

#[test]
fn machines_that_traps_cannot_simulate_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, why) in [
        ("mips_r2000", "k8", "by_traps is for software-managed TLBs with [walker.mapped]"),
        ("[8, 64]", "[0]", "by_traps: 0: choose from 1 to 65536 slots"),
        (
            "machines = [\"mips_r2000\"]\nstructures = [\"none\", \"mach3\"]\ncores = [1, 2]\n",
            "",
            "by_traps: there is no machine",
        ),
    ] {
        let text = STUDY.replace(from, to);
        let error = Study::from_toml("t.toml", &text, folder.path()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
