//! Files that are no traces, or damaged: one message with the file and the place, and the intact part counts.

use crate::harness::{BAD_INPUT, Place, USAGE, lackey_text, metric, random_visits};

#[test]
fn what_is_no_trace_is_named() {
    let place = Place::with_trace();
    place.write("empty.pwt", "");
    place.write("text.pwt", lackey_text());
    std::fs::create_dir(place.path("folder")).unwrap();
    for (name, part) in [
        ("empty.pwt", "not a pagewalk trace"),
        ("text.pwt", "not a pagewalk trace"),
        ("folder", "Is a directory"),
        ("gone.pwt", "No such file"),
        ("god.pwt", "did you mean `good.pwt`"),
    ] {
        for arguments in [
            &["simulate", name][..],
            &["trace", "info", name],
            &["trace", "check", name],
            &["trace", "dump", name],
            &["trace", "export", "--format", "lackey", name],
            // Good ones before it do not hide it.
            &["simulate", "good.pwt", name],
        ] {
            let outcome = place.run(arguments);
            outcome.refuses(BAD_INPUT, &[name, part]);
            assert_eq!(outcome.stdout, "");
        }
    }
    for (name, text, part) in
        [("empty.json", "", "not a pagewalk result"), ("other.json", "{\"schema\": \"x/1\"}", "x/1")]
    {
        place.write(name, text);
        place.run(&["report", "-o", "r.html", name]).refuses(BAD_INPUT, &[name, part]);
        assert!(!place.has("r.html"));
    }
}

/// A trace cut off at any byte: a message, the exit code, and the intact part is counted.
#[test]
fn a_trace_cut_off_anywhere_is_read_up_to_there() {
    let place = Place::with_trace();
    let whole = place.read("good.pwt");
    let all = metric(&place.good(&["simulate", "--json", "good.pwt"]).json(), "references");
    assert_eq!(all, 800);
    // The file's end mark may be missing: everything else is readable without it.
    for at in (0..whole.len()).step_by(1 + whole.len() / 40) {
        place.write("cut.pwt", &whole[..at]);
        let outcome = place.run(&["simulate", "--json", "cut.pwt"]);
        if outcome.code == 0 {
            assert!(at + 64 > whole.len(), "cut at {at} of {} goes unnoticed", whole.len());
        } else {
            outcome.refuses(BAD_INPUT, &["cut.pwt"]);
        }
        if !outcome.stdout.is_empty() {
            let counted = metric(&outcome.json(), "references");
            assert!(counted == 0 || counted == all, "{counted}");
        }
        place.run(&["trace", "info", "cut.pwt"]).tells_damage(&["cut.pwt"]);
        place.run(&["trace", "check", "cut.pwt"]).tells_damage(&["cut.pwt"]);
    }
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let place = Place::with_trace();
    let whole = place.read("good.pwt");
    for at in (0..whole.len()).step_by(1 + whole.len() / 60) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        place.write("flipped.pwt", &bytes);
        let outcome = place.run(&["simulate", "--json", "flipped.pwt"]);
        if outcome.code == 0 {
            // Only the pointer to the index, which reading from the beginning does not need.
            assert!(at + 64 > whole.len(), "byte {at} of {} goes unnoticed", whole.len());
            assert_eq!(metric(&outcome.json(), "references"), 800);
        } else {
            outcome.refuses(BAD_INPUT, &["flipped.pwt"]);
        }
        place.run(&["trace", "check", "flipped.pwt"]).tells_damage(&["flipped.pwt"]);
    }
}

/// A longer recording, of several chunks: what lies before the damage counts in full.
#[test]
fn the_whole_part_of_a_damaged_trace_is_simulated() {
    let (place, program) = Place::with_program("random", &random_visits(3_000_000));
    place.good(&["record", "-q", "-o", "whole.pwt", "--", &program]);
    let whole = place.read("whole.pwt");
    let all = metric(&place.good(&["simulate", "--json", "whole.pwt"]).json(), "instructions");
    let mut flipped = whole.clone();
    flipped[whole.len() * 3 / 4] ^= 4;
    for bytes in [&whole[..whole.len() * 3 / 4], &flipped] {
        place.write("bad.pwt", bytes);
        let outcome =
            place.run(&["simulate", "-q", "--what-if", "-o", "bad.html", "-o", "bad.json", "bad.pwt"]);
        outcome.refuses(BAD_INPUT, &["bad.pwt"]);
        let result = place.json("bad.json");
        let counted = metric(&result, "instructions");
        assert!(all / 4 < counted && counted < all, "{counted} of {all}");
        let losses = result["processes"][0]["losses"].as_array().unwrap();
        assert_eq!(losses.len(), 1, "{losses:?}");
        assert!(outcome.stdout.contains(losses[0].as_str().unwrap().split(':').next().unwrap()));
        assert!(place.has("bad.html"));
        // Text out of it, too, up to the damage.
        let outcome = place.run(&["trace", "export", "--format", "lackey", "-o", "bad.txt", "bad.pwt"]);
        assert_eq!(outcome.code, BAD_INPUT, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("bad.pwt: "), "{}", outcome.stderr);
        let text = String::from_utf8(place.read("bad.txt")).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with('I')).count() as u64, counted);
    }
}

#[test]
fn a_bad_lackey_file_is_named_with_its_line() {
    let place = Place::new();
    let good = "==7== Lackey, an example Valgrind tool\nI  401000,3\n L 2000,8\n";
    for (name, text, parts) in [
        (
            "word",
            format!("{good}I  401003,x\n S 2008,8\n"),
            &["line 4", "I  401003,x", "I  ADDRESS,BYTES"][..],
        ),
        ("kind", format!("{good} X 2000,8\n"), &["line 4", " X 2000,8", " M ADDRESS,BYTES"]),
        ("size", format!("{good} L 2000,77777\n"), &["line 4", "77777 bytes"]),
        ("high", format!("{good} L ffff800000000000,8\n"), &["line 4", "0xffff800000000000"]),
        ("cut", format!("{good} L 20"), &["line 4", "ends in the middle"]),
        ("binary", format!("{good}\u{1}\u{2}\n"), &["line 4"]),
    ] {
        place.write(name, text);
        let outcome = place.run(&["trace", "import", "--format", "lackey", "-o", "t.pwt", name]);
        assert_eq!(outcome.code, BAD_INPUT, "{name}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(&format!("pagewalk: {name}: ")), "{}", outcome.stderr);
        parts.iter().for_each(|part| assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr));
        // What stands before the line is kept.
        let dumped = place.good(&["trace", "dump", "t.pwt"]).stdout;
        assert_eq!(dumped, "1 fetch 401000 3\n1 load 2000 8\n", "{name}");
    }
    place.write("empty", "");
    place.write("silent", "==7== Lackey, an example Valgrind tool\n==7== Jccs: 12\n");
    for (name, parts) in [
        ("empty", &["empty: the file is empty"][..]),
        ("silent", &["silent: there is no reference in it", "--trace-mem=yes"]),
        ("gone", &["gone: No such file"]),
        (".", &[".: a file of format lackey is a stream of its own", "import one at a time"]),
    ] {
        let outcome = place.run(&["trace", "import", "--format", "lackey", "-o", "new.pwt", name]);
        outcome.refuses(BAD_INPUT, parts);
    }
    place.run(&["trace", "import", "--format", "pin", "-o", "t.pwt", "word"]).refuses(USAGE, &["lackey"]);
}
