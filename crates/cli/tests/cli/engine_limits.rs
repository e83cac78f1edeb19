//! Programs beyond the engine's abilities: that is reported, and figures of a part are no ground for advice.

use crate::harness::Place;

/// Programs that use the widest vectors without checking the processor, as `-march=native` makes them on servers
/// (flintlib/flint, issue 1677; spdk/spdk, issue 2722, with Valgrind's bug 383010).
#[test]
fn what_needs_instructions_that_the_engine_lacks_is_told_before_it_runs() {
    let place = Place::new();
    place.write("wide.c", WIDE);
    let wide = ["-O3", "-march=x86-64-v4", "-mprefer-vector-width=512"];
    // Without CPUID of its own, which a static C library has.
    let built = std::process::Command::new("gcc")
        .current_dir(place.path("."))
        .args(wide)
        .args(["-o", "wide", "wide.c"])
        .status();
    assert!(built.unwrap().success());
    // On a host without these instructions it crashes either way.
    let mut native = std::process::Command::new("./wide");
    place.settle(&mut native);
    let native = native.output().unwrap();
    let outcome = place.run(&["record", "--", "./wide"]);
    assert_eq!(outcome.stdout.as_bytes(), native.stdout);
    let told = outcome.stderr;
    assert!(told.contains("./wide needs AVX-512 (first in `main`, at 0x"), "{told}");
    for part in ["continues natively and untraced", "`trap`", "`advise --pid`", "-march=x86-64-v3"] {
        assert!(told.contains(part), "no {part} in {told}");
    }
    assert_eq!(told.matches("needs AVX-512 (first").count(), 1, "{told}");
    let quiet = place.run(&["record", "-q", "--", "./wide"]).stderr;
    assert!(!quiet.contains("needs AVX-512 (first"), "{quiet}");
}

/// NAS's class D and other programs with common blocks of gigabytes, built without -pie.
#[test]
fn an_image_that_reaches_the_engine_is_refused_before_it_runs() {
    let place = Place::new();
    place.write("zeros.c", include_str!("../../../capture/tests/programs/zeros.c"));
    let mut compiler = std::process::Command::new("gcc");
    compiler.current_dir(place.path(".")).args(["-no-pie", "-mcmodel=large", "-o", "zeros", "zeros.c"]);
    assert!(compiler.status().unwrap().success());
    let outcome = place.run(&["record", "--", "./zeros"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    for part in ["./zeros is not position", "reaches up to 0x18", "lies at 0x78000000", "-pie", "`trap`"] {
        assert!(outcome.stderr.contains(part), "no {part} in {}", outcome.stderr);
    }
}

const WIDE: &str = include_str!("../../../capture/tests/programs/wide.c");

/// A stand-in for a failing engine: its log, and its end.
const ENGINE_FAILS: &str = r#"
    #include <fcntl.h>
    #include <signal.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/resource.h>
    #include <unistd.h>
    int main(void) {
        char link[4200], target[4096], text[4096];
        volatile char pages[1 << 20];
        for (int i = 0; i < 1 << 20; i += 512) pages[i] = 1;
        // The engine's are not listed. They lie at the limit.
        struct rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        for (long fd = limit.rlim_cur + 16; fd >= 0; fd--) {
            snprintf(link, sizeof link, "/proc/self/fd/%ld", fd);
            ssize_t bytes = readlink(link, target, sizeof target - 1);
            target[bytes > 0 ? bytes : 0] = 0;
            if (!strstr(target, "/valgrind.log")) continue;
            int log = open(target, O_WRONLY | O_APPEND);
            int length = sprintf(text, "\nvalgrind: the 'impossible' happened:\n   Out of <b>tables</b>\n\n"
                                 "host stacktrace:\n==%d==    at 0x58008: ??? (in the engine)\n", getpid());
            write(log, text, length);
            close(log);
            break;
        }
        raise(SIGKILL);
    }"#;

#[test]
fn a_report_of_a_program_that_died_of_the_engine_says_so_first_and_advises_nothing() {
    let (place, program) = Place::with_program("dies", ENGINE_FAILS);
    let outcome = place.run(&["profile", "-o", "r.json", "-o", "r.html", "--", &program]);
    assert_eq!(outcome.code, 128 + 9, "{}", outcome.stderr);
    let report = outcome.stderr.lines().filter(|line| !line.starts_with("pagewalk: "));
    let report: Vec<&str> = report.collect();
    assert!(
        report[0].starts_with("Cut short: these figures lack the rest of the program, which died of"),
        "{report:?}"
    );
    assert!(!outcome.stderr.contains("Nothing to gain") && !outcome.stderr.contains('→'), "{report:?}");
    assert!(
        outcome.stderr.contains("died of the engine, not of itself: Out of <b>tables</b>"),
        "{}",
        outcome.stderr
    );
    assert!(!outcome.stderr.contains("host stacktrace"), "{}", outcome.stderr);
    let process = &place.json("r.json")["processes"][0];
    assert_eq!(process["advice"], "");
    assert!(process["cut_short"].as_str().unwrap().starts_with("the rest of the program"), "{process}");
    let page = String::from_utf8(place.read("r.html")).unwrap();
    assert!(page.contains("class=\"cut\">Cut short: these figures lack"), "the page has its banner");
    assert!(page.contains("Out of &lt;b&gt;tables"), "what the engine says drives no page");

    let loud = place.run(&["profile", "-v", "--", &program]);
    assert!(loud.stderr.contains("host stacktrace"), "{}", loud.stderr);
    let kept =
        loud.stderr.lines().find_map(|line| line.strip_prefix("pagewalk: Valgrind's messages are in "));
    let kept = kept.expect("the log's place");
    assert!(std::fs::read_to_string(kept).unwrap().contains("'impossible'"));
    std::fs::remove_file(kept).unwrap();
}

#[test]
fn a_limit_of_threads_is_the_users_to_raise() {
    let place = Place::new();
    let source = r#"
        #include <pthread.h>
        #include <stdio.h>
        static pthread_barrier_t all;
        static void *work(void *at) { pthread_barrier_wait(&all); return at; }
        int main(void) {
            pthread_t threads[8];
            int started = 0;
            pthread_barrier_init(&all, 0, 9);
            while (started < 8 && pthread_create(&threads[started], 0, work, 0) == 0) started++;
            fprintf(stderr, "%d threads\n", started);
            if (started < 8) return 1;
            pthread_barrier_wait(&all);
            return 0;
        }"#;
    let program = place.compile("threads", source);
    let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let few = place.run(&["profile", "--max-threads", "5", "--", &program]);
    let told = in_one_line(&few.stderr);
    assert!(few.code == 0 && told.contains("8 threads"), "{told}");
    assert!(
        told.contains("it has 5 threads, as many as the engine has room for (--max-threads N makes more)"),
        "{told}"
    );
    let told = in_one_line(&place.good(&["profile", "--max-threads", "9", "--", &program]).stderr);
    assert!(told.contains("8 threads") && !told.contains("Cut short"), "{told}");
    place
        .run(&["profile", "--max-threads", "3", "--", &program])
        .refuses(2, &["--max-threads", "a whole number from 4 to"]);
}

/// Neither the engine's additions to the environment nor its descriptors are visible: `env`, socket activation.
#[test]
fn a_program_sees_its_own_environment_and_descriptors() {
    let place = Place::new();
    for program in
        [&["env"][..], &["sh", "-c", "for n in 3 4 5 6; do [ -e /dev/fd/$n ] && echo $n; done; echo \"$0\""]]
    {
        let mut native = std::process::Command::new("/usr/bin/env");
        place.settle(native.args(program));
        let native = String::from_utf8(native.output().unwrap().stdout).unwrap();
        let arguments = [&["record", "-q", "-o", "t.pwt", "--"][..], program].concat();
        let traced = place.good(&arguments).stdout;
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&traced), sorted(&native));
    }
}
