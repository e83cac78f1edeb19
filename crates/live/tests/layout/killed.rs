//! Killing the launcher does no harm.

use crate::lab::{Lab, host_can, packed, placed};
use pagewalk_live::layout::PlacementOptions;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIBRARIES: u32 = 12;

/// The number of kills by default (`PAGEWALK_KILLS`).
const KILLS: u32 = 45;

/// Not a test: started and killed by the test below.
#[test]
#[ignore = "the launcher of the other test"]
fn launcher() {
    let Ok(words) = std::env::var("LAUNCH") else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let (libraries, command) = words.split_at(words.iter().position(|word| *word == "--").expect("given"));
    let libraries: Vec<String> = libraries.iter().map(|&word| word.to_owned()).collect();
    // Its end does not matter.
    let _ = placed(&command[1..], &packed(&libraries), PlacementOptions::default());
}

/// The program loads libraries at its start, executes itself again, opens libraries later, and forks; each time the
/// launcher is killed at another moment. It may not start; once started, it gives the right result.
#[test]
fn a_program_outlives_its_launcher_at_every_moment() {
    let lab = Lab::new();
    let mut libraries = Vec::new();
    for number in 0..LIBRARIES {
        libraries.push(lab.library(&format!("l{number}"), number, "", &[]));
    }
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int l0(void), l1(void), l2(void), l3(void);
        int main(int count, char **words) {
            int rounds = atoi(words[2]), sum = l0() + l1() + l2() + l3();
            FILE *log = fopen(words[1], "a");
            fprintf(log, "began\n");
            fflush(log);
            if (rounds > 0) {
                sprintf(words[2], "%d", rounds - 1);
                execv(words[0], words);
            }
            for (int i = 4; i < 12; i++) {
                char name[4096];
                sprintf(name, "%s/libl%d.so", words[3], i);
                void *library = dlopen(name, RTLD_NOW);
                if (!library) { fprintf(log, "wrong: %s\n", dlerror()); return 1; }
                sprintf(name, "l%d", i);
                sum += ((int (*)(void))dlsym(library, name))();
                if (fork() == 0) { usleep(300); _exit(0); }
            }
            while (wait(0) > 0) {}
            fprintf(log, "sum %d\n", sum);
            return 0;
        }"#;
    let program = lab.compile("p", source, &["-ll0", "-ll1", "-ll2", "-ll3"]);
    if !host_can() {
        return;
    }
    let kills = std::env::var("PAGEWALK_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let whole = time_of(&lab, &libraries, &program);
    let (mut begun, mut cut) = (0, 0);
    for round in 0..kills {
        let log = lab.path(&format!("log{round}"));
        let mut launcher = start(&libraries, &program, &log, lab.folder().to_str().unwrap());
        std::thread::sleep(whole * round / kills);
        cut += u32::from(launcher.try_wait().unwrap().is_none());
        let _ = launcher.kill();
        launcher.wait().unwrap();
        begun += u32::from(ended_well(&log));
    }
    eprintln!(
        "{kills} kills: {begun} programs began and ended as natively, {cut} launchers were killed at work"
    );
    assert!(begun > kills / 9 && cut > kills / 9, "{begun} began, {cut} launchers were killed");
}

fn start(libraries: &[String], program: &str, log: &str, folder: &str) -> std::process::Child {
    let words = format!("{} -- {program} {log} 3 {folder}", libraries.join(" "));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "killed::launcher"]).env("LAUNCH", words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().unwrap()
}

fn time_of(lab: &Lab, libraries: &[String], program: &str) -> Duration {
    let begun = Instant::now();
    let log = lab.path("whole");
    start(libraries, program, &log, lab.folder().to_str().unwrap()).wait().unwrap();
    assert!(ended_well(&log), "it began");
    begun.elapsed()
}

/// Whether it started; panics if it then does not end correctly.
fn ended_well(log: &str) -> bool {
    const SUM: u32 = LIBRARIES * (LIBRARIES - 1) / 2;
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.ends_with(&format!("sum {SUM}\n")) {
            assert_eq!(text.lines().count(), 5, "{text}");
            return true;
        }
        // Anything to be started has started by then.
        if text.is_empty() && begun.elapsed() > Duration::from_millis(200) {
            return false;
        }
        assert!(!text.contains("wrong"), "{text}");
        assert!(begun.elapsed() < Duration::from_secs(20), "it did not end: {text}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
