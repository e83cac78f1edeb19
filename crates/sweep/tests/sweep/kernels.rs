//! Kernels as a dimension of a study: cells equal direct simulation, units are kept by kernel, mistakes are named.

use crate::common::{Silent, Step, program, study, sweep};
use pagewalk_mm::OsSpec;
use pagewalk_mm::promotion::{ChoicesPerReplay, OfflineSettings};
use pagewalk_report::TextOptions;
use pagewalk_report::sweep::schema::MachineCell;
use pagewalk_report::sweep::{from_json, render_html, render_text, to_json};
use pagewalk_sim::{Arrangement, DesignSpec, Library, NoObserver, Pass, Simulation, held_orders, offline};
use pagewalk_sweep::{Study, metrics};
use std::convert::Infallible;
use std::path::Path;

const OPTIONS: TextOptions = TextOptions { width: 120, color: false, verbose: false };

const STUDY: &str = r#"
thp = "never"
traces = ["a.pwt"]
machines = ["zen4", "k8"]

[[os]]
policy = "host"

[[os]]
name = "at once"
policy = "asap"
max_page = "2M"
machines = ["zen4"]

[[os]]
name = "charges"
policy = "approx-online"
threshold = 0.001
machines = ["zen4"]

[[compare]]
title = "Half populated against fully"
source = "nobody"
said = "nothing"
upper = { machine = "zen4", os = "charges", metric = "kernel.faults" }
lower = { machine = "zen4", os = "at once", metric = "kernel.faults" }
most = 1
on = "all"

[[compare]]
title = "A figure beside a number"
source = "nobody"
said = "nothing"
upper = { machine = "k8", metric = "walks" }
lower = { number = 1 }
least = 1
on = "all"
"#;

#[test]
fn cells_are_what_direct_simulation_counts() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(7, 4000);
    program.write(&folder.path().join("a.pwt"));
    let study = study(folder.path(), STUDY);
    let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
    let names: Vec<_> = result.machines.iter().map(|cell| (&cell.machine[..], cell.os.as_deref())).collect();
    let zen4 = ["host", "at once", "charges"].map(|os| ("zen4", Some(os)));
    assert_eq!(names, [&zen4[..], &[("k8", Some("host"))]].concat());
    for (cell, text) in result.machines[1..].iter().zip(["asap:max_page=2M", "approx-online:threshold=0.001"])
    {
        let machine = &study.machines[0].machine;
        let kernel = OsSpec::from_text(text).unwrap().kernel(machine.paging, held_orders(machine)).unwrap();
        let design = DesignSpec::with_kernel("x".to_owned(), machine, kernel);
        let mut pass = Pass::new(vec![design], NoObserver).unwrap();
        program.play(&mut pass);
        assert_eq!(cell.metrics, metrics(&pass.finish()[0]));
    }
    assert!(result.comparisons.iter().all(|comparison| comparison.agrees), "{:?}", result.comparisons);
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
    let page = render_html(&result);
    assert!(page.contains("charges") && render_text(&result, &OPTIONS).contains("charges"));
}

/// Superpages chosen with knowledge of the future, besides kernels that share the pass.
#[test]
fn replays_are_what_the_policy_finds_alone() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(9, 3000);
    program.write(&folder.path().join("a.pwt"));
    let text = "traces = [\"a.pwt\"]\nmachines = [\"romer_1998\"]\n[[os]]\npolicy = \"fixed\"\n\
                [[os]]\npolicy = \"offline\"\ntake = 0.5\nbuild_cycles_per_kib = 30\n";
    let study = study(folder.path(), text);
    let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
    let cells: Vec<_> = result.machines.iter().map(|cell| cell.os.as_deref().unwrap()).collect();
    assert_eq!(cells, ["fixed", "offline"]);
    let mut settings = OfflineSettings { take: ChoicesPerReplay::Share(0.5), ..OfflineSettings::default() };
    settings.costs.copy_per_kib = 30;
    let play = |replay: &mut Simulation| {
        program.play(replay);
        Ok::<_, Infallible>(())
    };
    let machine = &study.machines[0].machine;
    let alone = offline(play, machine, &Arrangement::default(), &settings, |_| {}).unwrap();
    assert!(!alone.blocks.is_empty());
    assert_eq!(result.machines[1].metrics, metrics(&alone.counts));
    let again = sweep(&study, folder.path(), 1, "t");
    assert!(again.remaining()[0].tasks.is_empty());
}

/// The kernel of a machine's own file applies if the study names none, and its keys can be varied.
#[test]
fn machines_run_under_the_kernels_of_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(7, 3000);
    program.write(&folder.path().join("a.pwt"));
    let file = |name: &str, os: &str| {
        let text = Library::text("romer_1998").unwrap().replace("\"romer_1998\"", &format!("\"{name}\""));
        std::fs::write(folder.path().join(format!("{name}.toml")), format!("{text}\n[os]\n{os}")).unwrap();
    };
    file("own", "policy = \"approx-online\"\nthreshold = 0.001\n");
    file("named", "name = \"the best\"\npolicy = \"offline\"\nbuild_cycles_per_kib = 30\n");
    let machines =
        "traces = [\"a.pwt\"]\nmachines = [\"own.toml\", \"k8\", \"named.toml\"]\nthp = \"never\"\n";
    let cells = |text: &str| {
        let study = study(folder.path(), &format!("{machines}{text}"));
        sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap()
    };
    let alone = |os: &str| cells(&format!("[[os]]\npolicy = \"{os}\n")).machines;
    let result = cells("");
    let names: Vec<_> = result.machines.iter().map(|cell| cell.os.as_deref()).collect();
    assert_eq!(names, [Some("approx-online"), None, Some("the best")]);
    assert_eq!(result.machines[0].metrics, alone("approx-online\"\nthreshold = 0.001")[0].metrics);
    let offline =
        alone("offline\"\nbuild_cycles_per_kib = 30\nmachines = [\"named\"]\n[[os]]\npolicy = \"fixed\"");
    assert_eq!(offline.iter().filter(|cell| cell.os.as_deref() == Some("offline")).count(), 1);
    assert!(offline.iter().any(|cell| cell.metrics == result.machines[2].metrics));
    assert!(
        alone("fixed\"").iter().all(|cell| cell.os.as_deref() == Some("fixed")),
        "the study's come first"
    );
    let page = render_html(&result);
    assert!(page.contains("the best") && page.contains("<td>–</td>"));
    let varied = study(
        folder.path(),
        "traces = [\"a.pwt\"]\nmachines = [\"own.toml\"]\n[vary]\n\"os.threshold\" = [0.001, 1000]\n",
    );
    let found = sweep(&varied, folder.path(), 1, "t").run(&Silent).unwrap();
    let built = |at: usize| found.machines[at].metrics["kernel.promoted_bytes"].as_f64();
    assert!(built(0) > 0.0 && built(1) == 0.0);
    file("wrong", "policy = \"asap\"\npages = 3\n");
    let text = "schema = 1\nname = \"s\"\ntraces = [\"a.pwt\"]\nmachines = [\"wrong.toml\"]\n";
    let why = Study::from_toml("s.toml", text, folder.path()).unwrap_err().to_string();
    assert!(why.contains("wrong.toml") && why.contains("unknown key `os.pages`"), "{why}");
}

/// What kernels do changes with their keys and not with their names, nor with the mode of the host's kernel.
#[test]
fn units_are_kept_by_kernel() {
    let folder = tempfile::tempdir().unwrap();
    program(8, 2000).write(&folder.path().join("a.pwt"));
    let to_do = |text: &str| {
        let study = study(folder.path(), text);
        sweep(&study, folder.path(), 1, "t").remaining()[0].tasks.clone()
    };
    sweep(&study(folder.path(), STUDY), folder.path(), 1, "t").run(&Silent).unwrap();
    assert_eq!(to_do(STUDY), [""; 0]);
    assert_eq!(to_do(&STUDY.replace("at once", "asap").replace("most = 1\n", "most = 2\n")), [""; 0]);
    assert_eq!(to_do(&STUDY.replace("0.001", "0.002")), ["machine zen4, os charges"]);
    let always = STUDY.replace("\"never\"", "\"always\"");
    assert_eq!(to_do(&always), ["machine zen4, os host", "machine k8, os host"]);
}

fn refusal(text: &str) -> String {
    let text =
        format!("schema = 1\nname = \"s\"\ntraces = [\"a.pwt\"]\nmachines = [\"k8\", \"zen4\"]\n{text}");
    Study::from_toml("s.toml", &text, Path::new("")).unwrap_err().to_string()
}

#[test]
fn mistakes_are_named_with_the_choices() {
    for (text, parts) in [
        ("[[os]]\n", &["s.toml", "[[os]] number 1", "host, fixed, asap", "offline"][..]),
        ("[[os]]\npolicy = \"asop\"\n", &["s.toml", "os `asop`", "choose from", "asap"]),
        (
            "[[os]]\npolicy = \"host\"\n[[os]]\npolicy = \"asap\"\npages = 4\n",
            &["os `asap`", "`os.pages`", "max_page"],
        ),
        ("[[os]]\npolicy = \"host\"\nmax_page = \"2M\"\n", &["[[os]] number 1", "max_page"]),
        (
            "[[os]]\npolicy = \"host\"\nmachines = [\"k9\"]\n",
            &["os `host`", "\"k9\"", "choose from k8, zen4"],
        ),
        (
            "[[os]]\npolicy = \"host\"\nmachines = \"k8\"\n",
            &["machines = \"k8\"", "names of the study's machines"],
        ),
        ("[[os]]\npolicy = \"offline\"\npages = 2\n", &["`os.pages`", "take, replays"]),
        ("[[os]]\npolicy = \"offline\"\ntake = 2\n", &["os.take is 2", "from 0 to 1"]),
        ("[[os]]\npolicy = \"host\"\nmachines = [\"k8\"]\n", &["none is for machine `zen4`"]),
        ("[[os]]\npolicy = \"asap\"\n[[os]]\npolicy = \"asap\"\n", &["named `asap`", "name of its own"]),
        ("[[os]]\npolicy = \"fixed\"\npage = \"64K\"\n", &["os `fixed`", "64K", "its key machines"]),
    ] {
        let why = refusal(text);
        parts.iter().for_each(|part| assert!(why.contains(part), "{text}: {why}"));
    }
    let compare = |upper: &str| {
        let about = "title = \"t\"\nsource = \"s\"\nsaid = \"\"\nleast = 1\non = \"all\"";
        let rest = format!("[[compare]]\n{about}\nlower = {{ number = 1 }}\n");
        refusal(&format!("[[os]]\npolicy = \"host\"\n[[os]]\npolicy = \"asap\"\n{rest}upper = {upper}\n"))
    };
    assert!(compare("{ machine = \"k8\", os = \"x\" }").contains("os = \"x\": choose from host, asap"));
    assert!(compare("{ machine = \"k8\" }").contains("2 variants of `k8` fit"));
    assert!(compare("{ number = 1, metric = \"walks\" }").contains("no other keys"));
}

/// A workload's files are identified by name and content, wherever they are. Defaults are left out, so that recordings
/// keep their names.
#[test]
fn workloads_are_known_by_what_decides_their_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let workload = "[[workload]]\nname = \"w\"\ncommand = [\"true\"]";
    let read = |text: &str| {
        let text = format!("schema = 1\nname = \"s\"\nmachines = [\"k8\"]\n{workload}\n{text}");
        Study::from_toml("s.toml", &text, folder.path())
    };
    std::fs::create_dir(folder.path().join("b")).unwrap();
    for (path, content) in [("a.c", "int a;"), ("b/a.c", "int a;"), ("c.c", "int c;")] {
        std::fs::write(folder.path().join(path), content).unwrap();
    }
    let identity = |text: &str| match &read(text).unwrap().traces[0] {
        pagewalk_sweep::TraceSpec::Workload(workload) => serde_json::to_string(workload).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(identity("files = [\"a.c\"]"), identity("files = [\"b/a.c\"]"));
    assert_ne!(identity("files = [\"a.c\"]"), identity("files = [\"c.c\"]"));
    assert!(!identity("").contains("files"));
    // Addresses are recorded as exactly as the study's machines need them.
    assert_eq!(identity("grain = \"page\""), identity(""));
    assert_ne!(identity("grain = \"byte\""), identity(""));
    let cached = |text: &str| identity(&format!("{text}\n[cache_family]\n"));
    assert_eq!(cached("grain = \"byte\""), cached(""));
    assert_eq!(cached(""), identity("grain = \"byte\""));
    let fetched = |text: &str| identity(&format!("{text}\n[cache_family]\nserves = [\"fetches\"]"));
    assert_eq!(fetched(""), identity(""));
    let with_caches = |text: &str| {
        let text = format!("schema = 1\nname = \"s\"\nmachines = [\"zen4+caches\"]\n{workload}\n{text}");
        let study = Study::from_toml("s.toml", &text, folder.path()).unwrap();
        study.traces[0].workload().map(|workload| workload.grain)
    };
    assert_eq!(with_caches(""), Some(pagewalk_trace::Grain::Byte));
    for (text, part) in
        [("files = [\"d.c\"]", "d.c"), ("files = [\"a.c\", \"b/a.c\"]", "two are named `a.c`")]
    {
        let why = read(text).unwrap_err().to_string();
        assert!(why.contains("workload `w`: files") && why.contains(part), "{why}");
    }
}

/// A trace without mappings has inferred areas, in which kernels that replay it and those that do not make superpages.
/// Finished work is kept by the gap.
#[test]
fn areas_of_traces_without_mappings_are_inferred_as_the_study_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = program(7, 3000);
    program.steps.retain(|step| matches!(step, Step::Run { .. }));
    program.write(&folder.path().join("a.pwt"));
    let text = "traces = [\"a.pwt\"]\nmachines = [\"romer_1998\"]\n[[os]]\npolicy = \"asap\"\n\
                [[os]]\npolicy = \"offline\"\ntake = 0.5\nbuild_cycles_per_kib = 30\n";
    let study = |areas: &str| study(folder.path(), &format!("areas = \"{areas}\"\n{text}"));
    let promotions = |areas: &str| {
        let study = study(areas);
        let result = sweep(&study, folder.path(), 2, "t").run(&Silent).unwrap();
        let of = |cell: &MachineCell| cell.metrics["kernel.promotions"].as_f64();
        let text = render_text(&result, &OPTIONS);
        assert_eq!(text.contains("areas are inferred"), areas != "none", "{text}");
        (result.traces[0].inferred_gap, result.machines.iter().map(of).collect::<Vec<_>>())
    };
    assert_eq!(promotions("none"), (None, vec![0.0, 0.0]));
    let (gap, made) = promotions("auto");
    assert_eq!(gap, Some(2 << 20));
    assert!(made.iter().all(|&made| made > 0.0), "{made:?}");
    let unfinished = |areas: &str| sweep(&study(areas), folder.path(), 1, "t").remaining()[0].tasks.len();
    assert_eq!(["none", "auto", "inferred", "gap=4K"].map(unfinished), [0, 0, 0, 2]);
    let error = Study::from_toml(
        "study.toml",
        &format!("schema = 1\nname = \"s\"\nareas = \"x\"\n{text}"),
        folder.path(),
    );
    assert!(error.unwrap_err().to_string().contains("areas: `x`: choose from auto, inferred"));
}
