//! Names of functions, whatever becomes of their code and of its file.

use crate::harness::{Place, text};
use std::process::Command;

const MOVED: &str = include_str!("../programs/moved.c");
/// A program that walks in a function without a name, after a routine without a size.
const HIDDEN: [(&str, &str); 3] = [
    ("1.s", include_str!("../../../symbols/tests/objects/programs/label.s")),
    ("2.c", include_str!("../../../symbols/tests/objects/programs/hidden.c")),
    ("3.s", include_str!("../../../symbols/tests/objects/programs/label_end.s")),
];

fn tool(place: &Place, name: &str, arguments: &[&str]) {
    let output = Command::new(name).args(arguments).current_dir(place.path(".")).output().expect(name);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The function that walks most, and its object.
fn costliest(place: &Place, arguments: &[&str]) -> (String, String) {
    place.good(&[&["profile", "-o", "r.json", "--"], arguments].concat());
    let result = place.json("r.json");
    let row = &result["processes"][0]["attribution"]["functions"][0];
    let field = |name: &str| row[name].as_str().expect("a name").to_owned();
    (field("name"), field("object"))
}

#[test]
fn code_that_a_program_moves_keeps_its_names() {
    let (place, program) = Place::with_program("moved", MOVED);
    for way in ["in_place", "shared", "memfd", "mremap"] {
        let (name, object) = costliest(&place, &[&program, way]);
        assert_eq!(name, "chase", "{way}");
        assert!(object.ends_with("/moved"), "{way}: {object}");
    }
    let (name, object) = costliest(&place, &[&program, "other"]);
    assert!(name.starts_with("(no symbol, page 0x"), "it is not the file's code any more: {name}");
    assert!(object.ends_with("/moved [moved code]"), "{object}");
}

#[test]
fn functions_without_names_have_none_and_the_report_says_why() {
    let place = Place::new();
    for (name, source) in HIDDEN {
        place.write(name, source);
    }
    tool(&place, "gcc", &["-O1", "-o", "hidden", "1.s", "2.c", "3.s"]);
    tool(&place, "strip", &["-K", "old_label", "-K", "last_label", "-o", "kept", "hidden"]);
    tool(&place, "strip", &["-o", "stripped", "hidden"]);
    let path = |name: &str| text(&place.path(name)).to_owned();
    let (name, object) = costliest(&place, &["./kept"]);
    assert!(name.starts_with("kept (no symbol)+0x1"), "{name}");
    assert_eq!(object, path("kept"));
    let (name, _) = costliest(&place, &["./stripped"]);
    assert!(name.starts_with("stripped (stripped)+0x1"), "{name}");
    let printed = place.good(&["profile", "--", "./stripped"]).stderr;
    assert!(printed.contains("stripped: no names of functions are in that file"), "{printed}");
}

/// Requests memory in three ways: at once, by pieces of the heap, and from the kernel.
const MAKERS: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    enum { BYTES = 24 << 20, PIECE = 4000 };
    __attribute__((noinline)) static char* index_of(long bytes) {
        char* all = calloc(bytes, 1);
        return all;
    }
    struct piece { struct piece* next; char rest[PIECE]; };
    __attribute__((noinline)) static struct piece* collect(long bytes) {
        struct piece* last = 0;
        for (long i = 0; i < bytes; i += PIECE) {
            struct piece* one = malloc(sizeof *one);
            one->next = last;
            last = one;
        }
        return last;
    }
    __attribute__((noinline)) static char* arena(long bytes) {
        char* all = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        return all == MAP_FAILED ? exit(1), all : all;
    }
    int main(void) {
        volatile char* index = index_of(BYTES);
        struct piece* pieces = collect(BYTES);
        volatile char* pages = arena(BYTES + 4096);
        long sum = 0;
        for (long i = 0; i < BYTES; i += 4096) sum += index[i] += 1, pages[i] = 1;
        for (struct piece* one = pieces; one; one = one->next) sum++;
        printf("%ld\n", sum);
        return 0;
    }
"#;

#[test]
fn memory_is_named_by_who_asked_for_it() {
    let place = Place::new();
    place.write("makers.c", MAKERS);
    for kind in ["-static", "-pie"] {
        tool(&place, "gcc", &["-O1", "-g", kind, "-o", "makers", "makers.c"]);
        let outcome =
            place.good(&["profile", "-m", "k8", "--thp", "never", "-o", "r.json", "--", "./makers"]);
        let result = place.json("r.json");
        let rows = result["processes"][0]["attribution"]["mappings"].as_array().expect("mappings");
        let of = |is_meant: &dyn Fn(&serde_json::Value) -> bool| {
            let row = rows.iter().find(|row| is_meant(row)).expect("a mapping");
            row["made_by"].as_str().unwrap_or_else(|| panic!("{kind}: {row}")).to_owned()
        };
        let is_large = |row: &serde_json::Value| row["bytes"].as_u64() >= Some(24 << 20);
        let index = of(&|row| row["kind"] == "anonymous" && is_large(row));
        assert_eq!(index, "index_of (makers.c:7)", "{kind}");
        assert_eq!(of(&|row| row["kind"] == "shared_anonymous"), "arena (makers.c:21)", "{kind}");
        let heap = of(&|row| row["kind"] == "heap");
        assert_eq!(heap, "collect (makers.c:14)", "{kind}");
        assert!(outcome.stderr.contains(" by collect (makers.c:14)"), "{kind}: {}", outcome.stderr);
        let files = rows.iter().filter(|row| row["kind"] == "file");
        assert!(files.into_iter().all(|row| row["made_by"].is_null()), "{kind}: a file has a name");
    }
}

/// A map of JIT code that is newer than a trace is another process's, whatever the other traces are.
#[test]
fn newer_maps_of_jit_code_name_no_older_trace() {
    let place = Place::new();
    let source = r#"
        #include <string.h>
        #include <sys/mman.h>
        int main(void) {
            void* code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(code, (unsigned char[]){ 0x31, 0xc0, 0xc3 }, 3);
            return ((int (*)(void))code)();
        }"#;
    let program = place.compile("jit", source);
    place.good(&["record", "-q", "-o", "jit.pwt", "--", &program]);
    place.good(&["record", "-q", "-o", "true.pwt", "--", "/bin/true"]);
    let pid = &place.good(&["simulate", "-q", "--json", "jit.pwt"]).json()["processes"][0]["pid"];
    let map = std::path::PathBuf::from(format!("/tmp/perf-{pid}.map"));
    std::fs::write(&map, "0 7fffffffffff jitted\n").expect("a map");
    let recorded = |trace: &str, minutes: i64| {
        let now = std::time::SystemTime::now();
        let by = std::time::Duration::from_secs(60 * minutes.unsigned_abs());
        let file = std::fs::File::options().write(true).open(place.path(trace)).expect("a trace");
        file.set_modified(if minutes < 0 { now - by } else { now + by }).expect("a time");
    };
    let is_named = |arguments: &[&str]| {
        let result = place.good(&[&["simulate", "-q", "--json"], arguments].concat()).json();
        let rows = result["processes"][0]["attribution"]["functions"].as_array().expect("functions").clone();
        rows.iter().any(|row| row["name"] == "jitted")
    };
    let named = [-1, 1].map(|minutes| {
        recorded("jit.pwt", minutes);
        recorded("true.pwt", -minutes);
        [&["jit.pwt"][..], &["--cores", "1", "jit.pwt"], &["--quantum", "1000", "true.pwt", "jit.pwt"]]
            .map(is_named)
    });
    std::fs::remove_file(&map).expect("the map");
    assert_eq!(named, [[false; 3], [true; 3]]);
}
