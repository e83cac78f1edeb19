//! Killing pagewalk does no harm.

use super::{array, compiled, host_can, left_of, trapped};
use pagewalk_live::tracing::{Interrupt, ProcessEnd};
use pagewalk_live::trap::{TrapError, TrapOptions, run};
use pagewalk_setassoc::Replacement;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The number of kills by default (`PAGEWALK_KILLS`).
const KILLS: u32 = 40;
/// Most time from a kill to the program's end, and from a launcher's start to its program's first output.
const LONG: Duration = Duration::from_secs(30);

/// Not a test: started and killed by the tests below.
#[test]
#[ignore = "the launcher of the other tests"]
fn launcher() {
    let Ok(words) = std::env::var("LAUNCH") else { return };
    let words: Vec<&str> = words.split('\n').collect();
    let run = trapped(&words, &array(64, None, Replacement::Fifo, "modulo"));
    assert_eq!(run.end, ProcessEnd::Exit(0));
}

/// What a shell sees of the program: its output lines, and its exit code.
fn script(program: &Path, log: &Path) -> String {
    let (program, log) = (program.display(), log.display());
    format!("echo began >>{log}; {program} {log} 3; echo ended with $? >>{log}")
}

fn start(program: &Path, log: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "killed::launcher"]);
    command.env("LAUNCH", ["sh", "-c", &script(program, log)].join("\n"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().unwrap()
}

/// Whether it started; panics if it then does not end as natively.
fn ended_as(natively: &str, log: &Path, what: &str) -> bool {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text == natively {
            return true;
        }
        // Anything to be started has started by then.
        if text.is_empty() && begun.elapsed() > Duration::from_secs(1) {
            return false;
        }
        assert!(natively.starts_with(&text), "{what}: {text}");
        assert!(begun.elapsed() < LONG, "{what}: it did not end: {text}");
        std::thread::sleep(Duration::from_millis(2));
    }
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
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "work", &[]);
    let log = |name: String| -> PathBuf { folder.path().join(name) };
    let natively = log("natively".to_owned());
    assert!(Command::new("sh").args(["-c", &script(&program, &natively)]).status().unwrap().success());
    let natively = fs::read_to_string(natively).unwrap();
    assert!(natively.ends_with("ended with 42\n") && natively.lines().count() == 6, "{natively}");
    if !host_can() {
        return;
    }
    let whole = {
        let (begun, log) = (Instant::now(), log("whole".to_owned()));
        assert!(start(&program, &log).wait().unwrap().success());
        assert!(ended_as(&natively, &log, "nobody killed"));
        begun.elapsed()
    };
    let kills = std::env::var("PAGEWALK_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let (mut begun, mut cut) = (0, 0);
    for kill in 0..kills {
        let log = log(format!("log{kill}"));
        let mut launcher = start(&program, &log);
        std::thread::sleep(whole * kill / kills);
        cut += u32::from(launcher.try_wait().unwrap().is_none());
        let _ = launcher.kill();
        launcher.wait().unwrap();
        begun += u32::from(ended_as(&natively, &log, &format!("kill {kill} of {kills}")));
    }
    eprintln!(
        "{kills} kills: {begun} programs began and ended as natively, {cut} launchers were killed at work"
    );
    assert!(begun > kills / 9 && cut > kills / 9, "{begun} began, {cut} launchers were killed");
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
