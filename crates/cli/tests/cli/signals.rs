//! Signals, limits and environment of programs that run under pagewalk: as without it.

use crate::harness::{PAGEWALK, Place, random_visits};
use std::fs::DirEntry;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A shell's words, run in a place.
fn shell(place: &Place, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("PAGEWALK", PAGEWALK);
    place.settle(&mut command);
    command.env("PAGEWALK", PAGEWALK);
    command
}

fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// What is ignored from the start stays so, and nothing else is.
#[test]
fn programs_ignore_what_they_would_ignore_without_us() {
    let place = Place::new();
    for ignored in ["", "trap '' HUP INT;", "trap '' PIPE USR1 XFSZ;"] {
        let under = |pagewalk: &str| {
            let line =
                said(shell(&place, &format!("{ignored} exec {pagewalk} grep SigIgn /proc/self/status")));
            u64::from_str_radix(line.trim_start_matches("SigIgn:").trim(), 16).unwrap()
        };
        let alone = under("");
        for command in ["contiguity -q --", "record -q -o t.pwt --", "trap -q -o r.json --"] {
            let found = under(&format!("\"$PAGEWALK\" {command}"));
            assert_eq!(found, alone, "{command} {ignored}: {found:x} for {alone:x}");
        }
    }
}

/// Executes its arguments in an environment that no shell makes, or prints its own.
const ODD: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    extern char** environ;
    int main(int count, char** words) {
        for (char** at = environ; count == 1 && *at; at++) puts(*at);
        char cache[4096];
        snprintf(cache, sizeof cache, "XDG_CACHE_HOME=%s", getenv("XDG_CACHE_HOME"));
        char* odd[] = {"Z=1", "PATH=/usr/bin:/bin", cache, "A=2", "A=3", "NAMELESS", "=x", "VALGRIND_LIBRARY=1", 0};
        return count == 1 ? 0 : execve(words[1], words + 1, odd);
    }
"#;

#[test]
fn programs_see_their_environment_as_it_is() {
    let (place, odd) = Place::with_program("odd", ODD);
    let under = |pagewalk: &str| said(shell(&place, &format!("exec {odd} {pagewalk} {odd}")));
    let alone = under("");
    assert!(alone.starts_with("Z=1\nPATH=/usr/bin:/bin\nXDG_CACHE_HOME="), "{alone}");
    assert!(alone.contains("\nA=2\nA=3\nNAMELESS\n=x\n"), "{alone}");
    for command in ["record -q -o t.pwt --", "contiguity -q --"] {
        let options = format!("\"$PAGEWALK\" {command}");
        assert_eq!(under(&options), alone, "{command}");
    }
}

#[test]
fn a_program_under_nohup_outlives_the_terminal() {
    let place = Place::new();
    let script = "trap '' HUP; exec \"$PAGEWALK\" profile -q -- sh -c 'echo ready; read line; echo done'";
    let mut child = shell(&place, script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    send(&child, "-HUP");
    drop(child.stdin.take());
    assert_eq!(lines.next().unwrap().unwrap(), "done");
    assert!(child.wait().unwrap().success());
}

/// Once the program that was watched has ended, signals end us as they would end any other.
#[test]
fn a_study_can_be_ended_after_it_has_recorded() {
    let place = Place::new();
    let source = place.write("visits.c", random_visits(6_000_000));
    let study = format!(
        r#"schema = 1
name = "s"
[family]
serves = ["data", "fetches", "everything"]
[[workload]]
name = "visits"
files = [{source:?}]
prepare = ["gcc", "-O1", "-static", "-o", "visits", "visits.c"]
command = ["./visits"]
"#
    );
    place.write("s.toml", study);
    let mut command = place.command(&["sweep", "-q", "-o", "out", "s.toml"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let is_trace = |entry: DirEntry| entry.path().extension().is_some_and(|extension| extension == "pwt");
    let traces = || std::fs::read_dir(place.path("out/traces")).into_iter().flatten().flatten();
    let recorded = || traces().any(is_trace);
    while !recorded() {
        assert!(
            child.try_wait().unwrap().is_none() && begun.elapsed().as_secs() < 120,
            "nothing is recorded"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, "-TERM");
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && told.contains("the study was stopped"), "{told}");
}

/// `ulimit -f` ends neither a program nor us; nor does it take the stream away where the limit may be raised.
#[test]
fn a_limit_on_files_ends_nobody() {
    let place = Place::new();
    let under = |limit: &str, rest: &str| {
        let output = shell(&place, &format!("{limit}; \"$PAGEWALK\" {rest}")).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let whole = place.run(&["profile", "-q", "--", "true"]);
    assert!(!whole.stderr.contains("ulimit"), "{}", whole.stderr);
    under("ulimit -v 8000000", "profile -q -- true 2>told");
    let told = String::from_utf8(place.read("told")).unwrap();
    assert!(told.contains("the address space is limited to 7812 MiB (ulimit -v)"), "{told}");
    let (code, json) = under("ulimit -S -f 100", "profile -q --json -- true");
    assert_eq!(code, Some(0));
    assert!(json.contains("pagewalk.result/2"), "{json}");
    let inside = "profile -q -- sh -c 'ulimit -f 100; ls / >/dev/null; echo done'";
    assert_eq!(under("true", inside), (Some(0), "done\n".to_owned()));
    let visits = place.compile("visits", &random_visits(1_000_000));
    let record = format!("record -q -o t.pwt -- {visits} 2>told");
    assert_eq!(under("ulimit -S -f 100", &record).0, Some(1));
    let told = String::from_utf8(place.read("told")).unwrap();
    assert!(told.contains("File too large") && told.contains("not everything could be written"), "{told}");
}

/// A first stack may grow to its limit, which a shell sets for what it executes (`ulimit -s`).
#[test]
fn a_limit_on_the_stack_is_the_next_programs() {
    let place = Place::new();
    // 56 MB: more than the usual limit.
    let deep = "#include <stdio.h>\nstatic int deep(int n) { volatile char room[512]; room[0] = n; \
                return n == 0 ? 0 : deep(n - 1) + (room[0] != (char)n); }\n\
                int main(void) { printf(\"%d\\n\", deep(100000)); return 0; }";
    let deep = place.compile("deep", deep);
    for (outside, inside, told) in [
        ("8192", "ulimit -S -s 131072; sh -c 'ulimit -s'", "131072"),
        ("131072", "sh -c 'ulimit -s'", "131072"),
        ("unlimited", "sh -c 'ulimit -s'", "1048576"),
        ("8192", "ulimit -S -s unlimited; sh -c 'ulimit -s'", "1048576"),
    ] {
        let script = format!(
            "ulimit -S -s {outside}; exec \"$PAGEWALK\" profile -q -o o.html -- sh -c \"{inside}; {deep}; exit 7\""
        );
        let output = shell(&place, &script).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(7), "{outside}, {inside}: {output:?}");
        assert!(text.contains(&format!("{told}\n0\n")), "{outside}, {inside}: {text}");
    }
}

/// A program that gains privileges cannot run under Valgrind: it runs as it is, and the rest is followed.
#[test]
fn programs_that_gain_privileges_run_untraced() {
    let place = Place::new();
    place.compile("plain", "#include <stdio.h>\nint main(void) { puts(\"it ran\"); return 0; }");
    let script = "cp plain gains && chmod 6755 gains && \
                  exec \"$PAGEWALK\" profile --json -- sh -c './gains; ./plain'";
    let output = shell(&place, script).output().unwrap();
    let (text, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(text.matches("it ran").count(), 2, "{text}{told}");
    let whole = format!("{text}{told}");
    assert!(whole.contains("runs untraced: it gains privileges"), "{whole}");
}

/// Where Valgrind cannot be reached from, programs run as they are.
#[test]
fn programs_that_cannot_reach_us_run_untraced() {
    let place = Place::new();
    let script =
        "\"$PAGEWALK\" profile -q -- sh -c 'rm -rf \"$TMPDIR\"/pagewalk-*; ls / >/dev/null; /bin/echo ran'";
    std::fs::create_dir(place.path("tmp")).unwrap();
    let mut command = shell(&place, script);
    let output = command.env("TMPDIR", place.path("tmp")).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "ran\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
