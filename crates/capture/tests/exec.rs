//! Programs that execute programs, natively and under the engine: they print the same and are followed.

mod native;

use native::{compile, compile_with, followed, followed_with, natively};
use pagewalk_capture::engine::max_threads_option;
use pagewalk_skip::{Need, skip};
use std::ffi::OsStr;

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
    // Each started image (it reports its end as its number of arguments) has a stream, besides the first and its
    // children.
    let begun = native.lines().filter(|line| line.starts_with("   status") && !line.ends_with(" 0")).count();
    assert_eq!(images.len(), 1 + 47 + begun, "{begun}");
    let lost: Vec<&str> = images.iter().flat_map(|image| &image.lost).map(String::as_str).collect();
    // If the kernel was told what runs other processors' programs, it decides.
    assert!(lost.iter().all(|what| what.starts_with("what foreign does, which runs untraced")), "{lost:?}");
}

/// A child's name, command line and environment, and a program's own descriptors: see `seen.c`.
#[test]
fn who_looks_at_a_program_sees_the_program() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (native, native_status) = natively(&compile(one.path(), "seen"), "argument");
    let (output, status, images) = followed(&compile(other.path(), "seen"), "argument");
    let path = |folder: &tempfile::TempDir| folder.path().to_str().unwrap().to_owned();
    assert_eq!(output, native.replace(&path(&one), &path(&other)));
    assert_eq!((status, images.len()), (native_status, 3));
    assert!(native.contains("comm: seen") && native.contains("cmdline: another name and an argument"));
}

/// What a child writes in borrowed memory is there, and the parent waits for it: see `children.c`.
#[test]
fn children_are_begun_as_natively() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (native, program) = (compile(one.path(), "children"), compile(other.path(), "children"));
    for way in ["vfork", "spawn", "threads", "flags", "copy", "name"] {
        let expected = natively(&native, way);
        let (output, status, images) = followed(&program, way);
        assert_eq!((output, status), expected, "{way}");
        let lost: Vec<&str> = images.iter().flat_map(|image| &image.lost).map(String::as_str).collect();
        let is_told = |what: &str| what.contains("shares a part of it (clone with flags 0x111)");
        assert!(
            lost.len() == usize::from(way == "flags") && lost.iter().all(|what| is_told(what)),
            "{lost:?}"
        );
    }
}

/// Linux before 6.14 calls it by the descriptor's number.
#[test]
fn a_program_from_memory_is_called_by_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (output, status, _) = followed(&compile(folder.path(), "children"), "memory");
    assert_eq!((output.as_str(), status.code()), ("memfd:mine\n", Some(0)));
}

/// Under another root, without /proc and Valgrind: see `rooted.c`.
#[test]
fn under_another_root_programs_run_and_forks_are_followed() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (native, native_status) = natively(&compile_with(one.path(), "rooted", &["-static"]), "");
    if native_status.code() == Some(77) {
        return skip(Need::Root, "chroot is refused");
    }
    let program = compile_with(other.path(), "rooted", &["-static"]);
    let (output, status, images) = followed(&program, "");
    assert_eq!((output, status), (native, native_status));
    // The first, nine children, and a child of two of them.
    assert_eq!(images.len(), 12);
    let lost: Vec<&str> = images.iter().flat_map(|image| &image.lost).map(String::as_str).collect();
    let reason = "which runs untraced: Valgrind cannot be reached from where it runs";
    assert!(lost.len() == 4 && lost.iter().all(|what| what.ends_with(reason)), "{lost:?}");
}

/// The process forbids itself files whose permissions do not show it: see `landlocked.c`.
#[test]
fn under_landlock_programs_run() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (native, program) = (compile(one.path(), "landlocked"), compile(other.path(), "landlocked"));
    for (way, untraced) in [("read", 2), ("make", 2), ("execute", 0)] {
        let expected = natively(&native, way);
        if expected.1.code() == Some(77) {
            return skip(Need::Landlock, "the kernel has none");
        }
        let (output, status, images) = followed(&program, way);
        assert_eq!((output, status), expected, "{way}");
        let lost: Vec<&str> = images.iter().flat_map(|image| &image.lost).map(String::as_str).collect();
        let reason = "/usr/bin/echo does, which runs untraced: Valgrind cannot be reached from where it runs";
        let told = lost.iter().filter(|what| what.ends_with(reason)).count();
        assert_eq!(told, untraced, "{way}: {lost:?}");
    }
}

/// An image that would lie where the engine does: see `zeros.c`.
#[test]
fn a_program_without_room_beside_the_engine_runs_untraced() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "executes");
    for size in ["(2L<<30)+4096", "(3L<<30)", "(6L<<30)"] {
        compile_with(folder.path(), "zeros", &["-no-pie", "-mcmodel=large", &format!("-DSZ={size}")]);
        let expected = natively(&program, "zeros");
        assert_eq!(expected.1.code(), Some(3));
        let (output, status, images) = followed(&program, "zeros");
        assert_eq!((output, status), expected, "{size}");
        let lost: Vec<&str> = images.iter().flat_map(|image| &image.lost).map(String::as_str).collect();
        let reason =
            "what ./zeros does, which runs untraced: it is not position independent and its image reaches";
        let is_told = |what: &str| what.starts_with(reason) && what.contains("the engine lies at 0x78000000");
        assert!(lost.len() == 2 && lost.iter().all(|what| is_told(what)), "{size}: {lost:?}");
    }
}

/// What the engine writes and opens does not count for the program's limits: see `limited.c`.
#[test]
fn limits_of_files_are_the_programs() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (native, program) = (compile(one.path(), "limited"), compile(other.path(), "limited"));
    for (way, images_least) in [("soft", 4), ("hard", 1), ("few", 3), ("fewest", 1)] {
        let expected = natively(&native, way);
        let (output, status, images) = followed(&program, way);
        assert_eq!((output, status), expected, "{way}");
        assert!(images.len() >= images_least, "{way}: {}", images.len());
        let reason = "which runs untraced: it may have too few files open (ulimit -Hn)";
        let is_told = images.iter().flat_map(|image| &image.lost).any(|lost| lost.contains(reason));
        assert_eq!(is_told, way == "fewest", "{way}");
    }
}

/// In the background of a terminal, and by signals: see `stopped.c`.
#[test]
fn signals_stop_what_they_stop_natively() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile_with(folder.path(), "stopped", &["-lutil"]);
    let expected = natively(&program, "");
    let (output, status, _) = followed(&program, "");
    assert_eq!((output, status), expected);
}

/// Tests start in the order of their names, and this one takes longest.
#[test]
fn a_crowd_of_threads_lives_together() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "threads");
    for count in ["600", "4500"] {
        let (output, status, images) = followed(&program, count);
        assert_eq!((output, status.code()), (format!("{count} threads\n"), Some(0)));
        assert!(images.len() == 1 && images[0].lost.is_empty(), "{:?}", images[0].lost);
    }
}

/// As at the kernel's limit, the thread does not start.
#[test]
fn at_the_limit_of_threads_the_program_goes_on_untraced() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "threads");
    let option = max_threads_option(100);
    let (output, status, images) = followed_with(&program, "150", &[OsStr::new(&option)]);
    assert_eq!((output.as_str(), status.code()), ("150 threads\n", Some(0)));
    assert_eq!(
        images[0].lost,
        [
            "the rest of the program, which runs untraced from here: it has 100 threads, as many as the engine has \
             room for (--max-threads N makes more)"
        ]
    );
}
