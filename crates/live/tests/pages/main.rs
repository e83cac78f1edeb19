//! Programs with planned ranges on huge pages behave as without, and the ranges are on huge pages.

#[path = "../common/mod.rs"]
mod common;
mod habits;
mod killed;
mod lab;
mod speed;
mod traps;

use common::Lab;
use lab::{MIB, anonymous, applied, applied_to, assert_huge, heap, host_can, options, plan};
use pagewalk_live::pages::{
    EXCEPT_ADVISED_SINCE, HUGE_BYTES, PagesError, PagesOptions, Reason, is_since, kernel,
};
use pagewalk_live::tracing::ProcessEnd;
use pagewalk_plan::{RangePart, What};
use pagewalk_skip::{Need, skip};

/// Maps 32 MiB three times and touches all but the last.
const MAPS: &str = r#"
    #include <sys/mman.h>
    #include <string.h>
    #include <unistd.h>
    #define SIZE (32 << 20)
    static char *map(void) {
        return mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    int main(void) {
        char *all[3];
        for (int i = 0; i < 3; i++) all[i] = map();
        for (int i = 0; i < 2; i++) memset(all[i], i + 1, SIZE);
        for (long i = 0; i < SIZE; i++) if (all[0][i] != 1 || all[1][i] != 2) return 1;
        for (long i = 0; i < SIZE; i += 65536) if (all[2][i]) return 2;
        return 7;
    }"#;

#[test]
fn the_planned_mapping_is_huge_and_others_are_not() {
    let lab = Lab::new();
    for (name, flags) in [("dynamic", &[][..]), ("fixed", &["-no-pie"]), ("static", &["-static"])] {
        let program = lab.compile(name, MAPS, flags);
        if !host_can() {
            return;
        }
        let run = applied_to(&[&program], &[anonymous(32 * MIB, 2)]);
        assert_eq!((run.timed.end, run.images.len()), (ProcessEnd::Exit(7), 1), "{name}: {run:#x?}");
        assert_huge(&run.images[0]);
        let range = &run.images[0].ranges[0];
        assert_eq!(range.marked_bytes, 32 * MIB);
        assert_eq!(range.caller.as_ref().unwrap().file, name, "{range:#x?}");
        assert!(range.best.unwrap().huge >= 30 * MIB);
    }
}

#[test]
fn parts_are_cut_and_reasons_are_told() {
    let lab = Lab::new();
    let program = lab.compile("p", MAPS, &[]);
    if !host_can() {
        return;
    }
    let part =
        |from, to| What::Anonymous { bytes: 32 * MIB, nth: 1, by: None, part: Some(RangePart { from, to }) };
    let whats = [
        part(0, 16 * MIB),
        part(16 * MIB, 16 * MIB + 4096),
        anonymous(32 * MIB, 9),
        anonymous(12 * MIB, 1),
        anonymous(32 * MIB, 3),
    ];
    let run = applied_to(&[&program], &whats);
    assert_eq!(run.timed.end, ProcessEnd::Exit(7));
    let ranges = &run.images[0].ranges;
    assert_eq!(ranges[0].reason, None, "{ranges:#x?}");
    assert_eq!(ranges[0].best.unwrap().mapped, 16 * MIB);
    assert_eq!(ranges[1].reason, Some(Reason::TooShort(4)));
    for missing in [2, 3] {
        assert!(matches!(ranges[missing].reason, Some(Reason::NeverAppeared(_))), "{ranges:#x?}");
    }
    // Loads of untouched memory map the huge zero page, which does not count.
    assert!(ranges[4].best.is_some());
}

/// The break moves by 132 KiB at a time; no huge page fits such a step.
#[test]
fn a_heap_that_grows_in_small_steps_is_huge() {
    let lab = Lab::new();
    let source = r#"
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(void) {
            char *before = sbrk(0);
            char **all = malloc(60000 * sizeof *all);
            for (int i = 0; i < 60000; i++) { all[i] = malloc(1000); memset(all[i], i, 1000); }
            for (int i = 0; i < 60000; i++) for (int k = 0; k < 1000; k++) if (all[i][k] != (char)i) return 1;
            char *end = sbrk(0), *more = sbrk(5000);
            if (more != end || sbrk(0) != end + 5000) return 2;
            for (int k = 0; k < 5000; k++) if (more[k]) return 3;
            memset(more, 1, 5000);
            sbrk(-5000);
            if (sbrk(0) != end) return 4;
            more = sbrk(1 << 20);
            for (int k = 5000; k < 1 << 20; k++) if (more[k]) return 5;
            char *now = sbrk(0);
            brk((void *)4096);
            if (sbrk(0) != now || now < before) return 6;
            return 8;
        }"#;
    for (name, flags) in [("dynamic", &[][..]), ("static", &["-static"])] {
        let program = lab.compile(name, source, flags);
        if !host_can() {
            return;
        }
        let run = applied_to(&[&program], &[heap(1 << 30)]);
        assert_eq!(run.timed.end, ProcessEnd::Exit(8), "{name}");
        let best = run.images[0].ranges[0].best.unwrap();
        assert!(best.huge >= 50 * MIB, "{name}: {:#x?}", run.images[0]);
    }
}

#[test]
fn threads_forks_and_execs_are_as_they_were() {
    let lab = Lab::new();
    let source = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void *map(void *unused) {
            char *last = 0;
            for (int i = 0; i < 200; i++) {
                char *all = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                all[i] = 1;
                if (all == MAP_FAILED || munmap(all, 4 << 20)) abort();
                free(malloc(300000));
            }
            return 0;
        }
        int main(int count, char **words) {
            if (count > 1) { char *rest[] = {words[0], 0}; execv("/proc/self/exe", rest); }
            pthread_t threads[8];
            for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, map, 0);
            for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
            for (int i = 0; i < 4; i++) if (fork() == 0) { map(0); _exit(3); }
            for (int status, i = 0; i < 4; i++) if (wait(&status) < 0 || WEXITSTATUS(status) != 3) return 1;
            char *kept = mmap(0, 6 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(kept, 1, 6 << 20);
            kept = mremap(kept, 6 << 20, 24 << 20, MREMAP_MAYMOVE);
            memset(kept, 1, 24 << 20);
            return system("exit 5") >> 8;
        }"#;
    let program = lab.compile("p", &format!("#define _GNU_SOURCE\n{source}"), &[]);
    if !host_can() {
        return;
    }
    let run = applied_to(&[&program, "again"], &[anonymous(6 * MIB, 1), anonymous(4 * MIB, 1600)]);
    assert_eq!((run.timed.end, run.images.len()), (ProcessEnd::Exit(5), 2));
    let ranges = &run.images[1].ranges;
    assert_eq!(ranges[0].reason, None, "moved and grown: {ranges:#x?}");
    assert_eq!(ranges[1].marked_bytes, 4 * MIB, "all calls of all threads are counted");
    assert!(run.others.iter().any(|other| other.contains("sh")), "{:?}", run.others);
}

#[test]
fn python_has_huge_pages_where_it_should() {
    // Memory that Python frees before it ends is not found by the last inspection.
    let list = "import os\nx = bytearray(64 << 20)\nx[::4096] = b'1' * len(x[::4096])\n\
                y = list(range(3000000))\nos._exit(9)";
    // This name may be a script.
    let which = ["-c", "import sys; print(sys.executable)"];
    let Ok(found) = std::process::Command::new("python3").args(which).output() else {
        return skip(Need::Programs, "no python3");
    };
    if !host_can() {
        return;
    }
    let (python, bytes) = (String::from_utf8(found.stdout).unwrap(), 64 * MIB + 4096);
    let run = applied_to(&[python.trim(), "-c", list], &[anonymous(bytes, 1), heap(1 << 30)]);
    assert_eq!(run.timed.end, ProcessEnd::Exit(9));
    let range = &run.images[0].ranges[0];
    assert!(range.best.is_some_and(|best| best.huge >= 60 * MIB), "{:#x?}", run.images[0]);
}

#[test]
fn a_program_that_forbids_itself_madvise_lives() {
    let lab = Lab::new();
    let source = r#"
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(int count, char **words) {
            struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog program = {4, code};
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if (count > 1 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                          : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return 1;
            char *all = mmap(0, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(all, 1, 16 << 20);
            return 4;
        }"#;
    let program = lab.compile("p", source, &[]);
    if !host_can() {
        return;
    }
    for words in [&[&*program][..], &[&program, "prctl"]] {
        let run = applied_to(words, &[anonymous(16 * MIB, 1)]);
        assert_eq!(run.timed.end, ProcessEnd::Exit(4), "{words:?}");
        assert_eq!(run.images[0].ranges[0].reason, Some(Reason::Filtered), "{:#x?}", run.images[0]);
    }
}

#[test]
fn programs_that_are_not_planned_run_as_they_are() {
    let lab = Lab::new();
    let program = lab.compile("p", MAPS, &[]);
    if !host_can() {
        return;
    }
    let run =
        applied(&["sh", "-c", &program], &plan(&program, &[anonymous(32 * MIB, 1)]), &options(&program))
            .unwrap();
    assert_eq!((run.timed.end, run.images.len()), (ProcessEnd::Exit(7), 1));
    assert_huge(&run.images[0]);
    let none = applied(&["true"], &plan(&program, &[anonymous(32 * MIB, 1)]), &options(&program)).unwrap();
    assert_eq!((none.timed.end, none.images.len(), none.others.len()), (ProcessEnd::Exit(0), 0, 1));
    let missing = applied(&["./no-such"], &plan(&program, &[]), &options(&program)).unwrap_err();
    assert!(matches!(missing, PagesError::Launch(_)), "{missing}");
    assert_eq!(HUGE_BYTES, 2 * MIB);
}

/// The end of a program's data, which is in no file.
#[test]
fn the_memory_behind_a_programs_data_is_huge() {
    let lab = Lab::new();
    let source = "#include <string.h>\n#include <unistd.h>\nstatic char all[48 << 20];\n\
                  int main(void) { memset(all, 1, sizeof all); usleep(50000); return all[12345] + 4; }";
    for (name, flags) in [("dynamic", &[][..]), ("static", &["-static"])] {
        let program = lab.compile(name, source, flags);
        if !host_can() {
            return;
        }
        let what = What::File { file: program.clone(), offset: 0, bytes: 48 * MIB };
        let run = applied_to(&[&program], &[what]);
        assert_eq!(run.timed.end, ProcessEnd::Exit(5), "{name}");
        let best = run.images[0].ranges[0].best.unwrap();
        assert!(best.huge >= 40 * MIB, "{name}: {:#x?}", run.images[0]);
    }
}

/// As on a host that gives huge pages to all memory.
#[test]
fn what_is_not_planned_can_be_kept_on_small_pages() {
    let lab = Lab::new();
    let source = MAPS.replace("return 7", "return 100 + prctl(42, 0, 0, 0, 0)");
    let program = lab.compile("p", &format!("#include <sys/prctl.h>\n{source}"), &[]);
    if !host_can() {
        return;
    }
    if !is_since(&kernel(), EXCEPT_ADVISED_SINCE) {
        return skip(Need::Kernel, format_args!("{} keeps no small pages beside advised ones", kernel()));
    }
    let plan = plan(&program, &[anonymous(32 * MIB, 1)]);
    let plain = options(&program);
    assert_eq!(applied(&[&program], &plan, &plain).unwrap().timed.end, ProcessEnd::Exit(100));
    let run = applied(&[&program], &plan, &PagesOptions { keep_small: true, ..plain }).unwrap();
    assert_eq!(run.timed.end, ProcessEnd::Exit(100 + 3), "off, but for what is marked");
    assert_huge(&run.images[0]);
}
