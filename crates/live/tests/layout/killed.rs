//! Killing the launcher does no harm.

use crate::common::{Lab, kill_at_every_moment, words_of_launcher};
use crate::lab::{host_can, packed, placed};
use pagewalk_live::layout::PlacementOptions;
use std::time::Duration;

const LIBRARIES: u32 = 12;

/// Not a test: started and killed by the test below.
#[test]
#[ignore = "the launcher of the other test"]
fn launcher() {
    let Some(words) = words_of_launcher() else { return };
    let (libraries, command) = words.split_at(LIBRARIES as usize);
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    // Its end does not matter.
    let _ = placed(&command, &packed(libraries), PlacementOptions::default());
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
    let natively = format!("{}sum {}\n", "began\n".repeat(4), LIBRARIES * (LIBRARIES - 1) / 2);
    kill_at_every_moment(&natively, Duration::from_millis(200), |log| {
        let log = log.to_str().unwrap().to_owned();
        [&libraries[..], &[program.clone(), log, "3".to_owned(), lab.path("")]].concat()
    });
}
