//! Shared by the tests: plans for programs, and runs.

use pagewalk_live::layout::check_host;
use pagewalk_live::pages::{Mode, PagesError, PagesImage, PagesOptions, PagesRun, mode, run};
use pagewalk_live::probe::memory::huge_pages_are_at_hand;
use pagewalk_live::tracing::Relay;
use pagewalk_plan::{Plan, PlanRange, Program, RangePart, What};
use pagewalk_skip::{Need, skip};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

pub const MIB: u64 = 1 << 20;

/// Whether plans can be applied here, and marks have an effect.
pub fn host_can() -> bool {
    static AT_HAND: OnceLock<bool> = OnceLock::new();
    match (check_host(), mode(), AT_HAND.get_or_init(|| huge_pages_are_at_hand(256 << 20))) {
        (Ok(()), Some(Mode::Madvise | Mode::Always), true) => return true,
        (Err(error), ..) => skip(Need::Tracing, error),
        (Ok(()), Some(Mode::Madvise | Mode::Always), false) => {
            skip(Need::HugePages, "the host gives no 256 MiB on huge pages")
        }
        (Ok(()), mode, _) => skip(Need::HugePages, format_args!("huge pages are {mode:?} here")),
    }
    false
}

pub fn anonymous(bytes: u64, nth: u32) -> What {
    What::Anonymous { bytes, nth, by: None, part: None }
}

pub fn heap(bytes: u64) -> What {
    What::Heap(RangePart { from: 0, to: bytes })
}

pub fn plan(program: &str, whats: &[What]) -> Plan {
    let program = Program { path: program.to_owned(), build_id: None, arguments: Vec::new() };
    let plan = Plan { ranges: whats.iter().cloned().map(PlanRange::of).collect(), ..Plan::of(program) };
    plan.check().unwrap();
    plan
}

pub fn options(program: &str) -> PagesOptions {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap().stdout;
    let path = String::from_utf8(found).unwrap();
    PagesOptions { program: fs::canonicalize(Path::new(path.trim())).unwrap(), ..PagesOptions::default() }
}

pub fn applied(words: &[&str], plan: &Plan, options: &PagesOptions) -> Result<PagesRun, PagesError> {
    let command: Vec<OsString> = words.iter().map(OsString::from).collect();
    run(&command, plan, options, &Relay::new())
}

/// Runs the planned program itself.
pub fn applied_to(words: &[&str], whats: &[What]) -> PagesRun {
    applied(words, &plan(words[0], whats), &options(words[0])).unwrap()
}

/// Every range of the image is on huge pages.
#[track_caller]
pub fn assert_huge(image: &PagesImage) {
    assert_eq!(image.obstacle, None);
    assert!(!image.ranges.is_empty());
    for range in &image.ranges {
        assert_eq!(range.reason, None, "{range:#x?}");
    }
}
