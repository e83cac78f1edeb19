//! The commands that README and tutorial print are run, one after the other, and what they print is compared.
//!
//! A block of ```` ```console ```` has commands behind `$ ` and below each what it prints: on standard output and
//! error, in order, where `…` stands for lines left out. Figures differ from host to host: lines are compared without.

use crate::harness::{PAGEWALK, Place};
use pagewalk_skip::{Need, skip};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a host prints that could not measure that huge pages pay. The pages go on with the plan.
const NOTHING_PAYS: &str = "Do nothing";

/// A command of a page, and what the page says that it prints.
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

/// A line without its figures, bars and spaces.
fn shape(line: &str) -> String {
    let is_figure = |c: char| c.is_ascii_digit() || "−+-.,<>%█▒".contains(c);
    let words = line.split_whitespace().map(|word| word.trim_matches(is_figure));
    // Figures may have a multiple beside them, or none.
    let is_told = |word: &&str| !word.is_empty() && !["k", "M", "G", "KiB", "MiB", "GiB", "–"].contains(word);
    let told: Vec<String> = words.filter(is_told).map(without_digits).collect();
    told.join(" ")
}

fn without_digits(word: &str) -> String {
    word.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Expects the lines of a page among those printed, in their order.
fn compare(page: &Path, step: &Step<'_>, printed: &str) {
    let mut rest = printed.lines().map(shape);
    let meant = step.printed.iter().filter(|line| line.trim() != "…" && !shape(line).is_empty());
    for line in meant {
        let wanted = shape(line);
        assert!(
            rest.any(|line| line == wanted),
            "{}: `{}` does not print (any more, or here)\n{line}\n({wanted})\nbut\n{printed}",
            page.display(),
            step.command
        );
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn follow(page: &str) {
    let path = root().join(page);
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let steps = steps(&text);
    assert!(!steps.is_empty(), "{page} has no commands");
    let place = Place::new();
    symlink(PAGEWALK, place.path("pagewalk")).expect("the folder is writable");
    symlink(root().join("workloads"), place.path("workloads")).expect("the folder is writable");
    for step in &steps {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec 2>&1; {}", step.command)]);
        place.settle(&mut shell);
        let outcome = shell.output().expect("bash is here");
        let printed = String::from_utf8_lossy(&outcome.stdout);
        if printed.contains(NOTHING_PAYS) {
            skip(Need::HugePages, format!("{page}: `{}` could not tell that they pay", step.command));
            return;
        }
        assert!(outcome.status.success(), "{page}: `{}`: {}\n{printed}", step.command, outcome.status);
        compare(&path, step, &printed);
    }
}

#[test]
fn the_readme_does_what_it_says() {
    follow("README.md");
}

#[test]
fn the_tutorial_does_what_it_says() {
    follow("docs/tutorial.md");
}

#[test]
fn figures_do_not_matter_and_words_do() {
    assert_eq!(shape("  walks   1.88 k  −12.3 %  ███▒"), shape("  walks  247  +3 %"));
    assert_ne!(shape("  walks  247"), shape("  faults  247"));
}
