//! Programs that lock, guard, seal and move their memory, or serve its faults, do so with placed libraries as without.

use crate::lab::{Lab, host_can, packed, placed};
use pagewalk_live::layout::Options;
use pagewalk_live::tracing::End;
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
            // Not everybody may serve faults.
            eprintln!("{name} fails natively here");
            continue;
        }
        let run = placed(&command, &packed(std::slice::from_ref(&library)), Options::default()).unwrap();
        assert_eq!(run.end, End::Exit(0), "{name} {words:?}");
    }
}
