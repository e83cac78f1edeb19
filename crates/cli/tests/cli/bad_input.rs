//! Wrong arguments and wrong files: one message that names the thing, the place and the choices, the documented exit
//! code, and nothing lost.

use crate::harness::{EXAMPLE_MACHINE, Outcome, Place, metric};
use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

const USAGE: i32 = 2;
const BAD_INPUT: i32 = 3;

/// Some lines of Lackey's, with references on 40 pages.
fn lackey_text() -> String {
    let page = |i: u64| 0x10000000 + i * 7 % 40 * 4096;
    (0..400).map(|i| format!("I  {:x},3\n L {:x},8\n", 0x400000 + i % 50 * 3, page(i))).collect()
}

/// A place with a small good trace, `good.pwt`.
fn with_trace() -> Place {
    let place = Place::new();
    place.write("good.txt", lackey_text());
    place.good(&["trace", "import", "--format", "lackey", "-o", "good.pwt", "good.txt"]);
    place
}

/// A place with a program that leaves the file `ran` behind.
fn with_witness() -> Place {
    let place = Place::new();
    place.write("witness", "#!/bin/sh\n: >ran\n");
    std::fs::set_permissions(place.path("witness"), Permissions::from_mode(0o755)).unwrap();
    place
}

/// The first bytes of an ELF file: class 1 has 32 bits, class 2 has 64.
fn elf_header(class: u8, machine: u16) -> Vec<u8> {
    let mut bytes = b"\x7fELF".to_vec();
    bytes.extend([class, 1, 1]);
    bytes.resize(16, 0);
    bytes.extend(2u16.to_le_bytes());
    bytes.extend(machine.to_le_bytes());
    bytes.resize(64, 0);
    bytes
}

#[test]
fn what_is_no_program_is_refused_before_anything_runs() {
    let place = Place::new();
    place.write("plain", "text");
    for (name, mode, bytes) in [
        ("locked", 0o644, &b"#!/bin/sh"[..]),
        ("nothing", 0o755, b"text"),
        ("x86", 0o755, &elf_header(1, 3)),
        ("arm", 0o755, &elf_header(2, 183)),
        ("lost", 0o755, b"#!/no/such/shell\n"),
    ] {
        let path = place.write(name, bytes);
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    place.write("old.html", "an older report");
    for (program, parts) in [
        ("no-such-program", &["`no-such-program` not found in PATH"][..]),
        ("./gone", &["`./gone` not found"]),
        ("./locked", &["./locked is not executable", "chmod +x"]),
        ("./nothing", &["./nothing is not a program", "neither an ELF file nor a script"]),
        ("./x86", &["./x86 is a 32-bit x86 program", "only 64-bit x86-64"]),
        ("./arm", &["./arm is a 64-bit AArch64 program", "only 64-bit x86-64"]),
        ("./lost", &["./lost", "/no/such/shell"]),
        (".", &[". is not executable: it is a directory"]),
        ("", &["`` not found"]),
    ] {
        place.run(&["profile", "-o", "new.html", "-o", "old.html", "--", program]).refuses(USAGE, parts);
        place.run(&["record", "-o", "new.pwt", "--", program]).refuses(USAGE, parts);
        place.run(&["simulate", "--", program]).refuses(USAGE, parts);
    }
    assert!(!place.has("new.html") && !place.has("new.pwt"));
    assert_eq!(place.read("old.html"), b"an older report");
}

#[test]
fn a_bad_output_path_is_found_out_before_the_run() {
    let place = with_witness();
    std::fs::create_dir(place.path("folder.html")).unwrap();
    for (path, parts) in [
        ("no/such/report.html", &["cannot write no/such/report.html", "No such file", "-o"][..]),
        ("folder.html", &["cannot write folder.html", "Is a directory"]),
        ("/proc/report.json", &["cannot write /proc/report.json"]),
    ] {
        place.run(&["profile", "-o", path, "--", "./witness"]).refuses(1, parts);
        place.run(&["record", "-o", path, "--", "./witness"]).refuses(1, parts);
    }
    for path in ["report.txt", "report", ".html"] {
        let parts = ["cannot tell what to write", path, ".html", ".json"];
        place.run(&["profile", "-o", path, "--", "./witness"]).refuses(USAGE, &parts);
        assert!(!place.has(path));
    }
    assert!(!place.has("ran"));
    place.good(&["profile", "-q", "-o", "report.html", "--", "./witness"]);
    assert!(place.has("ran"));
}

#[test]
fn unknown_words_name_the_known_ones() {
    let place = with_witness();
    let all = ["`pentium`", "golden_cove", "skylake_sp", "zen4", ".toml"];
    place.run(&["profile", "-m", "pentium", "--", "./witness"]).refuses(USAGE, &all);
    place.run(&["simulate", "-m", "pentium", "t.pwt"]).refuses(USAGE, &all);
    place.run(&["machines", "show", "pentium"]).refuses(USAGE, &all);
    place.run(&["machines", "check", "pentium"]).refuses(USAGE, &all);
    place
        .run(&["profile", "--thp", "maybe", "--", "./witness"])
        .refuses(USAGE, &["always", "madvise", "never"]);
    place.run(&["man", "prfile"]).refuses(USAGE, &["`prfile`", "profile", "simulate"]);
    place.run(&["profile", "--skip", "many", "--", "./witness"]).refuses(USAGE, &["--skip"]);
    place.run(&["profile", "./witness"]).refuses(USAGE, &["--"]);
    place.run(&["profile"]).refuses(USAGE, &["<CMD>"]);
    place.run(&["simulate"]).refuses(USAGE, &["<T.pwt>"]);
    assert!(!place.has("ran"));
}

#[test]
fn too_many_machines_are_refused_before_the_run() {
    let place = with_witness();
    let mut arguments = vec!["profile"];
    arguments.extend(["-m", "zen4"].repeat(100));
    arguments.extend(["--", "./witness"]);
    place.run(&arguments).refuses(USAGE, &["fewer machines"]);
    assert!(!place.has("ran"));
}

#[test]
fn a_wrong_walker_is_named_with_key_and_choices() {
    let place = with_witness();
    let walker = "[walker]\nkind = \"radix\"\nlevels = 4\ncaches = { pde = { entries = 32, ways = 4 }, pdpte = { \
                  entries = 4 }, pml4 = { entries = 2 } }\n";
    for (other, parts) in [
        ("kind = \"software\"", &["\"software\" needs `refill_cycles`"][..]),
        ("kind = \"software\"\nrefill_cycles = 30", &["cost.walk_reference", "`refill_cycles`"]),
        ("kind = \"hashed\"\nbuckets = 64", &["\"hashed\" needs `buckets` and `entries_per_bucket`"]),
        ("kind = \"hashed\"\nbuckets = 60\nentries_per_bucket = 8", &["buckets = 60", "power of two"]),
        ("kind = \"hashed\"\nbuckets = 64\nentries_per_bucket = 0", &["entries_per_bucket = 0"]),
        (
            "kind = \"hashed\"\nbuckets = 64\nentries_per_bucket = 8\n[paging]\nbase = \"8K\"",
            &["tlb `l1d`", "4K: smaller than the base page", "8K upwards"],
        ),
    ] {
        assert!(EXAMPLE_MACHINE.contains(walker));
        place.write("m.toml", EXAMPLE_MACHINE.replacen(walker, &format!("[walker]\n{other}\n"), 1));
        place.run(&["machines", "check", "./m.toml"]).refuses(BAD_INPUT, parts);
    }
}

#[test]
fn a_wrong_machine_file_is_named_with_key_and_choices() {
    let place = with_witness();
    let wrong = |from: &str, to: &str| {
        assert!(EXAMPLE_MACHINE.contains(from));
        place.write("m.toml", EXAMPLE_MACHINE.replacen(from, to, 1));
        place.run(&["machines", "check", "./m.toml"])
    };
    // A machine's end with a cache and what `[cost]` then holds.
    let cached = |serves: &str, size: &str, cost: &str| {
        format!(
            "{cost}\n[[cache]]\nname = \"c\"\nlevel = 1\nserves = [\"{serves}\"]\nsize = \"{size}\"\nlatency = 4\n"
        )
    };
    for (from, to, parts) in [
        // Typos.
        ("entries = 64", "entires = 64", &["line 9", "`entires`", "`entries`", "`ways`"][..]),
        ("\"lru\"", "\"lru2\"", &["line 11", "`lru2`", "`lru`, `tree-plru`, `bit-plru`, `fifo`, `random`"]),
        ("\"lru\"", "\"lru\"\nseed = 1", &["tlb `l1d`", "seed", "\"random\"", "\"lru\""]),
        ("\"lru\"", "\"lru\"\nindex = \"xor\"", &["tlb `l1d`", "\"xor\"", "modulo, xor-fold, xor-N"]),
        ("\"lru\"", "\"lru\"\nfills = \"victim\"", &["`victim`", "`walks` or `victims`"]),
        ("\"lru\"", "\"lru\"\nfills = \"victims\"", &["tlb `l1d`", "level 2 or 3", "fills = \"walks\""]),
        (
            "\"lru\"",
            "\"lru\"\nprefetch = { kind = \"next-page\", entries = 8 }",
            &["tlb `l1d`: prefetch", "level 1", "last level, 2"],
        ),
        (
            "ways = 12\n",
            "ways = 12\nprefetch = { kind = \"stride\", entries = 8 }",
            &["`stride`", "`next-page`"],
        ),
        (
            "ways = 12\n",
            "ways = 12\nprefetch = { kind = \"next-page\", entries = 0 }",
            &["tlb `l2`: prefetch", "at least 1"],
        ),
        ("\"radix\"", "\"nested\"", &["[walker.host]", "`page_size`"]),
        (
            "\"radix\"\nlevels = 4\n",
            "\"nested\"\nlevels = 4\nhost = { levels = 4, page_size = \"64K\" }\n",
            &["walker.host", "\"64K\"", "choose from 4K, 2M, 1G"],
        ),
        (
            "\"radix\"\nlevels = 4\n",
            "\"nested\"\nlevels = 4\nhost = { levels = 3, page_size = \"4K\" }\n",
            &["walker.host", "levels = 3", "choose 4 or 5"],
        ),
        (
            "\"radix\"\nlevels = 4\n",
            "\"nested\"\nlevels = 4\nhost = { levels = 4, page_size = \"4K\" }\nnested_tlb = { entries = 0 }\n",
            &["`nested_tlb`", "at least 1"],
        ),
        ("walk_reference = 20", "walk_reference = 20\nmemory = 9", &["cost.memory", "[[cache]]"]),
        ("walk_reference = 20", &cached("load", "48K", ""), &["no cache serves `walk`"]),
        ("walk_reference = 20", &cached("walk", "48K", ""), &["missing key `memory`"]),
        ("walk_reference = 20", &cached("walk", "48KB", "memory = 9"), &["cache `c`", "48KB", "such as 48K"]),
        ("walk_reference = 20", &cached("walk", "100", "memory = 9"), &["cache `c`", "lines of 64 bytes"]),
        (
            "walk_reference = 20",
            &cached("walk", "48K", "memory = 9\nwalk_reference = 9"),
            &["walk_reference", "`memory`"],
        ),
        ("\"load\", \"store\"", "\"lod\", \"store\"", &["line 7", "`lod`", "`fetch`, `load`, `store`"]),
        ("pdpte =", "pdpe =", &["`pdpe`", "`pde`, `pdpte`, `pml4`"]),
        ("radix", "radish", &["`radish`", "`radix`"]),
        ("[\"4K\"]", "[\"4KB\"]", &["tlb `l1d`", "page_sizes", "`4KB`", "4K, 2M or 1G"]),
        ("name = \"example\"", "name = ", &["line 2"]),
        // Impossible geometry.
        ("ways = 4\n", "ways = 5\n", &["tlb `l1d`", "64 entries", "5 ways"]),
        ("entries = 64", "entries = 0", &["tlb `l1d`", "at least 1"]),
        ("entries = 32, ways = 4", "entries = 30, ways = 4", &["`pde`", "30 entries", "4 ways"]),
        ("levels = 4", "levels = 7", &["walker: levels = 7", "`x86-64`", "4 or 5"]),
        ("1536\nways = 12", "1536\nways = 12\nreserved = 8", &["tlb `l2`", "reserved = 8", "128 sets"]),
        ("1536\nways = 12", "12\npages_per_entry = 3", &["tlb `l2`", "pages_per_entry = 3", "power of two"]),
        (
            "ways = 4\n",
            "ways = 4\npages_per_entry = 2\n",
            &["tlb `l1d`", "pages_per_entry = 2", "level 2 and 3"],
        ),
        ("1536\nways = 12", "8\nreserved = 8", &["tlb `l2`", "reserved = 8 of 8", "leave at least one"]),
        // Pages and walkers that do not go together.
        ("\"4K\", \"2M\"", "\"4K\", \"64K\"", &["tlb `l2`", "64K", "`x86-64` cannot map it", "4K, 2M, 1G"]),
        ("\"4K\", \"2M\"", "\"2M\"", &["no array serves `fetch` for 4K pages"]),
        (
            "levels = 4",
            "format = \"aarch64-16k\"\nlevels = 3",
            &["walker cache `pde`", "`aarch64-16k` with 3 levels", "`l2`, `l1`"],
        ),
        ("levels = 4", "levels = 4\nformat = \"sv39\"", &["\"sv39\"", "x86-64, aarch64-4k", "riscv-sv39"]),
        ("levels = 4\n", "", &["levels is missing", "4 or 5"]),
        ("levels = 4", "levels = 4\nbuckets = 8", &["\"radix\" has no `buckets`", "`format`, `levels`"]),
        ("[walker]", "[paging]\nbase = \"8K\"\n[walker]", &["paging", "`x86-64`", "4K and 2M"]),
        ("[walker]", "[paging]\nbase = \"9K\"\n[walker]", &["paging.base", "`9K`"]),
        ("[walker]", "[paging]\nbase = \"2M\"\nhuge = \"4K\"\n[walker]", &["huge = 4K", "base = 2M"]),
        // Wrong types.
        ("entries = 64", "entries = \"64\"", &["line 9", "string \"64\""]),
        ("entries = 64", "entries = -64", &["line 9", "`-64`"]),
        ("walk_reference = 20", "walk_reference = 1.5", &["walk_reference = 1.5", "floating point"]),
        ("[\"4K\"]", "4096", &["line 8", "expected a sequence"]),
        // Something missing.
        ("level = 1\n", "", &["line 4", "missing field `level`"]),
        ("level = 1\n", "level = 3\n", &["no array has level 1"]),
        ("walk_reference = 20", "", &["cost", "missing key `walk_reference`"]),
        (
            "serves = [\"fetch\", \"load\", \"store\"]",
            "serves = [\"load\"]",
            &["no array serves `fetch` for 4K"],
        ),
        ("schema = 1", "schema = 2", &["schema = 2", "schema = 1"]),
    ] {
        let outcome = wrong(from, to);
        outcome.refuses(BAD_INPUT, parts);
        outcome.refuses(BAD_INPUT, &["./m.toml", "docs/adding-a-machine.md"]);
        assert_eq!(outcome.stdout, "");
    }
    let parts = ["./m.toml", "schema = 2"];
    place.run(&["profile", "-m", "./m.toml", "--", "./witness"]).refuses(BAD_INPUT, &parts);
    place.run(&["machines", "check", "./gone.toml"]).refuses(BAD_INPUT, &["./gone.toml", "No such file"]);
    place.run(&["machines", "show", "/"]).refuses(BAD_INPUT, &["/", "Is a directory"]);
    place.write("m.toml", b"name = \"\xff\"");
    place.run(&["machines", "check", "./m.toml"]).refuses(BAD_INPUT, &["./m.toml", "UTF-8"]);
    assert!(!place.has("ran"));
    // One bad file among good ones spoils the exit code, not the others.
    let outcome = place.run(&["machines", "check", "zen3", "./m.toml", "zen4"]);
    outcome.refuses(BAD_INPUT, &["./m.toml"]);
    assert_eq!(outcome.stdout.lines().count(), 2);
}

#[test]
fn what_is_no_trace_is_named() {
    let place = with_trace();
    place.write("empty.pwt", "");
    place.write("text.pwt", lackey_text());
    std::fs::create_dir(place.path("folder")).unwrap();
    for (name, part) in [
        ("empty.pwt", "not a pagewalk trace"),
        ("text.pwt", "not a pagewalk trace"),
        ("folder", "Is a directory"),
        ("gone.pwt", "No such file"),
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

/// A trace cut off at any byte: a message, the exit code, and what is whole is counted.
#[test]
fn a_trace_cut_off_anywhere_is_read_up_to_there() {
    let place = with_trace();
    let whole = place.read("good.pwt");
    let all = metric(&place.good(&["simulate", "--json", "good.pwt"]).json(), "references");
    assert_eq!(all, 800);
    // The file's end mark may go: all that it says can be read without it.
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
    let place = with_trace();
    let whole = place.read("good.pwt");
    for at in (0..whole.len()).step_by(1 + whole.len() / 60) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        place.write("flipped.pwt", &bytes);
        let outcome = place.run(&["simulate", "--json", "flipped.pwt"]);
        if outcome.code == 0 {
            // Only the pointer to the index, which reading from the begin does not need.
            assert!(at + 64 > whole.len(), "byte {at} of {} goes unnoticed", whole.len());
            assert_eq!(metric(&outcome.json(), "references"), 800);
        } else {
            outcome.refuses(BAD_INPUT, &["flipped.pwt"]);
        }
        place.run(&["trace", "check", "flipped.pwt"]).tells_damage(&["flipped.pwt"]);
    }
}

/// A program that visits 4 MiB at random, which does not compress well.
fn random_visits(times: u32) -> String {
    format!(
        "int main(void) {{
            static unsigned char table[1 << 22];
            unsigned state = 1;
            for (int i = 0; i < {times}; i++) table[(state = state * 1664525u + 1013904223u) >> 10]++;
            return 0;
        }}"
    )
}

/// A longer recording, of several chunks: what lies before the damage counts in full.
#[test]
fn the_whole_part_of_a_damaged_trace_is_simulated() {
    let place = Place::new();
    let program = place.compile("random", &random_visits(5_000_000));
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
        outcome.refuses(BAD_INPUT, &["bad.pwt"]);
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
        (".", &[".: Is a directory"]),
    ] {
        let outcome = place.run(&["trace", "import", "--format", "lackey", "-o", "new.pwt", name]);
        outcome.refuses(BAD_INPUT, parts);
    }
    place.run(&["trace", "import", "--format", "pin", "-o", "t.pwt", "word"]).refuses(USAGE, &["lackey"]);
}

/// A full disk, as `/dev/full` plays it: the program runs, one message, exit 1.
#[test]
fn a_full_disk_is_told_and_the_program_still_runs() {
    let place = with_witness();
    for name in ["full.html", "full.json", "full.pwt", "full.txt"] {
        symlink("/dev/full", place.path(name)).unwrap();
    }
    let parts = ["full.pwt: No space left on device", "not everything could be written"];
    let outcome = place.run(&["record", "-q", "-o", "full.pwt", "--", "./witness"]);
    assert_eq!(outcome.code, 1);
    parts.iter().for_each(|part| assert!(outcome.stderr.contains(part), "{}", outcome.stderr));
    assert!(place.has("ran"));
    for (full, good) in [("full.html", "good.json"), ("full.json", "good.html")] {
        let outcome = place.run(&["profile", "-o", full, "-o", good, "--", "./witness"]);
        assert_eq!(outcome.code, 1);
        let message = format!("writing {full}: No space left on device");
        assert!(outcome.stderr.contains(&message), "{}", outcome.stderr);
        // The figures are printed and written all the same.
        assert!(outcome.stderr.contains("walk cycles"), "{}", outcome.stderr);
        assert!(!place.read(good).is_empty());
    }
    place.write("good.txt", lackey_text());
    let no_space = |name| [name, "No space left on device"];
    let import = ["trace", "import", "--format", "lackey", "-o"];
    place.run(&[&import[..], &["full.pwt", "good.txt"]].concat()).refuses(1, &no_space("full.pwt"));
    place.good(&[&import[..], &["good.pwt", "good.txt"]].concat());
    let export = ["trace", "export", "--format", "lackey", "-o", "full.txt", "good.pwt"];
    place.run(&export).refuses(1, &no_space("full.txt"));
    for arguments in [&["simulate", "--json", "good.pwt"][..], &["trace", "dump", "good.pwt"]] {
        let full = Stdio::from(File::create("/dev/full").unwrap());
        let output = place.command(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        Outcome::of(output).refuses(1, &no_space("standard output"));
    }
}

/// A disk that fills up while a program is recorded: what fits can be read.
#[test]
fn what_fits_on_a_full_disk_can_be_read() {
    let place = Place::new();
    let program = place.compile("random", &random_visits(6_000_000));
    std::fs::create_dir(place.path("disk")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=8m none disk && {pagewalk} record -q -o disk/t.pwt -- {program}; echo $?; \
         {pagewalk} simulate -q --json disk/t.pwt >result.json; echo $?",
        pagewalk = crate::harness::PAGEWALK,
    );
    let own_mounts = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        place.settle(&mut command);
        command.output().expect("unshare is here")
    };
    if !own_mounts("mount -t tmpfs none disk").status.success() {
        eprintln!("not tested: this host lets nobody mount a small disk");
        return;
    }
    let outcome = Outcome::of(own_mounts(&script));
    assert_eq!(outcome.stdout, "1\n3\n", "{}", outcome.stderr);
    assert!(outcome.stderr.contains("disk/t.pwt: No space left on device"), "{}", outcome.stderr);
    let instructions = metric(&place.json("result.json"), "instructions");
    assert!(instructions > 10_000_000, "{instructions}");
}
