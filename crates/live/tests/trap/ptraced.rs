//! Programs that trace others, and signals for the program.

use super::common::hand_on_when;
use super::{alone, array, host_can, left_of, trapped};
use pagewalk_live::tracing::{Interrupt, ProcessEnd};
use pagewalk_live::trap::{TrapOptions, TrapRun, run};
use pagewalk_setassoc::Replacement;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn traced(program: &Path, what: &str) -> TrapRun {
    let array = array(64, None, Replacement::Fifo, "modulo");
    let run = trapped(&[program.to_str().unwrap(), what], &array);
    assert_eq!(run.end, ProcessEnd::Exit(0), "{what}: {:#?}", run.images);
    for image in &run.images {
        let checked = image.checked.as_ref();
        assert_eq!(checked.and_then(|checked| checked.first_difference.as_deref()), None, "{what}");
    }
    run
}

/// `traces WHAT` works natively, and under us.
fn traces(what: &str) {
    let (_folder, program) = alone("traces", &[]);
    assert!(Command::new(&program).arg(what).status().unwrap().success(), "{what} holds without us");
    if host_can() {
        traced(&program, what);
    }
}

/// strace, gdb, ltrace and LeakSanitizer work so.
#[test]
fn a_program_traces_others_as_natively() {
    let (_folder, program) = alone("traces", &[]);
    for (what, let_go) in
        [("exec", 2), ("stopped", 1), ("attach", 1), ("seize", 1), ("parent", 1), ("steps", 1)]
    {
        assert!(Command::new(&program).arg(what).status().unwrap().success(), "{what} holds without us");
        if !host_can() {
            continue;
        }
        let run = traced(&program, what);
        let told = run.images.iter().filter_map(|image| image.not_followed.as_deref());
        let told = told.filter(|why| why.contains("traces it itself (ptrace)")).count();
        // A child made by vfork has no image of its own before its exec.
        let own = if what == "exec" { let_go - 1 } else { let_go };
        assert_eq!(told, own, "{what}: {:#?}", run.images);
    }
}

#[test]
fn what_is_traced_may_be_killed_at_any_moment() {
    traces("killed");
}

#[test]
fn two_that_trace_each_other_wait_for_nobody() {
    traces("mutual");
}

#[test]
fn a_stop_that_comes_as_a_process_is_let_go_is_told() {
    traces("interrupted");
}

/// It starts others while it is killed, and has the same name as our agents.
#[test]
fn what_was_let_go_is_killed_with_all_that_it_begins() {
    if !host_can() {
        return;
    }
    let (_folder, program) = alone("traces", &[]);
    let array = array(64, None, Replacement::Fifo, "modulo");
    let interrupt = Interrupt::new();
    let command = [OsString::from(&program), OsString::from("forks")];
    let (run, took) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let begun = Instant::now();
            while left_of(&program) < 100 {
                assert!(begun.elapsed() < Duration::from_secs(30), "it does not fork");
                std::thread::sleep(Duration::from_millis(2));
            }
            interrupt.kill();
            Instant::now()
        });
        let run = run(&command, &array, TrapOptions::default(), &interrupt).expect("the program starts");
        (run, killer.join().unwrap().elapsed())
    });
    assert_eq!(run.end, ProcessEnd::Exit(0));
    assert!(took < Duration::from_secs(20), "{took:?}: only its own alarm has ended it");
    assert_eq!(left_of(&program), 0);
}

/// Without the second filter its calls would fail (its own filter may forbid another one, or it can open no more
/// files), and without room its memory stays shared: `ptrace` is refused, and that is reported.
#[test]
fn what_cannot_be_let_go_is_named() {
    let (_folder, program) = alone("traces", &[]);
    for (what, why, by_itself) in [
        ("filtered", "it has a seccomp filter of its own", false),
        ("halted", "it has a seccomp filter of its own", false),
        ("unroomed", "Cannot allocate memory", false),
        ("full", "Too many open files", true),
    ] {
        assert!(Command::new(&program).arg(what).status().unwrap().success(), "{what} holds without us");
        if !host_can() {
            continue;
        }
        let array = array(64, None, Replacement::Fifo, "modulo");
        let run = trapped(&[program.to_str().unwrap(), what], &array);
        assert_eq!(run.end, ProcessEnd::Exit(3), "{what}: {:#?}", run.images);
        let left = run.images[1].left_alone.join("; ");
        assert!(left.contains(&format!("may not trace it itself (ptrace): {why}")), "{what}: {left}");
        let not_followed = run.images[1].not_followed.as_deref().unwrap_or_default();
        assert_eq!(
            not_followed.starts_with("it ran by itself from when"),
            by_itself,
            "{what}: {not_followed}"
        );
    }
}

/// Detection of debuggers: nobody traces it natively either, and its parent would not react.
#[test]
fn a_program_that_asks_to_be_traced_is_told_what_it_would_be_natively() {
    let (_folder, program) = alone("traces", &[]);
    if !host_can() {
        return;
    }
    let run = traced(&program, "me");
    let left = run.images[0].left_alone.join("; ");
    assert_eq!(left.matches("PTRACE_TRACEME").count(), 1, "{left}");
}

#[test]
fn children_that_nobody_is_to_follow_are_followed() {
    let (_folder, program) = alone("hidden", &[]);
    assert!(Command::new(&program).status().unwrap().success(), "it holds without us");
    if host_can() {
        let array = array(64, None, Replacement::Fifo, "modulo");
        let run = trapped(&[program.to_str().unwrap()], &array);
        super::assert_good(&run, "hidden");
        assert_eq!(run.images.len(), 3);
    }
}

/// Each signal reaches the program's own handler, whose exit code is kept; before the program's start, it waits.
#[test]
fn signals_are_handed_on() {
    if !host_can() {
        return;
    }
    let (folder, program) = alone("heeds", &[]);
    let array = array(64, None, Replacement::Fifo, "modulo");
    for signal in [1, 2, 3, 15, 10, 12] {
        let ready = folder.path().join(format!("ready{signal}"));
        let interrupt = Interrupt::new();
        let command = [OsString::from(&program), OsString::from(&ready)];
        let run = std::thread::scope(|scope| {
            scope.spawn(|| hand_on_when(&ready, &interrupt, signal));
            run(&command, &array, TrapOptions::default(), &interrupt).expect("the program starts")
        });
        assert_eq!(run.end, ProcessEnd::Exit(40 + signal));
    }
    let interrupt = Interrupt::new();
    interrupt.hand_on(15);
    let command = ["sleep", "100"].map(OsString::from);
    let run = run(&command, &array, TrapOptions::default(), &interrupt).expect("the program starts");
    assert_eq!(run.end, ProcessEnd::Signal(15));
}

/// What the program leaves running is ended by the signal that would end the program.
#[test]
fn what_a_program_leaves_running_is_ended() {
    if !host_can() {
        return;
    }
    let array = array(64, None, Replacement::Fifo, "modulo");
    let interrupt = Interrupt::new();
    let command = ["sh", "-c", "sleep 100 & exit 3"].map(OsString::from);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(1));
            interrupt.hand_on(15);
        });
        run(&command, &array, TrapOptions::default(), &interrupt).expect("the program starts")
    });
    assert_eq!(run.end, ProcessEnd::Exit(3));
}
