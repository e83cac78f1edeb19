//! Counts by thread: the threads of a program add up to its counts, in every arrangement, and the report shows them.

use crate::harness::{Place, joined};
use serde_json::Value;

/// Two threads, one of which visits eight times as many pages.
const TWO_THREADS: &str = r#"
    #include <pthread.h>
    #include <stdlib.h>
    static char* memory;
    static void* visit(void* pages) {
        for (int round = 0; round < 8; round++)
            for (long page = 0; page < (long)pages; page++) memory[page << 12]++;
        return 0;
    }
    int main(void) {
        memory = aligned_alloc(1 << 12, 4096 << 12);
        pthread_t threads[2];
        pthread_create(&threads[0], 0, visit, (void*)512);
        pthread_create(&threads[1], 0, visit, (void*)4096);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
        return 0;
    }
"#;

/// What the groups of the first process have of a metric, by their names.
fn groups(result: &Value, metric: &str) -> Vec<(String, u64)> {
    let groups = result["processes"][0]["attribution"]["groups"].as_array();
    let of = |group: &Value| {
        assert_eq!(group["kind"], "thread");
        let name = group["name"].as_str().expect("a name").to_owned();
        (name, group["metrics"][metric].as_u64().expect("a count"))
    };
    groups.map_or_else(Vec::new, |groups| groups.iter().map(of).collect())
}

/// Expects three threads at least, which add up to what the machine counts.
#[track_caller]
fn add_up(result: &Value, metrics: &[&str]) {
    for metric in metrics {
        let groups = groups(result, metric);
        assert!(groups.len() >= 3, "{metric}: {groups:?}");
        let sum: u64 = groups.iter().map(|(_, count)| count).sum();
        assert_eq!(sum, result["machines"][0]["metrics"][metric], "{metric}: {groups:?}");
    }
}

const ALL: &[&str] = &[
    "instructions",
    "references_data",
    "pages_touched",
    "walks",
    "walks_fetch",
    "walks_data",
    "walk_cycles",
];

#[test]
fn threads_add_up_in_every_arrangement() {
    let place = Place::new();
    let program = place.compile("two", TWO_THREADS);
    place.good(&["record", "-q", "-o", "t.pwt", "--", &program]);
    let simulate = |options: &[&str]| {
        let usual = ["simulate", "-q", "--json", "-m", "k8", "--thp", "never"];
        place.good(&joined(&[&usual, options, &["t.pwt"]])).json()
    };
    let alone = simulate(&[]);
    add_up(&alone, ALL);
    // Whichever of the two ran first.
    let mut walks: Vec<u64> = groups(&alone, "walks_data").into_iter().map(|(_, walks)| walks).collect();
    walks.sort_unstable_by_key(|&walks| std::cmp::Reverse(walks));
    assert!(walks[0] > 4096 * 7 && walks[1] >= 512, "{walks:?}");
    assert_eq!(groups(&simulate(&["--what-if"]), "walks"), groups(&alone, "walks"));
    for options in [&["--os", "linux"][..], &["--cores", "2"], &["--cores", "2", "--os", "linux"]] {
        add_up(&simulate(options), ALL);
    }
    // What the kernel and servers cost is no thread's.
    add_up(&simulate(&["--structure", "mach3"]), &["instructions", "references_data", "pages_touched"]);
    let turns = simulate(&["--quantum", "1000", "t.pwt"]);
    add_up(&turns, ALL);
    let names: Vec<String> = groups(&turns, "walks").into_iter().map(|(name, _)| name).collect();
    assert!(names.iter().all(|name| name.contains(" of ") && name.contains("(pid ")), "{names:?}");
}

#[test]
fn the_report_shows_threads_hottest_first() {
    let place = Place::new();
    let program = place.compile("two", TWO_THREADS);
    let profile = ["profile", "-m", "k8", "--thp", "never", "-o", "r.json", "-o", "r.html", "--", &program];
    let text = place.good(&profile).stderr;
    let result = place.json("r.json");
    add_up(&result, ALL);
    let table = text.split("Thread ").nth(1).unwrap_or_else(|| panic!("no table of threads: {text}"));
    let mut cycles = groups(&result, "walk_cycles");
    cycles.sort_by_key(|&(_, cycles)| std::cmp::Reverse(cycles));
    let rows: Vec<&str> =
        table.lines().skip(1).take(3).filter_map(|line| line.split_whitespace().next()).collect();
    let names: Vec<&str> = cycles.iter().take(3).map(|(name, _)| name.as_str()).collect();
    assert_eq!(rows, names, "{table}");
    let page = String::from_utf8(place.read("r.html")).expect("text");
    assert!(page.contains("<section id=\"threads\"><h2>Walks by thread</h2>"));
    // A program of one thread has nothing to tell.
    let one = place.good(&["profile", "-q", "--json", "--", "/bin/true"]).json();
    assert_eq!(groups(&one, "walks"), []);
}
