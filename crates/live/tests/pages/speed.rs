//! The cost of a plan for a program that maps often.

use crate::common::Lab;
use crate::lab::{anonymous, applied_to, heap, host_can};
use pagewalk_live::tracing::ProcessEnd;
use pagewalk_plan::What;
use std::process::Command;

const PAIRS: usize = 9;
/// The plan's cost if the planned memory never appears; the target is 1.05 on an idle machine.
const RATIO_MAX: f64 = 1.05;

/// Seconds that the program measures itself around its 10,000 mappings, and until its end.
fn seconds(text: &str) -> f64 {
    text.trim().parse().unwrap()
}

/// Maps, touches and unmaps 64 KiB, 10,000 times, and writes the nanoseconds to a file.
#[test]
#[ignore = "needs an idle machine; run by hand, in release"]
fn ten_thousand_mappings_cost_as_much_as_ever() {
    let lab = Lab::new();
    let source = r#"
        #include <stdio.h>
        #include <sys/mman.h>
        #include <time.h>
        int main(int count, char **words) {
            struct timespec begun, ended;
            clock_gettime(CLOCK_MONOTONIC, &begun);
            for (int i = 0; i < 10000; i++) {
                char *all = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                for (int k = 0; k < 65536; k += 4096) all[k] = 1;
                munmap(all, 65536);
            }
            clock_gettime(CLOCK_MONOTONIC, &ended);
            FILE *out = fopen(words[1], "w");
            fprintf(out, "%f", ended.tv_sec - begun.tv_sec + (ended.tv_nsec - begun.tv_nsec) * 1e-9);
            return fclose(out);
        }"#;
    let program = lab.compile("p", source, &[]);
    if !host_can() {
        return;
    }
    let out = lab.path("out");
    let read = || seconds(&std::fs::read_to_string(&out).unwrap());
    let many: Vec<What> =
        (0..20).map(|k| anonymous(65536 + 4096 * k, 20_000)).chain([heap(1 << 30)]).collect();
    let (mut inside, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let begun = std::time::Instant::now();
        assert!(Command::new(&program).arg(&out).status().unwrap().success());
        let (alone, alone_whole) = (read(), begun.elapsed().as_secs_f64());
        let begun = std::time::Instant::now();
        assert_eq!(applied_to(&[&program, &out], &many).timed.end, ProcessEnd::Exit(0));
        inside.push(read() / alone);
        whole.push(begun.elapsed().as_secs_f64() / alone_whole);
    }
    inside.sort_by(f64::total_cmp);
    whole.sort_by(f64::total_cmp);
    eprintln!("mappings {inside:.3?}, with start and end {whole:.3?}");
    assert!(inside[PAIRS / 2] < RATIO_MAX, "{inside:?}");
}
