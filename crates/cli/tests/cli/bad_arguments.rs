//! Wrong arguments: one message with the cause and the choices, the documented exit code, and nothing runs.

use crate::harness::{BAD_INPUT, EXAMPLE_MACHINE, Place, USAGE};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

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
fn unknown_words_name_the_known_ones() {
    let place = Place::with_witness();
    let all = [
        "`pentium`",
        "did you mean `pentium_4` or `pentium_m`?",
        "`pagewalk machines list` lists all ",
        ".toml",
    ];
    place.run(&["profile", "-m", "pentium", "--", "./witness"]).refuses(USAGE, &all);
    place.run(&["simulate", "-m", "pentium", "t.pwt"]).refuses(USAGE, &all);
    place.run(&["machines", "show", "pentium"]).refuses(USAGE, &all);
    place.run(&["machines", "check", "pentium"]).refuses(USAGE, &all);
    place
        .run(&["profile", "--thp", "maybe", "--", "./witness"])
        .refuses(USAGE, &["always", "madvise", "never"]);
    for (name, closest) in
        [("alpha-21046", "`alpha_21064`"), ("r2000", "`mips_r2000`"), ("thp_always", "`karakostas_thp`")]
    {
        let parts =
            [&format!("no machine `{name}` in the library: did you mean {closest}")[..], "machines list"];
        place.run(&["simulate", "-m", name, "t.pwt"]).refuses(USAGE, &parts);
    }
    place.run(&["simulate", "--structure", "mach-3", "t.pwt"]).refuses(USAGE, &["did you mean `mach3`"]);
    place
        .run(&["simulate", "--switch-at", "raed", "t.pwt"])
        .refuses(USAGE, &["did you mean `read`", "Numbers"]);
    place.run(&["man", "prfile"]).refuses(USAGE, &["`prfile`", "profile", "simulate"]);
    place.run(&["profile", "--skip", "many", "--", "./witness"]).refuses(USAGE, &["--skip"]);
    place.run(&["profile", "./witness"]).refuses(USAGE, &["--"]);
    place.run(&["profile"]).refuses(USAGE, &["<CMD>"]);
    place.run(&["simulate"]).refuses(USAGE, &["<T.pwt>"]);
    assert!(!place.has("ran"));
}

/// A typo in any kind of name is answered with the intended name.
#[test]
fn names_that_nearly_match_are_answered_with_the_closest() {
    let place = Place::with_trace();
    for (words, meant) in [
        (&["profil"][..], "'profile'"),
        (&["simulat", "t.pwt"], "'simulate'"),
        (&["machines", "shwo"], "'show'"),
        (&["layout", "analyse", "t.pwt"], "'analyze'"),
        // Subcommands are found from above, and options by one of their words.
        (&["import", "x.txt"], "'trace import'"),
        (&["analyze", "t.pwt"], "'layout analyze'"),
        (&["layout", "apply", "plan.toml"], "'pagewalk apply'"),
        (&["profile", "--machnie", "zen4", "--", "true"], "'--machine'"),
        (&["profile", "--threads", "8", "--", "true"], "'--max-threads'"),
        (&["simulate", "--whatif", "t.pwt"], "'--what-if'"),
        (&["--jsn", "machines", "list"], "'--json'"),
        (&["profile", "--thp", "allways", "--", "true"], "'always'"),
        (&["layout", "plan", "--planner", "serch", "t.pwt"], "'search'"),
        (&["trap", "--replacement", "rand", "--", "true"], "'random'"),
        (&["promote", "-p", "1", "--sampler", "damno"], "'damon'"),
        (&["trace", "import", "--format", "lakey", "-o", "a.pwt", "x"], "'lackey'"),
        (&["completions", "bsh"], "'bash'"),
        (&["simulate", "-m", "goldencoave", "good.pwt"], "`golden_cove`"),
        (&["trap", "-m", "r2000", "--", "true"], "`mips_r2000`"),
        (&["probe", "-m", "zen_44"], "`zen4`"),
        (&["layout", "analyze", "-m", "konireddygari-u51", "good.pwt"], "`konireddygari_u512`"),
        (&["simulate", "--os", "hawkey", "good.pwt"], "`hawkeye`"),
        (&["simulate", "--os", "linux:thb=always", "good.pwt"], "`thp`"),
        (&["simulate", "--os", "linux:thp=allways", "good.pwt"], "`always`"),
        (&["simulate", "--structure", "mach33", "good.pwt"], "`mach3`"),
        (&["simulate", "--switch-at", "raed", "good.pwt"], "`read`"),
        (&["layout", "analyze", "-m", "golden_cove", "--tlb", "l2d", "good.pwt"], "`l2`"),
        (&["schema", "machin"], "`machine`"),
        (&["man", "trace", "inport"], "`import`"),
    ] {
        place.run(words).refuses(USAGE, &[meant]);
    }
}

/// The same in a study: its keys, and what they name.
#[test]
fn names_in_studies_are_answered_with_the_closest() {
    let place = Place::with_trace();
    let study = "schema = 1\nname = \"s\"\ntraces = [\"good.pwt\"]\n";
    for (text, meant) in [
        ("machnes = [\"k8\"]\n", "did you mean `machines`?"),
        ("machines = [\"goldencoave\"]\n", "did you mean `golden_cove`"),
        ("machines = [\"k8\"]\n[[os]]\npolicy = \"asop\"\n", "did you mean `asap`"),
        ("machines = [\"k8\"]\n[[os]]\npolicy = \"linux\"\nthb = 1\n", "did you mean `thp`?"),
        ("machines = [\"k8\"]\nstructures = [\"mach33\"]\n", "did you mean `mach3`"),
        ("machines = [\"k8\"]\nthp = \"allways\"\n", "did you mean `always`?"),
        ("machines = [\"k8\"]\n[vary]\n\"tlb.l1d.entres\" = [1]\n", "did you mean `entries`?"),
        (
            "machines = [\"k8\"]\n[[plot]]\ntitle = \"a\"\nx = \"machin\"\ny = [\"walks\"]\n",
            "did you mean `machine`?",
        ),
        (
            "machines = [\"k8\"]\n[[plot]]\ntitle = \"a\"\nx = \"machine\"\ny = [\"walk\"]\n",
            "did you mean `walks`",
        ),
        ("machines = [\"k8\"]\n[familly]\nlevel = 1\n", "did you mean `family` or `cache_family`?"),
    ] {
        place.write("study.toml", format!("{study}{text}"));
        place.run(&["sweep", "study.toml"]).refuses(BAD_INPUT, &[meant]);
    }
}

/// Of every kind of file: the key, the file, the line, the choices.
#[test]
fn unknown_keys_of_files_name_the_closest() {
    let place = Place::with_trace();
    place.write("machine.toml", EXAMPLE_MACHINE.replace("levels = 4", "level = 4"));
    place.run(&["machines", "check", "./machine.toml"]).refuses(
        BAD_INPUT,
        &["./machine.toml", "line 23", "unknown field `level` (did you mean `levels`?)", "expected one of `"],
    );
    place.write("policy.toml", EXAMPLE_MACHINE.replace("\"lru\"", "\"tree_plru\""));
    place.run(&["machines", "check", "./policy.toml"]).refuses(
        BAD_INPUT,
        &["./policy.toml", "line 11", "unknown variant `tree_plru` (did you mean `tree-plru`", "`fifo`"],
    );
    let structure = include_str!("../../../../structures/mach3.toml");
    place.write("structure.toml", structure.replacen("[kernel]", "[kernle]", 1));
    place.run(&["simulate", "--structure", "./structure.toml", "good.pwt"]).refuses(
        BAD_INPUT,
        &[
            "./structure.toml",
            "line ",
            "unknown field `kernle` (did you mean `kernel`?)",
            "expected one of `",
        ],
    );
    let study = "schema = 1\nname = \"s\"\ntraces = [\"good.pwt\"]\nmachines = [\"k8\"]\n";
    place.write("study.toml", format!("{study}machnes = []\n"));
    place.run(&["sweep", "study.toml"]).refuses(
        BAD_INPUT,
        &["study.toml", "line 5", "unknown field `machnes` (did you mean `machines`?)", "expected one of `"],
    );
    place.write(
        "os.toml",
        format!("{study}[[os]]\npolicy = \"asap\"\n\n[[os]]\npolicy = \"linux\"\nthb = 1\n"),
    );
    place.run(&["sweep", "os.toml"]).refuses(
        BAD_INPUT,
        &["os.toml", "os `linux`: line 10: unknown key `os.thb`: did you mean `thp`? choose from "],
    );
    place.write("plan.toml", "schema = \"pagewalk.plan/2\"\n\n[program]\npth = \"/bin/true\"\n");
    place.run(&["apply", "--dry-run", "plan.toml", "--", "true"]).refuses(
        BAD_INPUT,
        &["plan.toml", "line 4", "unknown field `pth` (did you mean `path`?)", "expected one of `"],
    );
}

#[test]
fn files_that_are_missing_name_the_closest() {
    let place = Place::with_trace();
    for command in [
        &["simulate", "god.pwt"][..],
        &["simulate", "--structure", "./god.pwt", "good.pwt"],
        &["machines", "check", "./god.pwt"],
        &["sweep", "god.pwt"],
        &["apply", "--dry-run", "god.pwt", "--", "true"],
        &["layout", "run", "god.pwt", "--", "true"],
    ] {
        place.run(command).refuses(BAD_INPUT, &["god.pwt", "did you mean `", "good.pwt`"]);
    }
}

#[test]
fn kernels_that_cannot_be_name_what_can() {
    let place = Place::new();
    for (os, parts) in [
        ("asop", &["no kernel policy `asop`", "approx-online", "hawkeye"][..]),
        ("thp_always", &["no kernel policy `thp_always`: did you mean `linux`? choose from fixed, asap"]),
        ("asap:max=8M", &["unknown key `os.max`", "max_page"]),
        ("asap:max_page=3K", &["os.max_page is \"3K\"", "8K to 32M"]),
        ("approx-online:threshold=-1", &["os.threshold is -1", "from 0"]),
        ("linux:thp=never,thp=always", &["`linux:thp=never,thp=always` gives `thp` twice"]),
        ("linux:khugepaged.max_ptes_none=600", &["os.khugepaged.max_ptes_none is 600", "0 to 511"]),
        ("fixed:memory.size=1G,memory.when_full=die", &["os.memory.when_full is \"die\"", "swap, oom"]),
        (
            "fixed:page=64K",
            &["fixed:page=64K", "pages of 64K, which no TLB of `golden_cove` holds", "4K 2M 1G"],
        ),
    ] {
        place.run(&["simulate", "-m", "golden_cove", "--os", os, "--", "true"]).refuses(USAGE, parts);
    }
    let on = |machines: &[&str]| {
        let machines = machines.iter().flat_map(|machine| ["-m", machine]);
        let words = ["simulate"].into_iter().chain(machines).chain(["--os", "asap", "--", "true"]);
        place.run(&words.collect::<Vec<_>>())
    };
    on(&["mips_r2000"]).refuses(USAGE, &["the policy builds superpages", "TLBs hold only 4K"]);
    on(&["zen4", "mips_r2000"]).refuses(USAGE, &["machine `mips_r2000`: the policy builds superpages"]);
    place
        .run(&["simulate", "--os", "linux", "--os", "linux", "--", "true"])
        .refuses(USAGE, &["two kernels are named `linux`", "give each kernel once"]);
    place
        .run(&["simulate", "--max-instructions", "0", "--", "true"])
        .refuses(USAGE, &["invalid value '0' for '--max-instructions <N>'", "a whole number from 1 up"]);
    place
        .run(&["simulate", "--quantum", "1e-6", "--", "true"])
        .refuses(USAGE, &["'1e-6'", "2000000, 2e6 or 2M"]);
    place.write("wrong.toml", EXAMPLE_MACHINE.to_owned() + "[os]\npolicy = \"asap\"\npages = 3\n");
    let parts = ["machine file ./wrong.toml: line 31: unknown key `os.pages`", "max_page"];
    place.run(&["machines", "check", "./wrong.toml"]).refuses(BAD_INPUT, &parts);
    place.write("own.toml", EXAMPLE_MACHINE.to_owned() + "[os]\npolicy = \"offline\"\n");
    let parts = ["policy `offline` replays the stream, and a program runs only once", "pagewalk record"];
    place.run(&["profile", "-m", "./own.toml", "--", "true"]).refuses(USAGE, &parts);
}
