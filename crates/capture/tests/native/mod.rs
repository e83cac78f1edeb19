//! Runs a program natively and under the engine, to compare its output.
#![allow(dead_code, reason = "each of the tests uses a part")]

use pagewalk_capture::engine::{Engine, EngineOptions};
use pagewalk_capture::{HostDescription, RingSource, Session};
use pagewalk_trace::{Event, Item, Source, StreamHeader};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;

pub fn engine() -> Engine {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine-cache");
    Engine::prepare(&EngineOptions { cache: Some(cache), ..EngineOptions::default() })
        .expect("the engine builds on this host")
}

/// Compiles one of the programs beside the tests into `folder`.
pub fn compile(folder: &Path, name: &str) -> PathBuf {
    compile_with(folder, name, &[])
}

pub fn compile_with(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
    let status = Command::new("gcc")
        .args(["-O1", "-w", "-pthread", "-o"])
        .arg(&program)
        .arg(&source)
        .args(options)
        .status();
    assert!(status.unwrap().success(), "{name}.c does not compile");
    program
}

/// The contents of a stream.
pub struct Image {
    pub header: StreamHeader,
    pub references: usize,
    pub lost: Vec<String>,
    /// Everything but losses.
    pub events: Vec<Event>,
}

fn consume(mut source: RingSource) -> Image {
    let (mut references, mut lost, mut events) = (0, vec![], vec![]);
    while let Some(item) = source.next_item().expect("a stream in good order") {
        match item {
            Item::Batch(batch) => references += batch.refs.len(),
            Item::Event { event: Event::Lost { what }, .. } => lost.push(what),
            Item::Event { event, .. } => events.push(event),
        }
    }
    Image { header: source.header().clone(), references, lost, events }
}

/// The environment of every run here; it must not reveal which way a program runs.
fn in_surroundings<'a>(command: &'a mut Command, folder: &Path, output: &Path) -> &'a mut Command {
    let output = File::create(output).unwrap();
    let errors = output.try_clone().unwrap();
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LD_BIND_NOW", "1").current_dir(folder);
    command.stdin(Stdio::null()).stdout(output).stderr(errors)
}

/// The program's output and end, natively.
pub fn natively(program: &Path, argument: &str) -> (String, ExitStatus) {
    let folder = program.parent().unwrap();
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(program);
    let status = in_surroundings(command.arg(argument), folder, output.path()).status().unwrap();
    (without_numbers(output.path()), status)
}

/// The same under the engine, with the followed images.
pub fn followed(program: &Path, argument: &str) -> (String, ExitStatus, Vec<Image>) {
    followed_with(program, argument, &[])
}

pub fn followed_with(program: &Path, argument: &str, options: &[&OsStr]) -> (String, ExitStatus, Vec<Image>) {
    let (engine, folder) = (engine(), program.parent().unwrap());
    let session = Session::new("valgrind", HostDescription::detect()).unwrap();
    let log = session.directory().join("log");
    let output = tempfile::NamedTempFile::new().unwrap();
    let arguments = [OsStr::new(argument)];
    let socket = session.socket_path();
    let mut command = engine.command(Some(&socket), &log, options, program.as_os_str(), &arguments);
    in_surroundings(&mut command, folder, output.path()).env("VALGRIND_LIB", engine.folder());
    let (status, images) = consumed(&session, command, consume);
    (without_numbers(output.path()), status, images)
}

/// Runs a program in a session; returns what `consume` makes of its images, in order of start.
pub fn consumed<T: Send>(
    session: &Session,
    command: Command,
    consume: impl Fn(RingSource) -> T + Sync,
) -> (ExitStatus, Vec<T>) {
    let images = Mutex::new(BTreeMap::new());
    let status = session.run(command, |source| {
        let number = source.number();
        let image = consume(source);
        images.lock().unwrap().insert(number, image);
    });
    assert!(session.refused().is_empty());
    (status.unwrap(), images.into_inner().unwrap().into_values().collect())
}

/// The output without process ids.
fn without_numbers(output: &Path) -> String {
    let text = std::fs::read_to_string(output).unwrap();
    let mut parts = text.split("/proc/");
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        whole.push_str("/proc/");
        whole.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    whole
}
