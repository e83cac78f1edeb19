//! What programs do to their memory besides mapping it: lock it, guard it, seal it, move it, serve its faults.

use super::{alone, array, arrays, assert_good, compiled, host_can, trapped};
use pagewalk_setassoc::Replacement;
use std::path::Path;
use std::process::Command;

/// Runs a program natively, and under every array if the host can.
pub fn holds(program: &Path, words: &[&str]) {
    assert!(Command::new(program).args(words).status().unwrap().success(), "it holds without us");
    if !host_can() {
        return;
    }
    let command = [&[program.to_str().unwrap()], words].concat();
    for array in arrays() {
        assert_good(&trapped(&command, &array), &array.to_string());
    }
}

/// The mapping's 64 pages cycle through an array of 16: each reference of 200 rounds misses, whether or not memory is
/// locked, and locking does not touch it.
#[test]
fn locked_memory_misses_as_other_memory_does() {
    let (folder, locked) = alone("locked", &[]);
    let source =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/locked.c"))
            .unwrap();
    let kept: Vec<&str> = source.lines().filter(|line| !line.contains("mlockall(")).collect();
    assert_eq!(kept.len() + 1, source.lines().count(), "the call stands on a line of its own");
    let unlocked_source = folder.path().join("unlocked.c");
    std::fs::write(&unlocked_source, kept.join("\n")).unwrap();
    let unlocked = folder.path().join("unlocked");
    let built = Command::new("cc").arg("-O1").arg("-o").args([&unlocked, &unlocked_source]).status();
    assert!(built.unwrap().success());
    assert!(Command::new(&locked).status().unwrap().success(), "it holds without us");
    if !host_can() {
        return;
    }
    let array = array(16, None, Replacement::Fifo, "modulo");
    let image = |program: &Path| {
        let run = trapped(&[program.to_str().unwrap()], &array);
        assert_good(&run, "locked");
        run.images.into_iter().next().expect("one image")
    };
    let (locked, unlocked) = (image(&locked), image(&unlocked));
    assert!((12_800..13_000).contains(&unlocked.misses), "{}", unlocked.misses);
    assert!(locked.misses.abs_diff(unlocked.misses) < 50, "{} and {}", locked.misses, unlocked.misses);
    // Natively everything mapped is populated: some hundred pages. The stack's room is thousands.
    assert!((100..1000).contains(&locked.touched_pages), "{}", locked.touched_pages);
}

/// Allocators of Rust, Go and C++ request whole 2 MiB blocks, which are aligned natively, and so must be here.
#[test]
fn memory_lies_where_the_kernel_puts_it() {
    let (folder, program) = alone("placed", &[]);
    let printed = |command: &[&str]| {
        let out = folder.path().join("out");
        let line = format!("exec setarch -R {} > {}", command.join(" "), out.display());
        (line, out)
    };
    let (line, out) = printed(&[program.to_str().unwrap()]);
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "it runs without us");
    let natively = std::fs::read_to_string(&out).unwrap();
    if !host_can() {
        return;
    }
    assert_good(&trapped(&["sh", "-c", &line], &array(64, None, Replacement::Fifo, "modulo")), "placed");
    let lines = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&std::fs::read_to_string(&out).unwrap()), lines(&natively));
}

#[test]
fn locked_memory_is_what_linux_promises() {
    let (_folder, program) = alone("locks", &[]);
    holds(&program, &[]);
    holds(&program, &["limited"]);
}

#[test]
fn guards_seals_and_moves_are_what_linux_promises() {
    let folder = tempfile::tempdir().unwrap();
    holds(&compiled(folder.path(), "regions", &[]), &[]);
}

/// The ranges become the program's again, and the report names them.
#[test]
fn programs_serve_their_own_faults() {
    if !host_can() {
        return;
    }
    let (_folder, program) = alone("serves", &[]);
    holds(&program, &[]);
    let [array, ..] = arrays();
    let run = trapped(&[program.to_str().unwrap()], &array);
    let named = run.images[0].left_alone.iter().filter(|left| left.contains("userfaultfd")).count();
    assert_eq!(named, 5, "{:#?}", run.images[0].left_alone);
}
