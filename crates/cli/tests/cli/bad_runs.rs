//! Programs that end badly or behave strangely, and hosts that lack something: the report covers what ran.

use crate::harness::{Outcome, PAGEWALK, Place, SEARCH_PATH, metric};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Says that it runs, and does so until somebody ends it.
const BUSY: &str = r#"
    #include <unistd.h>
    int main(void) {
        volatile long sum = 0;
        for (long i = 0; i < 100000; i++) sum += i;
        write(1, "running\n", 8);
        for (;;) sum++;
    }
"#;

/// Starts the command in a process group of its own, as a shell does, and waits for the program's first line.
fn start(place: &Place, arguments: &[&str]) -> Child {
    let mut command = place.command(arguments);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut line = String::new();
    let mut stdout = BufReader::with_capacity(8, child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut line).expect("the program prints");
    assert_eq!(line, "running\n");
    child.stdout = Some(stdout.into_inner());
    child
}

#[test]
fn a_program_that_a_signal_kills_is_reported() {
    let place = Place::new();
    let source = r#"
        #include <signal.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            if (fork() == 0) raise(SIGKILL);
            wait(0);
            raise(SIGSEGV);
        }"#;
    let program = place.compile("killed", source);
    let outcome = place.run(&["profile", "-o", "r.html", "-o", "r.json", "--", &program]);
    assert_eq!(outcome.code, 128 + 11, "{}", outcome.stderr);
    assert!(place.read("r.html").starts_with(b"<!doctype html>"));
    let result = place.json("r.json");
    let ends: Vec<_> =
        result["processes"].as_array().unwrap().iter().map(|one| one["ended"].as_str()).collect();
    assert_eq!(ends, [Some("signal 11"), Some("signal")]);
    let outcome = place.run(&["record", "-q", "-o", "t.pwt", "--", &program]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (128 + 11, ""));
    let recorded = place.good(&["simulate", "--json", "t.pwt", "t.1.pwt"]).json();
    assert_eq!(recorded["processes"][0]["ended"], "signal");
    assert_eq!(metric(&recorded, "instructions"), metric(&result, "instructions"));
}

/// Under the engine, the core reads no symbols, which would delay the start of every process.
#[test]
fn what_valgrind_says_of_a_fault_names_no_function() {
    let place = Place::new();
    let source = "int faulting(int *at) { return *at; }\nint main(void) { return faulting(0); }\n";
    let program = place.compile("reader", source);
    let outcome = place.run(&["record", "-v", "-o", "t.pwt", "--", &program]);
    assert_eq!(outcome.code, 128 + 11, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("Access not within mapped region"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("???") && !outcome.stderr.contains("faulting"), "{}", outcome.stderr);
    let kept = outcome.stderr.lines().find_map(|line| line.split_once("Valgrind's messages are in "));
    std::fs::remove_file(kept.expect("the log's place").1).unwrap();
    let outcome = place.run(&["record", "-o", "t.pwt", "--", &program]);
    assert!(!outcome.stderr.contains("Access") && !outcome.stderr.contains("???"), "{}", outcome.stderr);
}

#[test]
fn the_programs_own_exit_code_is_ours() {
    let place = Place::new();
    for command in ["profile", "record", "simulate"] {
        let outcome = place.run(&[command, "-q", "--", "sh", "-c", "exit 42"]);
        assert_eq!(outcome.code, 42, "{command}: {}", outcome.stderr);
    }
}

#[test]
fn ctrl_c_ends_the_program_and_reports_what_ran() {
    let (place, program) = Place::with_program("busy", BUSY);
    for command in [&["profile", "-o", "r.json"][..], &["record", "-o", "t.pwt"]] {
        let child = start(&place, &[command, &["-q", "--", &program]].concat());
        kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        let outcome = Outcome::of(child.wait_with_output().unwrap());
        assert_eq!(outcome.code, 128 + 2, "{}", outcome.stderr);
    }
    let result = place.json("r.json");
    assert_eq!(result["processes"][0]["ended"], "signal 2");
    assert!(metric(&result, "instructions") > 300_000);
    let recorded = place.good(&["simulate", "--json", "t.pwt"]).json();
    assert_eq!(recorded["processes"][0]["ended"], "signal");
    assert!(metric(&recorded, "instructions") > 300_000);
}

/// A signal to pagewalk alone goes to the program, whose handler runs as natively.
#[test]
fn the_program_handles_signals_to_us() {
    let place = Place::new();
    let source = r#"
        #include <signal.h>
        #include <unistd.h>
        static void handle(int signal) { _exit(100 + signal); }
        int main(void) {
            for (int i = 1; i < 32; i++) signal(i, handle);
            write(1, "running\n", 8);
            for (;;) pause();
        }"#;
    let program = place.compile("handles", source);
    for signal in [Signal::TERM, Signal::USR1, Signal::INT, Signal::HUP] {
        for command in [&["profile", "-o", "r.json"][..], &["record", "-o", "t.pwt"]] {
            let child = start(&place, &[command, &["-q", "--", &program]].concat());
            kill_process(Pid::from_child(&child), signal).unwrap();
            let outcome = Outcome::of(child.wait_with_output().unwrap());
            assert_eq!(outcome.code, 100 + signal.as_raw(), "{signal:?}: {}", outcome.stderr);
        }
    }
}

/// A signal to pagewalk alone also ends the program, if that does not handle it.
#[test]
fn sigterm_ends_the_program_and_reports_what_ran() {
    let (place, program) = Place::with_program("busy", BUSY);
    let child = start(&place, &["profile", "-o", "r.json", "--", &program]);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let outcome = Outcome::of(child.wait_with_output().unwrap());
    assert_eq!(outcome.code, 128 + 15, "{}", outcome.stderr);
    assert!(metric(&place.json("r.json"), "instructions") > 300_000);
}

/// If pagewalk is killed, the program goes on to its end.
#[test]
fn the_program_outlives_a_killed_pagewalk() {
    let place = Place::new();
    let source = r#"
        #include <fcntl.h>
        #include <unistd.h>
        int main(void) {
            write(1, "running\n", 8);
            volatile long sum = 0;
            for (long i = 0; i < 20000000; i++) sum += i;
            close(creat("finished", 0644));
        }"#;
    let program = place.compile("long", source);
    let mut child = start(&place, &["profile", "--", &program]);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert!(!place.has("finished"));
    let start = Instant::now();
    while !place.has("finished") {
        assert!(start.elapsed() < Duration::from_secs(30), "the program did not get to its end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Thousands of children: every one has a result, and memory stays bounded.
#[test]
fn a_thousand_children_fit_in_little_memory() {
    let place = Place::new();
    let source = r#"
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            for (int i = 0; i < 1000; i++) {
                if (fork() == 0) _exit(0);
                if (i % 8 == 7) while (waitpid(-1, 0, WNOHANG) > 0);
            }
            while (wait(0) > 0);
        }"#;
    let program = place.compile("forks", source);
    let mut command = place.command(&["profile", "-q", "-o", "r.json", "--", &program]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let exit = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0));
        match child.try_wait().unwrap() {
            Some(exit) => break exit,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    assert!(exit.success(), "{exit}");
    assert_eq!(place.json("r.json")["processes"].as_array().unwrap().len(), 1001);
    assert!(1_000 < peak_kib && peak_kib < 300_000, "{peak_kib} KiB");
}

/// Code that is written, run, rewritten and run again counts each time as what it is then.
#[test]
fn a_jit_counts_what_it_runs() {
    let place = Place::new();
    let source = r#"
        #include "pagewalk.h"
        #include <string.h>
        #include <sys/mman.h>
        int main(void) {
            /* Round by round: 0 to 49 times `nop`, then `mov $round, %eax; ret`. */
            unsigned char* code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            long sum = 0;
            for (int round = 0; round < 50; round++) {
                memset(code, 0x90, round);
                memcpy(code + round, (unsigned char[]){ 0xb8, round, 0, 0, 0, 0xc3 }, 6);
                for (int i = 0; i < 100; i++) sum += ((int (*)(void))code)();
            }
            return sum == 122500 ? 7 : 1;
        }"#;
    let program = place.compile("jit", source);
    let outcome = place.run(&["profile", "-o", "r.json", "--", &program]);
    assert_eq!(outcome.code, 7, "{}", outcome.stderr);
    let result = place.json("r.json");
    let mappings = result["processes"][0]["attribution"]["mappings"].as_array().unwrap();
    let code = mappings.iter().find(|row| row["kind"] == "anonymous" && row["references_fetch"] != 0);
    // 100 times 2 instructions in each of 50 rounds, and 0 + 1 + … + 49 nops.
    assert_eq!(code.expect("a row for the code")["references_fetch"], 100 * (2 * 50 + 1225));
}

#[test]
fn a_host_without_valgrind_is_told_what_to_install() {
    let place = Place::new();
    std::fs::create_dir(place.path("bin")).unwrap();
    for arguments in [
        &["profile", "--", "/bin/true"][..],
        &["record", "--", "/bin/true"],
        &["simulate", "--", "/bin/true"],
    ] {
        let mut command = place.command(arguments);
        let outcome = Outcome::of(command.env("PATH", place.path("bin")).output().unwrap());
        outcome.refuses(4, &["no program `valgrind`", "apt-get install valgrind", "pagewalk doctor"]);
    }
    assert!(!place.has("pagewalk.pwt"));
    let mut command = place.command(&["doctor"]);
    let outcome = Outcome::of(command.env("PATH", place.path("bin")).output().unwrap());
    assert_eq!(outcome.code, 4);
    assert!(outcome.stdout.contains("to enable: apt-get install valgrind gcc"), "{}", outcome.stdout);
    // What needs no engine still works.
    let mut command = place.command(&["machines", "show", "zen4"]);
    assert_eq!(Outcome::of(command.env("PATH", place.path("bin")).output().unwrap()).code, 0);
}

/// `pagewalk profile … 2>&1 | head`: the reader leaves, and nothing goes wrong.
#[test]
fn readers_that_go_away_are_no_error() {
    let place = Place::new();
    for arguments in ["profile -v -o r.json -- sh -c 'exit 5'", "profile --json -- sh -c 'exit 5'"] {
        let script = format!("{{ {PAGEWALK} {arguments}; echo $? >code; }} 2>&1 | true");
        let mut command = Command::new("sh");
        place.settle(command.args(["-c", &script]));
        assert!(command.status().unwrap().success());
        assert_eq!(place.read("code"), b"5\n", "{arguments}");
    }
    assert!(place.has("r.json"));
    let full = format!("{PAGEWALK} profile -- sh -c 'exit 5' 2>/dev/full");
    let mut command = Command::new("sh");
    place.settle(command.args(["-c", &full]).env("PATH", SEARCH_PATH));
    assert_eq!(command.status().unwrap().code(), Some(5));
}
