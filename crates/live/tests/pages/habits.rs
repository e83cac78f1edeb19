//! Programs that lock, guard, seal and move their memory, or serve its faults, work under a plan as without.

use crate::common::Lab;
use crate::lab::{MIB, anonymous, applied_to, heap, host_can};
use pagewalk_live::tracing::ProcessEnd;
use pagewalk_skip::{Need, skip};
use std::fs;
use std::process::Command;

#[test]
fn memory_is_treated_as_natively() {
    let lab = Lab::new();
    let programs = [
        ("locks", include_str!("../programs/locks.c"), &[][..]),
        ("locks", include_str!("../programs/locks.c"), &["limited"]),
        ("regions", include_str!("../programs/regions.c"), &[]),
        ("serves", include_str!("../programs/serves.c"), &[]),
    ];
    for (name, source, words) in programs {
        let program = lab.compile(name, source, &[]);
        if !host_can() {
            return;
        }
        let command = [&[program.as_str()], words].concat();
        if !Command::new(&program).args(words).status().unwrap().success() {
            // Not every user may serve faults.
            skip(Need::Trap, format_args!("`{name}` fails natively here"));
            continue;
        }
        let run = applied_to(&command, &[heap(1 << 27), anonymous(64 << 12, 1), anonymous(1 << 22, 1)]);
        assert_eq!(run.timed.end, ProcessEnd::Exit(0), "{name} {words:?}: {run:#x?}");
    }
}

/// A planned break grows in whole huge pages, but not beyond what the program may lock.
#[test]
fn a_locked_heap_is_as_long_as_it_was_asked_for() {
    let lab = Lab::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        int main(int count, char **words) {
            char line[256];
            if (mlockall(MCL_FUTURE)) return 1;
            FILE *out = fopen(words[1], "w"), *status = fopen("/proc/self/status", "r");
            for (int i = 0; i < 8; i++) if (sbrk(64 << 10) == (void *)-1) return 2;
            while (fgets(line, sizeof line, status)) if (!strncmp(line, "VmLck", 5)) fputs(line, out);
            return fclose(out);
        }"#;
    let program = lab.compile("locked-heap", source, &[]);
    if !host_can() {
        return;
    }
    let (natively, under) = (lab.path("natively"), lab.path("under"));
    assert!(Command::new(&program).arg(&natively).status().unwrap().success());
    let run = applied_to(&[&program, &under], &[heap(1 << 27)]);
    assert_eq!(run.timed.end, ProcessEnd::Exit(0));
    let kib = |file: &str| -> u64 {
        let text = fs::read_to_string(file).unwrap();
        text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    let (natively, under) = (kib(&natively), kib(&under));
    assert!(natively >= 512 && under.abs_diff(natively) <= 64, "{natively} and {under} KiB");
}

/// A process has only one tracer, so a debugger is detached; its own ranges are on huge pages all the same.
#[test]
fn programs_that_trace_others_are_let_go() {
    let lab = Lab::new();
    let program = lab.compile("traces", include_str!("../programs/traces.c"), &[]);
    if !host_can() {
        return;
    }
    for what in ["exec", "stopped", "seize", "steps"] {
        let run = applied_to(&[&program, what], &[anonymous(4 * MIB, 1)]);
        assert_eq!((run.timed.end, &run.tracers), (ProcessEnd::Exit(0), &vec![program.clone()]), "{what}");
    }
}
