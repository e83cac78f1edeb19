//! `pagewalk contiguity`: its output for running and started programs, with and without the right to read frame
//! numbers; refusals.

use crate::classes::all_are_told;
use crate::harness::{BAD_INPUT, EXAMPLE_MACHINE, Outcome, PAGEWALK, Place, USAGE};
use serde_json::Value;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

const DESIGNS: [&str; 8] = [
    "base_pages",
    "as_mapped",
    "coalesced_4",
    "clustered_8",
    "contiguous_hint_16",
    "ranges",
    "huge_everywhere",
    "virtual_runs",
];
/// Those that need frame numbers.
const WITH_FRAMES: [&str; 4] = ["coalesced_4", "clustered_8", "contiguous_hint_16", "ranges"];
/// A user without rights.
const NOBODY: u32 = 65534;

/// 40 MB, of which the second half has a page touched in every two.
const HOLES: &str = r#"
    #include <sys/mman.h>
    #include <stdio.h>
    int main(int count, char **arguments) {
        char *at = mmap(0, 40 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(at, 40 << 20, MADV_NOHUGEPAGE);
        for (long page = 0; page < 5120; page++) at[page << 12] = 1;
        for (long page = 5120; page < 10240; page += 2) at[page << 12] = 1;
        puts("ready");
        fflush(stdout);
        if (count > 1) getchar();
        return 3;
    }"#;

fn frames_readable(place: &Place) -> bool {
    // Whatever else this host lacks.
    place.run(&["doctor", "--json"]).finding("name", "frame numbers")["able"] == true
}

/// Checks all that holds of any result.
fn check(result: &Value, frames: bool) {
    assert_eq!(result["schema"], "pagewalk.contiguity/1");
    all_are_told(result, &["page_bytes", "huge_page_pages"]);
    assert_eq!(result["frame_numbers"], frames);
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} is no count"));
    let list = |value: &Value| value.as_array().expect("a list").iter().map(number).collect::<Vec<_>>();
    let present = number(&result["mapped_pages"]);
    assert!(number(&result["present_pages"]) <= present && number(&result["repeated_pages"]) <= present);
    let designs = result["designs"].as_array().unwrap();
    assert_eq!(designs.iter().map(|design| design["name"].as_str().unwrap()).collect::<Vec<_>>(), DESIGNS);
    for design in designs {
        let name = design["name"].as_str().unwrap();
        if !frames && WITH_FRAMES.contains(&name) {
            assert!(design["missing"]["reason"].as_str().unwrap().contains("frame numbers"), "{name}");
            assert!(design["missing"]["enable"].as_str().unwrap().contains("CAP_SYS_ADMIN"), "{name}");
            assert_eq!((&design["entries"], &design["covering"]), (&Value::Null, &serde_json::json!([])));
            continue;
        }
        assert_eq!(design["missing"], Value::Null, "{name}");
        let (pages, entries) = (list(&design["sizes"]["pages"]), list(&design["sizes"]["entries"]));
        assert_eq!(
            pages.iter().zip(&entries).map(|(pages, entries)| pages * entries).sum::<u64>(),
            present,
            "{name}"
        );
        assert_eq!(entries.iter().sum::<u64>(), number(&design["entries"]), "{name}");
        let shares = design["covering"].as_array().unwrap();
        let asked = [80, 90, 95, 99].map(|percent| serde_json::json!(percent));
        assert!(shares.iter().map(|share| &share["percent"]).eq(&asked), "{name}");
        for share in shares {
            let mapped = |count: u64| mapped_by(&pages, &entries, count) * 100 / present.max(1);
            let (percent, count) = (number(&share["percent"]), number(&share["entries"]));
            let enough = mapped_by(&pages, &entries, count) * 100 >= present * percent;
            let one_less = mapped_by(&pages, &entries, count - 1) * 100 < present * percent;
            assert!(enough && one_less, "{name}: {percent} %: {count} map {} %", mapped(count));
        }
    }
    assert_eq!(result["largest_range_pages"].is_u64(), frames);
}

/// Pages that the largest entries map, cumulatively.
fn mapped_by(pages: &[u64], entries: &[u64], count: u64) -> u64 {
    let each =
        pages.iter().zip(entries).rev().flat_map(|(&pages, &entries)| (0..entries).map(move |_| pages));
    each.take(count as usize).sum()
}

/// `HOLES`, waiting.
fn waiting(place: &Place) -> Child {
    let program = place.compile("holes", HOLES);
    let mut command = Command::new(place.path(&program));
    let mut child =
        command.arg("wait").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was compiled");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    child
}

#[test]
fn a_process_that_runs_is_read() {
    let place = Place::new();
    let frames = frames_readable(&place);
    let mut child = waiting(&place);
    let pid = child.id().to_string();
    let outcome =
        place.good(&["contiguity", "--json", "-o", "r.html", "-o", "r.svg", "-o", "r.json", "--pid", &pid]);
    let result = outcome.json();
    check(&result, frames);
    assert_eq!(result["process"]["read"], "on_request");
    assert!(result["process"]["program"].as_str().unwrap().ends_with("/holes"));
    // 5,120 pages in one run, and 2,560 of one page each, less one that touches the run's end.
    let sizes = &result["designs"][7]["sizes"];
    let ones = sizes["pages"].as_array().unwrap().iter().position(|pages| pages == 1).unwrap();
    assert!(sizes["entries"][ones].as_u64().unwrap() >= 2559, "{sizes}");
    assert!(result["largest_virtual_run_pages"].as_u64().unwrap() >= 5120);
    for part in ["report written to r.html", "picture written to r.svg", "result written to r.json"] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
    assert_eq!(place.json("r.json")["designs"][0]["class"], "measured");
    assert!(String::from_utf8(place.read("r.svg")).unwrap().starts_with("<svg class=\"picture\""));
    // The page can be made again from the data.
    place.good(&["report", "-o", "again.html", "r.json"]);
    assert!(place.read("again.html") == place.read("r.html"));
    let text = place.good(&["contiguity", "-p", &pid]).stdout;
    for part in ["entries that map", "a 4 KB page", "a range of any length", "One direct segment", "mapping"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.contains("CAP_SYS_ADMIN"), !frames, "{text}");
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// The program's output and exit code stay its own.
#[test]
fn a_program_that_is_started_is_read_at_its_exit() {
    let place = Place::new();
    let frames = frames_readable(&place);
    let program = place.compile("holes", HOLES);
    let outcome = place.run(&["contiguity", "-o", "r.json", "--", &program]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (3, "ready\n"));
    assert!(outcome.stderr.starts_with("holes: "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(" at its exit; it had "), "{}", outcome.stderr);
    let result = place.json("r.json");
    check(&result, frames);
    assert_eq!(result["process"]["read"], "at_exit");
    let mapping = result["mappings"].as_array().unwrap().iter().find(|of| of["bytes"] == 40 << 20).unwrap();
    assert_eq!(mapping["present_pages"], 5120 + 2560, "each is counted once");
    assert!(result["advice"].as_str().unwrap().contains("uge pages would help"), "{}", result["advice"]);
    let next = format!("next: pagewalk advise -o plan.toml -- {program}\n");
    assert!(outcome.stderr.ends_with(&next), "{}", outcome.stderr);
    let small = place.run(&["contiguity", "--", "true"]);
    assert!(!small.stderr.contains("next: "), "nothing is to be gained: {}", small.stderr);
    // Quiet, with JSON: nothing but the program's and the result.
    let outcome = place.run(&["contiguity", "-q", "--json", "--", &program]);
    assert_eq!(outcome.stderr, "");
    check(&serde_json::from_str(outcome.stdout.strip_prefix("ready\n").unwrap()).unwrap(), frames);
    let killed = place.run(&["contiguity", "-q", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.code, 128 + 15);
}

/// A user without rights gets what needs none, is told the rest, and may not examine others' programs.
#[test]
fn who_may_not_read_frames_is_told_what_is_missing() {
    let place = Place::new();
    // Nobody cannot enter the folders of others.
    let copy = tempfile::Builder::new().prefix("pagewalk").tempfile().unwrap().into_temp_path();
    // By another process: a test that forks meanwhile would keep the copy open for writing, and nobody could run it.
    assert!(Command::new("cp").arg(PAGEWALK).arg(&copy).status().unwrap().success());
    let allow = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&copy, allow).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new(&copy);
        command.args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/").stdin(Stdio::null());
        command.output().map(Outcome::of)
    };
    let own = std::process::id().to_string();
    match as_nobody(&["contiguity", "-q", "--json", "--", "true"]) {
        Ok(outcome) => {
            assert_eq!(outcome.code, 0, "{}", outcome.stderr);
            check(&outcome.json(), false);
            let mut sleeper = Command::new("sleep").arg("60").uid(NOBODY).gid(NOBODY).spawn().unwrap();
            let list = format!("{}.frames", copy.display());
            let listed = as_nobody(&["contiguity", "--frames", &list, "--pid", &sleeper.id().to_string()]);
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
            listed.unwrap().refuses(4, &["frame numbers", "CAP_SYS_ADMIN"]);
            assert!(!std::path::Path::new(&list).exists());
            // Unless that is who runs this test.
            if std::fs::metadata("/proc/self").unwrap().uid() != NOBODY {
                let parts = [&own, "CAP_SYS_PTRACE", "own user"];
                as_nobody(&["contiguity", "--pid", &own]).unwrap().refuses(4, &parts);
            }
        }
        // Then this user has no rights already, and the other tests cover that.
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{error}");
            assert!(!frames_readable(&place));
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_the_choices() {
    let place = Place::with_witness();
    place.run(&["contiguity", "--pid", "2147483647"]).refuses(USAGE, &["no process 2147483647", "ps -e"]);
    place.run(&["contiguity", "--pid", "0"]).refuses(USAGE, &["0"]);
    place.run(&["contiguity"]).refuses(USAGE, &["--pid"]);
    place
        .run(&["contiguity", "--pid", "1", "--", "./witness"])
        .refuses(USAGE, &["--pid", "cannot be used with"]);
    place
        .run(&["contiguity", "-o", "r.txt", "--", "./witness"])
        .refuses(USAGE, &["r.txt", ".html", ".svg", ".json"]);
    place
        .run(&["contiguity", "-o", "no/r.json", "--", "./witness"])
        .refuses(1, &["no/r.json", "choose another place"]);
    place.run(&["contiguity", "--", "no-such-program"]).refuses(USAGE, &["not found in PATH"]);
    assert!(!place.has("ran"));
    // An ended process that was not reaped.
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    place
        .run(&["contiguity", "--pid", &pid])
        .refuses(USAGE, &["has no memory", "choose a program that runs"]);
    child.wait().unwrap();
}

/// A machine with a private cache of level 2, of 16 colors.
const COLORED: &str = r#"
[[cache]]
name = "l2"
level = 2
serves = ["fetch", "load", "store", "walk"]
size = "512K"
ways = 8
line = 64
latency = 10
"#;

#[test]
fn frames_spread_over_the_colors_of_a_cache() {
    let place = Place::new();
    let machine = |name: &str, cache: &str| {
        place.write(name, EXAMPLE_MACHINE.replace("walk_reference = 20", "memory = 200") + cache);
    };
    machine("colored.toml", COLORED);
    let mut child = waiting(&place);
    let pid = child.id().to_string();
    let read = |machine: &str, pid: &str| {
        place.run(&["contiguity", "--json", "--colors", "--machine", machine, "--pid", pid])
    };
    if frames_readable(&place) {
        let outcome = read("colored.toml", &pid);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let result = outcome.json();
        check(&result, true);
        let spread = &result["colors"];
        assert_eq!((&spread["colors"], &spread["cache"]["ways"]), (&16.into(), &8.into()));
        let sum =
            |list: &str| spread[list].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("base_pages") + sum("huge_pages"), result["present_pages"].as_u64().unwrap());
        assert!(
            sum("base_pages") >= 5120 + 2560 && spread["chi_square"].as_f64().unwrap() >= 0.0,
            "{spread}"
        );
        let beyond = (spread["pages_beyond_ways"].as_u64(), spread["pages_beyond_ways_if_even"].as_u64());
        assert!(beyond.0 >= beyond.1, "{spread}");
        let text = place.good(&["contiguity", "--colors", "-m", "colored.toml", "-p", &pid]).stdout;
        assert!(text.contains("16 colors of cache l2") && text.contains('█'), "{text}");
        machine("shared.toml", &format!("{COLORED}shared = true\n"));
        read("shared.toml", &pid).refuses(BAD_INPUT, &["`l2`", "all cores share it", "private"]);
        machine("small.toml", &COLORED.replace("512K", "32K"));
        read("small.toml", &pid).refuses(BAD_INPUT, &["a page covers all its sets"]);
        read("zen4", &pid)
            .refuses(BAD_INPUT, &["`zen4`", "no [[cache]] of level 2", "--machine zen4+caches"]);
    } else {
        read("colored.toml", &pid).refuses(4, &["frame numbers", "CAP_SYS_ADMIN"]);
    }
    place.run(&["contiguity", "-m", "colored.toml", "-p", &pid]).refuses(USAGE, &["--colors"]);
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// The program of a recording, once it has said that it is ready.
fn program_of(recording: &mut Child) -> String {
    let mut line = String::new();
    let stdout = recording.stdout.as_mut().expect("it is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let threads = std::fs::read_dir(format!("/proc/{}/task", recording.id())).unwrap();
    let children =
        threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    children.collect::<String>().split_whitespace().next().expect("the program runs").to_owned()
}

/// A recorded program is simulated with the frames that it had while it was recorded.
#[test]
fn a_kernel_has_the_frames_of_a_recorded_process() {
    let (place, program) = Place::with_program("holes", HOLES);
    let mut command = place.command(&["record", "-q", "-o", "t.pwt", "--", &program, "wait"]);
    let mut recording = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pid = program_of(&mut recording);
    let listed = place.run(&["contiguity", "--frames", "a.frames", "--pid", &pid]);
    drop(recording.stdin.take());
    recording.wait().unwrap();
    if !frames_readable(&place) {
        return listed.refuses(4, &["frame numbers", "CAP_SYS_ADMIN"]);
    }
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.stderr.contains("frames written to a.frames"), "{}", listed.stderr);
    let text = String::from_utf8(place.read("a.frames")).unwrap();
    assert!(text.starts_with("frames of 4K\n# "), "{text}");
    let os = "fixed:placement.policy=listed,placement.frames=a.frames";
    let result = place.good(&["simulate", "--json", "-m", "zen4+caches", "--os", os, "t.pwt"]).json();
    let kernels = result["processes"][0]["kernels"].as_array().unwrap();
    let metrics = &kernels.iter().find(|kernel| kernel["policy"] == os).expect("the kernel")["metrics"];
    let [unlisted, touched] =
        ["kernel.pages_unlisted", "pages_touched"].map(|name| metrics[name].as_u64().unwrap());
    // What it touched after the list was made.
    assert!(touched > 7680 && unlisted * 20 < touched, "{unlisted} of {touched}");
}

#[test]
fn only_a_running_process_has_its_frames_listed() {
    let place = Place::with_witness();
    place
        .run(&["contiguity", "--frames", "a.frames", "--", "./witness"])
        .refuses(USAGE, &["--frames", "cannot be used with"]);
    place
        .run(&["contiguity", "--frames", "no/a.frames", "--pid", "1"])
        .refuses(1, &["no/a.frames", "choose another"]);
    assert!(!place.has("ran") && !place.has("a.frames"));
}
