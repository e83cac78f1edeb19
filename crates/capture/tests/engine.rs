//! The engine by itself: built for this host's Valgrind; and running real programs without a listener, or with one that
//! dies, without changing their behaviour.

mod native;

use native::engine;
use pagewalk_capture::engine::{Engine, EngineError, EngineOptions, EngineStatus};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn run(socket: Option<&Path>, extra: &[&str], script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut arguments = vec!["-c"];
    arguments.push(script);
    engine()
        .command(socket, &log, extra, OsStr::new("/bin/sh"), &arguments)
        .output()
        .expect("valgrind starts")
}

#[test]
fn prepared_again_it_is_the_same_and_takes_no_time() {
    let first = engine();
    // The best of several, as other tests keep the machine busy.
    let times = (0..10).map(|_| {
        let begin = Instant::now();
        assert_eq!(first, engine());
        begin.elapsed()
    });
    let best = times.min().unwrap();
    assert!(best < Duration::from_millis(5), "took {best:?}");
    assert!(first.folder().join("pagewalk-amd64-linux").is_file());
}

#[test]
fn two_that_build_at_the_same_time_agree() {
    let cache = tempfile::tempdir().unwrap();
    let options = EngineOptions { cache: Some(cache.path().to_owned()), ..EngineOptions::default() };
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| Engine::prepare(&options).unwrap());
        let two = scope.spawn(|| Engine::prepare(&options).unwrap());
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_eq!(one, two);
    let names: Vec<_> =
        std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "left behind: {names:?}");
}

/// A build is reported before it begins and part by part, once; looking for an engine builds none.
#[test]
fn a_build_is_told_part_by_part() {
    let cache = tempfile::tempdir().unwrap();
    let options = EngineOptions { cache: Some(cache.path().to_owned()), ..EngineOptions::default() };
    let EngineStatus::Valgrind { version, folder, .. } = Engine::find(&options).unwrap() else {
        panic!("it is built")
    };
    assert!(version.starts_with("3.") && !folder.exists());
    let mut told = Vec::new();
    let engine = Engine::prepare_and_tell(&options, &mut |built| told.push((built.done, built.all))).unwrap();
    assert_eq!((engine.version(), engine.folder()), (&version[..], folder.as_path()));
    let all = told[0].1;
    assert!(all > 20 && told == (0..=all).map(|done| (done, all)).collect::<Vec<_>>(), "{told:?}");
    Engine::prepare_and_tell(&options, &mut |built| panic!("built again: {built:?}")).unwrap();
}

#[test]
fn what_cannot_be_kept_says_where_it_could() {
    let cache = Some(PathBuf::from("/proc/nowhere/pagewalk"));
    let error =
        Engine::prepare(&EngineOptions { cache, ..EngineOptions::default() }).unwrap_err().to_string();
    assert!(error.contains("/proc/nowhere/pagewalk: ") && error.contains("set XDG_CACHE_HOME"), "{error}");
}

#[test]
fn a_compiler_that_fails_is_quoted_with_the_versions_that_work() {
    let cache = tempfile::tempdir().unwrap();
    let compiler = Some(PathBuf::from("/bin/false"));
    let error = Engine::prepare(&EngineOptions {
        cache: Some(cache.path().to_owned()),
        compiler,
        ..EngineOptions::default()
    });
    let error = error.unwrap_err();
    assert!(matches!(error, EngineError::Build { .. }), "{error:?}");
    assert!(error.to_string().contains("tested: 3.19.0"), "{error}");
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0, "a half-built engine is left behind");
}

#[test]
fn without_valgrind_the_package_is_named() {
    let valgrind = Some(PathBuf::from("/nonexistent/valgrind"));
    let error = Engine::prepare(&EngineOptions { valgrind, ..EngineOptions::default() }).unwrap_err();
    assert!(error.to_string().contains("apt-get install valgrind"), "{error}");
}

#[test]
fn a_programs_output_and_status_pass_through() {
    let output = run(None, &[], "echo out; echo err >&2; exit 3");
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_signal_that_kills_the_program_kills_the_engine_alike() {
    let output = run(None, &[], "kill -TERM $$");
    assert_eq!(output.status.signal(), Some(15));
}

#[test]
fn without_a_listener_the_program_runs_on() {
    let output = run(Some(Path::new("/nonexistent/socket")), &[], "/bin/echo untraced");
    assert_eq!(output.stdout, b"untraced\n");
    assert!(output.status.success());
}

/// The listener takes the ring and leaves without reading; two chunks are soon full.
#[test]
fn when_the_listener_dies_the_program_runs_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(|| drop(accept(&listener).unwrap()));
        run(Some(&path), &["--chunks=2"], "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo $i")
    });
    assert_eq!(output.stdout, b"2000\n");
    assert!(output.status.success());
}

/// A 32-bit program in the fewest bytes that the kernel accepts: `exit(42)`.
fn write_32_bit_program(path: &Path) {
    const BASE: u32 = 0x0804_8000;
    let mut elf: Vec<u8> = b"\x7fELF\x01\x01\x01".to_vec();
    elf.resize(16, 0);
    let mut push = |value: u32, bytes: usize| elf.extend_from_slice(&value.to_le_bytes()[..bytes]);
    let (executable, i386, entry) = (2, 3, BASE + 52 + 32);
    for (value, bytes) in
        [(executable, 2), (i386, 2), (1, 4), (entry, 4), (52, 4), (0, 4), (0, 4), (52, 2), (32, 2)]
    {
        push(value, bytes);
    }
    for count in [1, 0, 0, 0] {
        push(count, 2);
    }
    // One segment to load: type, offset, address twice, size twice, readable and executable, alignment.
    for field in [1, 0, BASE, BASE, 96, 96, 5, 4096] {
        push(field, 4);
    }
    // mov $1, %eax; mov $42, %ebx; int $0x80
    elf.extend_from_slice(b"\xb8\x01\0\0\0\xbb\x2a\0\0\0\xcd\x80");
    std::fs::write(path, elf).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_32_bit_child_runs_untraced() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    write_32_bit_program(&program);
    if Command::new(&program).status().map_or(None, |status| status.code()) != Some(42) {
        return; // This kernel runs no 32-bit programs, traced or not.
    }
    let output = run(None, &[], &format!("{}; echo $?", program.display()));
    assert_eq!(output.stdout, b"42\n");
    assert_eq!(output.stderr, b"");
}

#[test]
fn the_program_sees_its_own_environment() {
    let script = "tr '\\0' '\\n' < /proc/self/environ | grep -c -E '^(LD_LIBRARY_PATH|GLIBCXX_FORCE_NEW)='";
    let native = Command::new("/bin/sh").args(["-c", script]).output().unwrap();
    assert_eq!(run(None, &[], script).stdout, native.stdout);
}
