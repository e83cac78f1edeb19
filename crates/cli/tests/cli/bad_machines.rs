//! Wrong machine files: one message that names the file, the key and the choices.

use crate::harness::{BAD_INPUT, EXAMPLE_MACHINE, Place};

#[test]
fn a_wrong_walker_is_named_with_key_and_choices() {
    let place = Place::with_witness();
    let walker = "[walker]\nkind = \"radix\"\nlevels = 4\ncaches = { pde = { entries = 32, ways = 4 }, pdpte = { \
                  entries = 4 }, pml4 = { entries = 2 } }\n";
    for (other, parts) in [
        ("kind = \"software\"", &["\"software\" needs `refill_cycles`"][..]),
        ("kind = \"software\"\nrefill_cycles = 30", &["cost.walk_reference", "`refill_cycles`"]),
        ("kind = \"hashed\"\nbuckets = 64", &["\"hashed\" needs `buckets` and `entries_per_bucket`"]),
        ("kind = \"hashed\"\nbuckets = 60\nentries_per_bucket = 8", &["buckets = 60", "power of two"]),
        ("kind = \"hashed\"\nbuckets = 64\nentries_per_bucket = 0", &["entries_per_bucket = 0"]),
        (
            "kind = \"hashed\"\nbuckets = 64\nentries_per_bucket = 8\n[paging]\nbase = \"8K\"",
            &["tlb `l1d`", "4K: smaller than the base page", "8K upwards"],
        ),
    ] {
        assert!(EXAMPLE_MACHINE.contains(walker));
        place.write("m.toml", EXAMPLE_MACHINE.replacen(walker, &format!("[walker]\n{other}\n"), 1));
        place.run(&["machines", "check", "./m.toml"]).refuses(BAD_INPUT, parts);
    }
}

#[test]
fn a_wrong_machine_file_is_named_with_key_and_choices() {
    let place = Place::with_witness();
    let wrong = |from: &str, to: &str| {
        assert!(EXAMPLE_MACHINE.contains(from));
        place.write("m.toml", EXAMPLE_MACHINE.replacen(from, to, 1));
        place.run(&["machines", "check", "./m.toml"])
    };
    // A machine's end with a cache and what `[cost]` then holds.
    let cached = |serves: &str, size: &str, cost: &str| {
        format!(
            "{cost}\n[[cache]]\nname = \"c\"\nlevel = 1\nserves = [\"{serves}\"]\nsize = \"{size}\"\nlatency = 4\n"
        )
    };
    for (from, to, parts) in [
        // Typos.
        ("entries = 64", "entires = 64", &["line 9", "`entires`", "`entries`", "`ways`"][..]),
        (
            "\"lru\"",
            "\"lru2\"",
            &["line 11", "`lru2`", "`lru`, `tree-plru`, `bit-plru`", "`random`", "`srrip`"],
        ),
        ("\"lru\"", "\"mru3-plru\"", &["tlb `l1d`", "mru3-plru needs 3, 6, 12, 24 or 3 · 2^k ways, not 4"]),
        (
            "\"lru\"",
            "\"srrip\"",
            &["tlb `l1d`", "\"srrip\" depends on each repeated reference", "choose lru, ", "level 2 or 3"],
        ),
        (
            "\"lru\"",
            "\"lru\"\nreplacement_source = \"LRU\"",
            &["tlb `l1d`", "replacement_source = \"LRU\"", "\"measured by \"", "\"assumed: \""],
        ),
        (
            "\"lru\"",
            "\"lru\"\nreplacement_source = \"measured by \\u001b[2J\"",
            &["tlb `l1d`", "replacement_source", "printable"],
        ),
        ("\"lru\"", "\"lru\"\nseed = 1", &["tlb `l1d`", "seed", "\"random\"", "\"lru\""]),
        ("\"lru\"", "\"lru\"\nindex = \"xor\"", &["tlb `l1d`", "\"xor\"", "modulo, xor-fold, xor-N, skewed"]),
        (
            "\"lru\"",
            "\"fifo\"\nindex = \"skewed\"",
            &["tlb `l1d`: index = \"skewed\"", "replacement = \"fifo\"", "choose \"lru\""],
        ),
        ("\"lru\"", "\"lru\"\nfills = \"victim\"", &["`victim`", "`walks` or `victims`"]),
        ("\"lru\"", "\"lru\"\nfills = \"victims\"", &["tlb `l1d`", "level 2 or 3", "fills = \"walks\""]),
        (
            "\"lru\"",
            "\"lru\"\nprefetch = { kind = \"next-page\", entries = 8 }",
            &["tlb `l1d`: prefetch", "level 1", "last level, 2"],
        ),
        (
            "ways = 12\n",
            "ways = 12\nprefetch = { kind = \"stride\", entries = 8 }",
            &["`stride`", "`next-page`"],
        ),
        (
            "ways = 12\n",
            "ways = 12\nprefetch = { kind = \"next-page\", entries = 0 }",
            &["tlb `l2`: prefetch", "at least 1"],
        ),
        ("\"radix\"", "\"nested\"", &["[walker.host]", "`page_size`"]),
        (
            "\"radix\"\nlevels = 4\n",
            "\"nested\"\nlevels = 4\nhost = { levels = 4, page_size = \"64K\" }\n",
            &["walker.host", "\"64K\"", "choose from 4K, 2M, 1G"],
        ),
        (
            "\"radix\"\nlevels = 4\n",
            "\"nested\"\nlevels = 4\nhost = { levels = 3, page_size = \"4K\" }\n",
            &["walker.host", "levels = 3", "choose 4 or 5"],
        ),
        (
            "\"radix\"\nlevels = 4\n",
            "\"nested\"\nlevels = 4\nhost = { levels = 4, page_size = \"4K\" }\nnested_tlb = { entries = 0 }\n",
            &["`nested_tlb`", "at least 1"],
        ),
        ("walk_reference = 20", "walk_reference = 20\nmemory = 9", &["cost.memory", "[[cache]]"]),
        ("walk_reference = 20", &cached("load", "48K", ""), &["no cache serves `walk`"]),
        ("walk_reference = 20", &cached("walk", "48K", ""), &["missing key `memory`"]),
        ("walk_reference = 20", &cached("walk", "48KB", "memory = 9"), &["cache `c`", "48KB", "such as 48K"]),
        (
            "walk_reference = 20",
            &cached("walk", "100", "memory = 9"),
            &["cache `c`", "\"100\"", "lines of 64 bytes", "\"128\""],
        ),
        (
            "walk_reference = 20",
            &cached("walk", "0\"\nways = 8\n#", "memory = 9"),
            &["cache `c`", "size = \"0\"", "ways = 8", "nearest is \"512\""],
        ),
        (
            "walk_reference = 20",
            &cached("walk", "48K", "memory = 9\nwalk_reference = 9"),
            &["walk_reference", "`memory`"],
        ),
        ("\"load\", \"store\"", "\"lod\", \"store\"", &["line 7", "`lod`", "`fetch`, `load`, `store`"]),
        ("pdpte =", "pdpe =", &["`pdpe`", "`pde`, `pdpte`, `pml4`"]),
        ("radix", "radish", &["`radish`", "`radix`"]),
        ("[\"4K\"]", "[\"4KB\"]", &["tlb `l1d`", "page_sizes", "`4KB`", "4K, 2M or 1G"]),
        ("name = \"example\"", "name = ", &["line 2"]),
        // Impossible geometry.
        ("ways = 4\n", "ways = 5\n", &["tlb `l1d`", "64 entries", "5 ways"]),
        ("entries = 64", "entries = 0", &["tlb `l1d`", "at least 1"]),
        ("entries = 32, ways = 4", "entries = 30, ways = 4", &["`pde`", "30 entries", "4 ways"]),
        ("levels = 4", "levels = 7", &["walker: levels = 7", "`x86-64`", "4 or 5"]),
        ("1536\nways = 12", "1536\nways = 12\nreserved = 8", &["tlb `l2`", "reserved = 8", "128 sets"]),
        ("1536\nways = 12", "12\npages_per_entry = 3", &["tlb `l2`", "pages_per_entry = 3", "power of two"]),
        (
            "ways = 4\n",
            "ways = 4\npages_per_entry = 2\n",
            &["tlb `l1d`", "pages_per_entry = 2", "level 2 and 3"],
        ),
        ("1536\nways = 12", "8\nreserved = 8", &["tlb `l2`", "reserved = 8 of 8", "leave at least one"]),
        // Pages and walkers that do not go together.
        ("\"4K\", \"2M\"", "\"4K\", \"64K\"", &["tlb `l2`", "64K", "`x86-64` cannot map it", "4K, 2M, 1G"]),
        ("\"4K\", \"2M\"", "\"2M\"", &["no array serves `fetch` for 4K pages"]),
        (
            "levels = 4",
            "format = \"aarch64-16k\"\nlevels = 3",
            &["walker cache `pde`", "`aarch64-16k` with 3 levels", "`l2`, `l1`"],
        ),
        ("levels = 4", "levels = 4\nformat = \"sv39\"", &["\"sv39\"", "x86-64, aarch64-4k", "riscv-sv39"]),
        ("levels = 4\n", "", &["levels is missing", "4 or 5"]),
        ("levels = 4", "levels = 4\nbuckets = 8", &["\"radix\" has no `buckets`", "`format`, `levels`"]),
        ("[walker]", "[paging]\nbase = \"8K\"\n[walker]", &["paging", "`x86-64`", "4K and 2M"]),
        ("[walker]", "[paging]\nbase = \"9K\"\n[walker]", &["paging.base", "`9K`"]),
        ("[walker]", "[paging]\nbase = \"2M\"\nhuge = \"4K\"\n[walker]", &["huge = 4K", "base = 2M"]),
        // Wrong types.
        ("entries = 64", "entries = \"64\"", &["line 9", "string \"64\""]),
        ("entries = 64", "entries = -64", &["line 9", "`-64`"]),
        ("walk_reference = 20", "walk_reference = 1.5", &["walk_reference = 1.5", "floating point"]),
        ("[\"4K\"]", "4096", &["line 8", "expected a sequence"]),
        // Something missing.
        ("level = 1\n", "", &["line 4", "missing field `level`"]),
        ("level = 1\n", "level = 3\n", &["no array has level 1"]),
        ("walk_reference = 20", "", &["cost", "missing key `walk_reference`"]),
        (
            "serves = [\"fetch\", \"load\", \"store\"]",
            "serves = [\"load\"]",
            &["no array serves `fetch` for 4K"],
        ),
        ("schema = 1", "schema = 2", &["schema = 2", "schema = 1"]),
    ] {
        let outcome = wrong(from, to);
        outcome.refuses(BAD_INPUT, parts);
        outcome.refuses(BAD_INPUT, &["./m.toml", "docs/reference/machine-files.md"]);
        assert_eq!(outcome.stdout, "");
    }
    let parts = ["./m.toml", "schema = 2"];
    place.run(&["profile", "-m", "./m.toml", "--", "./witness"]).refuses(BAD_INPUT, &parts);
    place.run(&["machines", "check", "./gone.toml"]).refuses(BAD_INPUT, &["./gone.toml", "No such file"]);
    place.run(&["machines", "check", "./mm.toml"]).refuses(BAD_INPUT, &["did you mean `./m.toml`?"]);
    place.run(&["machines", "show", "/"]).refuses(BAD_INPUT, &["/", "Is a directory"]);
    place.write("m.toml", b"name = \"\xff\"");
    place.run(&["machines", "check", "./m.toml"]).refuses(BAD_INPUT, &["./m.toml", "UTF-8"]);
    assert!(!place.has("ran"));
    // One bad file among good ones spoils the exit code, not the others.
    let outcome = place.run(&["machines", "check", "zen3", "./m.toml", "zen4"]);
    outcome.refuses(BAD_INPUT, &["./m.toml"]);
    assert_eq!(outcome.stdout.lines().count(), 2);
}
