//! Recordings of pages count the same as those of whole addresses, wherever cache lines do not matter.

use crate::harness::{BAD_INPUT, EXAMPLE_MACHINE, Place, assert_same};

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
    let (place, work) = Place::with_program("work", WORK);
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
    assert_same(&pages, &whole, "--grain page");
    let told = |trace: &str| place.good(&["trace", "info", trace]).stdout.contains("--grain page");
    assert!(told("page.pwt") && !told("byte.pwt"));
    assert_eq!(place.good(&["trace", "info", "--json", "page.pwt"]).json()["header"]["grain"], "page");
}

#[test]
fn studies_record_pages_where_they_say_so() {
    let place = Place::new();
    place.compile("work", WORK);
    let work = place.path("work").display().to_string();
    let workload = |grain: &str| {
        format!("[[workload]]\nname = \"{grain}\"\ncommand = [\"{work}\"]\ngrain = \"{grain}\"\n")
    };
    let study = "schema = 1\nname = \"s\"\nmachines = [\"zen4\"]\n";
    place.write("s.toml", format!("{study}{}{}", workload("byte"), workload("page")));
    let result = place.good(&["sweep", "-q", "--json", "s.toml"]).json();
    let metrics = |cell: usize| &result["machines"][cell]["metrics"];
    assert!(metrics(0)["tlb.l1d.misses"].as_u64().unwrap() > 1000, "{result:#}");
    assert_eq!(metrics(0), metrics(1));
    for recorded in std::fs::read_dir(place.path("s.sweep/traces")).unwrap() {
        let path = recorded.unwrap().path();
        let info = place.good(&["trace", "info", "--json", path.to_str().unwrap()]).json();
        let is_page = path.file_name().unwrap().to_str().unwrap().starts_with("page");
        assert_eq!(info["header"]["grain"] == "page", is_page, "{info:#}");
    }
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
    let of_caches = |serves: &str| {
        let family = format!("[cache_family]\nserves = [\"{serves}\"]\n");
        place.write("c.toml", format!("schema = 1\nname = \"c\"\ntraces = [\"page.pwt\"]\n{family}"));
        place.run(&["sweep", "-q", "c.toml"])
    };
    of_caches("data").refuses(BAD_INPUT, &["page.pwt", "--grain page", "[cache_family]", "whole addresses"]);
    // Addresses of code are kept.
    assert_eq!(of_caches("fetches").code, 0);
    let of_workload = |grain: &str| {
        let study = "schema = 1\nname = \"w\"\nmachines = [\"k8\", \"cached.toml\"]\n";
        let workload = "[[workload]]\nname = \"w\"\ncommand = [\"true\"]\n";
        place.write("w.toml", format!("{study}{workload}grain = \"{grain}\"\n"));
        place.run(&["sweep", "-q", "w.toml"])
    };
    of_workload("page").refuses(BAD_INPUT, &["w.toml", "workload `w`", "machine `example`", "[[cache]]"]);
    of_workload("line").refuses(BAD_INPUT, &["w.toml", "line 7", "`line`", "`byte` or `page`"]);
    assert!(!place.has("w.sweep"), "nothing is recorded before that is known");
    let exported = place.good(&["trace", "export", "--format", "lackey", "-o", "page.lackey", "page.pwt"]);
    assert!(exported.stderr.contains("first bytes of pages"), "{}", exported.stderr);
}
