//! Compares caches of memory with Cachegrind's, of the same shapes and for the same references.
//!
//! Cachegrind looks up the same lines in the same order, under LRU, but counts otherwise in two cases. A reference that
//! touches two lines is one miss there, even if both miss; here each line is a lookup. A modify is a read there, and
//! here a store. Its last level is not compared: it looks up both lines of such a reference, even if one hit above.

use crate::against_others::{PROGRAMS, printed, valgrind};
use crate::harness::{EXAMPLE_MACHINE, Place, metric};
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
