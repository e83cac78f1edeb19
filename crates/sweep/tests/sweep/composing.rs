//! Layouts under kernels, in operating systems, in turns and on cores: cells equal direct simulation of the moved
//! streams.

use crate::common::{self, Silent, program, structure, study, sweep, with_library, with_structure};
use pagewalk_layout::rebase::{PlanBinding, RebasedSource};
use pagewalk_mm::{OsKernel, ThpMode};
use pagewalk_plan::Plan;
use pagewalk_report::schema::Metrics;
use pagewalk_report::sweep::schema::{LayoutPlanRow, MachineCell, SweepResult};
use pagewalk_report::sweep::{from_json, render_html, to_json};
use pagewalk_sim::{Arrangement, DesignSpec, HostKernel, Sharing, Simulation, offline};
use pagewalk_sweep::{MachineVariant, Study, TraceSpec, metrics};
use pagewalk_trace::pwt::{Reader, events};
use pagewalk_trace::{Analysis, Event, Interleave, Origin, Source, Stretch};
use pagewalk_translate::Asid;
use std::convert::Infallible;
use std::fs::File;
use std::path::Path;

const STUDY: &str = r#"
thp = "always"
traces = ["a.pwt"]
machines = ["k8", "romer_1998"]
structures = ["none", "mach3"]
cores = [1, 2]

[[together]]
name = "both"
traces = ["a.pwt", "b.pwt"]
quantum = 300
global_files = true

[[together]]
name = "forked"
traces = ["a.pwt", "child.pwt"]
quantum = 300

[[layout]]
name = "drawn"
planner = "random"
count = 2
traces = ["both"]

[[layout]]
name = "searched"
planner = "search"
for = "each"

[[layout]]
name = "as-a"
planner = "search"
from = "a"
traces = ["both"]

[[os]]
policy = "host"
machines = ["k8"]

[[os]]
policy = "approx-online"
machines = ["romer_1998"]

[[os]]
policy = "offline"
build_cycles_per_kib = 30
machines = ["romer_1998"]
"#;

/// A cell's plans, by process; none as recorded.
fn plans(folder: &Path, study: &Study, result: &SweepResult, cell: &MachineCell, of: usize) -> Vec<Plan> {
    let layout = cell.layout.as_deref().unwrap();
    let from = study.layouts.iter().find(|spec| spec.name == layout).and_then(|spec| spec.from.as_ref());
    let from = from.map_or(cell.trace, |from| study.traces.iter().position(|t| t.name() == from).unwrap());
    let is_meant = |process: usize| {
        result.plans.iter().find(move |plan| {
            let machine = plan.machine.as_ref().is_none_or(|machine| *machine == cell.machine);
            // A forked child has its parent's plan.
            let number = if study.traces[cell.trace].name() == "forked" { 1 } else { process + 1 };
            let of_process = plan.process.is_none_or(|planned| planned == number);
            (plan.trace, plan.layout.as_str()) == (from, layout)
                && plan.layout_seed == cell.layout_seed
                && machine
                && of_process
        })
    };
    let read = |file: &str| std::fs::read_to_string(folder.join("plans").join(file)).unwrap();
    (0..of).filter_map(is_meant).map(|plan| Plan::parse(&read(&plan.file), "a plan").unwrap()).collect()
}

/// The moved streams of a trace.
fn streams(files: &[std::path::PathBuf], plans: &[Plan]) -> Vec<RebasedSource<Reader<File>>> {
    let mut moved = 0;
    let open = |(number, path): (usize, &std::path::PathBuf)| {
        let all = events(std::io::BufReader::new(File::open(path).unwrap()), Event::moves_memory).unwrap();
        let bound = plans.get(number).map_or_else(PlanBinding::default, |plan| {
            PlanBinding::new(plan.layout.as_ref().unwrap(), &all.header, all.in_order()).unwrap()
        });
        moved += bound.files();
        RebasedSource::new(Reader::new(File::open(path).unwrap()).unwrap(), &bound)
    };
    let streams = files.iter().enumerate().map(open).collect();
    assert!(plans.is_empty() || moved > 0, "libraries move");
    streams
}

fn play<S: Source>(mut streams: Vec<S>, sharing: Option<&Sharing>, to: &mut dyn Analysis) {
    let mut stretch = Stretch::default();
    let Some(sharing) = sharing else {
        while stretch.read(&mut streams[0], 1000).unwrap() {
            stretch.play(to);
        }
        return;
    };
    let mut all = Interleave::new(streams, sharing.turns.clone());
    while stretch.read_turns(&mut all, 1000).unwrap() {
        stretch.play(to);
    }
}

/// What one machine counts in a cell's surroundings.
fn counted(study: &Study, variant: &MachineVariant, cell: &MachineCell, plans: &[Plan]) -> Metrics {
    let trace = &study.traces[cell.trace];
    let files = match trace {
        TraceSpec::File { path, .. } => vec![path.clone()],
        TraceSpec::Together { paths, .. } => paths.clone(),
        TraceSpec::Workload(_) => unreachable!("there is none"),
    };
    let arrangement = Arrangement {
        turns: trace.sharing().is_some(),
        cores: variant.cores.unwrap().into(),
        global_files: trace.sharing().is_some_and(|sharing| sharing.global_files),
        structure: structure(cell),
    };
    let begin = |to: &mut Simulation| {
        if trace.name() == "forked" {
            to.begin_as_child(Asid::new(1).unwrap());
        }
    };
    let machine = &variant.machine;
    let kernel = study.kernels.iter().find(|kernel| Some(&kernel.name) == cell.os.as_ref()).unwrap();
    let design = match kernel.build(machine).unwrap() {
        None => HostKernel::new(ThpMode::Always).design(machine),
        Some(OsKernel::Running(kernel)) => DesignSpec::with_kernel(machine.name.clone(), machine, *kernel),
        Some(OsKernel::Offline(settings)) => {
            let replay = |to: &mut Simulation| {
                begin(to);
                play(streams(&files, plans), trace.sharing(), to);
                Ok::<_, Infallible>(())
            };
            let found = offline(replay, machine, &arrangement, &settings, |_| {}).unwrap();
            return with_structure(metrics(&found.counts), found.structure.as_ref());
        }
    };
    let mut alone = Simulation::new(vec![design], &arrangement).unwrap();
    begin(&mut alone);
    play(streams(&files, plans), trace.sharing(), &mut alone);
    common::counted(&mut alone)
}

#[test]
fn moved_programs_run_in_every_surrounding() {
    let folder = tempfile::tempdir().unwrap();
    with_library(2, "libone").write(&folder.path().join("a.pwt"));
    with_library(3, "libtwo").write(&folder.path().join("b.pwt"));
    with_library(4, "libone").write_as(&folder.path().join("child.pwt"), (2, 1), Origin::Fork);
    let study = study(folder.path(), STUDY);
    let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
    let one = sweep(&study, folder.path(), 1, "another").run(&Silent).unwrap();
    assert_eq!(to_json(&one), to_json(&result), "on one thread");
    // Of three kernels and machines, two systems and two numbers of cores: recorded and searched on three traces, and
    // three more layouts on one.
    assert_eq!(result.machines.len(), 3 * 2 * 2 * (2 + 2 + 2 + 3));
    let mut moved = 0;
    for cell in &result.machines {
        let of = |variant: &&MachineVariant| {
            variant.machine.name == cell.machine && variant.parameters == cell.parameters
        };
        let variant = study.machines.iter().find(of).unwrap();
        let processes = if cell.trace == 0 { 1 } else { 2 };
        let plans = plans(folder.path(), &study, &result, cell, processes);
        assert!(cell.layout.as_deref() == Some("recorded") || plans.len() == processes);
        moved += usize::from(!plans.is_empty());
        assert_eq!(cell.metrics, counted(&study, variant, cell, &plans), "{}", cell_title(cell));
    }
    assert!(moved > result.machines.len() / 2);
    assert!(differ(&result, |cell| cell.parameters.clear()), "cores matter");
    assert!(differ(&result, |cell| cell.structure = None), "the structure matters");
    assert!(differ(&result, |cell| cell.layout = None), "layouts matter");
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
    assert!(render_html(&result).contains("approx-online, mach3, cores = 2"));
    let kept = sweep(&study, folder.path(), 1, "t");
    assert!(kept.remaining().iter().all(|of_trace| of_trace.tasks.is_empty()));
    assert_eq!(to_json(&kept.run(&Silent).unwrap()), to_json(&result), "as kept");
    let [_, both, forked] = &result.traces[..] else { panic!("three traces") };
    assert_eq!((both.program.as_str(), both.command_line.len()), ("2 × program", 2));
    assert_eq!(both.turns.as_deref(), Some("turns of 300 instructions, with global pages of files"));
    assert_eq!(forked.turns.as_deref(), Some("turns of 300 instructions"));
}

/// What sets cost is counted where the machine runs as plans are made.
#[test]
fn metrics_of_sets_are_of_a_process_alone() {
    let folder = tempfile::tempdir().unwrap();
    with_library(2, "libone").write(&folder.path().join("a.pwt"));
    let text = "thp = \"never\"\ntraces = [\"a.pwt\"]\nmachines = [\"k8\"]\nstructures = [\"none\", \"mach3\"]\n\
                cores = [1, 2]\n[[together]]\nname = \"one\"\ntraces = [\"a.pwt\"]\nquantum = 300\n\
                [[os]]\npolicy = \"host\"\n[[os]]\npolicy = \"fixed\"\n\
                [[layout]]\nname = \"r\"\nplanner = \"random\"\n";
    let result = sweep(&study(folder.path(), text), folder.path(), 2, "t").run(&Silent).unwrap();
    for cell in &result.machines {
        let cores = cell.parameters["cores"].to_string();
        let is_alone = (cell.trace, cell.os.as_deref(), cell.structure.as_deref(), cores.as_str())
            == (0, Some("host"), Some("none"), "1");
        assert_eq!(cell.metrics.contains_key("last_level.misses"), is_alone, "{}", cell_title(cell));
    }
}

/// A process in which nothing can move runs as recorded beside others.
#[test]
fn what_cannot_move_stays() {
    let folder = tempfile::tempdir().unwrap();
    with_library(2, "libone").write(&folder.path().join("a.pwt"));
    program(3, 500).write(&folder.path().join("b.pwt"));
    let text = |traces: &str| {
        format!(
            "machines = [\"k8\"]\n[[together]]\nname = \"t\"\ntraces = [{traces}]\nquantum = 300\n[[layout]]\n\
             name = \"r\"\nplanner = \"random\"\n[[layout]]\nname = \"s\"\nplanner = \"search\"\n"
        )
    };
    let both = study(folder.path(), &text("\"a.pwt\", \"b.pwt\""));
    let result = sweep(&both, folder.path(), 1, "t").run(&Silent).unwrap();
    let stays = |row: &&LayoutPlanRow| row.did == "nothing of this process can move";
    assert_eq!(result.plans.iter().filter(stays).map(|row| row.process).collect::<Vec<_>>(), [Some(2); 2]);
    let alone = study(folder.path(), &text("\"b.pwt\""));
    let error = sweep(&alone, folder.path(), 1, "another").run(&Silent).unwrap_err().to_string();
    assert!(error.contains("no shared object"), "{error}");
}

/// Whether cells have other counts that differ at most in what `forget` removes.
fn differ(result: &SweepResult, forget: fn(&mut MachineCell)) -> bool {
    let mut known: Vec<MachineCell> = Vec::new();
    result.machines.iter().cloned().any(|mut cell| {
        let counts = std::mem::take(&mut cell.metrics);
        forget(&mut cell);
        let other =
            known.iter().position(|known| MachineCell { metrics: Metrics::new(), ..known.clone() } == cell);
        let differs = other.is_some_and(|other| known[other].metrics != counts);
        cell.metrics = counts;
        known.push(cell);
        differs
    })
}

/// Plans are of a process alone on any cores: other cores and turns need no other plans.
#[test]
fn plans_are_made_once_whatever_the_cores_and_turns() {
    let folder = tempfile::tempdir().unwrap();
    with_library(2, "libone").write(&folder.path().join("a.pwt"));
    with_library(3, "libtwo").write(&folder.path().join("b.pwt"));
    let of = |cores: &str, quantum: u32, global: bool| {
        let text = format!(
            "thp = \"never\"\nmachines = [\"k8\"]\ncores = {cores}\n[[together]]\nname = \"both\"\n\
             traces = [\"a.pwt\", \"b.pwt\"]\nquantum = {quantum}\nglobal_files = {global}\n[[layout]]\nname = \"s\"\n\
             planner = \"search\"\n[[layout]]\nname = \"r\"\nplanner = \"random\"\n"
        );
        study(folder.path(), &text)
    };
    let result = sweep(&of("[1]", 300, false), folder.path(), 1, "t").run(&Silent).unwrap();
    let files: Vec<&str> = result.plans.iter().map(|plan| plan.file.as_str()).collect();
    assert_eq!(
        files,
        ["both/1/s@k8.toml", "both/2/s@k8.toml", "both/1/r,seed=1.toml", "both/2/r,seed=1.toml"]
    );
    let plans = |study: &Study| {
        let tasks = sweep(study, folder.path(), 1, "t").remaining().swap_remove(0).tasks;
        (tasks.iter().filter(|task| task.starts_with("plan")).count(), tasks.len())
    };
    assert_eq!(plans(&of("[1]", 300, false)), (0, 0));
    assert_eq!(plans(&of("[1, 2]", 300, false)), (0, 3), "as recorded and in two layouts, on two cores");
    assert_eq!(plans(&of("[1]", 400, false)), (0, 3), "in other turns");
    assert_eq!(plans(&of("[1]", 300, true)), (0, 3), "with global files");
}

/// The recorded layout is for all traces of the layouts that are compared with it.
#[test]
fn the_recorded_layout_is_for_all_traces_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let traces = |others: &str| {
        let text = format!(
            "traces = [\"a.pwt\", \"b.pwt\", \"c.pwt\"]\nmachines = [\"k8\"]\n[[layout]]\nname = \"recorded\"\n\
             planner = \"recorded\"\ntraces = [\"a\"]\n[[layout]]\nname = \"r\"\nplanner = \"random\"\n{others}"
        );
        let study = study(folder.path(), &text);
        ["a", "b", "c"].map(|trace| study.layouts[0].is_for(trace))
    };
    assert_eq!(traces("traces = [\"b\"]"), [true, true, false]);
    assert_eq!(traces(""), [true, true, true]);
}

fn cell_title(cell: &MachineCell) -> String {
    format!("{} {:?} {:?} {:?} {:?}", cell.machine, cell.os, cell.structure, cell.layout, cell.parameters)
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, name) in [(2, "a.pwt"), (3, "b.pwt"), (4, "c.pwt")] {
        program(seed, 100).write(&folder.path().join(name));
    }
    let read = |more: &str| {
        let text = format!("schema = 1\nname = \"s\"\n{more}");
        Study::from_toml("s.toml", &text, folder.path()).map_err(|error| error.to_string())
    };
    let of = |more: &str| read(&format!("traces = [\"a.pwt\"]\nmachines = [\"k8\"]\n{more}")).unwrap_err();
    let together = "[[together]]\nname = \"two\"\ntraces = [\"a.pwt\", \"b.pwt\"]\nquantum = 5\n\
                    [[together]]\nname = \"three\"\ntraces = [\"a.pwt\", \"b.pwt\", \"c.pwt\"]\nquantum = 5\n\
                    [[layout]]\nname = \"drawn\"\nplanner = \"random\"\nfrom = \"two\"\n";
    let unsuited = read(&format!("machines = [\"k8\"]\n{together}")).unwrap();
    let files = [vec!["a.pwt", "b.pwt"], vec!["a.pwt", "b.pwt", "c.pwt"]];
    let files = files.map(|names| names.iter().map(|name| folder.path().join(name)).collect::<Vec<_>>());
    let unsuited = pagewalk_sweep::Stream::all(&unsuited, &files, &Silent).unwrap_err().to_string();
    let compare = |cell: &str| {
        let kernels = "cores = [1, 2, 3]\n[[os]]\npolicy = \"fixed\"\n[[os]]\npolicy = \"host\"\n";
        of(&format!(
            "{kernels}[[compare]]\ntitle = \"t\"\nsource = \"s\"\nsaid = \"s\"\nleast = 1\non = \"all\"\n\
             lower = {{ number = 1 }}\nupper = {{ machine = \"k8\", os = \"fixed\", {cell} }}\n"
        )
        .replace(", os = \"fixed\", os", ", os"))
    };
    let plot = |keys: &str| {
        let kernels = "cores = [1, 2]\n[[os]]\npolicy = \"fixed\"\n[[os]]\npolicy = \"host\"\n";
        of(&format!("{kernels}[[plot]]\ntitle = \"t\"\nx = \"cores\"\ny = [\"kernel.faults\"]\n{keys}\n"))
    };
    let layout = |keys: &str| of(&format!("[[layout]]\nname = \"l\"\nplanner = \"random\"\n{keys}\n"));
    let of_sets = |keys: &str| {
        of(&format!(
            "{keys}[[compare]]\ntitle = \"t\"\nsource = \"s\"\nsaid = \"s\"\nleast = 1\non = \"all\"\n\
             lower = {{ number = 1 }}\nupper = {{ machine = \"k8\", metric = \"last_level.misses\" }}\n\
             [[layout]]\nname = \"l\"\nplanner = \"random\"\ncount = 2\n"
        ))
    };
    let no_turns = "[[workload]]\nname = \"w\"\ncommand = [\"true\"]\nglobal_files = true\n";
    let cases = [
        (of("cores = [0]"), ["cores: 0", "from 1 to 16"]),
        (of("cores = \"2..17\""), ["cores: 17", "from 1 to 16"]),
        (read("traces = [\"a.pwt\"]\ncores = [2]\n[curve]").unwrap_err(), ["cores: ", "no machine"]),
        (of(no_turns), ["workload `w`: global_files", "quantum or switch_at"]),
        (unsuited, ["layout `drawn`: from = \"two\" has 2 processes", "`three` has 3"]),
        (of("[vary]\ncores = [1]"), ["vary: \"cores\"", "above [vary]"]),
        (
            of("[vary]\n\"os.take\" = [1]\n[[os]]\npolicy = \"fixed\""),
            ["vary: \"os.take\"", "[[os]] replaces"],
        ),
        (of("[[os]]\nname = \"\"\npolicy = \"fixed\""), ["number 1: name = \"\"", "leave the key out"]),
        (of("[[os]]\npolicy = \"fixd\""), ["did you mean `fixed`", "offline, host"]),
        (compare("os = \"fixed\""), ["3 variants of `k8` fit", "choose cores (1, 2, 3)"]),
        (compare("parameters = { cores = 4 }"), ["parameters: cores = 4", "choose from 1, 2, 3"]),
        (compare("parameters = { coers = 4 }"), ["parameters: \"coers\"", "did you mean `cores`"]),
        (compare("best = \"cores\", parameters = { cores = 1 }"), ["best = \"cores\"", "one value"]),
        (of_sets("thp = \"always\"\n"), ["last_level.misses", "thp = \"never\""]),
        (compare("metric = \"last_level.misses\", best = \"cores\""), ["metrics of sets", "one core"]),
        (plot("lines = \"cores\""), ["x = \"cores\"", "other keys"]),
        (plot("at = { os = \"host\" }"), ["y: \"kernel.faults\"", "there is none here"]),
        (plot("at = { layout = \"l\" }"), ["at: layout = \"l\"", "choose from none: see [[layout]]"]),
        (layout("from = \"x\""), ["layout `l`: from: \"x\"", "choose from a"]),
        (layout("traces = [\"x\"]"), ["layout `l`: traces: \"x\"", "choose from a"]),
    ];
    for (why, parts) in cases {
        parts.iter().for_each(|part| assert!(why.contains(part), "{part}: {why}"));
    }
}
