//! Programs that execute programs, natively and under the engine: they must print the same and be followed.

use pagewalk_capture::engine::{Engine, Options, max_threads_option};
use pagewalk_capture::{Host, RingSource, Session};
use pagewalk_trace::{Event, Item, Source, StreamHeader};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;

fn engine() -> Engine {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine-cache");
    Engine::prepare(&Options { cache: Some(cache), ..Options::default() })
        .expect("the engine builds on this host")
}

/// Compiles a program of `tests/programs` into `folder`.
fn compile(folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
    let status =
        Command::new("gcc").args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(status.unwrap().success(), "{name}.c does not compile");
    program
}

/// What a stream told.
struct Image {
    header: StreamHeader,
    references: usize,
    lost: Vec<String>,
}

fn consume(mut source: RingSource) -> Image {
    let (mut references, mut lost) = (0, vec![]);
    while let Some(item) = source.next_item().expect("a stream in good order") {
        match item {
            Item::Batch(batch) => references += batch.refs.len(),
            Item::Event { event: Event::Lost { what }, .. } => lost.push(what),
            Item::Event { .. } => {}
        }
    }
    Image { header: source.header().clone(), references, lost }
}

/// The environment of every run here: what tells the two ways apart must not be in it.
fn in_surroundings<'a>(command: &'a mut Command, folder: &Path, output: &Path) -> &'a mut Command {
    let output = File::create(output).unwrap();
    let errors = output.try_clone().unwrap();
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LD_BIND_NOW", "1").current_dir(folder);
    command.stdin(Stdio::null()).stdout(output).stderr(errors)
}

/// The program's output and end, natively.
fn natively(program: &Path, argument: &str) -> (String, ExitStatus) {
    let folder = program.parent().unwrap();
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(program);
    let status = in_surroundings(command.arg(argument), folder, output.path()).status().unwrap();
    (without_numbers(output.path()), status)
}

/// The same under the engine, and the images that were followed.
fn followed(program: &Path, argument: &str) -> (String, ExitStatus, Vec<Image>) {
    followed_with(program, argument, &[])
}

fn followed_with(program: &Path, argument: &str, options: &[&OsStr]) -> (String, ExitStatus, Vec<Image>) {
    let (engine, folder) = (engine(), program.parent().unwrap());
    let session = Session::new("valgrind", Host::detect()).unwrap();
    let log = session.directory().join("log");
    let output = tempfile::NamedTempFile::new().unwrap();
    let arguments = [OsStr::new(argument)];
    let socket = session.socket_path();
    let mut command = engine.command(Some(&socket), &log, options, program.as_os_str(), &arguments);
    in_surroundings(&mut command, folder, output.path()).env("VALGRIND_LIB", engine.folder());
    let images = Mutex::new(vec![]);
    let status = session
        .run(command, |source| {
            let number = source.number();
            let image = consume(source);
            images.lock().unwrap().push((number, image));
        })
        .unwrap();
    assert!(session.refused().is_empty());
    let mut images = images.into_inner().unwrap();
    images.sort_by_key(|(number, _)| *number);
    let images = images.into_iter().map(|(_, image)| image).collect();
    (without_numbers(output.path()), status, images)
}

/// What was printed, without the process ids in it.
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

#[test]
fn a_program_that_begins_itself_again_is_the_same_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "reexec");
    for (way, printed) in [("memfd", "now"), ("self", "now"), ("noenv", "now"), ("noargs", "?")] {
        let (output, status, images) = followed(&program, way);
        assert_eq!((output.as_str(), status.code()), (format!("ran again: {printed}\n").as_str(), Some(0)));
        let [first, again] = &images[..] else { panic!("{way}: {} images", images.len()) };
        assert_eq!(first.header.pid, again.header.pid, "{way}");
        assert!(again.references > 10_000 && first.lost.is_empty(), "{way}");
        if way == "memfd" {
            assert_eq!(again.header.program, "/memfd:copy (deleted)");
        }
    }
}

/// Forty-seven ways to execute a program, or to fail at it: see `executions.c`.
#[test]
fn every_way_to_execute_a_program_ends_as_natively() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (native, native_status) = natively(&compile(one.path(), "executions"), "all");
    let program = compile(other.path(), "executions");
    let (output, status, images) = followed(&program, "all");
    let path = |folder: &tempfile::TempDir| folder.path().to_str().unwrap().to_owned();
    let expected = native.replace(&path(&one), &path(&other));
    let pairs = output.lines().zip(expected.lines());
    let different: Vec<(&str, &str)> = pairs.filter(|(ours, theirs)| ours != theirs).collect();
    assert!(different.is_empty(), "{different:#?}");
    assert_eq!((output.lines().count(), status), (expected.lines().count(), native_status));
    // Each image that was begun (it tells its end as the number of its arguments) has a stream, beside the first and
    // its children.
    let begun = native.lines().filter(|line| line.starts_with("   status") && !line.ends_with(" 0")).count();
    assert_eq!(images.len(), 1 + 47 + begun, "{begun}");
    let lost: Vec<&str> = images.iter().flat_map(|image| &image.lost).map(String::as_str).collect();
    // Where the kernel has been told what runs other processors' programs, it is asked.
    assert!(lost.iter().all(|what| what.starts_with("what foreign does, which runs untraced")), "{lost:?}");
}

#[test]
fn many_threads_live_together() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "threads");
    for count in ["600", "4500"] {
        let (output, status, images) = followed(&program, count);
        assert_eq!((output, status.code()), (format!("{count} threads\n"), Some(0)));
        assert!(images.len() == 1 && images[0].lost.is_empty(), "{:?}", images[0].lost);
    }
}

/// As at the kernel's limit, the thread is not begun.
#[test]
fn at_the_limit_of_threads_the_program_is_told_and_so_are_we() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "threads");
    let option = max_threads_option(100);
    let (output, status, images) = followed_with(&program, "150", &[OsStr::new(&option)]);
    assert_eq!((output.as_str(), status.code()), ("only 99 threads\n", Some(1)));
    assert_eq!(
        images[0].lost,
        ["threads that the program was refused: the engine runs 100 at a time; --max-threads N allows more"]
    );
}
