//! Compares the engine's counts with Valgrind's Cachegrind, and at faults with what the program does.

mod native;

use native::{compile_with, consumed, engine};
use pagewalk_capture::engine::Engine;
use pagewalk_capture::{HostDescription, RingSource, Session};
use pagewalk_trace::{Event, Item, Source};
use pagewalk_units::Kind;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn compile(folder: &Path, name: &str) -> PathBuf {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("engines/valgrind/include");
    compile_with(folder, name, &["-I", include.to_str().unwrap()])
}

/// The counts of one run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    instructions: u64,
    /// Loads and modifies; Cachegrind has no modifies.
    reads: u64,
    writes: u64,
    /// References by address since the last marker: before that, the place may have had another owner.
    places: HashMap<u64, u64>,
    markers: Vec<u64>,
}

fn consume(mut source: RingSource) -> Counts {
    let mut counts = Counts::default();
    while let Some(item) = source.next_item().expect("a stream in good order") {
        match item {
            Item::Batch(batch) => {
                counts.instructions += batch.instructions();
                for reference in batch.refs {
                    *counts.places.entry(reference.address().0).or_default() += 1;
                    match reference.kind() {
                        Kind::Store => counts.writes += 1,
                        _ => counts.reads += 1,
                    }
                }
            }
            Item::Event { event: Event::Marker { id }, .. } => {
                counts.markers.push(id);
                counts.places.clear();
            }
            Item::Event { .. } => {}
        }
    }
    counts
}

/// The environment in which a program runs as under Valgrind's own tools, and these tools.
fn compared(engine: &Engine) -> [(&'static str, &OsStr); 2] {
    [("VALGRIND_LIB", engine.folder().as_os_str()), ("PAGEWALK_IMAGE_OF_VALGRIND", OsStr::new("1"))]
}

/// Runs a program as under Valgrind's own tools, for comparison with these.
fn run(engine: &Engine, program: &Path) -> Counts {
    run_in(engine, program, &compared(engine))
}

/// Runs a program that starts no other, in its own environment.
fn run_in(engine: &Engine, program: &Path, environment: &[(&str, &OsStr)]) -> Counts {
    let session = Session::new("valgrind", HostDescription::detect()).unwrap();
    let log = session.directory().join("log");
    let socket = session.socket_path();
    let mut command = engine.command::<&OsStr>(Some(&socket), &log, &[], program.as_os_str(), &[]);
    command.env_clear().envs(environment.iter().copied()).stdout(Stdio::null());
    let (status, mut seen) = consumed(&session, command, consume);
    assert!(status.success(), "{status}");
    assert_eq!(seen.len(), 1);
    seen.pop().unwrap()
}

/// Instructions, data reads and data writes in Cachegrind's count.
fn cachegrind(engine: &Engine, program: &Path) -> [u64; 3] {
    let output = Command::new(engine.launcher())
        .env_clear()
        .envs(compared(engine))
        .args(["--command-line-only=yes", "--tool=cachegrind", "--cache-sim=yes"])
        .args(["--vgdb=no", "--cachegrind-out-file=/dev/null"])
        // As in `run`: the C library asks what kind of file it is.
        .stdout(Stdio::null())
        .arg(program)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let line = |name: &str| {
        let line =
            text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
        line.split_once(name).unwrap().1.replace(',', "")
    };
    let numbers: Vec<u64> = [line("I   refs:"), line("D   refs:")]
        .iter()
        .flat_map(|line| line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()))
        .collect();
    let [instructions, data, reads, writes] = numbers[..] else { panic!("{numbers:?} from {text}") };
    assert_eq!(data, reads + writes);
    [instructions, reads, writes]
}

#[test]
fn counts_equal_cachegrinds() {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    for program in [PathBuf::from("/bin/true"), compile(folder.path(), "instructions")] {
        let counts = run(&engine, &program);
        let ours = [counts.instructions, counts.reads, counts.writes];
        assert_eq!(ours, cachegrind(&engine, &program), "{}", program.display());
    }
}

/// What precedes a faulting instruction in its block counts once, even if the program resumes at the instruction; the
/// instruction itself counts when it completes; what follows it, if the program goes on.
#[test]
fn a_handled_fault_counts_what_was_done() {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    let counts = run(&engine, &compile(folder.path(), "faults"));
    let [before, guarded, after] = counts.markers[..] else { panic!("{:?}", counts.markers) };
    assert_eq!(
        [before, guarded, after].map(|place| counts.places.get(&place).copied()),
        [Some(1000), Some(500), Some(500)]
    );
}

/// A processor translates a load's address whether or not its value is used.
#[test]
fn loads_of_unused_values_count() {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "unused");
    let counts = run_in(&engine, &program, &[("VALGRIND_LIB", engine.folder().as_os_str())]);
    let counted = |page: u64| counts.places.get(&(counts.markers[0] + page * 4096)).copied();
    let missed: Vec<u64> = (0..2000).filter(|&page| counted(page) != Some(1)).collect();
    assert!(missed.is_empty(), "{} of 2,000 pages, first {:?}", missed.len(), missed.first());
}
