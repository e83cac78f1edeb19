//! Programs that end in many ways, with 32 MB to be seen.

use crate::alone;
use crate::common::hand_on_when;
use pagewalk_live::pagemap::{Exit, SnapshotTime, run_to_exit};
use pagewalk_live::tracing::{Interrupt, ProcessEnd};
use std::ffi::OsString;

/// Pages of the memory that it fills.
const FILLED: u64 = 32 << 20 >> 12;

fn run(how: &str) -> Exit {
    let (_folder, program) = alone("ending", &[]);
    let command = [program.into_os_string(), OsString::from(how)];
    run_to_exit(&command, &Interrupt::new()).expect("one's own program may be traced")
}

#[test]
fn memory_is_whole_at_the_exit() {
    for (how, end) in [
        ("exit", ProcessEnd::Exit(7)),
        ("last_thread", ProcessEnd::Exit(0)),
        ("threads", ProcessEnd::Exit(0)),
        ("signal", ProcessEnd::Signal(15)),
        ("stop", ProcessEnd::Exit(0)),
    ] {
        let exit = run(how);
        let kept = exit.kept.unwrap_or_else(|| panic!("{how}: nothing was read"));
        assert_eq!(exit.end, end, "{how}");
        assert_eq!(kept.moment, SnapshotTime::Exit, "{how}");
        assert!(kept.snapshot.pages > FILLED, "{how}: {}", kept.snapshot.pages);
        assert!(kept.program.ends_with("/ending"), "{how}: {}", kept.program);
        assert!(exit.peak_resident_bytes.unwrap() > FILLED * 4096, "{how}");
    }
}

/// Memory freed before the exit is seen while the program runs.
#[test]
fn a_larger_reading_from_before_is_kept() {
    let exit = run("frees");
    let kept = exit.kept.unwrap();
    assert!(kept.snapshot.pages > FILLED, "{}", kept.snapshot.pages);
    assert!(matches!(kept.moment, SnapshotTime::Running { seconds } if seconds > 0.0), "{:?}", kept.moment);
}

/// After an exec the new program counts, however small.
#[test]
fn an_exec_begins_anew() {
    let exit = run("exec");
    let kept = exit.kept.unwrap();
    assert!(kept.snapshot.pages < FILLED, "{}", kept.snapshot.pages);
    assert_eq!(kept.command_line.last().map(String::as_str), Some("small"));
}

/// The program's own handler runs, and its exit code stays.
#[test]
fn signals_are_handed_on() {
    let (folder, program) = alone("heeds", &[]);
    for signal in [1, 2, 15, 10] {
        let ready = folder.path().join(format!("ready{signal}"));
        let interrupt = Interrupt::new();
        let command = [OsString::from(&program), OsString::from(&ready)];
        let exit = std::thread::scope(|scope| {
            scope.spawn(|| hand_on_when(&ready, &interrupt, signal));
            run_to_exit(&command, &interrupt).expect("the program starts")
        });
        assert_eq!(exit.end, ProcessEnd::Exit(40 + signal));
    }
}
