//! Programs with placed libraries behave as without, and the libraries are at their places.

#[path = "../common/mod.rs"]
mod common;
mod habits;
mod killed;
mod lab;
mod speed;

use common::Lab;
use lab::{VERIFY, assert_landed, host_can, mapped_libraries, packed, placed};
use pagewalk_live::layout::{LayoutError, Obstacle, PlacementOptions, State};
use pagewalk_live::tracing::ProcessEnd;
use pagewalk_plan::SLIDE_BYTES;
use pagewalk_skip::{Need, skip};
use std::fs;
use std::process::Command;

const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

/// A program that calls two libraries and, with an argument, executes itself again.
const TWO: &str = "int one(void), two(void);
    int main(int count, char **words) {
        if (count > 1) { char *rest[] = {words[0], 0}; execv(words[0], rest); }
        return one() + two();
    }";

fn two_libraries(lab: &Lab) -> Vec<String> {
    vec![lab.library("one", 30, "", &[]), lab.library("two", 12, "", &[])]
}

#[test]
fn libraries_land_in_every_kind_of_dynamic_program() {
    let lab = Lab::new();
    let mut files = two_libraries(&lab);
    if fs::exists(LIBC).unwrap() {
        files.push(LIBC.into());
    }
    let link = ["-lone", "-ltwo"];
    let pie = lab.compile("pie", TWO, &[&link[..], &["-pie", "-fPIE"]].concat());
    let fixed = lab.compile("fixed", TWO, &[&link[..], &["-no-pie"]].concat());
    let low_stack = format!("ulimit -s unlimited; exec {pie}");
    if !host_can() {
        return;
    }
    let objects = packed(&files);
    for no_randomise in [false, true] {
        let options = PlacementOptions { no_randomise, ..VERIFY };
        for words in [&[&*pie][..], &[&fixed], &[&pie, "again"], &["sh", "-c", &low_stack]] {
            let run = placed(words, &objects, options).unwrap();
            assert_eq!(run.end, ProcessEnd::Exit(42), "{words:?}");
            assert_landed(run.images.last().unwrap(), &objects);
            assert_eq!(run.images.len(), if words.len() == 1 { 1 } else { 2 });
            assert!(run.images.iter().all(|image| image.slid_bytes == 0));
        }
    }
}

#[test]
fn without_randomisation_all_the_rest_is_the_same_each_time() {
    let lab = Lab::new();
    let files = two_libraries(&lab);
    let source = "int one(void), two(void);
        int main(int count, char **words) {
            FILE *out = fopen(words[1], \"w\");
            fprintf(out, \"%p %p %p\", &count, main, malloc(1));
            fclose(out);
            return one() + two() - 42;
        }";
    let source = format!("#include <stdio.h>\n#include <stdlib.h>\n{source}");
    let program = lab.compile("p", &source, &["-lone", "-ltwo"]);
    if !host_can() {
        return;
    }
    let objects = packed(&files);
    let addresses = || {
        let out = lab.path("out");
        let run =
            placed(&[&program, &out], &objects, PlacementOptions { no_randomise: true, ..VERIFY }).unwrap();
        assert_eq!(run.end, ProcessEnd::Exit(0));
        fs::read_to_string(out).unwrap()
    };
    assert_eq!(addresses(), addresses());
}

/// Threads that open a library at the same time, forked children, and a file mapped as data before and after.
#[test]
fn libraries_that_are_opened_later_land_too() {
    let lab = Lab::new();
    let files = vec![lab.library("late", 7, "int data[3000] = {1};", &[])];
    let objects = packed(&files);
    let source = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static char *file;
        static void *base;
        static void check(int holds) { if (!holds) _exit(1); }
        static void *map_as_data(void) {
            int fd = open(file, O_RDONLY);
            char *data = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
            check(data != MAP_FAILED && data != base && data[1] == 'E');
            close(fd);
            return data;
        }
        static void *use(void *unused) {
            void *library = dlopen(file, RTLD_NOW);
            check(library != 0);
            int (*late)(void) = dlsym(library, "late");
            Dl_info info;
            check(late() == 7 && dladdr(late, &info) && info.dli_fbase == base);
            check(((int *)dlsym(library, "data"))[0] == 1);
            return 0;
        }
        int main(int count, char **words) {
            file = words[1];
            base = (void *)strtoul(words[2], 0, 16);
            map_as_data();
            for (int round = 0; round < 3; round++) {
                pthread_t threads[8];
                for (int i = 0; i < 8; i++) check(pthread_create(&threads[i], 0, use, 0) == 0);
                for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
                map_as_data();
            }
            void *library = dlopen(file, RTLD_NOW);
            for (int i = 0; i < 25; i++) dlclose(library);
            check(dlopen(file, RTLD_NOW | RTLD_NOLOAD) == 0);
            use(0);
            for (int i = 0; i < 5; i++) if (fork() == 0) { dlclose(dlopen(file, RTLD_NOW)); use(0); _exit(9); }
            for (int status, i = 0; i < 5; i++) check(wait(&status) > 0 && WEXITSTATUS(status) == 9);
            return 5;
        }"#;
    let program = lab.compile("p", source, &[]);
    if !host_can() {
        return;
    }
    let base = format!("{:x}", objects[0].base);
    for options in [VERIFY, PlacementOptions::default()] {
        let run = placed(&[&program, &files[0], &base], &objects, options).unwrap();
        assert_eq!(run.end, ProcessEnd::Exit(5));
        let image = &run.images[0];
        assert_eq!(image.at_end.as_ref().unwrap()[0].state, State::Landed);
        assert_eq!(image.at_start, options.verify.then(Vec::new), "not loaded yet");
    }
}

/// With an address hint alone, Linux would not place libraries of 2 MiB and more next to each other.
#[test]
fn large_neighbours_do_not_drive_each_other_away() {
    let lab = Lab::new();
    let large = "const char data[3 << 20] = {1};";
    let files = vec![lab.library("one", 30, large, &[]), lab.library("two", 12, large, &[])];
    let program = lab.compile("p", TWO, &["-lone", "-ltwo"]);
    if host_can() {
        for files in [files.clone(), files.into_iter().rev().collect()] {
            let objects = packed(&files);
            assert_landed(&placed(&[&program], &objects, VERIFY).unwrap().images[0], &objects);
        }
    }
}

#[test]
fn python_gets_its_extensions_where_they_should_be() {
    let imports = "import ssl, sqlite3, ctypes, json, lzma, bz2, decimal\n";
    let show = format!("{imports}print(open('/proc/self/maps').read())");
    let output = Command::new("python3").args(["-c", &show]).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        return skip(Need::Programs, "no python3 with all these modules");
    };
    if !host_can() {
        return;
    }
    let files = mapped_libraries(&String::from_utf8_lossy(&output.stdout));
    assert!(files.len() > 10, "{files:?}");
    let objects = packed(&files);
    let work =
        format!("{imports}import hashlib\nassert hashlib.sha256(b'').hexdigest()[:4] == 'e3b0'\nexit(3)");
    let run = placed(&["python3", "-c", &work], &objects, VERIFY).unwrap();
    assert_eq!(run.end, ProcessEnd::Exit(3));
    let landings = run.images.last().unwrap().at_end.as_ref().unwrap();
    assert_eq!(landings.len(), objects.len());
    assert!(landings.iter().all(|landing| landing.state == State::Landed), "{landings:#x?}");
}

#[test]
fn programs_without_a_loader_are_refused() {
    let lab = Lab::new();
    let objects = packed(&two_libraries(&lab));
    let statically = lab.compile("s", "int main(void) { return 6; }", &["-static"]);
    let dynamic =
        lab.compile("d", "int system(); int main(int c, char **w) { return system(w[1]) >> 8; }", &[]);
    if !host_can() {
        return;
    }
    match placed(&[&statically], &objects, PlacementOptions::default()).unwrap_err() {
        LayoutError::Program { program, obstacle: Obstacle::Static } => assert_eq!(program, statically),
        other => panic!("{other}"),
    }
    // A child's obstacle is no reason to refuse.
    let child = placed(&[&dynamic, &statically], &objects, VERIFY).unwrap();
    assert_eq!(child.end, ProcessEnd::Exit(6));
    assert!(child.images.last().unwrap().obstacle.as_deref().unwrap().contains("static"));
}

#[test]
fn programs_of_32_bits_are_left_alone() {
    let lab = Lab::new();
    let objects = packed(&two_libraries(&lab));
    let source = "void _start(void) { __asm__(\"mov $1, %eax\\n mov $11, %ebx\\n int $0x80\"); }";
    let program =
        lab.compile("p", source, &["-m32", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"]);
    let runs = Command::new(&program).status().is_ok_and(|status| status.code() == Some(11));
    if !host_can() || !runs {
        return;
    }
    let refused = placed(&[&program], &objects, PlacementOptions::default()).unwrap_err();
    assert!(matches!(refused, LayoutError::Program { obstacle: Obstacle::Not64Bit, .. }), "{refused}");
    let run = placed(&["sh", "-c", &format!("{program}; exit $?")], &objects, VERIFY).unwrap();
    assert_eq!(run.end, ProcessEnd::Exit(11));
    assert!(run.images[1].obstacle.as_deref().unwrap().contains("64-bit"));
}

#[test]
fn a_plan_slides_where_the_program_itself_is_in_the_way() {
    let lab = Lab::new();
    let files = two_libraries(&lab);
    let source = "int one(void), two(void); void _exit(int);
        __attribute__((force_align_arg_pointer)) void _start(void) { _exit(one() + two()); }";
    let flags = ["-lone", "-ltwo", "-no-pie", "-fPIC", "-nostartfiles", "-Wl,-Ttext-segment=0x800000000"];
    let program = lab.compile("p", source, &flags);
    if host_can() {
        let objects = packed(&files);
        let run = placed(&[&program], &objects, VERIFY).unwrap();
        assert_eq!((run.end, run.images[0].slid_bytes), (ProcessEnd::Exit(42), SLIDE_BYTES));
        assert_landed(&run.images[0], &objects);
    }
}

#[test]
fn a_library_whose_place_is_taken_lies_elsewhere_and_the_reason_is_told() {
    let lab = Lab::new();
    let files = vec![lab.library("late", 7, "", &[])];
    let objects = packed(&files);
    let source = "
        #include <dlfcn.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        int main(int count, char **words) {
            mmap((void *)strtoul(words[2], 0, 16), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            return ((int (*)(void))dlsym(dlopen(words[1], RTLD_NOW), \"late\"))();
        }";
    let program = lab.compile("p", source, &[]);
    let aligned = lab.library("one", 1, "", &["-Wl,-z,max-page-size=0x200000"]);
    let other = lab.compile("q", "int one(void); int main(void) { return one(); }", &["-lone"]);
    if !host_can() {
        return;
    }
    let base = format!("{:x}", objects[0].base + objects[0].bytes - 4096);
    let run = placed(&[&program, &files[0], &base], &objects, VERIFY).unwrap();
    assert_eq!(run.end, ProcessEnd::Exit(7));
    let landing = &run.images[0].at_end.as_ref().unwrap()[0];
    assert_ne!(landing.actual, landing.planned);
    assert!(
        matches!(&landing.state, State::Elsewhere(why) if why.contains("taken by memory")),
        "{landing:?}"
    );
    // Loaders reserve room for such libraries before they map the file.
    let run = placed(&[&other], &packed(&[aligned]), VERIFY).unwrap();
    assert_eq!(run.end, ProcessEnd::Exit(1));
    let state = &run.images[0].at_end.as_ref().unwrap()[0].state;
    assert!(
        matches!(state, State::Elsewhere(why) if why.contains("2048 KiB")) || *state == State::Landed,
        "{state:?}"
    );
}

#[test]
fn ends_stops_and_signals_are_the_programs_own() {
    let lab = Lab::new();
    let objects = packed(&two_libraries(&lab));
    if !host_can() {
        return;
    }
    let end = |script: &str| placed(&["sh", "-c", script], &objects, VERIFY).unwrap().end;
    assert_eq!(end("exit 200"), ProcessEnd::Exit(200));
    assert_eq!(end("kill -TERM $$"), ProcessEnd::Signal(15));
    assert_eq!(end("kill -KILL $$"), ProcessEnd::Signal(9));
    assert_eq!(end("trap 'exit 4' USR1; kill -USR1 $$; exit 5"), ProcessEnd::Exit(4));
    assert_eq!(end("(sleep 0.2; kill -CONT $$) & kill -STOP $$; exit 6"), ProcessEnd::Exit(6));
    assert_eq!(end("seq 1000 | sort -n | tail -n 1 | grep -qx 1000"), ProcessEnd::Exit(0));
    let missing = placed(&["./no-such-program"], &objects, VERIFY).unwrap_err();
    assert!(matches!(missing, LayoutError::Launch(_)), "{missing}");
}

/// As natively: the run is over, and processes left behind go on.
#[test]
fn processes_that_outlive_the_first_run_on() {
    let lab = Lab::new();
    let objects = packed(&two_libraries(&lab));
    if !host_can() {
        return;
    }
    let (one, two) = (lab.path("one"), lab.path("two"));
    let script = format!(
        "(sleep 5; echo done > {one}) >/dev/null & (while [ ! -s {one} ]; do :; done; cat {one} > {two}) & exit 3"
    );
    let begun = std::time::Instant::now();
    assert_eq!(placed(&["sh", "-c", &script], &objects, VERIFY).unwrap().end, ProcessEnd::Exit(3));
    assert!(!fs::exists(&one).unwrap(), "it waited for them");
    while fs::read_to_string(&two).unwrap_or_default() != "done\n" {
        assert!(begun.elapsed().as_secs() < 60, "they did not run on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A debugger cannot attach while the program is traced, so it examines what outlived the run.
#[test]
fn debuggers_find_symbols_in_placed_libraries() {
    let lab = Lab::new();
    let files = two_libraries(&lab);
    let source = TWO.replace("return one", "sleep(20); return one");
    let program = lab.compile("p", &source, &["-lone", "-ltwo"]);
    if !host_can()
        || !Command::new("gdb").arg("--version").output().is_ok_and(|output| output.status.success())
    {
        return;
    }
    let number = lab.path("number");
    let objects = packed(&files);
    let script = format!("{program} & echo $! > {number}; sleep 0.5");
    assert_eq!(placed(&["sh", "-c", &script], &objects, VERIFY).unwrap().end, ProcessEnd::Exit(0));
    let pid = fs::read_to_string(number).unwrap();
    let ask = ["-batch", "-nx", "-p", pid.trim(), "-ex", "info address two", "-ex", "kill"];
    let output = Command::new("gdb").args(ask).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let hexadecimal = text.split_whitespace().filter_map(|word| word.strip_prefix("0x"));
    let found = hexadecimal.filter_map(|digits| u64::from_str_radix(digits, 16).ok());
    let two = objects[1].base..objects[1].base + objects[1].bytes;
    assert!(found.into_iter().any(|address| two.contains(&address)), "{text}");
}

/// What tools read of the process is unchanged, except the code before `mmap`.
#[test]
fn mappings_are_those_of_an_ordinary_process() {
    let lab = Lab::new();
    let files = two_libraries(&lab);
    let program = lab.compile(
        "p",
        &TWO.replace("return one", "abort_here(); return one"),
        &["-lone", "-ltwo", "-Dabort_here()=system(\"exec cat /proc/$PPID/maps >$MAPS\")"],
    );
    if !host_can() {
        return;
    }
    let maps = |placed_too: bool| {
        let out = lab.path("maps");
        let words = ["env", &format!("MAPS={out}"), &program].map(str::to_owned);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if placed_too {
            assert_eq!(placed(&words, &packed(&files), VERIFY).unwrap().end, ProcessEnd::Exit(42));
        } else {
            assert_eq!(Command::new(words[0]).args(&words[1..]).status().unwrap().code(), Some(42));
        }
        let text = fs::read_to_string(out).unwrap();
        let lines = text.lines().filter(|line| line.contains(".so") || line.contains("/p"));
        // Rights, offset, device, file and name.
        let mut rows: Vec<String> =
            lines.map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")).collect();
        rows.sort();
        rows
    };
    assert_eq!(maps(true), maps(false));
}
