//! Killing the launcher does no harm.

use crate::lab::{Lab, anonymous, applied_to, heap, host_can};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MAPPING: u64 = 6 << 20;

/// The number of kills by default (`PAGEWALK_KILLS`).
const KILLS: u32 = 45;

/// Not a test: started and killed by the test below.
#[test]
#[ignore = "the launcher of the other test"]
fn launcher() {
    let Ok(words) = std::env::var("LAUNCH") else { return };
    let words: Vec<&str> = words.split(' ').collect();
    // Its end does not matter.
    applied_to(&words, &[anonymous(MAPPING, 2), anonymous(MAPPING, 3), heap(1 << 30)]);
}

/// The program maps memory, executes itself again, and forks; each time the launcher is killed at another moment. It
/// may not start; once started, it gives the right result.
#[test]
fn a_program_outlives_its_launcher_at_every_moment() {
    let lab = Lab::new();
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static long work(int number) {
            char *all = mmap(0, 6 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            long sum = all == MAP_FAILED ? -1 : 0;
            memset(all, number, 6 << 20);
            for (long i = 0; i < 6 << 20; i += 4096) sum += all[i];
            void *small[2000];
            for (int i = 0; i < 2000; i++) memset(small[i] = malloc(500), number, 500);
            for (int i = 0; i < 2000; i++) sum += ((char *)small[i])[499];
            munmap(all, 6 << 20);
            return sum;
        }
        int main(int count, char **words) {
            int rounds = atoi(words[2]);
            FILE *log = fopen(words[1], "a");
            fprintf(log, "began\n");
            fflush(log);
            if (rounds > 0) {
                sprintf(words[2], "%d", rounds - 1);
                execv(words[0], words);
            }
            long sum = 0;
            for (int i = 0; i < 5; i++) {
                sum += work(i);
                if (fork() == 0) { work(1); usleep(300); _exit(0); }
            }
            for (int status; wait(&status) > 0;) if (status) fprintf(log, "wrong\n");
            fprintf(log, "sum %ld\n", sum);
            return 0;
        }"#;
    for flags in [&[][..], &["-static"]] {
        let program = lab.compile("p", source, flags);
        if !host_can() {
            return;
        }
        let kills = std::env::var("PAGEWALK_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
        let whole = time_of(&lab, &program);
        let (mut begun, mut cut) = (0, 0);
        for round in 0..kills {
            let log = lab.path(&format!("log{}{round}", flags.len()));
            let mut launcher = start(&program, &log);
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
}

fn start(program: &str, log: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let words = format!("{program} {log} 3");
    command.args(["--ignored", "--exact", "killed::launcher"]).env("LAUNCH", words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn().unwrap()
}

fn time_of(lab: &Lab, program: &str) -> Duration {
    let begun = Instant::now();
    let log = lab.path("whole");
    let _ = fs::remove_file(&log);
    start(program, &log).wait().unwrap();
    assert!(ended_well(&log), "it began");
    begun.elapsed()
}

/// Whether it started; panics if it then does not end correctly.
fn ended_well(log: &str) -> bool {
    const SUM: u64 = 10 * (1536 + 2000);
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
