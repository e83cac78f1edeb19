//! Page maps of real programs: known patterns, a twin that reads word by word, and programs that end in many ways.

#[path = "../common/mod.rs"]
mod common;
mod endings;
mod twin;

use common::{alone, compiled};
use pagewalk_live::pagemap::{MappingPages, PagemapError, frames_readable, snapshot};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// `pages.c`, which waits until it is dropped.
struct Pages {
    child: Child,
    /// Addresses and pages of its patterns.
    patterns: HashMap<String, (u64, u64)>,
    _folder: TempDir,
}

impl Pages {
    fn start() -> Pages {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(compiled(folder.path(), "pages", &[]));
        command.arg(folder.path().join("file")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let patterns = lines.map_while(Result::ok).map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let address = u64::from_str_radix(words[1], 16).unwrap();
            (words[0].to_owned(), (address, words[2].parse().unwrap()))
        });
        // It prints seven lines, and then waits with its output open.
        let patterns = patterns.take(7).collect();
        Pages { child, patterns, _folder: folder }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What was found of a pattern: all mappings that begin in its first `pages` pages.
    fn of<'a>(&self, found: &'a [MappingPages], name: &str, pages: u64) -> Vec<&'a MappingPages> {
        let start = self.patterns[name].0;
        found.iter().filter(|mapping| (start..start + pages * 4096).contains(&mapping.start)).collect()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends when its input does.
        let _ = self.child.wait();
    }
}

#[test]
fn known_patterns_are_found() {
    let program = Pages::start();
    let snapshot = snapshot(program.pid()).unwrap();
    let found = &snapshot.mappings;
    let all: u64 = found.iter().map(|mapping| mapping.pages).sum();
    assert_eq!(all, snapshot.pages);
    for (name, pages, runs) in [("every_second", 500, 500), ("runs", 210, 20), ("file", 40, 1)] {
        assert_eq!(program.patterns[name].1, pages, "{name}");
        let [mapping] = program.of(found, name, 1)[..] else { panic!("{name} is no mapping of its own") };
        assert_eq!((mapping.pages, mapping.virtual_runs), (pages, runs), "{name}");
        assert_eq!(mapping.huge_pages, 0, "{name}");
    }
    let rights: Vec<_> =
        program.of(found, "rights", 30).iter().map(|m| (m.rights, m.pages, m.virtual_runs)).collect();
    assert_eq!(rights, [(3, 10, 1), (1, 10, 1), (3, 10, 1)]);
    assert!(program.of(found, "file", 1)[0].name.ends_with("/file"));
    assert!(program.of(found, "none", 50).is_empty());
    assert!(program.of(found, "untouched", 1 << 20).is_empty());
}

/// The kernel gives huge pages if permitted and available; it reports how many.
#[test]
fn huge_pages_are_those_that_smaps_tells() {
    let program = Pages::start();
    let snapshot = snapshot(program.pid()).unwrap();
    let start = program.patterns["huge"].0;
    let told = twin::huge_ranges(program.pid()).into_iter().map(|(_, _, pages)| pages).sum::<u64>();
    assert_eq!(snapshot.huge_pages, told);
    let mapping =
        snapshot.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&start)).unwrap();
    assert!(mapping.pages >= 1024);
    let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if mode.contains("[never]") || mode.is_empty() {
        assert_eq!(told, 0);
    }
    assert_eq!(snapshot.designs.as_mapped.entries(), snapshot.pages - told + told / 512);
}

/// With the right to read frames all designs are there; without it, those that need frames are not guessed.
#[test]
fn frames_are_read_by_those_who_may() {
    const SYS_ADMIN: u32 = 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let may = u64::from_str_radix(line.trim(), 16).unwrap() >> SYS_ADMIN & 1 == 1;
    let readable = frames_readable().unwrap();
    // In a user namespace the capability exists but has no effect.
    assert!(may || !readable);
    let program = Pages::start();
    let snapshot = snapshot(program.pid()).unwrap();
    assert_eq!(snapshot.frames.is_some(), readable);
    let designs = &snapshot.designs;
    for sizes in [&designs.coalesced, &designs.clustered, &designs.hinted, &designs.ranges] {
        assert_eq!(sizes.as_ref().map(|sizes| sizes.pages()), readable.then_some(snapshot.pages));
    }
    assert!(snapshot.mappings.iter().all(|mapping| mapping.ranges.is_some() == readable));
    assert_eq!(designs.base_pages.entries(), snapshot.pages);
    assert!(designs.virtual_runs.entries() >= 500 + 20 + 3);
}

/// As for a heap that a collector maps three times, shared memory attached three times, and a duplicated mapping; and
/// the zero page, mapped 1,024 times.
#[test]
fn memory_that_is_mapped_three_times_counts_once() {
    const PAGES: u64 = 16 << 20 >> 12;
    let (_folder, program) = alone("triple", &[]);
    for kind in ["memfd", "shm", "dup"] {
        let mut command = Command::new(&program);
        let mut child = command.arg(kind).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready 0\n", "{kind}");
        let found = snapshot(child.id() as i32).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        // Without frames, the zero page cannot be recognised.
        let zeros = if found.frames.is_some() { 1024 } else { 0 };
        let again = found.pages - found.distinct_pages;
        let others = again.checked_sub(2 * PAGES + zeros.max(1) - 1);
        assert!(others.is_some_and(|others| others < 100), "{kind}: {again}");
        assert!((PAGES..PAGES + 100).contains(&found.repeated_pages), "{kind}: {}", found.repeated_pages);
        assert!((PAGES..PAGES + 3000).contains(&found.distinct_pages), "{kind}: {}", found.distinct_pages);
        assert_eq!(found.designs.base_pages.entries(), found.pages, "{kind}: each needs an entry");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    assert!(matches!(snapshot(i32::MAX), Err(PagemapError::NoProcess(i32::MAX))));
    // Ended, but not reaped.
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id() as i32;
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !state().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(matches!(snapshot(pid), Err(PagemapError::NoMemory(_))));
    child.wait().unwrap();
    assert!(matches!(snapshot(pid), Err(PagemapError::NoProcess(_))));
}
