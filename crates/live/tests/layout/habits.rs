//! Programs that lock, guard, seal and move their memory, or serve its faults, work with placed libraries as without.

use crate::common::Lab;
use crate::lab::{VERIFY, host_can, packed, placed};
use pagewalk_live::layout::PlacementOptions;
use pagewalk_live::tracing::ProcessEnd;
use pagewalk_skip::{Need, skip};
use std::process::Command;

#[test]
fn memory_is_treated_as_natively() {
    let lab = Lab::new();
    let library = lab.library("placed", 1, "", &[]);
    let programs = [
        ("locks", include_str!("../programs/locks.c"), &[][..]),
        ("locks", include_str!("../programs/locks.c"), &["limited"]),
        ("regions", include_str!("../programs/regions.c"), &[]),
        ("serves", include_str!("../programs/serves.c"), &[]),
    ];
    for (name, source, words) in programs {
        let program = lab.compile(name, source, &["-lplaced"]);
        if !host_can() {
            return;
        }
        let command = [&[program.as_str()], words].concat();
        if !Command::new(&program).args(words).status().unwrap().success() {
            // Not every user may serve faults.
            skip(Need::Trap, format_args!("`{name}` fails natively here"));
            continue;
        }
        let run =
            placed(&command, &packed(std::slice::from_ref(&library)), PlacementOptions::default()).unwrap();
        assert_eq!(run.end, ProcessEnd::Exit(0), "{name} {words:?}");
    }
}

/// A process has only one tracer, so a debugger is detached, and what it starts is not placed.
#[test]
fn programs_that_trace_others_are_let_go() {
    let lab = Lab::new();
    let library = lab.library("one", 1, "", &[]);
    let source = include_str!("../programs/traces.c");
    let program = lab.compile("traces", source, &[]);
    if !host_can() {
        return;
    }
    let objects = packed(&[library]);
    for what in ["exec", "stopped", "seize", "steps"] {
        let run = placed(&["sh", "-c", "$0 $1", &program, what], &objects, VERIFY).unwrap();
        assert_eq!(run.end, ProcessEnd::Exit(0), "{what}");
        assert_eq!(run.tracers, [program.as_str()], "{what}");
        let run = placed(&[&program, what], &objects, VERIFY).unwrap();
        assert_eq!((run.end, run.tracers.len()), (ProcessEnd::Exit(0), 1), "{what}");
    }
}
