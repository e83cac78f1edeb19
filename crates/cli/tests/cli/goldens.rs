//! Exact numbers of small traces. `UPDATE_GOLDEN=1 cargo test -p pagewalk --test cli goldens` rewrites the
//! goldens; read the difference before you keep it.

use crate::harness::{EXAMPLE_MACHINE, Place, metric, text};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Simulates a fixture on the example machine and on Golden Cove, and compares all counts with the golden.
/// Returns the result on the example machine.
fn check(name: &str) -> Value {
    let place = Place::new();
    place.write("example.toml", EXAMPLE_MACHINE);
    let fixture = fixtures().join(format!("{name}.lackey"));
    place.good(&["trace", "import", "--format", "lackey", "-o", "t.pwt", text(&fixture)]);
    let machines = ["-m", "./example.toml", "-m", "golden_cove"];
    let result = place.good(&[&["simulate", "--what-if", "--json", "t.pwt"], &machines[..]].concat()).json();
    let process = &result["processes"][0];
    let actual =
        json!({ "machines": result["machines"], "what_if": process["what_if"], "reach": process["reach"] });
    let golden = fixtures().join(format!("{name}.json"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, format!("{actual:#}\n")).expect("the fixtures are writable");
    }
    let expected = std::fs::read_to_string(&golden)
        .unwrap_or_else(|error| panic!("golden {}: {error}; UPDATE_GOLDEN=1 writes it", golden.display()));
    let expected: Value = serde_json::from_str(&expected).expect("the golden is JSON");
    assert_eq!(actual, expected, "{name} differs; UPDATE_GOLDEN=1 rewrites it");
    result
}

#[track_caller]
fn assert_metrics(result: &Value, expected: &[(&str, u64)]) {
    for &(name, value) in expected {
        assert_eq!(metric(result, name), value, "{name}");
    }
}

#[test]
fn round_robin() {
    let result = check("round_robin");
    assert_metrics(
        &result,
        &[
            ("instructions", 50),
            ("references", 100),
            ("references_data", 50),
            // Five pages of data and one of code.
            ("pages_touched", 6),
            // The five pages share a set of 4 ways: least recently used, each is thrown out before its next turn.
            ("tlb.l1d.lookups", 50),
            ("tlb.l1d.misses", 50),
            // No array of level 1 serves fetches, so level 2 sees all 50 of them and the 50 misses. It has 128
            // sets: every page lies in one of its own and is walked for once.
            ("tlb.level1.misses", 100),
            ("tlb.l2.lookups", 100),
            ("tlb.l2.misses", 6),
            ("walks", 6),
            ("walks_fetch", 1),
            ("walks_data", 5),
            // The code's walk finds no cached entry and reads 4. The data's first page lies 252 MiB on: same
            // PML4 and PDPT entries, cached, so it reads 2 (page directory, page table). The other four read 1.
            ("walk_references", 4 + 2 + 4),
            ("walk_cycles", 10 * 20),
            ("l2_hit_cycles", (100 - 6) * 7),
        ],
    );
}

#[test]
fn page_crossing() {
    let result = check("page_crossing");
    assert_metrics(
        &result,
        &[
            // Four rounds of 4 instructions, 3 loads and stores across the end of a page, a load that ends with
            // its page, a store that begins one.
            ("instructions", 16),
            ("references", 16 + 20),
            ("references_data", 20),
            // Per round: load 2 pages, store 2, modify 2, load 1, store 1.
            ("tlb.l1d.lookups", 4 * 8),
            // Eight pages in a row stay in 16 sets of 4 ways.
            ("tlb.l1d.misses", 8),
            // Fetches: the first of a round is on two pages, the others on one; and the data's misses.
            ("tlb.l2.lookups", 4 * 5 + 8),
            ("tlb.l2.misses", 2 + 8),
            ("pages_touched", 10),
            ("walks", 10),
            ("walks_fetch", 2),
            ("walks_data", 8),
            // Code: 4, then 1 by the cached page-directory entry. Data: 2 for another 2 MiB region of the
            // same GiB, then 7 times 1.
            ("walk_references", 4 + 1 + 2 + 7),
        ],
    );
}

#[test]
fn scattered() {
    let result = check("scattered");
    assert_metrics(&result, &[("instructions", 300), ("references_data", 300 + 100 + 15)]);
}

#[test]
fn the_fixtures_are_what_the_script_makes() {
    let place = Place::new();
    let status = Command::new(fixtures().join("make.sh")).arg(place.path("")).status().expect("bash is here");
    assert!(status.success());
    for name in ["round_robin.lackey", "page_crossing.lackey", "scattered.lackey"] {
        let kept = std::fs::read(fixtures().join(name)).expect("the fixture is readable");
        assert!(kept == place.read(name), "{name} is not what make.sh makes");
    }
}
