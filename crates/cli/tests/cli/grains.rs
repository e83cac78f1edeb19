//! Recordings of pages alone count what those of whole addresses count, wherever lines of caches do not matter.

use crate::harness::{BAD_INPUT, EXAMPLE_MACHINE, Place};

/// Data in many pages, some of them across two.
const WORK: &str = r#"
    #include <stdlib.h>
    #include <string.h>
    int main(void) {
        unsigned state = 1;
        unsigned char* table = calloc(1, 1 << 22);
        long sum = 0;
        for (int i = 0; i < 200000; i++) {
            state = state * 1664525u + 1013904223u;
            long value;
            memcpy(&value, table + (state >> 11), sizeof value);
            sum += value++;
            memcpy(table + (state >> 11), &value, sizeof value);
        }
        return sum == 7;
    }
"#;

const CACHE: &str = "[[cache]]\nname = \"l2\"\nlevel = 2\nserves = [\"load\", \"store\", \"walk\"]\nsize = \"256K\"\n\
                     ways = 8\nlatency = 14\n";

#[test]
fn pages_are_all_that_tlbs_see() {
    let place = Place::new();
    let work = place.compile("work", WORK);
    place.good(&["record", "-q", "-o", "byte.pwt", "--", &work]);
    place.good(&["record", "-q", "--grain", "page", "-o", "page.pwt", "--", &work]);
    assert!(place.read("page.pwt").len() * 3 < place.read("byte.pwt").len() * 2);
    let result = |trace: &str| {
        let machines = ["-m", "zen4", "-m", "neoverse_n1", "-m", "mips_r2000"];
        let mut json = place.good(&[&["simulate", "--json"], &machines[..], &[trace]].concat()).json();
        json["tool"].take();
        json
    };
    let whole = result("byte.pwt");
    assert!(whole["machines"][2]["metrics"]["walks"].as_u64().unwrap() > 1000, "{whole}");
    let mut pages = result("page.pwt");
    for process in ["pid", "parent"] {
        pages["processes"][0][process] = whole["processes"][0][process].clone();
    }
    assert_eq!(pages, whole);
    let told = |trace: &str| place.good(&["trace", "info", trace]).stdout.contains("--grain page");
    assert!(told("page.pwt") && !told("byte.pwt"));
    assert_eq!(place.good(&["trace", "info", "--json", "page.pwt"]).json()["header"]["grain"], "page");
}

#[test]
fn caches_refuse_pages() {
    let place = Place::with_trace();
    place.good(&["record", "-q", "--grain", "page", "-o", "page.pwt", "--", "true"]);
    place.write("cached.toml", EXAMPLE_MACHINE.replace("walk_reference = 20", "memory = 200") + CACHE);
    let parts = ["page.pwt", "--grain page", "`example`", "[[cache]]"];
    place.run(&["simulate", "-m", "cached.toml", "page.pwt"]).refuses(BAD_INPUT, &parts);
    place
        .run(&["simulate", "-m", "cached.toml", "--quantum", "9", "good.pwt", "page.pwt"])
        .refuses(BAD_INPUT, &parts);
    place
        .write("s.toml", "schema = 1\nname = \"s\"\ntraces = [\"page.pwt\"]\nmachines = [\"cached.toml\"]\n");
    place.run(&["sweep", "-q", "s.toml"]).refuses(BAD_INPUT, &parts);
    let exported = place.good(&["trace", "export", "--format", "lackey", "-o", "page.lackey", "page.pwt"]);
    assert!(exported.stderr.contains("first bytes of pages"), "{}", exported.stderr);
}
