//! Programs with known right values, in a profile: they print what they print natively, and the simulation matches what
//! the running kernel gives them. The reports that they stand for: `docs/explanation/reported-situations.md`.

use crate::harness::{Place, metric};
use serde_json::Value;
use std::process::Command;

/// A program of the engine's tests, built in a place of its own: what it prints natively, and its profile with huge
/// pages wherever the kernel gives them.
fn profiled(source: &str, options: &[&str], argument: &[&str]) -> (String, Value) {
    let place = Place::new();
    place.write("case.c", source);
    let mut build = Command::new("gcc");
    place.settle(build.args(options).args(["-w", "-pthread", "-o", "case", "case.c"]));
    assert!(build.status().expect("gcc is here").success());
    let mut native = Command::new("./case");
    place.settle(native.args(argument));
    let native = native.output().unwrap();
    let command = [
        &["profile", "--machine", "skylake_sp", "--thp", "always", "-o", "r.json", "--", "./case"],
        argument,
    ]
    .concat();
    let outcome = place.run(&command);
    assert_eq!((Some(outcome.code), &outcome.stdout), (native.status.code(), &text(&native.stdout)));
    (text(&native.stdout), place.json("r.json")["processes"][0].clone())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_owned()).expect("text")
}

fn walks(process: &Value) -> u64 {
    metric(process, "walks")
}

/// Data walks of each mapping whose name contains this.
fn walks_of(process: &Value, name: &str) -> Vec<u64> {
    let all = process["attribution"]["mappings"].as_array().expect("mappings").iter();
    let found = all.filter(|row| row["name"].as_str().expect("a name").contains(name));
    found.map(|row| row["walks_data"].as_u64().expect("a count")).collect()
}

const GAINS_NOTHING: &str = "Nothing to gain here";

/// On borders of 2 MiB 64 pages do, and else 32,768 are visited 200 times.
#[test]
fn aligned_mappings_hardly_walk() {
    let (printed, process) =
        profiled(include_str!("../../../capture/tests/programs/aligned.c"), &["-O2"], &[]);
    if printed.contains("64 of 64 on a border") {
        assert!(walks(&process) < 1000, "{}", walks(&process));
        assert!(process["advice"].as_str().unwrap().starts_with(GAINS_NOTHING), "{}", process["advice"]);
    } else {
        assert!(walks(&process) > 100_000, "before Linux 6.7 none is huge: {}", walks(&process));
    }
}

/// 64 MiB of the host's pool are 32 pages; where the pool is empty the program says so, as natively.
#[test]
fn memory_that_was_set_aside_is_huge() {
    let (printed, process) =
        profiled(include_str!("../../../capture/tests/programs/hugetlb.c"), &["-O2"], &[]);
    assert!(walks(&process) < 1000, "{}", walks(&process));
    assert!(process["advice"].as_str().unwrap().starts_with(GAINS_NOTHING), "{}", process["advice"]);
    let of_pool = walks_of(&process, "hugetlb 2M");
    assert_eq!(of_pool.len(), usize::from(!printed.is_empty()), "{of_pool:?}");
    assert!(of_pool.iter().all(|walks| (32..=40).contains(walks)), "{of_pool:?}");
}

#[test]
fn what_forbids_itself_huge_pages_has_none() {
    let source = include_str!("../../../capture/tests/programs/nothp.c");
    let (_, process) = profiled(source, &["-O2", "-DVISITS=1000000"], &["off"]);
    assert!(walks(&process) > 800_000, "{}", walks(&process));
    assert_eq!(process["thp_disable"], "all");
    let advice = process["advice"].as_str().unwrap();
    assert!(
        advice.contains("the process itself forbids huge pages (`prctl(PR_SET_THP_DISABLE)`)"),
        "{advice}"
    );
}

#[test]
fn a_stack_that_is_touched_pays() {
    let (place, program) =
        Place::with_program("stacktouch", include_str!("../../../capture/tests/programs/stacktouch.c"));
    let printed = place.good(&["profile", "--machine", "skylake_sp", "-o", "r.json", "--", &program]).stdout;
    let mut numbers = printed.split(|letter: char| !letter.is_ascii_digit()).filter(|part| !part.is_empty());
    let mut next = || numbers.next().expect("two numbers").parse::<u64>().expect("a number");
    let (kib, pages) = (next(), next());
    assert!(pages + 64 + 40 > kib / 4, "{printed}");
    let process = &place.json("r.json")["processes"][0];
    let [of_stack] = walks_of(process, "[stack]")[..] else { panic!("one stack: {process}") };
    assert!(of_stack > 400 && of_stack * 2 > walks(process), "{of_stack} of {}", walks(process));
    assert!(metric(process, "pages_touched") > pages);
}

#[test]
fn waiting_by_spinning_is_said() {
    let source = include_str!("../../../capture/tests/programs/spin.c");
    let (_, process) = profiled(source, &["-O2"], &["200"]);
    let (spun, all) = (metric(&process, "spin_instructions"), metric(&process, "instructions"));
    assert!(spun * 2 > all && spun < all, "{spun} of {all}");
}
