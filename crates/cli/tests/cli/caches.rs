//! Compares caches of memory with Cachegrind's, of the same shapes and for the same references.
//!
//! Cachegrind looks up the same lines in the same order, under LRU, but counts otherwise in two cases. A reference that
//! touches two lines is one miss there, even if both miss; here each line is a lookup. A modify is a read there, and
//! here a store. Its last level is not compared: it looks up both lines of such a reference, even if one hit above.

use crate::against_others::{PROGRAMS, printed, valgrind};
use crate::harness::{BAD_INPUT, EXAMPLE_MACHINE, Place, joined, metric};
use serde_json::Value;
use std::collections::VecDeque;

const SETS: u64 = 32;
const LINE: u64 = 64;

fn machine(ways: usize) -> String {
    let cache = |name: &str, serves: &str| {
        format!(
            "[[cache]]\nname = \"{name}\"\nlevel = 1\nserves = [{serves}]\nsize = \"{}\"\nways = {ways}\n\
             line = {LINE}\nlatency = 3\n",
            SETS * LINE * ways as u64
        )
    };
    let (head, walker) = EXAMPLE_MACHINE.split_once("[walker]").unwrap();
    assert!(walker.contains("walk_reference = 20"));
    format!(
        "{head}{}{}[walker]\nkind = \"software\"\nrefill_cycles = 20\n[cost]\nl2_hit = 7\nmemory = 100\n",
        cache("l1i", "\"fetch\""),
        cache("l1d", "\"load\", \"store\"")
    )
}

/// One cache under LRU; the lines of a set, most recently used first.
struct Lru {
    sets: Vec<VecDeque<u64>>,
    ways: usize,
    /// Lines that missed.
    lines: u64,
    /// References of which a line missed: what Cachegrind counts.
    references: u64,
}

impl Lru {
    fn new(ways: usize) -> Lru {
        Lru { sets: vec![VecDeque::new(); SETS as usize], ways, lines: 0, references: 0 }
    }

    fn access(&mut self, address: u64, bytes: u64) {
        let before = self.lines;
        for line in address / LINE..=(address + bytes - 1) / LINE {
            let set = &mut self.sets[(line % SETS) as usize];
            self.lines += u64::from(!set.contains(&line));
            set.retain(|&held| held != line);
            set.push_front(line);
            set.truncate(self.ways);
        }
        self.references += u64::from(self.lines > before);
    }
}

/// The caches after the references of a trace in Lackey's text: of fetches, and of data.
fn replayed(text: &str, ways: usize) -> [Lru; 2] {
    let mut caches = [Lru::new(ways), Lru::new(ways)];
    for line in text.lines().filter(|line| line.starts_with("I  ") || line.starts_with(' ')) {
        let (address, bytes) = line[3..].split_once(',').expect("an address and a size");
        let address = u64::from_str_radix(address, 16).expect("a hexadecimal address");
        caches[usize::from(!line.starts_with('I'))].access(address, bytes.parse().expect("a size"));
    }
    caches
}

#[test]
fn misses_equal_cachegrinds_but_for_references_across_lines() {
    let place = Place::of_valgrind();
    for ((name, source), ways) in PROGRAMS.into_iter().zip([2, 4]) {
        let program = place.compile(name, source);
        let shape = format!("{},{ways},{LINE}", SETS * LINE * ways as u64);
        let [fetches, data] = [format!("--I1={shape}"), format!("--D1={shape}")];
        let out = "--cachegrind-out-file=/dev/null";
        let options = ["--tool=cachegrind", "--cache-sim=yes", out, &fetches, &data, "--LL=1048576,16,64"];
        let theirs = valgrind(&place, &program, &options);

        place.run(&["record", "-q", "-o", "t.pwt", "--", &program]);
        place.good(&["trace", "export", "--format", "lackey", "-o", "t.txt", "t.pwt"]);
        let text = String::from_utf8(place.read("t.txt")).expect("text");
        let [i1, d1] = replayed(&text, ways);
        assert_eq!(printed(&theirs, "I1  misses:"), i1.references, "{name}: {theirs}");
        assert_eq!(printed(&theirs, "D1  misses:"), d1.references, "{name}: {theirs}");

        place.write("m.toml", machine(ways));
        let ours = place.good(&["simulate", "--json", "-m", "./m.toml", "t.pwt"]).json();
        assert_eq!(metric(&ours, "cache.l1i.fetch_misses"), i1.lines, "{name}");
        let [loads, stores] =
            ["load", "store"].map(|kind| metric(&ours, &format!("cache.l1d.{kind}_misses")));
        assert_eq!(loads + stores, d1.lines, "{name}");
        assert!(d1.references > 1000 && d1.lines > d1.references, "both rules matter: {}", d1.lines);
    }
}

/// Reads 8 MB by lines again and again in one function, and 4 KB in another.
const READERS: &str = "
static volatile char large[8 << 20], small[4096];
__attribute__((noinline)) void far(void) { for (int i = 0; i < sizeof large; i += 64) (void)large[i]; }
__attribute__((noinline)) void near(void) { for (int i = 0; i < sizeof small; i += 64) (void)small[i]; }
int main(void) { for (int i = 0; i < 6; i++) { far(); near(); } }
";

#[test]
fn a_profile_says_who_waits_for_caches() {
    let place = Place::of_valgrind();
    let program = place.compile("readers", READERS);
    let run = place.good(&["profile", "-m", "zen4+caches", "-o", "r.json", "-o", "r.html", "--", &program]);
    assert!(run.stderr.contains("waiting for caches"), "{}", run.stderr);
    let result = place.json("r.json");
    let process = &result["processes"][0];
    assert_eq!(process["machines"][0]["name"], "zen4+caches");
    let waits = |rows: &str, name: &str| {
        let rows = process["attribution"][rows].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"].as_str().is_some_and(|own| own.contains(name)));
        row.unwrap_or_else(|| panic!("no {name}: {process:#}"))["waits"].clone()
    };
    // 131,072 lines, which fit into level 3 alone: each round misses levels 1 and 2 anew.
    let far = waits("functions", "far");
    let misses = |level: usize| far["misses"][level].as_u64().unwrap();
    assert!((6 * 131_072..6 * 131_072 + 1000).contains(&misses(0)), "{far}");
    assert!((6 * 131_072..6 * 131_072 + 1000).contains(&misses(1)), "{far}");
    assert!((131_072..131_072 + 1000).contains(&misses(2)), "{far}");
    let all = process["machines"][0]["metrics"]["memory.stall_cycles"].as_u64().unwrap();
    let cycles = |waits: &Value| waits["stall_cycles"].as_u64().unwrap();
    assert!(cycles(&far) <= all && cycles(&far) > all * 9 / 10, "{far} of {all}");
    assert!(cycles(&waits("functions", "near")) < all / 100);
    // Every miss of level 2 has a color; those of `far` are 2048 pages, as many of each color.
    let colors = &process["attribution"]["colors"];
    assert_eq!((&colors["cache"], &colors["colors"], &colors["ways"]), (&"l2".into(), &32.into(), &8.into()));
    let sum = |counts: &Value| counts.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>();
    let by_color: Vec<u64> =
        colors["parts"].as_array().unwrap().iter().map(|part| sum(&part["misses"])).collect();
    let mappings = process["attribution"]["mappings"].as_array().unwrap();
    let by_mapping = mappings.iter().map(|row| row["waits"]["misses"][1].as_u64().unwrap());
    assert_eq!(by_color.iter().sum::<u64>(), by_mapping.sum::<u64>());
    let of_far = &colors["parts"][0]["misses"];
    assert!(
        of_far.as_array().unwrap().iter().all(|n| (24_576..25_000).contains(&n.as_u64().unwrap())),
        "{of_far}"
    );
    let page = String::from_utf8(place.read("r.html")).unwrap();
    assert!(page.contains("id=\"colors\"") && page.contains("\"kind\":\"bars\""));
    assert!(page.contains("id=\"waits\"") && page.contains("level-3 cache misses"));
}

#[test]
fn machines_without_caches_say_which_have_some() {
    let place = Place::with_trace();
    let named = ["romer_1998: +caches needs a machine with [[cache]]", "these have caches: ", "zen4"];
    place.run(&["simulate", "-m", "romer_1998+caches", "good.pwt"]).refuses(2, &named);
    let study = "schema = 1\nname = \"s\"\ntraces = [\"good.pwt\"]\nmachines = [\"zen4\", \"zen4+caches\"]\n";
    place.write("s.toml", study);
    let cells = place.good(&["sweep", "-q", "--json", "s.toml"]).json()["machines"].clone();
    assert!(cells[0]["metrics"].get("memory.stall_cycles").is_none());
    assert!(cells[1]["metrics"]["memory.stall_cycles"].as_u64().unwrap() > 0);
    assert_eq!(cells[0]["metrics"]["walks"], cells[1]["metrics"]["walks"]);
    let study = |machine: &str| {
        format!("schema = 1\nname = \"s\"\ntraces = [\"good.pwt\"]\nmachines = [\"{machine}\"]\n")
    };
    let vary = "[vary]\n\"cache.l2.size\" = [\"512K\", \"1M\"]\n";
    place.write("s.toml", study("zen4") + vary);
    let idle = ["\"cache.l2.size\" changes nothing without caches", "zen4+caches"];
    place.run(&["sweep", "-q", "s.toml"]).refuses(BAD_INPUT, &idle);
    place.write("s.toml", study("zen4+caches") + vary);
    place.good(&["sweep", "-q", "s.toml"]);
}

/// Misses of each level and waits, of a machine's or a kernel's metrics.
fn costs(metrics: &Value) -> (Vec<u64>, u64) {
    let metrics = metrics.as_object().expect("metrics");
    let of = |level: &str| {
        let is_it = |name: &str| name.starts_with(&format!("cache.{level}")) && name.ends_with("_misses");
        metrics.iter().filter(|(name, _)| is_it(name)).filter_map(|(_, count)| count.as_u64()).sum()
    };
    (["l1", "l2", "l3"].map(of).to_vec(), metrics["memory.stall_cycles"].as_u64().expect("waits"))
}

/// The row of an alternative: what it leaves, and what there was.
fn changes(result: &Value, is_it: impl Fn(&Value) -> bool) -> [(Vec<u64>, u64); 2] {
    let rows = result["processes"][0]["what_if"].as_array().expect("rows");
    let caches = &rows.iter().find(|row| is_it(row)).unwrap_or_else(|| panic!("no row: {rows:#?}"))["caches"];
    let of = |misses: &str, waits: &str| {
        let misses = caches[misses].as_array().expect("misses").iter().filter_map(Value::as_u64);
        (misses.collect(), caches[waits].as_u64().expect("waits"))
    };
    [of("misses", "stall_cycles"), of("baseline_misses", "baseline_stall_cycles")]
}

/// Alternatives in caches equal runs of the machine or the kernel that they describe.
#[test]
fn alternatives_in_caches_equal_runs_of_their_own() {
    let place = Place::with_trace();
    let zen4 = include_str!("../../../../machines/zen4.toml");
    let l2 = "size = \"1M\"\nways = 8";
    assert!(zen4.contains(l2));
    place.write("wide.toml", zen4.replace(l2, "size = \"2M\"\nways = 16"));
    let simulate = |machine: &str, more: &[&str]| {
        place.good(&joined(&[&["simulate", "-q", "--json", "-m", machine], more, &["good.pwt"]])).json()
    };
    let of_kernel = |result: &Value, policy: &str| {
        let rows = result["processes"][0]["kernels"].as_array().expect("kernels");
        let row = rows.iter().find(|row| row["policy"] == policy).unwrap_or_else(|| panic!("no {policy}"));
        costs(&row["metrics"])
    };
    let whole = simulate("zen4+caches", &["--what-if"]);
    let as_it_is = costs(&whole["machines"][0]["metrics"]);
    let wide = costs(&simulate("wide.toml+caches", &[])["machines"][0]["metrics"]);
    assert_eq!(changes(&whole, |row| row["cache_level"] == 2), [wide, as_it_is]);
    let rows = whole["processes"][0]["what_if"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["id"] != "recolored"), "frames follow addresses");
    let placed = |policy: &str| format!("fixed:placement.policy={policy}");
    for (policy, other) in [("random", "page-coloring"), ("page-coloring", "bin-hopping")] {
        let (policy, other) = (placed(policy), placed(other));
        let both = simulate("zen4+caches", &["--what-if", "--os", &policy]);
        let otherwise = of_kernel(&simulate("zen4+caches", &["--os", &other]), &other);
        let found = changes(&both, |row| row["id"] == "recolored");
        assert_eq!(found, [otherwise, of_kernel(&both, &policy)], "{policy}");
    }
    let text = place.good(&["simulate", "-q", "--what-if", "-m", "zen4+caches", "good.pwt"]).stdout;
    assert!(text.contains("No row of recolored pages: frames follow addresses"), "{text}");
}
