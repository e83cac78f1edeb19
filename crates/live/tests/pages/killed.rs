//! Killing the launcher does no harm.

use crate::common::{Lab, kill_at_every_moment, words_of_launcher};
use crate::lab::{anonymous, applied_to, heap, host_can};
use std::time::Duration;

const MAPPING: u64 = 6 << 20;

/// Not a test: started and killed by the test below.
#[test]
#[ignore = "the launcher of the other test"]
fn launcher() {
    let Some(words) = words_of_launcher() else { return };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
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
        let natively = format!("{}sum {}\n", "began\n".repeat(4), 10 * (1536 + 2000));
        kill_at_every_moment(&natively, Duration::from_millis(200), |log| {
            vec![program.clone(), log.to_str().unwrap().to_owned(), "3".to_owned()]
        });
    }
}
