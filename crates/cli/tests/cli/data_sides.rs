//! Data sides: what is wrong in their files or on the command line.

use crate::harness::{BAD_INPUT, Place, USAGE, metric};

const RMM_LITE: &str = include_str!("../../../../machines/karakostas_rmm_lite.toml");

#[test]
fn a_wrong_data_side_is_named_with_key_and_choices() {
    let place = Place::new();
    let range = "entries = 32\n";
    for (from, to, parts) in [
        ("side = \"data\"", "side = \"code\"", &["`code`", "`data`"][..]),
        ("side = \"data\"", "", &["[[range_tlb]]", "side = \"data\""]),
        (
            "serves = [\"load\", \"store\"]",
            "serves = [\"load\"]",
            &["`l1_4k`", "serves = [\"load\", \"store\"]"],
        ),
        ("walk = 50", "walk_reference = 50", &["cost", "missing key `walk`"]),
        ("walk = 50", "walk = 50\nmemory = 9", &["cost.walk", "leave out"]),
        (range, "entries = 0\n", &["range_tlb `l2_range`", "entries = 0", "1 to 1024"]),
        ("level = 2\nentries = 32", "level = 1\nentries = 32", &["`l2_range`", "another one of level 1"]),
        ("level = 2\nentries = 32", "level = 3\nentries = 32", &["`l2_range`", "level = 3"]),
        ("threshold = 8 ", "threshold = 0 ", &["ranges.threshold = 0"]),
        ("threshold = 8 ", "backing = \"eager\"\n", &["ranges", "`memory`", "size = \"4G\""]),
        ("threshold = 8 ", "memory = { size = \"4G\" }\n", &["ranges.memory", "leave it out"]),
        ("threshold = 8 ", "backing = \"lazy\"\n", &["`lazy`", "`perfect`, `eager`, `demand`"]),
        ("tlbs = [\"l1_4k\"]", "tlbs = [\"l1\"]", &["lite.tlbs", "`l1`", "l1_4k, l2_4k"]),
        ("tlbs = [\"l1_4k\"]", "tlbs = [\"l2_4k\"]", &["lite.tlbs", "`l2_4k`", "level 1"]),
        ("threshold = 0.1 ", "threshold = -1.0 ", &["lite: threshold = -1", "above 0"]),
        ("reactivation = 0.0078125", "reactivation = 2.0", &["reactivation = 2", "0 to 1"]),
        ("history = \"previous\"", "history = \"best\"", &["`best`", "`previous` or `minimum`"]),
        ("[lite]", "[segment]\n[lite]", &["[segment]", "leave out `energy`"]),
        (
            "ways = 4\n",
            "ways = 4\ncoalesce = { rule = \"clustered\", pages = 8 }\n",
            &["`l1_4k`", "level 1", "aligned"],
        ),
        (
            "ways = 4\n",
            "ways = 4\ncoalesce = { rule = \"aligned\", pages = 6 }\n",
            &["pages = 6", "power of two"],
        ),
        ("ways = 4\n", "ways = 4\nindex = \"xor-fold\"\n", &["`l1_4k`", "leave out `index`"]),
    ] {
        assert!(RMM_LITE.contains(from), "{from}");
        place.write("m.toml", RMM_LITE.replacen(from, to, 1));
        place.run(&["machines", "check", "./m.toml"]).refuses(BAD_INPUT, parts);
    }
}

#[test]
fn data_sides_go_together_and_with_no_others() {
    let place = Place::with_trace();
    let simulate = |more: &[&str]| place.run(&[&["simulate"], more, &["good.pwt"]].concat());
    let (lite, thp) = ("karakostas_rmm_lite", "karakostas_thp");
    simulate(&["-m", thp, "-m", "zen4"]).refuses(USAGE, &["`zen4`", "side = \"data\"", "no others"]);
    for more in [&["--cores", "2"][..], &["--quantum", "9"], &["--by-traps", "9"]] {
        simulate(&[&["-m", thp], more].concat()).refuses(USAGE, &["`karakostas_thp`", more[0]]);
    }
    for more in [&["--what-if"][..], &["--structure", "osf1"], &["--os", "asap"]] {
        simulate(&[&["-m", thp], more].concat()).refuses(USAGE, &["side = \"data\"", more[0]]);
    }
    place.run(&["profile", "-m", thp, "--", "true"]).refuses(USAGE, &["side = \"data\"", "simulate"]);
    let outcome = simulate(&["--json", "-m", thp, "-m", lite]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let result = outcome.json();
    let metrics = &result["machines"][1]["metrics"];
    let energy = |name: &str| metrics[format!("energy_pj.{name}")].as_f64().unwrap();
    let parts: f64 = ["l1_4k", "l2_4k", "pde", "pdpte", "pml4", "l1_range", "l2_range"]
        .iter()
        .map(|name| energy(&format!("{name}.searches")) + energy(&format!("{name}.writes")))
        .sum();
    let all = parts + energy("walks") + energy("range_walks");
    assert!((all / energy("all") - 1.0).abs() < 1e-12, "{all}");
    assert!(metric(&result, "walks") > 0);
}

#[test]
fn an_energy_table_without_a_structure_is_named_before_anything_runs() {
    let place = Place::with_trace();
    let larger = RMM_LITE.replacen("entries = 512", "entries = 1024", 1);
    place.write("m.toml", &larger);
    let parts =
        ["karakostas_32nm", "page_tlb of 1024 entries and 4 ways", "`l2_4k`", "512 entries of 4 ways"];
    place.run(&["simulate", "-m", "./m.toml", "good.pwt"]).refuses(BAD_INPUT, &parts);
    place.write("s.toml", "schema = 1\nname = \"s\"\ntraces = [\"good.pwt\"]\nmachines = [\"./m.toml\"]\n");
    place.run(&["sweep", "-q", "s.toml"]).refuses(BAD_INPUT, &parts);
    let memory = "threshold = 8\nbacking = \"demand\"\nmemory = { size = \"lots\" }\n";
    place.write("m.toml", RMM_LITE.replacen("threshold = 8 ", memory, 1));
    let parts = ["karakostas_rmm_lite", "ranges.memory", "\"lots\"", "8G"];
    place.run(&["simulate", "-m", "./m.toml", "good.pwt"]).refuses(BAD_INPUT, &parts);
    place.run(&["sweep", "-q", "s.toml"]).refuses(BAD_INPUT, &parts);
    place.write("m.toml", larger.replacen("karakostas_32nm", "mine", 1));
    place.run(&["simulate", "-m", "./m.toml", "good.pwt"]).refuses(BAD_INPUT, &["`mine`", "karakostas_32nm"]);
}

/// A study has the counters that `simulate` prints.
#[test]
fn studies_take_data_sides() {
    let place = Place::with_trace();
    let study = "schema = 1\nname = \"s\"\nthp = \"always\"\ntraces = [\"good.pwt\"]\n\
                 machines = [\"karakostas_rmm\", \"karakostas_thp\", \"zen4\"]\n";
    place.write("s.toml", study);
    let found = place.good(&["sweep", "-q", "--json", "s.toml"]).json();
    let alone =
        place.good(&["simulate", "--json", "--thp", "always", "-m", "karakostas_rmm", "good.pwt"]).json();
    assert_eq!(found["machines"][0]["metrics"], alone["machines"][0]["metrics"]);
    for (more, parts) in
        [("structures = [\"osf1\"]\n", "structures"), ("[[os]]\npolicy = \"fixed\"\n", "[[os]]")]
    {
        place.write("s.toml", format!("{study}{more}"));
        place.run(&["sweep", "-q", "s.toml"]).refuses(BAD_INPUT, &["side = \"data\"", parts]);
    }
}

/// What stands beside the arrays of a second-level page: anchors, predicted sizes, huge pages in the background.
#[test]
fn a_wrong_anchor_predictor_or_collapse_is_named() {
    let place = Place::new();
    const ANCHOR: &str = include_str!("../../../../machines/park_anchor.toml");
    const PREDICTED: &str = include_str!("../../../../machines/karakostas_tlb_pred.toml");
    let collapse = |keys: &str| format!("[collapse]\n{keys}\n[walker]\n");
    let coalesced = "ways = 4\ncoalesce = { rule = \"anchor\", pages = 8 }\n";
    for (machine, from, to, parts) in [
        (ANCHOR, "pages = 8", "pages = 3", &["pages = 3", "2 to 65536"][..]),
        (ANCHOR, "pages = 8", "pages = 131072", &["pages = 131072", "2 to 65536"]),
        (
            ANCHOR,
            "\"anchor\", pages = 8",
            "\"aligned\", pages = 8",
            &["[anchors]", "coalesce.rule = \"anchor\""],
        ),
        (ANCHOR, "100_000_000", "0", &["anchors.interval = 0", "1 instruction"]),
        (ANCHOR, "ways = 4\n", coalesced, &["`l1_4k`", "level 1", "aligned"]),
        (ANCHOR, "[walker]\n", &collapse("interval = 0"), &["collapse", "interval = 0", "at least 1"]),
        (ANCHOR, "[walker]\n", &collapse("every = 5"), &["unknown field `every`", "`interval`"]),
        (ANCHOR, "side = \"data\"", "", &["[anchors]", "side = \"data\""]),
        (PREDICTED, "entries = 128", "entries = 100", &["predictor.entries = 100", "power of two"]),
        (PREDICTED, "\"4K\", \"2M\"", "\"4K\"", &["[predictor]", "`l1`", "two page sizes"]),
    ] {
        assert!(machine.contains(from), "{from}");
        place.write("m.toml", machine.replacen(from, to, 1));
        place.run(&["machines", "check", "./m.toml"]).refuses(BAD_INPUT, parts);
    }
}
