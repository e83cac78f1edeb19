//! Real programs under the real engine, checked reference by reference against Valgrind's own Lackey.

mod native;

use native::{consumed, engine};
use pagewalk_capture::engine::Engine;
use pagewalk_capture::{HostDescription, LackeyWriter, RingSource, Session};
use pagewalk_trace::{Event, Item, MappingKind, Origin, Source, StreamHeader};
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Makes programs start, and lie in memory, as under Valgrind's own tools.
const OF_VALGRIND: (&str, &str) = ("PAGEWALK_IMAGE_OF_VALGRIND", "1");

/// What a consumer saw of one process image.
struct Seen {
    header: StreamHeader,
    events: Vec<Event>,
    refs: u64,
    instructions: u64,
    /// As Lackey would have written it; only on request.
    text: Vec<u8>,
}

impl Seen {
    fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(event)).count()
    }
}

fn consume(mut source: RingSource, keep_text: bool) -> Seen {
    let (mut events, mut refs, mut instructions) = (vec![], 0, 0);
    let mut writer = LackeyWriter::new(Vec::new());
    while let Some(item) = source.next_item().unwrap() {
        match item {
            Item::Batch(batch) => {
                assert_eq!((batch.first.0, batch.first_instruction), (refs, instructions));
                refs += batch.refs.len() as u64;
                instructions += batch.instructions();
                if keep_text {
                    writer.write_batch(&batch);
                }
            }
            Item::Event { event, .. } => events.push(event),
        }
    }
    let header = source.header().clone();
    Seen { header, events, refs, instructions, text: writer.finish().unwrap() }
}

/// Runs a program under the engine, with only Valgrind's environment; returns its images in order of start.
fn run(engine: &Engine, program: &Path, keep_text: bool) -> (ExitStatus, Vec<Seen>) {
    let session = Session::new("valgrind", HostDescription::detect()).unwrap();
    let log = session.directory().join("log");
    let socket = session.socket_path();
    let mut command = engine.command::<&OsStr>(Some(&socket), &log, &[], program.as_os_str(), &[]);
    command.env_clear().env("VALGRIND_LIB", engine.folder());
    // For comparison, it must run as under Valgrind's own tools.
    command.envs(keep_text.then_some(OF_VALGRIND));
    consumed(&session, command, |source| consume(source, keep_text))
}

/// Compiles a C program with these options.
fn compile(folder: &Path, name: &str, options: &[&str], source: &str) -> PathBuf {
    let (file, program) = (folder.join(name).with_extension("c"), folder.join(name));
    std::fs::write(&file, source).unwrap();
    let status =
        Command::new("gcc").args(["-O1", "-g0", "-o"]).arg(&program).arg(&file).args(options).status();
    assert!(status.unwrap().success());
    program
}

/// Lackey's text for the same program in the same environment.
fn lackey(engine: &Engine, folder: &Path, program: &Path) -> String {
    let log = folder.join("lackey");
    let status = Command::new(engine.launcher())
        .env_clear()
        .env("VALGRIND_LIB", engine.folder())
        .envs([OF_VALGRIND])
        .args(["--command-line-only=yes", "--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", log.display()))
        .arg("--")
        .arg(program)
        .output();
    status.unwrap();
    let text = std::fs::read_to_string(log).unwrap();
    text.split_inclusive('\n').filter(|line| !line.starts_with("==")).collect()
}

/// Compares the whole stream of a program with Lackey's text.
fn assert_equals_lackey(name: &str, options: &[&str], source: &str, least_lines: usize) {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine();
    let program = compile(folder.path(), name, options, source);
    let expected = lackey(&engine, folder.path(), &program);
    let (_, seen) = run(&engine, &program, true);
    let [seen] = &seen[..] else { panic!("{} streams", seen.len()) };
    let text = str::from_utf8(&seen.text).unwrap();
    let mut lines = text.lines().zip(expected.lines()).enumerate();
    if let Some((line, (ours, theirs))) = lines.find(|(_, (ours, theirs))| ours != theirs) {
        panic!("line {line}: we say `{ours}`, Lackey says `{theirs}`");
    }
    assert_eq!(text.lines().count(), expected.lines().count());
    let instructions = expected.lines().filter(|line| line.starts_with('I')).count();
    assert_eq!(seen.instructions, instructions as u64);
    assert_eq!(seen.refs, (expected.lines().count() - instructions) as u64);
    assert!(instructions + seen.refs as usize > least_lines, "{instructions} instructions");
}

/// Every way in which compilers and C libraries refer to memory, without a library.
#[test]
fn instructions_of_many_kinds_equal_lackeys() {
    let source = r#"
        typedef float v4 __attribute__((vector_size(16)));
        static unsigned char from[4096] __attribute__((aligned(64))), to[4096];
        static long table[512], counter;
        static v4 vectors[64];
        static long double wide = 1.5L;

        static void copy(void* a, const void* b, long n) {
            __asm__ volatile("rep movsb" : "+D"(a), "+S"(b), "+c"(n) : : "memory");
        }
        static void fill(void* a, long n) {
            __asm__ volatile("rep stosq" : "+D"(a), "+c"(n) : "a"(7L) : "memory");
        }
        static long scan(const void* a, long n) {
            __asm__ volatile("repne scasb" : "+D"(a), "+c"(n) : "a"(9L) : "memory", "cc");
            return n;
        }
        static int compare(const void* a, const void* b, long n) {
            int equal;
            __asm__ volatile("repe cmpsb; sete %b0" : "=q"(equal), "+D"(a), "+S"(b), "+c"(n) : : "memory", "cc");
            return equal & 1;
        }
        __attribute__((noinline)) static long tree(long depth) {
            volatile long local = depth;
            return depth == 0 ? 1 : tree(depth - 1) + tree(local - 1);
        }
        void _start(void) {
            for (long i = 0; i < 512; i++) table[i] = (i * 7919) & 511;
            for (long i = 0, at = 0; i < 3000; i++) { at = table[at ^ (i & 511)]; counter += at & 1 ? table[at] : at; }
            fill(from, 200); copy(to, from, 700); copy(to, from, 0);
            counter += scan(to, 300) + compare(from, to, 900);
            for (int i = 0; i < 63; i++) vectors[i + 1] = vectors[i] + vectors[63 - i];
            for (int i = 0; i < 20; i++) {
                __atomic_fetch_add(&counter, i, __ATOMIC_SEQ_CST);
                long seen = i;
                __atomic_compare_exchange_n(&table[i], &seen, 5, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
                __atomic_exchange_n(&table[i + 1], seen, __ATOMIC_SEQ_CST);
                wide = wide * 1.25L + i;
                __asm__ volatile("incl %0; addb $1, %0; negw %0" : "+m"(table[i]));
                __asm__ volatile("bts %1, %0" : "+m"(table[3]) : "r"(70L + i) : "memory", "cc");
                __asm__ volatile("cmovs %1, %0" : "+r"(seen) : "m"(table[9]));
                __asm__ volatile("movdqu 1(%0), %%xmm1; movups %%xmm1, 61(%0); movntdq %%xmm1, (%0)"
                                 : : "r"(from) : "xmm1", "memory");
                __asm__ volatile("pushfq; popfq; fnstcw 8(%0); fldcw 8(%0); stmxcsr (%0); ldmxcsr (%0)"
                                 : : "r"(to) : "memory", "cc");
            }
            __asm__ volatile("fxsave (%0); fnstenv (%1); fldenv (%1)" : : "r"(from), "r"(to + 8) : "memory");
            __asm__ volatile("lock cmpxchg16b (%0)" : : "r"(vectors) : "rax", "rdx", "memory", "cc");
            counter += tree(8);
            __asm__ volatile("syscall" : : "a"(231L), "D"(counter & 63) : "rcx", "r11", "memory");
        }
    "#;
    let options = ["-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-pie", "-no-pie"];
    assert_equals_lackey("kinds", &options, source, 50_000);
}

/// A static program with its C library: start-up code, allocation, sorting, formatting.
#[test]
fn a_program_of_the_c_library_equals_lackeys() {
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static int by_value(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
        int main(void) {
            int* numbers = malloc(3000 * sizeof *numbers);
            for (int i = 0; i < 3000; i++) numbers[i] = i * 7919 % 3001;
            qsort(numbers, 3000, sizeof *numbers, by_value);
            char text[64];
            long sum = 0;
            for (int i = 0; i < 100; i++) {
                snprintf(text, sizeof text, "%d %g", numbers[i], i / 3.0);
                sum += strlen(text);
            }
            char* big = calloc(1, 1 << 20);
            memset(big, 3, 100000); memmove(big + 50, big, 70000);
            free(big); free(numbers);
            return sum & 63;
        }
    "#;
    assert_equals_lackey("library", &["-static"], source, 300_000);
}

#[test]
fn a_dynamic_program_tells_its_mappings() {
    let (status, seen) = run(&engine(), Path::new("/bin/true"), false);
    assert!(status.success());
    let [seen] = &seen[..] else { panic!("{} streams", seen.len()) };
    let resolved = std::fs::canonicalize("/bin/true").unwrap();
    assert_eq!((seen.header.origin, Path::new(&seen.header.program)), (Origin::Start, &*resolved));
    assert!(seen.instructions > 10_000 && seen.refs > 2_000, "{} {}", seen.instructions, seen.refs);
    assert_eq!(seen.events.last(), Some(&Event::Exit { status: 0 }));
    let maps = || {
        seen.events.iter().filter_map(|event| match event {
            Event::Map(map) => Some(map),
            _ => None,
        })
    };
    let libc = maps().filter_map(|map| map.file.as_ref()).find(|file| file.path.contains("libc.so")).unwrap();
    assert!(libc.build_id.is_some());
    assert_eq!(maps().filter(|map| map.kind == MappingKind::Stack).count(), 1);
}

#[test]
fn threads_forks_and_execs_are_told_and_followed() {
    let source = r#"
        #include <pthread.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static long sums[2];
        static void* work(void* at) { for (int i = 0; i < 300000; i++) *(volatile long*)at += i; return at; }
        int main(void) {
            pthread_t threads[2];
            for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, &sums[i]);
            for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
            if (fork() == 0) {
                char* arguments[] = { "true", "and an argument", 0 };
                execv("/no/such/program", arguments);
                execv("/bin/true", arguments);
            }
            int status;
            wait(&status);
            return WEXITSTATUS(status) + 5;
        }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "processes", &["-pthread"], source);
    let (status, seen) = run(&engine(), &program, false);
    assert_eq!(status.code(), Some(5));
    let [parent, child, image] = &seen[..] else { panic!("{} streams", seen.len()) };
    let origins = [parent, child, image].map(|one| one.header.origin);
    assert_eq!(origins, [Origin::Start, Origin::Fork, Origin::Exec]);
    assert_eq!(child.header.parent, parent.header.pid);
    assert_eq!(child.header.pid, image.header.pid);
    assert_eq!(image.header.arguments.last().map(String::as_str), Some("and an argument"));
    assert_eq!(parent.count(|event| matches!(event, Event::ThreadStart { parent: 1, .. })), 2);
    assert_eq!(parent.count(|event| matches!(event, Event::ThreadEnd { .. })), 3);
    assert!(parent.count(|event| matches!(event, Event::Switch { .. })) >= 4);
    assert_eq!(parent.count(|event| *event == Event::Fork { child: child.header.pid }), 1);
    assert_eq!(parent.events.last(), Some(&Event::Exit { status: 5 }));
    assert!(parent.refs > 1_200_000, "{}", parent.refs);
    // The failed exec is followed by its result; the successful one is the last event.
    assert_eq!(child.count(|event| matches!(event, Event::Exec { .. })), 2);
    assert_eq!(child.events.last(), Some(&Event::Exec { path: "/bin/true".into() }));
}

/// What the kernel keeps over a fork is reported again, and a thread's exit status is not the program's.
#[test]
fn a_fork_keeps_advice_and_no_end_of_a_thread() {
    let source = r#"
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void* work(void* at) { return at; }
        int main(void) {
            char* memory = mmap((void*)0x10000000000, 8 << 20, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            madvise(memory, 4 << 20, MADV_HUGEPAGE);
            madvise(memory + (6 << 20), 2 << 20, MADV_NOHUGEPAGE);
            madvise(memory + (2 << 20), 1 << 20, MADV_SEQUENTIAL);
            pthread_t thread;
            pthread_create(&thread, 0, work, 0);
            pthread_join(thread, 0);
            if (fork() == 0) abort();
            wait(0);
            abort();
        }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "advice", &["-pthread"], source);
    let (status, seen) = run(&engine(), &program, false);
    assert_eq!(status.signal(), Some(6));
    let [parent, child] = &seen[..] else { panic!("{} streams", seen.len()) };
    for one in [parent, child] {
        assert_eq!(one.events.last(), Some(&Event::Exit { status: -1 }));
    }
    let advised: Vec<(u64, u64, i32)> = child
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Advise { start, bytes, advice } if start.0 >> 40 == 1 => Some((start.0, *bytes, *advice)),
            _ => None,
        })
        .collect();
    // The kernel divides mappings where the advice changes.
    let all = |advice: i32| -> u64 { advised.iter().filter(|of| of.2 == advice).map(|of| of.1).sum() };
    assert_eq!((all(14), all(15)), (4 << 20, 2 << 20), "{advised:x?}");
    assert_eq!((advised[0].0, advised.last().unwrap().0), (0x100_0000_0000, 0x100_0000_0000 + (6 << 20)));
}

/// A process on another stack may have unmapped its first one, whose segment is then missing.
#[test]
fn a_fork_without_the_first_stack_is_told() {
    let source = r#"
        #define _GNU_SOURCE
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/wait.h>
        #include <ucontext.h>
        #include <unistd.h>
        static unsigned long on_first;
        static void work(void) {
            unsigned long start = 0, end = 0;
            char line[512];
            FILE* maps = fopen("/proc/self/maps", "r");
            while (fgets(line, sizeof line, maps))
                if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= on_first && on_first < end) break;
            fclose(maps);
            if (munmap((void*)start, end - start) != 0) _exit(1);
            if (fork() == 0) _exit(7);
            int status = 0;
            wait(&status);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
        }
        int main(void) {
            static ucontext_t there, back;
            static char stack[256 << 10];
            on_first = (unsigned long)&(int){0};
            getcontext(&there);
            there.uc_stack.ss_sp = stack;
            there.uc_stack.ss_size = sizeof stack;
            makecontext(&there, work, 0);
            swapcontext(&back, &there);
            return 3;
        }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "nostack", &[], source);
    let (status, seen) = run(&engine(), &program, false);
    assert_eq!(status.code(), Some(7));
    let [_, child] = &seen[..] else { panic!("{} streams", seen.len()) };
    assert_eq!(child.events.last(), Some(&Event::Exit { status: 7 }));
    assert_eq!(child.count(|event| matches!(event, Event::Map(map) if map.kind == MappingKind::Stack)), 0);
}
