//! Runs the commands printed in README and tutorial one after the other, and compares the output.
//!
//! A command that both print is run once, as most take long: its output is compared with what each page prints.
//!
//! A block of ```` ```console ```` has commands after `$ `, each followed by what it prints on both outputs. `…` on a
//! line of its own stands for omitted output. Figures and line breaks vary between hosts: only words are compared,
//! without figures.

use crate::harness::{PAGEWALK, Place};
use pagewalk_skip::{Need, skip};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The output of a host on which huge pages do not measurably pay. The pages go on with the plan.
const NOTHING_PAYS: &str = "Do nothing";

/// The exit code of a plan without effect, for example with fragmented memory.
const NOT_IN_EFFECT: i32 = 5;

/// A command of a page, and its documented output.
struct Step<'a> {
    command: &'a str,
    printed: Vec<&'a str>,
}

fn steps(page: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        match line.strip_prefix("$ ") {
            _ if line.starts_with("```") => is_inside = line == "```console",
            Some(command) if is_inside => steps.push(Step { command, printed: Vec::new() }),
            None if is_inside => steps.last_mut().expect("a command comes first").printed.push(line),
            _ => {}
        }
    }
    steps
}

/// The words of a text without its figures and bars.
fn words(text: &str) -> Vec<String> {
    let is_figure = |c: char| c.is_ascii_digit() || "−+-.,<>%█▒▏".contains(c);
    let words = text.split_whitespace().filter(|word| !word.contains("0x"));
    let words = words.map(|word| word.trim_matches(is_figure));
    // Figures may have a multiple beside them, or none.
    let is_word = |word: &&str| !word.is_empty() && !["k", "M", "G", "KiB", "MiB", "GiB", "–"].contains(word);
    // A busy host may take a forecast out of its interval.
    let words = words.filter(is_word).map(|word| if word == "outside" { "within" } else { word });
    words.map(|word| word.chars().filter(|c| !c.is_ascii_digit()).collect()).collect()
}

/// Expects the documented words among the printed ones, in order.
fn compare(page: &Path, step: &Step<'_>, printed: &str) {
    let all = words(printed);
    let mut rest = &all[..];
    for part in step.printed.split(|line| line.trim() == "…") {
        let wanted = words(&part.join("\n"));
        let found = (0..=rest.len()).find(|&at| rest[at..].starts_with(&wanted));
        let Some(at) = found else {
            panic!(
                "{}: `{}` does not print (any more, or here)\n{}\n{wanted:?}\nbut\n{printed}",
                page.display(),
                step.command,
                part.join("\n")
            );
        };
        rest = &rest[at + wanted.len()..];
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the command as its reader would.
fn run(place: &Place, command: &str) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("exec 2>&1; {command}")]);
    place.settle(&mut shell);
    shell.env("HOME", place.path("."));
    shell.output().expect("bash is here")
}

#[test]
fn readme_and_tutorial_do_what_they_say() {
    let pages = ["README.md", "docs/tutorial.md"];
    let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if !mode.contains("[madvise]") {
        // In other modes, the output and a plan's effect differ.
        let were = pages.join(" and ");
        skip(Need::HugePages, format!("{were} were written under THP `madvise`, and this host says {mode}"));
        return;
    }
    let place = Place::new();
    symlink(PAGEWALK, place.path("pagewalk")).expect("the folder is writable");
    symlink(root().join("workloads"), place.path("workloads")).expect("the folder is writable");
    let mut outcomes: BTreeMap<String, Output> = BTreeMap::new();
    for page in pages {
        let path = root().join(page);
        let text = std::fs::read_to_string(&path).expect("the page is there");
        let steps = steps(&text);
        assert!(!steps.is_empty(), "{page} has no commands");
        for step in &steps {
            let outcome =
                outcomes.entry(step.command.to_owned()).or_insert_with(|| run(&place, step.command));
            let printed = String::from_utf8_lossy(&outcome.stdout);
            if printed.contains(NOTHING_PAYS) || outcome.status.code() == Some(NOT_IN_EFFECT) {
                let why = format!("{page}: `{}` could not have them, or could not tell", step.command);
                skip(Need::HugePages, why);
                return;
            }
            assert!(outcome.status.success(), "{page}: `{}`: {}\n{printed}", step.command, outcome.status);
            compare(&path, step, &printed);
        }
    }
}

#[test]
fn figures_do_not_matter_and_words_do() {
    assert_eq!(words("  walks   1.88 k  −12.3 %\n  ███▒ 0x7f30"), words("  walks  247  +3 % 0xa2"));
    assert_ne!(words("  walks  247"), words("  faults  247"));
    let step = |printed| Step { command: "run", printed };
    compare(Path::new("page"), &step(vec!["a 1", "…", "c 3"]), "a 7 b\nc 9\n");
    let missing =
        std::panic::catch_unwind(|| compare(Path::new("page"), &step(vec!["c", "…", "a"]), "a b c"));
    assert!(missing.is_err(), "the order is another");
}
