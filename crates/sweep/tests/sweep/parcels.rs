//! Jobs sent to other processes: they make the same units as at home, and need nothing but the traces.

use crate::common::{Silent, program, sweep, with_library};
use crate::{STUDY, traces};
use pagewalk_sim::Library;
use pagewalk_sweep::{Build, Parcel, Progress, SentJob, Stream, StudyFiles, StudySource, Sweep, Units};
use std::num::NonZeroUsize;
use std::path::Path;

const TURNS: &str = r#"
machines = ["own/machine.toml"]
structures = ["none", "own/server.toml"]
[[together]]
name = "both"
traces = ["a.pwt", "b.pwt"]
quantum = 500
"#;

const LAYOUTS: &str = r#"
thp = "never"
traces = ["a.pwt", "d.pwt", "e.pwt"]
machines = ["k8"]
[[together]]
name = "both"
traces = ["d.pwt", "e.pwt"]
quantum = 300
global_files = true
[[layout]]
name = "searched"
planner = "search"
traces = ["both"]
[[layout]]
name = "drawn"
planner = "random"
count = 2
from = "e"
traces = ["d", "e"]
"#;

fn build(tool: &str) -> Build {
    Build { version: "0".to_owned(), tool: tool.to_owned() }
}

/// The study of this text in `folder`, and what it was made from.
fn source(folder: &Path, text: &str) -> StudySource {
    std::fs::write(folder.join("s.toml"), format!("schema = 1\nname = \"s\"\n{text}")).unwrap();
    StudySource { files: StudyFiles::at(&folder.join("s.toml")), traces: Vec::new() }
}

/// Runs a job as another process does, which has the traces elsewhere.
fn run(job: &SentJob, elsewhere: &Path) -> Units {
    let parcel = Parcel::read(&job.parcel, &build("t")).unwrap();
    let files = parcel.files().iter().map(|key| elsewhere.join(key.path.file_name().unwrap())).collect();
    let units = parcel.run(files, 1, &Silent).unwrap();
    assert_eq!(units.keys().collect::<Vec<_>>(), sorted(&job.units));
    units
}

fn sorted(names: &[String]) -> Vec<&String> {
    let mut names: Vec<&String> = names.iter().collect();
    names.sort();
    names
}

fn jobs(sweep: &mut Sweep<'_>, source: &StudySource) -> Vec<SentJob> {
    sweep.plan(&Silent).unwrap();
    let jobs = sweep.sent_jobs(source, NonZeroUsize::new(5).unwrap()).unwrap();
    assert!(jobs.iter().all(|job| job.units.len() <= 5));
    jobs
}

#[test]
fn jobs_elsewhere_make_the_units_that_they_make_at_home() {
    for text in [STUDY, TURNS, LAYOUTS] {
        let [folder, elsewhere] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [home, away] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        traces(folder.path(), 1);
        with_library(2, "libone").write(&folder.path().join("d.pwt"));
        with_library(3, "libtwo").write(&folder.path().join("e.pwt"));
        std::fs::create_dir(folder.path().join("own")).unwrap();
        std::fs::write(folder.path().join("own/machine.toml"), &*Library::text("k8").unwrap()).unwrap();
        let server = pagewalk_sim::Structures::text("mach3").unwrap();
        std::fs::write(folder.path().join("own/server.toml"), server).unwrap();
        let mut source = source(folder.path(), text);
        let study = source.study().unwrap().0;
        sweep(&study, home.path(), 2, "t").run(&Silent).unwrap();
        let jobs = jobs(&mut sweep(&study, away.path(), 1, "t"), &source);
        for name in ["a.pwt", "b.pwt", "c.pwt", "d.pwt", "e.pwt"] {
            std::fs::copy(folder.path().join(name), elsewhere.path().join(name)).unwrap();
        }
        drop(folder);
        let mut units = 0;
        for (name, text) in jobs.iter().flat_map(|job| run(job, elsewhere.path())) {
            assert!(text == std::fs::read(home.path().join("units").join(&name)).unwrap(), "{name}");
            units += 1;
        }
        assert_eq!(units, jobs.iter().map(|job| job.units.len()).sum::<usize>());
        assert!(units > 0);
    }
}

/// Wants everything to end.
struct Stopped;

impl Progress for Stopped {
    fn bytes(&self, _: u64) {}

    fn is_stopped(&self) -> bool {
        true
    }
}

#[test]
fn hashing_of_traces_ends_when_the_caller_asks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pwt");
    program(1, 2000).write(&path);
    let study = source(folder.path(), "traces = [\"a.pwt\"]\nmachines = [\"k8\"]\n").study().unwrap().0;
    let traces = [vec![path]];
    assert!(Stream::all(&study, &traces, &Silent).is_ok());
    let error = Stream::all(&study, &traces, &Stopped).unwrap_err().to_string();
    assert!(error.ends_with("a.pwt: stopped"), "{error}");
}

#[test]
fn only_what_is_missing_is_sent_and_only_to_the_same_build() {
    let folder = tempfile::tempdir().unwrap();
    program(1, 2000).write(&folder.path().join("a.pwt"));
    let of = |values: &str| {
        format!(
            "traces = [\"a.pwt\"]\nmachines = [\"k8\"]\nvary = {{ \"cost.walk_reference\" = [{values}] }}\n"
        )
    };
    let study = source(folder.path(), &of("1, 2")).study().unwrap().0;
    sweep(&study, folder.path(), 1, "t").run(&Silent).unwrap();
    let mut source = source(folder.path(), &of("1, 2, 3"));
    let study = source.study().unwrap().0;
    let jobs = jobs(&mut sweep(&study, folder.path(), 1, "t"), &source);
    assert_eq!(jobs.iter().map(|job| job.units.len()).collect::<Vec<_>>(), [1]);
    let Err(refusal) = Parcel::read(&jobs[0].parcel, &build("another")) else { panic!("it is refused") };
    let refusal = refusal.to_string();
    assert!(refusal.contains("pagewalk 0 (build t)") && refusal.contains("(build another)"), "{refusal}");
    assert!(Parcel::read("{}", &build("t")).is_err());
    let changed = jobs[0].parcel.replace("walk_reference", "walk_preference");
    let parcel = Parcel::read(&changed, &build("t")).unwrap();
    assert!(parcel.run(vec![folder.path().join("a.pwt")], 1, &Silent).is_err());
}
