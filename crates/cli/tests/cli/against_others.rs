//! Compares the command's numbers with those of Valgrind's own tools.

use crate::harness::{Place, engine, metric};
use std::process::Command;

/// Programs that behave the same each time, whatever their environment.
pub const PROGRAMS: [(&str, &str); 2] = [
    (
        "sorting",
        r#"
        #include <stdio.h>
        #include <stdlib.h>
        static int by_value(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
        int main(void) {
            int* numbers = malloc(5000 * sizeof *numbers);
            for (int i = 0; i < 5000; i++) numbers[i] = i * 7919 % 5003;
            qsort(numbers, 5000, sizeof *numbers, by_value);
            for (int i = 0; i < 50; i++) printf("%d %.3f\n", numbers[i], numbers[i] / 7.0);
            return numbers[4999] & 63;
        }
    "#,
    ),
    (
        "strings",
        r#"
        #include <stdlib.h>
        #include <string.h>
        int main(void) {
            char* from = malloc(200000);
            char* to = malloc(200000);
            memset(from, 'x', 199999);
            from[199999] = 0;
            long sum = 0;
            for (int i = 0; i < 20; i++) {
                strcpy(to + i, from + 2 * i);
                sum += strlen(to) + (strchr(to, 'y') != 0) + memcmp(to, from, 100000);
                memmove(to + 100, to, 90000);
                from[199000 - i] = 'y';
            }
            __asm__ volatile("rep movsb" : : "D"(to), "S"(from), "c"(5000) : "memory");
            __atomic_fetch_add((long*)to, 3, __ATOMIC_SEQ_CST);
            return sum & 63;
        }
    "#,
    ),
];

/// What a tool of Valgrind's prints to stderr about `program`.
pub fn valgrind(place: &Place, program: &str, options: &[&str]) -> String {
    let engine = engine();
    // As under the engine, this variable is the last.
    let mut command = Command::new("/usr/bin/env");
    command.arg(format!("VALGRIND_LIB={}", engine.folder().display())).arg(engine.launcher());
    command.arg("--command-line-only=yes").arg("--vgdb=no").args(options).arg("--").arg(program);
    place.settle(&mut command);
    String::from_utf8(command.output().expect("Valgrind starts").stderr).expect("Valgrind prints plain text")
}

/// The first number after `name`, as in `I   refs:      1,234`.
pub fn printed(text: &str, name: &str) -> u64 {
    let rest = text.split_once(name).unwrap_or_else(|| panic!("no {name} in {text}")).1;
    let number: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    number.replace(',', "").parse().unwrap_or_else(|_| panic!("no number after {name} in {text}"))
}

#[test]
fn instructions_and_data_references_equal_cachegrinds_and_lackeys() {
    let place = Place::of_valgrind();
    for (name, source) in PROGRAMS {
        let program = place.compile(name, source);
        place.run(&["profile", "-q", "-o", "result.json", "--", &program]);
        let result = place.json("result.json");
        let ours = [metric(&result, "instructions"), metric(&result, "references_data")];
        assert!(ours[0] > 100_000 && ours[1] > 20_000, "{ours:?}");
        assert_eq!(metric(&result, "references"), ours[0] + ours[1]);
        assert_eq!(metric(&result, "references_fetch"), ours[0]);

        let out = "--cachegrind-out-file=/dev/null";
        let text = valgrind(&place, &program, &["--tool=cachegrind", "--cache-sim=yes", out]);
        assert_eq!([printed(&text, "I   refs:"), printed(&text, "D   refs:")], ours, "{name}: {text}");

        let text = valgrind(&place, &program, &["--tool=lackey", "--trace-mem=yes", "--log-fd=2"]);
        let lines = |starts: &[&str]| {
            text.lines().filter(|line| starts.iter().any(|start| line.starts_with(start))).count() as u64
        };
        assert_eq!([lines(&["I  "]), lines(&[" L ", " S ", " M "])], ours, "{name}");
    }
}

/// Lackey's text through `trace import` counts as the program itself did.
#[test]
fn an_imported_lackey_trace_counts_as_the_program_did() {
    let place = Place::of_valgrind();
    let program = place.compile("sorting", PROGRAMS[0].1);
    valgrind(&place, &program, &["--tool=lackey", "--trace-mem=yes", "--log-file=lackey.txt"]);
    place.good(&["trace", "import", "--format", "lackey", "-o", "imported.pwt", "lackey.txt"]);
    place.run(&["record", "-o", "recorded.pwt", "--", &program]);
    // Lackey reports no mappings, so pages are 4 KiB, and no mapping change removes entries from TLBs.
    let simulate = |trace: &str| place.good(&["simulate", "--json", "--thp", "never", trace]).json();
    let (imported, recorded) = (simulate("imported.pwt"), simulate("recorded.pwt"));
    for name in ["instructions", "references", "references_data", "pages_touched", "tlb.l1i.lookups"] {
        assert_eq!(metric(&imported, name), metric(&recorded, name), "{name}");
    }
    assert!(metric(&imported, "walks") >= metric(&imported, "pages_touched"));
    assert!(metric(&imported, "walks") <= metric(&recorded, "walks"));
    // And exported again: the same lines.
    place.good(&["trace", "export", "--format", "lackey", "-o", "again.txt", "recorded.pwt"]);
    let theirs = String::from_utf8(place.read("lackey.txt")).unwrap();
    let theirs: String = theirs.split_inclusive('\n').filter(|line| !line.starts_with("==")).collect();
    assert!(theirs.as_bytes() == place.read("again.txt"), "the exported text differs");
}
