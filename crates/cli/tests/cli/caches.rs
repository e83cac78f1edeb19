//! Compares caches of memory with Cachegrind's, of the same shapes and for the same references.
//!
//! Its machine is here: level 1 for fetches and for loads and stores, and below it one cache for all three, neither
//! inclusive nor exclusive, all LRU, write-back, allocating on reads and writes. Both look up the last level at a miss
//! of level 1 only; what level 1 writes back changes no order there. Three rules differ, all for a reference that
//! touches two lines: there it is one miss, even if both lines miss; and if one of them misses level 1, the last level
//! looks up both. Here each line is a lookup of its own. And a modify is a read there, here a store.

use crate::against_others::{PROGRAMS, printed, valgrind};
use crate::harness::{BAD_INPUT, EXAMPLE_MACHINE, Place, USAGE, joined, metric};
use serde_json::Value;
use std::collections::VecDeque;

const LINE: u64 = 64;

/// Sets and ways.
#[derive(Clone, Copy)]
struct Shape {
    sets: u64,
    ways: usize,
}

impl Shape {
    fn bytes(self) -> u64 {
        self.sets * LINE * self.ways as u64
    }
}

/// The caches of fetches and of data, and the last level.
#[derive(Clone, Copy)]
struct Shapes {
    fetches: Shape,
    data: Shape,
    last: Shape,
}

impl Shapes {
    fn machine(self) -> String {
        let cache = |name: &str, level: u8, serves: &str, shape: Shape| {
            format!(
                "[[cache]]\nname = \"{name}\"\nlevel = {level}\nserves = [{serves}]\nsize = \"{}\"\nways = {}\n\
                 line = {LINE}\nlatency = {}\n",
                shape.bytes(),
                shape.ways,
                3 + 10 * level
            )
        };
        let (head, walker) = EXAMPLE_MACHINE.split_once("[walker]").unwrap();
        assert!(walker.contains("walk_reference = 20"));
        format!(
            "{head}{}{}{}[walker]\nkind = \"software\"\nrefill_cycles = 20\n[cost]\nl2_hit = 7\nmemory = 100\n",
            cache("l1i", 1, "\"fetch\"", self.fetches),
            cache("l1d", 1, "\"load\", \"store\"", self.data),
            cache("last", 2, "\"fetch\", \"load\", \"store\"", self.last)
        )
    }

    /// What Cachegrind prints about a program.
    fn cachegrind(self, place: &Place, program: &str) -> String {
        let option = |name: &str, shape: Shape| format!("--{name}={},{},{LINE}", shape.bytes(), shape.ways);
        let caches = [option("I1", self.fetches), option("D1", self.data), option("LL", self.last)];
        let [fetches, data, last] = caches.each_ref().map(String::as_str);
        let out = "--cachegrind-out-file=/dev/null";
        valgrind(place, program, &["--tool=cachegrind", "--cache-sim=yes", out, fetches, data, last])
    }
}

/// Misses of fetches in level 1, of data in level 1, of fetches in the last level, of data in the last level.
type Misses = [u64; 4];

const NAMES: [&str; 4] = ["I1  misses:", "D1  misses:", "LLi misses:", "LLd misses:"];

/// Our misses of a recorded program.
fn simulated(place: &Place, shapes: Shapes, trace: &str) -> Misses {
    place.write("m.toml", shapes.machine());
    let ours = place.good(&["simulate", "--json", "-m", "./m.toml", trace]).json();
    let of = |cache: &str, kind: &str| metric(&ours, &format!("cache.{cache}.{kind}_misses"));
    let data = |cache: &str| of(cache, "load") + of(cache, "store");
    [of("l1i", "fetch"), data("l1d"), of("last", "fetch"), data("last")]
}

/// One cache under LRU; the lines of a set, most recently used first.
struct Lru {
    sets: Vec<VecDeque<u64>>,
    ways: usize,
}

impl Lru {
    fn new(shape: Shape) -> Lru {
        Lru { sets: vec![VecDeque::new(); shape.sets as usize], ways: shape.ways }
    }

    /// Whether a line misses.
    fn misses(&mut self, line: u64) -> bool {
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(line % sets) as usize];
        let misses = !set.contains(&line);
        set.retain(|&held| held != line);
        set.push_front(line);
        set.truncate(self.ways);
        misses
    }

    /// Whether some line of a reference misses. It looks up all.
    fn any_misses(&mut self, lines: impl Iterator<Item = u64>) -> bool {
        lines.map(|line| self.misses(line)).fold(false, |any, misses| any | misses)
    }
}

/// The misses of the references of a trace in Lackey's text: by Cachegrind's rules, and by ours.
fn replayed(text: &str, shapes: Shapes) -> [Misses; 2] {
    let all = [shapes.fetches, shapes.data, shapes.last];
    let (mut theirs, mut ours) = (all.map(Lru::new), all.map(Lru::new));
    let [mut their_misses, mut our_misses] = [[0; 4]; 2];
    for line in text.lines().filter(|line| line.starts_with("I  ") || line.starts_with(' ')) {
        let (address, bytes) = line[3..].split_once(',').expect("an address and a size");
        let address = u64::from_str_radix(address, 16).expect("a hexadecimal address");
        let bytes: u64 = bytes.parse().expect("a size");
        let lines = address / LINE..=(address + bytes - 1) / LINE;
        let first = usize::from(!line.starts_with('I'));
        let misses = theirs[first].any_misses(lines.clone());
        their_misses[first] += u64::from(misses);
        their_misses[2 + first] += u64::from(misses && theirs[2].any_misses(lines.clone()));
        for line in lines {
            let misses = ours[first].misses(line);
            our_misses[first] += u64::from(misses);
            our_misses[2 + first] += u64::from(misses && ours[2].misses(line));
        }
    }
    [their_misses, our_misses]
}

#[test]
fn misses_equal_cachegrinds_but_for_references_across_lines() {
    let place = Place::of_valgrind();
    for ((name, source), ways) in PROGRAMS.into_iter().zip([2, 4]) {
        let program = place.compile(name, source);
        let first = Shape { sets: 32, ways };
        let shapes = Shapes { fetches: first, data: first, last: Shape { sets: 64, ways: 4 } };
        let theirs = shapes.cachegrind(&place, &program);
        place.run(&["record", "-q", "-o", "t.pwt", "--", &program]);
        place.good(&["trace", "export", "--format", "lackey", "-o", "t.txt", "t.pwt"]);
        let text = String::from_utf8(place.read("t.txt")).expect("text");
        let [by_their_rules, by_our_rules] = replayed(&text, shapes);
        assert_eq!(NAMES.map(|name| printed(&theirs, name)), by_their_rules, "{name}: {theirs}");
        assert_eq!(simulated(&place, shapes, "t.pwt"), by_our_rules, "{name}");
        assert!(by_their_rules[1] > 1000 && by_our_rules[1] > by_their_rules[1], "both rules matter: {name}");
        assert!(by_our_rules.iter().all(|&misses| misses > 100), "{name}: {by_our_rules:?}");
    }
}

/// A radix sort and a product of matrices, without a library. The assembler keeps instructions within their lines.
const WITHIN_LINES: &str = r#"
__asm__(".bundle_align_mode 5");
static unsigned keys[20000], sorted[20000], counts[65536];
static double matrix[64][64], product[64][64];
static void sort(int shift) {
    for (int i = 0; i < 65536; i++) counts[i] = 0;
    for (int i = 0; i < 20000; i++) counts[keys[i] >> shift & 65535]++;
    for (int i = 1; i < 65536; i++) counts[i] += counts[i - 1];
    for (int i = 20000; i-- > 0;) sorted[--counts[keys[i] >> shift & 65535]] = keys[i];
    for (int i = 0; i < 20000; i++) keys[i] = sorted[i];
}
#define APART __attribute__((noinline, aligned(256))) static double
APART times(double a, double b) { return a * b; }
APART plus(double a, double b) { return a + b; }
void _start(void) {
    unsigned key = 1;
    for (int i = 0; i < 20000; i++) keys[i] = key = key * 1664525 + 1013904223;
    sort(0);
    sort(16);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++)
            for (int k = 0; k < 64; k++) 
                product[i][j] = plus(product[i][j], times(matrix[i][k], matrix[k][j]));
    __asm__ volatile("syscall" : : "a"(60), "D"(0));
}
"#;

#[test]
fn misses_of_all_levels_equal_cachegrinds_where_no_reference_crosses_a_line() {
    let place = Place::of_valgrind();
    let options = ["-nostdlib", "-fno-stack-protector", "-fcf-protection=none"];
    let program = place.compile_with("within", WITHIN_LINES, &options);
    place.run(&["record", "-q", "-o", "t.pwt", "--", &program]);
    let shape = |sets, ways| Shape { sets, ways };
    let all = [
        (shape(2, 1), shape(32, 4), shape(512, 8)),
        (shape(1, 2), shape(128, 1), shape(64, 16)),
        (shape(2, 1), shape(16, 2), shape(256, 1)),
    ];
    for (fetches, data, last) in all {
        let shapes = Shapes { fetches, data, last };
        let theirs = shapes.cachegrind(&place, &program);
        let theirs = NAMES.map(|name| printed(&theirs, name));
        assert_eq!(simulated(&place, shapes, "t.pwt"), theirs);
        assert!(theirs[0] > 1000 && theirs[1] > theirs[3] && theirs[3] > 5000, "{theirs:?}");
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

/// Another kernel beside the host's changes nobody's waits, nor does an arrangement of one program.
#[test]
fn kernels_and_arrangements_leave_waits_as_they_are() {
    let place = Place::with_trace();
    let attribution = |more: &[&str]| {
        let simulate = ["simulate", "-q", "--json", "-m", "zen4+caches", "good.pwt"];
        place.good(&[&simulate, more].concat()).json()["processes"][0]["attribution"].clone()
    };
    let alone = attribution(&[]);
    assert!(alone["mappings"][0]["waits"]["stall_cycles"].as_u64().is_some(), "{alone}");
    assert_eq!(attribution(&["--os", "linux"]), alone);
    assert_eq!(attribution(&["--os", "linux", "--what-if"]), alone);
    assert_eq!(attribution(&["--os", "linux", "-m", "karakostas_4k", "-m", "zen4"]), alone);
    // Rows name their program in turns, and there are groups.
    let plain = |mut attribution: Value| {
        let parts = attribution.as_object_mut().unwrap();
        ["groups", "colors"].iter().for_each(|part| _ = parts.remove(*part));
        for rows in ["mappings", "pages"] {
            let rows = parts[rows].as_array_mut().unwrap().iter_mut();
            rows.for_each(|row| _ = row.as_object_mut().unwrap().remove("process"));
        }
        attribution
    };
    for arrangement in [&["--cores", "2"][..], &["--quantum", "1000000000"]] {
        assert_eq!(plain(attribution(arrangement)), plain(alone.clone()), "{arrangement:?}");
    }
    let colors = attribution(&["--cores", "2"])["colors"].clone();
    assert!(colors.is_object() && colors == alone["colors"], "{colors}");
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

/// The row's baseline is said, as several have the same id.
#[test]
fn a_recolored_row_names_the_kernel_that_it_is_like() {
    let place = Place::with_trace();
    let kernels = ["fixed:placement.policy=random", "fixed:placement.policy=careful"];
    let arguments =
        ["simulate", "-q", "--json", "--what-if", "-m", "zen4+caches", "--os", kernels[0], "--os"];
    let result = place.good(&joined(&[&arguments, &[kernels[1], "good.pwt"]])).json();
    let rows = result["processes"][0]["what_if"].as_array().expect("rows");
    let like = |row: &Value| row["like"].as_str().map(str::to_owned);
    let recolored = rows.iter().filter(|row| row["id"] == "recolored").map(like);
    assert_eq!(recolored.collect::<Vec<_>>(), kernels.map(|kernel| Some(kernel.to_owned())));
    assert!(rows.iter().filter(|row| row["id"] != "recolored").all(|row| row.get("like").is_none()));
}

/// A machine's file may name files too: from its own folder.
#[test]
fn files_that_a_machines_own_kernel_names_are_read() {
    let place = Place::with_trace();
    std::fs::create_dir(place.path("m")).unwrap();
    place.write("m/some.frames", "frames of 4K\n0x1000 0x5 1\n");
    let machine = place.good(&["machines", "show", "--toml", "zen4+caches"]).stdout;
    let with = |file: &str| {
        let os =
            format!("[os]\npolicy = \"fixed\"\n[os.placement]\npolicy = \"listed\"\nframes = \"{file}\"\n");
        place.write("m/own.toml", format!("{machine}\n{os}"));
    };
    with("some.frames");
    let row = |result: &Value| result["processes"][0]["kernels"][1]["metrics"].clone();
    let own = place.good(&["simulate", "-m", "m/own.toml", "--json", "good.pwt"]).json();
    let os = "fixed:placement.policy=listed,placement.frames=m/some.frames";
    let given = place.good(&["simulate", "-m", "zen4+caches", "--os", os, "--json", "good.pwt"]).json();
    assert!(row(&own).is_object(), "{own}");
    assert_eq!(row(&own), row(&given));
    with("none.frames");
    let parts = ["machine file m/own.toml: os.placement.frames = \"none.frames\"", "No such file"];
    place.run(&["simulate", "-m", "m/own.toml", "good.pwt"]).refuses(BAD_INPUT, &parts);
}

/// What the colors of a cache, and the policies that move pages, cannot be.
#[test]
fn what_colors_cannot_be_is_refused_with_the_choices() {
    let place = Place::with_trace();
    place.write("none.frames", "frame of 4K\n");
    place.write("line.frames", "frames of 4K\n0x1000 0x5\n");
    place.write("twice.frames", "frames of 4K\n0x1000 0x5 1\n0x8000 0x4 2\n");
    place.write("far.frames", "frames of 4K\n0x1000 0x5 1\n0x8000 0x4000 2\n");
    place.write("large.frames", "frames of 64K\n0x10000 0x5 1\n");
    let listed = |file: &str| format!("placement.policy=listed,placement.frames={file}");
    let line = |file: &str, line: &str| vec![format!("os.placement.frames = \"{file}\""), line.to_owned()];
    let parts = |parts: &[&str]| parts.iter().map(|&part| part.to_owned()).collect::<Vec<String>>();
    let refused = [
        (
            "placement.cache=l3".to_owned(),
            parts(&["`l3`", "it holds what the level above evicts", "choose l2"]),
        ),
        ("placement.cache=l1d".to_owned(), parts(&["`l1d`", "single color", "choose l2"])),
        ("placement.cache=l4".to_owned(), parts(&["no cache `l4`", "choose from l2"])),
        ("placement.policy=colors".to_owned(), parts(&["os.placement.policy", "page-coloring, bin-hopping"])),
        ("placement.strict=true".to_owned(), parts(&["os.placement.strict", "give memory.size"])),
        (
            "recoloring.policy=cml,recoloring.lru=0".to_owned(),
            parts(&["os.recoloring.lru is 0", "1 to 65536"]),
        ),
        (
            "recoloring.policy=space-saving,recoloring.entries=0".to_owned(),
            parts(&["os.recoloring.entries is 0", "1 to 65536"]),
        ),
        (
            "recoloring.policy=cml,recoloring.recolor_above=100,recoloring.interrupt_at=100".to_owned(),
            parts(&["interrupt_at = 100 with recolor_above = 100", "choose more than 100"]),
        ),
        ("recoloring.policy=cmls".to_owned(), parts(&["os.recoloring.policy", "did you mean `cml`"])),
        (
            "placement.policy=listed".to_owned(),
            parts(&["os.placement.frames: missing", "contiguity --frames"]),
        ),
        (listed("no.frames"), line("no.frames", "No such file")),
        (listed("none.frames"), line("none.frames", "line 1: `frame of 4K`: expected `frames of SIZE`")),
        (listed("line.frames"), line("line.frames", "line 2: `0x1000 0x5`: expected an address and a frame")),
        (listed("twice.frames"), line("twice.frames", "line 3: frame 0x5 stands in line 2 already")),
        (
            format!("{},memory.size=64M", listed("far.frames")),
            parts(&["os.placement.frames: line 3: a frame beyond the 16384 of the memory", "memory.size"]),
        ),
        (listed("large.frames"), parts(&["os.placement.frames: frames of 64K, and base pages of 4K"])),
        (
            format!("{},placement.others=listed", listed("twice.frames")).replace("twice", "far"),
            parts(&["os.placement.others is \"listed\"", "page-coloring"]),
        ),
    ];
    for (os, parts) in refused {
        let os = format!("fixed:{os}");
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        place.run(&["simulate", "-m", "zen4+caches", "--os", &os, "good.pwt"]).refuses(USAGE, &parts);
    }
    let without = ["simulate", "-m", "zen4", "--os", "fixed:recoloring.policy=snapshot", "good.pwt"];
    place.run(&without).refuses(USAGE, &["no cache that physical addresses", "NAME+caches"]);
    let hashed = COLORED.replace("name = \"l2\"\nlevel = 2", "name = \"l3\"\nlevel = 3");
    let hashed = hashed.replace("512K", "3M") + "slices = 6\nslice_hash = \"unknown\"\n";
    let (head, walker) = EXAMPLE_MACHINE.split_once("[walker]").unwrap();
    let walker = walker.replace("walk_reference = 20", "memory = 200");
    place.write("hashed.toml", format!("{head}{COLORED}{hashed}[walker]{walker}"));
    let by_hash = ["simulate", "-m", "./hashed.toml", "--os", "fixed:recoloring.policy=cml", "good.pwt"];
    place
        .run(&by_hash)
        .refuses(USAGE, &["`l3`", "a hash that nobody has published", "choose l2", "placement.cache"]);
    place.write("no-tlb.toml", format!("schema = 1\nname = \"x\"\n{COLORED}[walker]{walker}"));
    let without = ["simulate", "-m", "./no-tlb.toml", "--os", "fixed:recoloring.policy=snapshot", "good.pwt"];
    place.run(&without).refuses(BAD_INPUT, &["no-tlb.toml", "tlb"]);
}

/// A private cache of 16 colors.
const COLORED: &str = "[[cache]]\nname = \"l2\"\nlevel = 2\nserves = [\"fetch\", \"load\", \"store\", \"walk\"]\n\
                       size = \"512K\"\nways = 8\nline = 64\nlatency = 10\n";

/// Machines beyond what one pass can simulate take other passes, and change no alternative.
#[test]
fn any_number_of_machines_leaves_room_for_alternatives() {
    let place = Place::with_trace();
    let (head, walker) = EXAMPLE_MACHINE.split_once("[walker]").unwrap();
    let walker = walker.replace("walk_reference = 20", "memory = 200");
    let mut arguments = vec!["simulate".to_owned(), "-q".to_owned()];
    for index in 0..70 {
        let name = format!("m{index}");
        let head = head.replacen("name = \"example\"", &format!("name = \"{name}\""), 1);
        let tlb = format!("entries = {}\nways = {}", 16 * (index + 1), index + 1);
        let head = head.replacen("entries = 64\nways = 4", &tlb, 1);
        assert!(head.contains(&name) && head.contains(&tlb), "{head}");
        let cache = COLORED.replace("\"512K\"", &format!("\"{}K\"", 64 << (index % 8)));
        place.write(&format!("{name}.toml"), format!("{head}{cache}[walker]{walker}"));
        arguments.extend(["-m".to_owned(), format!("./{name}.toml")]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let run = |machines: &[&str]| {
        place.good(&joined(&[machines, &["--what-if", "--json", "good.pwt"]])).json()["processes"][0].clone()
    };
    let (all, one) = (run(&arguments), run(&arguments[..4]));
    assert_eq!(all["machines"].as_array().unwrap().len(), 70);
    assert_eq!(all["machines"][0], one["machines"][0]);
    assert!(one["what_if"].as_array().unwrap().len() > 3, "{}", one["what_if"]);
    assert_eq!(all["what_if"], one["what_if"]);
}
