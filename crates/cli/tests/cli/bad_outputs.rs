//! Unwritable files: found before the work where possible; otherwise nothing else is lost.

use crate::harness::{
    BAD_INPUT, Outcome, PAGEWALK, Place, USAGE, joined, lackey_text, metric, random_visits,
};
use pagewalk_skip::{Need, skip};
use std::fs::File;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

#[test]
fn a_bad_output_path_is_found_out_before_the_run() {
    let place = Place::with_witness();
    std::fs::create_dir(place.path("folder.html")).unwrap();
    for (path, parts) in [
        ("no/such/report.html", &["cannot write no/such/report.html", "No such file", "another place"][..]),
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

/// A full disk, as `/dev/full` simulates it: the program runs, one message, exit 1.
#[test]
fn a_full_disk_is_told_and_the_program_still_runs() {
    let place = Place::with_witness();
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

/// A disk that fills up during a recording: what fits is readable.
#[test]
fn what_fits_on_a_full_disk_can_be_read() {
    let (place, program) = Place::with_program("random", &random_visits(6_000_000));
    std::fs::create_dir(place.path("disk")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=8m none disk && {pagewalk} record -q -o disk/t.pwt -- {program}; echo $?; \
         {pagewalk} simulate -q --json disk/t.pwt >result.json; echo $?",
        pagewalk = PAGEWALK,
    );
    let own_mounts = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        place.settle(&mut command);
        command.output().expect("unshare is here")
    };
    if !own_mounts("mount -t tmpfs none disk").status.success() {
        skip(Need::Mount, "this host lets nobody mount a small disk");
        return;
    }
    let outcome = Outcome::of(own_mounts(&script));
    assert_eq!(outcome.stdout, "1\n3\n", "{}", outcome.stderr);
    assert!(outcome.stderr.contains("disk/t.pwt: No space left on device"), "{}", outcome.stderr);
    let instructions = metric(&place.json("result.json"), "instructions");
    assert!(instructions > 10_000_000, "{instructions}");
}

/// An output that is also an input would be gone before it is read.
#[test]
fn no_input_is_written_over() {
    let place = Place::with_trace();
    let before = place.read("good.pwt");
    std::fs::hard_link(place.path("good.pwt"), place.path("link.pwt")).unwrap();
    let export = ["trace", "export", "--format", "lackey"];
    let import = ["trace", "import", "--format", "lackey"];
    place
        .run(&joined(&[&export, &["-o", "good.pwt", "good.pwt"]]))
        .refuses(USAGE, &["both input and output"]);
    place
        .run(&joined(&[&export, &["-o", "link.pwt", "good.pwt"]]))
        .refuses(USAGE, &["is the input good.pwt"]);
    place
        .run(&joined(&[&import, &["-o", "good.txt", "good.txt"]]))
        .refuses(USAGE, &["both input and output"]);
    place.write("empty.txt", "==1== nothing\n");
    place
        .run(&joined(&[&import, &["-o", "good.pwt", "empty.txt"]]))
        .refuses(BAD_INPUT, &["no reference in it"]);
    assert!(place.read("good.pwt") == before, "it is as it was");
    place.good(&["simulate", "-q", "-o", "r.json", "good.pwt"]);
    place.run(&["report", "r.json", "-o", "r.json"]).refuses(USAGE, &["both input and output"]);
    place.run(&["layout", "plan", "-o", "good.pwt", "good.pwt"]).refuses(USAGE, &["both input and output"]);
    assert!(place.read("good.pwt") == before, "it is as it was");
}

/// `record -o ./prog -- ./prog` would replace what it is about to run.
#[test]
fn a_recording_replaces_only_traces() {
    let place = Place::with_trace();
    place.write("prog", "#!/bin/sh\ntrue\n");
    place
        .run(&["record", "-o", "prog", "--", "sh", "prog"])
        .refuses(USAGE, &["prog is no trace", "another name"]);
    assert_eq!(std::fs::read_to_string(place.path("prog")).unwrap(), "#!/bin/sh\ntrue\n");
    place.run(&["record", "-o", "-", "--", "true"]).refuses(USAGE, &["`-` names none", "trace.pwt"]);
    // What is suggested can be pasted.
    let run = place.run(&["record", "-o", "my trace.pwt", "--", "true"]);
    assert!(run.stderr.contains("next: pagewalk simulate 'my trace.pwt'"), "{}", run.stderr);
    // Nor does a later image's, whose name has a number.
    place.write("x.1.pwt", "text");
    let run = place.run(&["record", "-q", "-o", "x.pwt", "--", "sh", "-c", "true; /bin/true; true"]);
    assert!(run.stderr.contains("x.1.pwt: it is no trace"), "{}", run.stderr);
    place.write("visits.txt", "1\n2\n");
    place.write("notes.txt", "mine");
    place
        .run(&["trace", "import", "--format", "pages", "visits.txt", "-o", "notes.txt"])
        .refuses(USAGE, &["notes.txt is no trace, and a trace would replace it"]);
    assert_eq!(place.read("notes.txt"), b"mine");
    assert_eq!(place.read("x.1.pwt"), b"text");
    place.write("empty", "");
    for name in ["good.pwt", "empty"] {
        place.good(&["record", "-q", "-o", name, "--", "true"]);
        place.good(&["trace", "check", name]);
    }
}
