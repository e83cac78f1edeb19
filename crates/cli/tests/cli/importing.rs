//! Other tools' files become traces whose counts were computed by hand.

use crate::harness::{BAD_INPUT, Place, USAGE, joined, metric};

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
            // A format that names no process gives it no id and no end.
            let text = place.good(&["simulate", "-m", "./one.toml", "t.pwt"]).stdout;
            assert_eq!(text.lines().next(), Some("t.din"));
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
    place.write("other", "x 0x1fffff58 1\n");
    place
        .run(&["trace", "import", "-o", "new.pwt", "other"])
        .refuses(BAD_INPUT, &["other: line 1 is `x 0x1fffff58 1`", "lackey, din", "--format says"]);
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

#[test]
fn numbers_are_pages_or_blocks_as_the_command_says() {
    let place = Place::new();
    place.write("one.toml", ONE_ARRAY);
    let numbers: String = (0..20 * 17).map(|i| format!("{}\n", i % 17)).collect();
    place.write("numbers", numbers + "*\n");
    place.run(&["trace", "import", "-o", "t.pwt", "numbers"]).refuses(
        BAD_INPUT,
        &["numbers: the file has the form of several formats: pages (", "blocks (", "--format NAME"],
    );
    for (format, misses) in [("pages", 340), ("blocks", 1)] {
        let outcome = place.good(&["trace", "import", "--format", format, "-o", "t.pwt", "numbers"]);
        for part in
            ["1 line that do not begin with a digit (line 341: `*`)", "each number is a load of one byte"]
        {
            assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
        let result = place.good(&["simulate", "--json", "-m", "./one.toml", "t.pwt"]).json();
        let counts = ["instructions", "references_data", "tlb.l1d.misses"].map(|name| metric(&result, name));
        assert_eq!(counts, [0, 340, misses], "{format}");
    }
}

/// Numbers of 1,024 pages at random.
fn scattered() -> String {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        0x10000 + (state >> 33) % 1024
    };
    (0..200_000).map(|_| format!("{}\n", next())).collect()
}

#[test]
fn kernels_promote_on_imported_traces_and_results_say_that_areas_are_inferred() {
    let place = Place::new();
    place.write("scattered", scattered());
    place.good(&["trace", "import", "--format", "pages", "-o", "t.pwt", "scattered"]);
    let simulate = ["simulate", "-m", "romer_1998", "--os", "approx-online", "t.pwt"];
    let with = |options: &[&str]| place.good(&[&simulate[..], options].concat());
    let walks = |options: &[&str]| {
        let result = with(&[&["--json"], options].concat()).json();
        let process = &result["processes"][0];
        let kernel = process["kernels"].as_array().unwrap().last().unwrap();
        (kernel["metrics"]["walks"].as_u64().unwrap(), process["inferred_gap"].as_u64())
    };
    let (without, gap) = walks(&["--areas", "none"]);
    assert_eq!(gap, None);
    let (inferred, gap) = walks(&[]);
    assert_eq!(gap, Some(2 << 20));
    assert!(inferred < without / 2, "{inferred} walks with areas, {without} without");
    // Pages have no instructions, so nothing takes cycles for each.
    let text = with(&[]).stdout;
    assert!(!text.contains("cycles an instruction"), "{text}");
    assert_eq!(walks(&["--areas", "gap=64K"]).1, Some(64 << 10));
    let note = "areas are inferred, as the trace has no mappings";
    assert!(with(&[]).stdout.contains(note));
    assert!(!with(&["--areas", "none"]).stdout.contains(note));
    with(&["-o", "r.html"]);
    assert!(String::from_utf8_lossy(&place.read("r.html")).contains(note));
    place
        .run(&[&simulate[..], &["--areas", "guessed"]].concat())
        .refuses(USAGE, &["guessed", "choose from auto, inferred, none, gap=BYTES"]);
}

#[test]
fn champsim_records_are_recognised_and_what_they_lack_is_told() {
    let place = Place::new();
    place.write("one.toml", ONE_ARRAY);
    let record = |i: u64| {
        let mut bytes = [0u8; 64];
        bytes[..8].copy_from_slice(&(0x400001 + i % 100 * 5).to_le_bytes());
        bytes[32..40].copy_from_slice(&((0x10 + i % 17) << 12).to_le_bytes());
        bytes
    };
    place.write("t.champsimtrace", (0..340).flat_map(record).collect::<Vec<u8>>());
    let outcome = place.good(&["trace", "import", "-o", "t.pwt", "t.champsimtrace"]);
    assert!(outcome.stderr.contains("ChampSim's records have no sizes"), "{}", outcome.stderr);
    let result = place.good(&["simulate", "--json", "-m", "./one.toml", "t.pwt"]).json();
    let counts = ["instructions", "references_data", "tlb.l1d.misses"].map(|name| metric(&result, name));
    assert_eq!(counts, [340, 340, 340]);
    place.write("cut", [&record(0)[..], &record(1)[..20]].concat());
    let outcome = place.run(&["trace", "import", "--format", "champsim", "-o", "t.pwt", "cut"]);
    assert_eq!(outcome.code, BAD_INPUT);
    assert!(outcome.stderr.contains("cut: the file ends in the middle of record 2"), "{}", outcome.stderr);
}

/// Records of DynamoRIO's drmemtrace: a type, a size, a value.
fn records(of: &[(u16, u16, u64)]) -> Vec<u8> {
    let bytes = |&(kind, size, value): &(u16, u16, u64)| {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    of.iter().flat_map(bytes).collect()
}

/// A thread's file: an instruction and a load at `address` at each of the times.
fn thread_file(thread: u64, times: &[u64], address: u64) -> Vec<u8> {
    let mut all = vec![(25, 0, 6), (28, 9, 0x40), (22, 4, thread), (24, 4, 77)];
    all.extend(times.iter().flat_map(|&time| [(28, 2, time), (10, 4, 0x1000), (0, 8, address + time)]));
    all.extend([(23, 4, thread), (26, 0, 0)]);
    records(&all)
}

#[test]
fn a_folder_of_threads_becomes_one_stream_in_the_order_of_time() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("run.dir/trace")).unwrap();
    place.write("run.dir/trace/a.trace", thread_file(501, &[16, 48], 0x7000));
    place.write("run.dir/trace/b.trace", thread_file(502, &[32], 0x7000));
    place.write("run.dir/modules.log", "Module Table: version 5\n");
    let outcome = place.good(&["trace", "import", "-o", "t.pwt", "run.dir"]);
    let told = "run.dir/modules.log is not of format drmemtrace and is passed over";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    let dumped = place.good(&["trace", "dump", "t.pwt"]).stdout;
    let of = |thread, address| format!("{thread} fetch 1000 4\n{thread} load {address} 8\n");
    let references: String =
        dumped.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    assert_eq!(references, [of(501, "7010"), of(502, "7020"), of(501, "7030")].concat());
    place.good(&["trace", "check", "t.pwt"]);
    let named = ["run.dir/trace/a.trace", "run.dir/trace/b.trace"];
    place.good(&joined(&[&["trace", "import", "-o", "u.pwt"], &named]));
    assert_eq!(place.good(&["trace", "dump", "u.pwt"]).stdout, dumped);
}

#[test]
fn a_binary_trace_comes_through_a_pipe() {
    let place = Place::new();
    let file = place.write("one.trace", thread_file(9, &[1], 0x7000));
    let mut command = place.command(&["trace", "import", "-o", "t.pwt", "-"]);
    let output = command.stdin(std::fs::File::open(file).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(place.good(&["trace", "dump", "t.pwt"]).stdout.starts_with("9 fetch 1000 4\n9 load 7001 8\n"));
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let place = Place::new();
    place.write("a.trace", thread_file(1, &[1], 0));
    place.write("new.trace", records(&[(25, 0, 8), (26, 0, 0)]));
    place.write("a.din", "0 1000\n");
    std::fs::create_dir(place.path("none")).unwrap();
    for (files, parts) in [
        (
            &["a.din", "a.din"][..],
            &["a.din and 1 more: a file of format din is a stream of its own, and here are 2"][..],
        ),
        (&["a.din", "a.trace"], &["the files are of several formats: din (", "drmemtrace ("]),
        (
            &["new.trace"],
            &["new.trace: record 1 says that the file is of version 8; versions 1 to 7 are read"],
        ),
        (&["a.trace", "new.trace"], &["new.trace: record 1 says that the file is of version 8"]),
        (&["none"], &["none: there is no file in the folder"]),
    ] {
        place.run(&joined(&[&["trace", "import", "-o", "t.pwt"], files])).refuses(BAD_INPUT, parts);
    }
    assert!(!place.has("t.pwt"));
}
