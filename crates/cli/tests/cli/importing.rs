//! Other tools' files become traces whose counts were computed by hand.

use crate::harness::{BAD_INPUT, Place, USAGE, metric};

/// Twenty rounds over pages `0x10` to `0x10 + pages` of the data, an instruction before each.
fn rounds(pages: u64) -> String {
    (0..20 * pages)
        .map(|i| {
            format!(
                "2 {:x}\r\n{} 0x{:x} x\r\n",
                0x400000 + i % 8 * 4,
                i % 2,
                (0x10 + i % pages) << 12 | 0xfff
            )
        })
        .collect()
}

#[test]
fn din_text_counts_as_by_hand() {
    let place = Place::new();
    place.write("one.toml", ONE_ARRAY);
    // Sixteen entries hold sixteen pages: each is missed once. Of seventeen, LRU evicts each one before its next turn.
    for (pages, misses) in [(16, 16), (17, 340)] {
        place.write("t.din", format!("{}3 0\n4 0\n", rounds(pages)));
        for format in [&["--from", "din"][..], &[]] {
            let outcome = place.good(&[&["trace", "import"], format, &["-o", "t.pwt", "t.din"]].concat());
            let told = "1 line with label 4 (escape, cache flush)";
            assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
            let result = place.good(&["simulate", "--json", "-m", "./one.toml", "t.pwt"]).json();
            let counts = ["instructions", "references_data", "tlb.l1d.lookups", "tlb.l1d.misses"];
            let expected = [20 * pages, 20 * pages, 20 * pages, misses];
            assert_eq!(
                counts.map(|name| metric(&result, name)),
                expected,
                "the words at 0xfff cross no page"
            );
        }
    }
}

/// A fully associative array of sixteen entries each for data and fetches.
const ONE_ARRAY: &str = "schema = 1
name = \"one\"

[[tlb]]
name = \"l1d\"
level = 1
serves = [\"load\", \"store\"]
page_sizes = [\"4K\"]
entries = 16
replacement = \"lru\"

[[tlb]]
name = \"l1i\"
level = 1
serves = [\"fetch\"]
page_sizes = [\"4K\"]
entries = 16

[walker]
kind = \"radix\"
levels = 4

[cost]
l2_hit = 7
walk_reference = 20
";

#[test]
fn damaged_din_text_and_unknown_formats_are_named() {
    let place = Place::new();
    place.write("bad.din", "2 1000\n0 2000\n7 3000\n");
    let outcome = place.run(&["trace", "import", "-o", "t.pwt", "bad.din"]);
    assert_eq!(outcome.code, BAD_INPUT);
    for part in ["bad.din: line 3 (`7 3000`)", "0 (read)", "4 (cache flush"] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    assert_eq!(place.good(&["trace", "dump", "t.pwt"]).stdout, "1 fetch 1000 4\n1 load 2000 4\n");
    place.write("other", "l 0x1fffff58 1\n");
    place
        .run(&["trace", "import", "-o", "new.pwt", "other"])
        .refuses(BAD_INPUT, &["other: line 1 is `l 0x1fffff58 1`", "lackey (", "din (", "--format NAME"]);
    place.write("both", "I  1000,4\n0 1000\n");
    place.run(&["trace", "import", "-o", "new.pwt", "both"]).refuses(
        BAD_INPUT,
        &["both: the file has the form of several formats: lackey (", "din (", "--format NAME"],
    );
    place
        .run(&["trace", "import", "--from", "dim", "-o", "new.pwt", "other"])
        .refuses(USAGE, &["dim", "'din'"]);
    assert!(!place.has("new.pwt"));
}
