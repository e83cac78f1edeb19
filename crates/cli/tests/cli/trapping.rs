//! `pagewalk trap`: misses by page faults, compared with the Valgrind engine's references; refusals; output.

use crate::classes::all_are_told;
use crate::harness::{Outcome, PAGEWALK, Place, USAGE};
use pagewalk_skip::{Need, skip};
use serde_json::Value;
use std::collections::VecDeque;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Whether this host permits serving faults. If not, the refusal is tested.
fn host_can(place: &Place) -> bool {
    let faults = place.good(&["doctor", "--json"]).finding("for_commands", "trap");
    if faults["able"] == true {
        return true;
    }
    let enable = faults["enable"].as_str().expect("says what would help");
    place.run(&["trap", "--", "true"]).refuses(4, &[enable]);
    skip(Need::Trap, format_args!("{}; to enable: {enable}", faults["found"]));
    false
}

/// Runs a program under faults, with every decision checked.
fn trapped(place: &Place, options: &[&str], program: &[&str]) -> Value {
    let fixed = ["trap", "--check", "--json", "-q"];
    let outcome = place.good(&[&fixed[..], options, &["--"], program].concat());
    serde_json::from_str(outcome.stdout.lines().skip_while(|line| *line != "{").collect::<String>().as_str())
        .unwrap_or_else(|error| panic!("{error} in {}", outcome.stdout))
}

/// A simple fully associative FIFO array of pages, with the memory that it sees.
#[derive(Default)]
struct Fifo {
    pages: VecDeque<u64>,
    entries: usize,
    misses: u64,
    /// Private writable memory, as starts and ends.
    private: Vec<(u64, u64)>,
}

impl Fifo {
    fn touch(&mut self, page: u64) {
        let address = page << 12;
        let seen = self.private.iter().any(|&(start, end)| (start..end).contains(&address));
        if !seen || self.pages.contains(&page) {
            return;
        }
        self.misses += 1;
        if self.pages.len() == self.entries {
            self.pages.pop_front();
        }
        self.pages.push_back(page);
    }

    fn drop_pages(&mut self, start: u64, end: u64) {
        self.pages.retain(|page| !(start..end).contains(&(page << 12)));
    }

    fn follow(&mut self, event: &Value) {
        const DONTNEED: u64 = 4;
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let range = |what: &Value| (number(&what["start"]), number(&what["start"]) + number(&what["bytes"]));
        let (old, new) = (number(&event["break"]["old_end"]), number(&event["break"]["new_end"]));
        if event["map"]["protection"]["write"] == true {
            self.private.push(range(&event["map"]));
        } else if new > old {
            self.private.push((old, new));
        } else if new < old {
            self.drop_pages(new, old);
        } else if event["unmap"].is_object() || event["advise"]["advice"] == DONTNEED {
            let what = if event["unmap"].is_object() { &event["unmap"] } else { &event["advise"] };
            let (start, end) = range(what);
            self.drop_pages(start, end);
        }
    }
}

/// Misses of data references to private writable memory, from the Valgrind engine's recording.
fn recorded_misses(place: &Place, program: &str, entries: usize) -> u64 {
    place.good(&["record", "-q", "-o", "t.pwt", "--", program]);
    let dump = place.good(&["trace", "dump", "t.pwt"]).stdout;
    let mut fifo = Fifo { entries, ..Fifo::default() };
    for line in dump.lines() {
        if let Some(event) = line.strip_prefix("# ") {
            fifo.follow(&serde_json::from_str(event).expect("events are JSON"));
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let ["load" | "store" | "modify", address, bytes] = words[1..] else { continue };
        let address = u64::from_str_radix(address, 16).expect("hexadecimal");
        let last = address + bytes.parse::<u64>().expect("a number") - 1;
        (address >> 12..=last >> 12).for_each(|page| fifo.touch(page));
    }
    fifo.misses
}

/// No library, no initial stack, no constants: every data reference is to taken-over memory, and none is a system
/// call's. Heap, mappings, a deep stack and moved memory; strides, random visits and recursion.
const FREESTANDING: &str = r#"
typedef unsigned long u64;
char stack[1 << 20] __attribute__((aligned(4096)));
static u64 table[1 << 17] __attribute__((aligned(4096)));
static u64 call(u64 n, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
    register u64 r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    u64 result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
static u64 state = 1;
static u64 draw(u64 below) { state = state * 6364136223846793005ul + 1; return (state >> 33) % below; }
static __attribute__((noinline)) u64 deep(u64 n) {
    volatile u64 frame[64];
    frame[n % 64] = n;
    return n ? deep(n - 1) + frame[n % 64] : 0;
}
static void visit(volatile u64 *at, u64 words, u64 times) {
    for (u64 i = 0; i < times; i++) at[draw(words)]++;
}
__attribute__((noinline, used)) void work(void) {
    for (int round = 0; round < 3; round++) {
        for (u64 i = 0; i < 1 << 17; i += 512) table[i] += i;
        visit(table, 1 << 17, 3000);
        deep(1500);
    }
    u64 heap = call(12, 0, 0, 0, 0, 0, 0);
    call(12, heap + (200 << 12), 0, 0, 0, 0, 0);
    heap = (heap + 4095) & -4096ul;
    visit((u64 *)heap, 190 << 9, 3000);
    u64 map = call(9, 0, 300 << 12, 3, 0x22, -1, 0);
    visit((u64 *)map, 300 << 9, 3000);
    call(11, map + (100 << 12), 50 << 12, 0, 0, 0, 0);
    visit((u64 *)map, 100 << 9, 1000);
    call(28, map, 100 << 12, 4, 0, 0, 0);
    visit((u64 *)map, 100 << 9, 1000);
    call(60, *(u64 *)map == 0 && 0, 0, 0, 0, 0, 0);
}
__attribute__((naked)) void _start(void) {
    __asm__("lea stack+1048576(%rip), %rsp\n call work\n hlt");
}
"#;

fn freestanding(place: &Place) -> String {
    let source = place.write("free.c", FREESTANDING);
    let output = Command::new("gcc")
        .args(["-O1", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-jump-tables"])
        .args(["-mgeneral-regs-only", "-w", "-o"])
        .args([place.path("free"), source])
        .output()
        .expect("gcc is here");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    "./free".to_owned()
}

#[test]
fn a_program_by_itself_misses_exactly_as_the_engine_says() {
    let place = Place::new();
    let program = freestanding(&place);
    if !host_can(&place) {
        return;
    }
    for entries in [16, 64] {
        let number = entries.to_string();
        let result = trapped(&place, &["--entries", &number, "--replacement", "fifo"], &[&program]);
        let expected = recorded_misses(&place, &program, entries);
        assert!(expected > 5_000, "{expected}");
        assert_eq!(result["misses"].as_u64(), Some(expected), "{entries} entries");
    }
}

/// With a library: only one side sees the loader's work and system calls, and the string functions are chosen for
/// different processors.
#[test]
fn a_program_with_a_library_misses_nearly_so_often() {
    let place = Place::new();
    let source = r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static int order(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
        static __attribute__((noinline)) int work(void) {
            enum { LINES = 6000 };
            char **lines = malloc(LINES * sizeof *lines);
            unsigned state = 1;
            for (int i = 0; i < LINES; i++) {
                lines[i] = malloc(60);
                sprintf(lines[i], "%010u and what follows it", state = state * 1664525u + 1013904223u);
            }
            qsort(lines, LINES, sizeof *lines, order);
            return strcmp(lines[0], lines[LINES - 1]) < 0 ? 0 : 1;
        }
        int main(void) {
            /* From the same place in a page, whatever lies above on the stack. */
            volatile char *above = __builtin_alloca((size_t)__builtin_frame_address(0) % 4096 + 1);
            above[0] = 0;
            return work();
        }"#;
    let program = place.compile("lines", source);
    if !host_can(&place) {
        return;
    }
    let result = trapped(&place, &["--entries", "32", "--replacement", "fifo"], &[&program]);
    let live = result["misses"].as_u64().expect("a count") as f64;
    let recorded = recorded_misses(&place, &program, 32) as f64;
    assert!(recorded > 5_000.0, "{recorded}");
    assert!((live / recorded - 1.0).abs() < 0.02, "{live} live, {recorded} recorded");
}

#[test]
fn output_and_exit_code_are_the_programs() {
    let place = Place::new();
    if !host_can(&place) {
        return;
    }
    let words = ["--", "sh", "-c", "echo out; echo complaint >&2; exit 3"];
    let outcome = place.run(&[&["trap", "--native", "-o", "r.json"], &words[..]].concat());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (3, "out\n"));
    assert!(outcome.stderr.starts_with("complaint\nmips_r2000, tlb: 56 entries"), "{}", outcome.stderr);
    let result = place.json("r.json");
    assert_eq!(result["schema"], "pagewalk.trap/1");
    assert_eq!(result["end"]["exit"], 3);
    all_are_told(&result, &["array"]);
    // The machine's own seed, as its file has it.
    assert!(outcome.stderr.contains(" (seed 2000); "), "{}", outcome.stderr);
    assert_eq!(result["array"]["seed"], 2000);
    assert!(result["slowdown"].as_f64().unwrap() > 0.0);
    assert!(result["images"][0]["misses"].as_u64().unwrap() > 10);
    assert_eq!(result["images"][0]["not_followed"], Value::Null);
    let outcome = place.run(&["trap", "-q", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(outcome.code, 128 + 9);
    // The counted run reads again what was read from a file.
    place.write("input", "read twice\n");
    let mut command = place.command(&["trap", "--native", "--", "cat"]);
    command.stdin(std::fs::File::open(place.path("input")).unwrap());
    assert_eq!(Outcome::of(command.output().unwrap()).stdout, "read twice\n");
}

/// Each process takes three of pagewalk's files. The program's own limit is the user's.
#[test]
fn many_processes_are_followed_whatever_the_limit_on_open_files() {
    let place = Place::new();
    if !host_can(&place) {
        return;
    }
    let sleepers = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.5 & done; wait; ulimit -Sn";
    let line = format!("ulimit -Sn 32 && exec {PAGEWALK} trap -q -o r.json -- sh -c '{sleepers}'");
    let mut command = Command::new("sh");
    place.settle(command.args(["-c", &line]));
    let outcome = Outcome::of(command.output().expect("sh is here"));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "32\n"), "{}", outcome.stderr);
    let result = place.json("r.json");
    let images = result["images"].as_array().unwrap();
    assert_eq!(images.len(), 1 + 12 + 12);
    assert!(images.iter().all(|image| image["not_followed"].is_null()), "{result:#}");
}

#[test]
fn machines_that_look_at_hits_are_refused_with_the_choices() {
    let place = Place::with_witness();
    for (machine, why) in [("romer_1998", "replaces by lru"), ("golden_cove", "both loads and stores")] {
        let parts = [why, "mips_r2000", "--replacement"];
        place.run(&["trap", "-m", machine, "--", "./witness"]).refuses(USAGE, &parts);
    }
    place.run(&["trap", "--entries", "60", "--ways", "8", "--", "./witness"]).refuses(USAGE, &["60 entries"]);
    place
        .run(&["trap", "--ways", "1", "--entries", "64", "--", "./witness"])
        .refuses(USAGE, &["fault for ever"]);
    place
        .run(&["trap", "--replacement", "fifo", "--seed", "7", "--", "./witness"])
        .refuses(USAGE, &["--seed 7", "--replacement random"]);
    place.run(&["trap", "-m", "none", "--", "./witness"]).refuses(USAGE, &["`none`"]);
    place.run(&["trap", "--", "no-such-program"]).refuses(USAGE, &["not found in PATH"]);
    assert!(!place.has("ran"));
}

/// As a user whom the kernel does not permit to serve faults.
#[test]
fn who_may_not_is_told_what_would_allow_it() {
    const NOBODY: u32 = 65534;
    let place = Place::with_witness();
    let open_to_all = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
    if open_to_all.is_ok_and(|setting| setting.trim() == "1") {
        return skip(Need::Refusals, "vm.unprivileged_userfaultfd is 1 here: everybody may");
    }
    let mut command = place.command(&["trap", "--", "true"]);
    match command.uid(NOBODY).gid(NOBODY).current_dir("/").output() {
        Ok(output) => Outcome::of(output).refuses(
            4,
            &["vm.unprivileged_userfaultfd=1", "/dev/userfaultfd", "CAP_SYS_PTRACE", "pagewalk doctor"],
        ),
        Err(error) => skip(Need::Refusals, format_args!("nothing can be run as nobody: {error}")),
    }
}
