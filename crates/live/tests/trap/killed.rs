//! Killing pagewalk does no harm.

use super::common::{LONG, alone, kill_at_every_moment, words_of_launcher};
use super::{array, host_can, left_of, trapped};
use pagewalk_live::tracing::{Interrupt, ProcessEnd};
use pagewalk_live::trap::{TrapError, TrapOptions, run};
use pagewalk_setassoc::Replacement;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Not a test: started and killed by the tests below.
#[test]
#[ignore = "the launcher of the other tests"]
fn launcher() {
    let Some(words) = words_of_launcher() else { return };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = trapped(&words, &array(64, None, Replacement::Fifo, "modulo"));
    assert_eq!(run.end, ProcessEnd::Exit(0));
}

/// What a shell sees of the program: its output lines, and its exit code.
fn script(program: &Path, log: &Path) -> String {
    let (program, log) = (program.display(), log.display());
    format!("echo began >>{log}; {program} {log} 1; echo ended with $? >>{log}")
}

fn nobody_is_left(program: &Path) {
    let begun = Instant::now();
    while left_of(program) > 0 {
        assert!(begun.elapsed() < LONG, "processes of {} are left", program.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The program maps, locks and moves memory, starts threads and children, and executes itself again; each time pagewalk
/// is killed at another moment. The program may not start; once started, it behaves as natively, including its exit
/// code.
#[test]
fn a_program_outlives_pagewalk_at_every_moment() {
    let (folder, program) = alone("work", &[]);
    let natively = folder.path().join("natively");
    assert!(Command::new("sh").args(["-c", &script(&program, &natively)]).status().unwrap().success());
    let natively = fs::read_to_string(natively).unwrap();
    assert!(natively.ends_with("ended with 42\n") && natively.lines().count() == 4, "{natively}");
    if !host_can() {
        return;
    }
    kill_at_every_moment(&natively, Duration::from_secs(1), |log| {
        vec!["sh".to_owned(), "-c".to_owned(), script(&program, log)]
    });
    nobody_is_left(&program);
}

/// If the keeper is killed, the program cannot go on, and that is reported.
#[test]
fn a_killed_keeper_is_named() {
    if !host_can() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sleeper = folder.path().join("sleeper");
    fs::copy("/bin/sleep", &sleeper).unwrap();
    let command = [sleeper.clone().into_os_string(), OsString::from("100")];
    let array = array(64, None, Replacement::Fifo, "modulo");
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            let keeper = loop {
                if let Some(keeper) = keeper_of(&sleeper) {
                    break keeper;
                }
                assert!(begun.elapsed() < LONG, "nobody follows");
                std::thread::sleep(Duration::from_millis(5));
            };
            assert!(Command::new("kill").args(["-9", &keeper]).status().unwrap().success());
        });
        run(&command, &array, TrapOptions::default(), &Interrupt::new()).expect_err("nobody told")
    });
    assert!(matches!(error, TrapError::Keeper(ProcessEnd::Signal(9))), "{error}");
    assert!(error.to_string().contains("run it again"), "{error}");
    nobody_is_left(&sleeper);
}

/// The tracer of the process that runs this program.
fn keeper_of(program: &Path) -> Option<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let runs =
        |process: &fs::DirEntry| process.path().join("exe").read_link().is_ok_and(|exe| exe == program);
    processes.filter(runs).find_map(|process| {
        let status = fs::read_to_string(process.path().join("status")).ok()?;
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?.trim().to_owned();
        (tracer != "0").then_some(tracer)
    })
}
