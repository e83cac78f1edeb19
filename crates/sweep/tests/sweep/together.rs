//! Traces that take turns: cells equal direct simulation, and mistakes are named.

use crate::common::{Silent, Step, alone, counted, program, study, sweep};
use pagewalk_report::sweep::schema::{CurveCell, FamilyCell};
use pagewalk_report::sweep::to_json;
use pagewalk_sweep::{Stream, Study};
use pagewalk_trace::pwt::Reader;
use pagewalk_trace::{Event, Interleave, Turns};
use pagewalk_translate::Asid;
use std::fs::File;

const STUDY: &str = r#"
thp = "never"
machines = ["mips_r2000", "k8"]
structures = ["none", "mach3"]

[[together]]
name = "both"
traces = ["a.pwt", "b.pwt"]
quantum = 500

[[together]]
name = "the other way round"
traces = ["b.pwt", "a.pwt"]
quantum = 700
switch_at = ["read", "61"]
"#;

#[test]
fn cells_are_what_direct_simulation_counts() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, name) in [(1, "a.pwt"), (2, "b.pwt")] {
        program(seed, 3000).write(&folder.path().join(name));
    }
    let study = study(folder.path(), STUDY);
    let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
    assert_eq!(result.machines.len(), 2 * 2 * 2);
    let one = sweep(&study, &folder.path().join("again"), 1, "t").run(&Silent).unwrap();
    assert_eq!(to_json(&one), to_json(&result), "on one thread");
    let all = [
        (["a.pwt", "b.pwt"], Turns::of(500)),
        (["b.pwt", "a.pwt"], Turns { quantum: Some(700), calls: vec![0, 61] }),
    ];
    for cell in &result.machines {
        let (files, turns) = &all[cell.trace];
        let mut system = alone(cell);
        let open = |name| Reader::new(File::open(folder.path().join(name)).unwrap()).unwrap();
        let mut streams = Interleave::new(files.iter().map(open).collect(), turns.clone());
        while let Some((stream, item)) = streams.next_item().map_err(|(_, error)| error).unwrap() {
            system.switch_to(Asid::new(stream as u32).unwrap());
            item.play(&mut system);
        }
        assert_eq!(
            cell.metrics,
            counted(&mut system),
            "{} in {:?}, {:?}",
            cell.machine,
            cell.structure,
            turns
        );
    }
    let [both, other] = &result.traces[..] else { panic!("two traces") };
    assert_eq!(both.instructions, other.instructions);
    assert_ne!(both.fingerprint, other.fingerprint);
}

/// Superpages chosen with knowledge of the future: for one process in turns they are those of the process alone.
#[test]
fn processes_in_turns_are_replayed() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, name) in [(9, "a.pwt"), (2, "b.pwt")] {
        let mut program = program(seed, 3000);
        for step in (1..program.steps.len()).step_by(100).rev() {
            program.steps.insert(step, Step::Event(Event::Syscall { number: 0, result: 0 }));
        }
        program.write(&folder.path().join(name));
    }
    let text = "traces = [\"a.pwt\"]\nmachines = [\"romer_1998\"]\nstructures = [\"none\", \"mach3\"]\n\
                [[os]]\npolicy = \"offline\"\nbuild_cycles_per_kib = 30\n\
                [[together]]\nname = \"one\"\ntraces = [\"a.pwt\"]\nquantum = 100\n\
                [[together]]\nname = \"two\"\ntraces = [\"a.pwt\", \"b.pwt\"]\nquantum = 100\n";
    let result = sweep(&study(folder.path(), text), folder.path(), 2, "t").run(&Silent).unwrap();
    let cell = |trace: usize, structure: &str| {
        let mut cells = result.machines.iter();
        let found =
            cells.find(|cell| cell.trace == trace && cell.structure.as_deref() == Some(structure)).unwrap();
        &found.metrics
    };
    let count = |trace, structure, name: &str| cell(trace, structure)[name].as_f64();
    for structure in ["none", "mach3"] {
        assert_eq!(cell(0, structure), cell(1, structure));
        assert!(count(0, structure, "kernel.promoted_bytes") > 0.0);
        assert!(count(2, structure, "references_data") > count(0, structure, "references_data"));
    }
    assert!(count(0, "mach3", "kernel_references") > 0.0);
    assert!(count(0, "mach3", "walks") > count(0, "none", "walks"));
}

/// Families and curves of one process in turns are those of the process alone. Of two, no page is common.
#[test]
fn families_and_curves_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    program(9, 3000).write(&folder.path().join("a.pwt"));
    let mut text = "traces = [\"a.pwt\"]\n[family]\n[cache_family]\n[curve]\nrate = 0.5\n".to_owned();
    for (name, traces) in [("one", "\"a.pwt\""), ("two", "\"a.pwt\", \"a.pwt\"")] {
        text += &format!("[[together]]\nname = \"{name}\"\ntraces = [{traces}]\nquantum = 100\n");
    }
    let result = sweep(&study(folder.path(), &text), folder.path(), 2, "t").run(&Silent).unwrap();
    let [alone, one, two] = &result.families[..] else { panic!("three traces") };
    assert_eq!((&alone.sizes, alone.references), (&one.sizes, one.references));
    assert_eq!(two.references, 2 * alone.references);
    let misses = |family: &FamilyCell, sets, ways| family.sizes[0].misses_of(sets, ways).unwrap();
    assert!(misses(two, 1, 64) > 2 * misses(alone, 1, 64), "they are in each other's way");
    let lines = &result.cache_families;
    let third = lines.len() / 3;
    for ((alone, one), two) in lines[..third].iter().zip(&lines[third..]).zip(&lines[2 * third..]) {
        assert_eq!((&alone.capacity, &alone.conflict), (&one.capacity, &one.conflict));
        assert_eq!(two.compulsory, 2 * alone.compulsory);
    }
    let [exact, sampled, exact_one, sampled_one, both, sampled_both] = &result.curves[..] else {
        panic!("six")
    };
    assert_eq!((&exact.misses, &sampled.misses), (&exact_one.misses, &sampled_one.misses));
    assert!(sampled_both.misses.last() > sampled.misses.last());
    let cold = |curve: &CurveCell| *curve.misses.last().unwrap();
    assert_eq!(cold(both), 2.0 * cold(exact), "an array of any size misses all first touches");
}

#[test]
fn at_most_64_processes_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    program(1, 20).write(&folder.path().join("a.pwt"));
    let streams = |number: usize| {
        let traces = vec!["\"a.pwt\""; number].join(", ");
        let text =
            format!("machines = [\"k8\"]\n[[together]]\nname = \"t\"\ntraces = [{traces}]\nquantum = 5\n");
        Stream::all(&study(folder.path(), &text), &[vec![folder.path().join("a.pwt"); number]], &Silent)
    };
    assert_eq!(streams(64).unwrap()[0].processes(), 64);
    let error = streams(65).unwrap_err().to_string();
    assert!(error.contains("trace `t` has 65 processes: at most 64 can take turns"), "{error}");
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let read = |keys: &str, more: &str| {
        let text = format!(
            "schema = 1\nname = \"s\"\nmachines = [\"k8\"]\n{more}\n[[together]]\nname = \"two\"\n{keys}\n"
        );
        Study::from_toml("s.toml", &text, folder.path()).unwrap_err().to_string()
    };
    let traces = "traces = [\"a.pwt\", \"b.pwt\"]\n";
    let with = |keys: &str| read(&format!("{traces}{keys}"), "");
    let workload = "[[workload]]\nname = \"w\"\ncommand = [\"true\"]\nimage = \"x\"\nquantum = 1\n";
    let cases = [
        (with(""), ["together `two`", "quantum, switch_at or both"]),
        (with("quantum = 0"), ["together `two`: quantum = 0", "1 instruction"]),
        (with("switch_at = [\"nonesuch\"]"), ["together `two`: switch_at: \"nonesuch\"", "such as read"]),
        (read("traces = []\nquantum = 1", ""), ["together `two`: traces = []", "a.pwt"]),
        (read(&format!("{traces}quantum = 1"), workload), ["workload `w`: image", "quantum"]),
    ];
    for (why, parts) in cases {
        assert!(why.starts_with("s.toml: "), "{why}");
        parts.iter().for_each(|part| assert!(why.contains(part), "{part}: {why}"));
    }
}
