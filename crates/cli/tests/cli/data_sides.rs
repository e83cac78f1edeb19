//! Data sides: errors in their files or on the command line.

use crate::harness::{BAD_INPUT, Place, USAGE};
use serde_json::Value;

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
        (
            "threshold = 8 ",
            "backing = \"eager\"\nmemory = { sise = \"4G\" }\n",
            &["m.toml", "`sise`", "`size`"],
        ),
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

/// The metrics of a machine by its name, and with `policy` under that kernel.
fn metrics_of(result: &Value, machine: &str, policy: Option<&str>) -> Value {
    let rows = result["machines"].as_array().into_iter().flatten().filter(|_| policy.is_none());
    let kernels = result["processes"][0]["kernels"].as_array();
    let kernels = kernels.into_iter().flatten().filter(|row| row["machine"] == machine);
    let mut rows = rows
        .filter(|row| row["name"] == machine)
        .chain(kernels.filter(|row| policy.is_some_and(|policy| row["policy"] == policy)));
    rows.next().unwrap_or_else(|| panic!("no {machine} under {policy:?}: {result:#}"))["metrics"].clone()
}

fn sum(metrics: &Value) -> f64 {
    let energy = |name: &str| metrics[format!("energy_pj.{name}")].as_f64().unwrap();
    let parts = ["l1_4k", "l2_4k", "pde", "pdpte", "pml4", "l1_range", "l2_range"];
    let parts =
        parts.iter().map(|name| energy(&format!("{name}.searches")) + energy(&format!("{name}.writes")));
    parts.sum::<f64>() + energy("walks") + energy("range_walks")
}

/// In any arrangement, its operations are counted and priced; what changes nothing changes no counter.
#[test]
fn data_sides_go_with_everything() {
    let place = Place::with_trace();
    let lite = "karakostas_rmm_lite";
    let simulate =
        |more: &[&str]| place.good(&[&["simulate", "--json"], more, &["good.pwt"]].concat()).json();
    let alone = metrics_of(&simulate(&["-m", lite]), lite, None);
    assert!((sum(&alone) / alone["energy_pj.all"].as_f64().unwrap() - 1.0).abs() < 1e-12, "{alone:#}");
    assert!(alone["walks"].as_u64() > Some(0));
    // Next to whole machines, which are reported as ever.
    let both = simulate(&["-m", lite, "-m", "zen4", "--what-if"]);
    let zen4 = simulate(&["-m", "zen4", "--what-if"]);
    assert_eq!(metrics_of(&both, lite, None), alone);
    assert_eq!(both["processes"][0]["what_if"], zen4["processes"][0]["what_if"]);
    assert_eq!(both["machines"][0]["name"], "zen4");
    let more = |more: &[&str]| simulate(&[&["-m", lite], more].concat());
    let beside = |mut metrics: Value, added: &[&str]| {
        added.iter().for_each(|name| _ = metrics.as_object_mut().unwrap().remove(*name).expect(name));
        metrics
    };
    assert_eq!(beside(metrics_of(&more(&["--cores", "2"]), lite, None), &["cores"]), alone);
    assert_eq!(beside(metrics_of(&more(&["--quantum", "9"]), lite, None), &["switches"]), alone);
    let counts = ["system_calls", "clock_ticks", "server_visits", "kernel_references", "server_references"];
    assert_eq!(beside(metrics_of(&more(&["--structure", "osf1"]), lite, None), &counts), alone);
    let under = metrics_of(&more(&["--os", "fixed"]), lite, Some("fixed"));
    assert_eq!((&under["energy_pj.all"], &under["walks"]), (&alone["energy_pj.all"], &alone["walks"]));
    assert!(under["kernel.faults"].as_u64() > Some(0));
    // Two processes flush each other's entries where there are no identifiers.
    let two =
        place.good(&["simulate", "--json", "-m", lite, "--quantum", "9", "good.pwt", "good.pwt"]).json();
    let two = metrics_of(&two, lite, None);
    assert!(two["walks"].as_u64() > alone["walks"].as_u64().map(|walks| 2 * walks), "{two:#}");
    assert!((sum(&two) / two["energy_pj.all"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    place
        .run(&["simulate", "-m", lite, "--by-traps", "9", "good.pwt"])
        .refuses(USAGE, &["`karakostas_rmm_lite`", "--by-traps", "[walker.mapped]"]);
}

/// A kernel in its file, address spaces, caches and an array that cores share.
#[test]
fn a_data_side_has_what_other_machines_have() {
    let place = Place::with_trace();
    let text = RMM_LITE
        .replacen("energy = ", "asids = 4\nenergy = ", 1)
        .replacen("level = 2\n", "level = 2\nshared = true\n", 1)
        .replacen("walk = 50 ", "memory = 200 ", 1)
        + "[os]\npolicy = \"fixed\"\nmemory = { size = \"16M\" }\n\
           [[cache]]\nname = \"l1d\"\nlevel = 1\nserves = [\"load\", \"store\", \"walk\"]\n\
           size = \"32K\"\nlatency = 4\n";
    place.write("m.toml", &text);
    for more in [&[][..], &["--cores", "2"], &["--quantum", "9"], &["--structure", "mach3"]] {
        let arguments = [&["simulate", "--json", "-m", "./m.toml"], more, &["good.pwt"]].concat();
        let metrics = metrics_of(&place.good(&arguments).json(), "karakostas_rmm_lite", Some("fixed"));
        assert!(metrics["cache.l1d.walk_lookups"].as_u64() > Some(0), "{metrics:#}");
        assert!(metrics["energy_pj.l1_4k.searches"].as_f64() > Some(0.0));
        // The table prices no walk that misses a cache.
        assert!(metrics.get("energy_pj.all").is_none());
        assert!(metrics["kernel.frames"].as_u64() > Some(0));
    }
    place.write("m.toml", text.replacen("memory = 200 ", "memory = 200\nwalk = 50 ", 1));
    place.run(&["machines", "check", "./m.toml"]).refuses(BAD_INPUT, &["cost.walk", "[[cache]]", "`memory`"]);
}

/// All machines have a row, whatever they are.
#[test]
fn a_data_side_beside_a_machine_is_told_of() {
    let place = Place::with_trace();
    let text = place.good(&["simulate", "-m", "k8", "-m", "karakostas_rmm_lite", "good.pwt"]).stdout;
    let [_, rows] = text.split("\n  Machine ").collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(rows.contains("\n  k8 ") && rows.contains("\n  karakostas_rmm_lite "), "{text}");
}

/// A profile has a data side next to its machine, or alone with its own bounds.
#[test]
fn profiles_take_data_sides() {
    let place = Place::new();
    let profile = |machines: &[&str]| {
        place.good(&[&["profile", "-q", "--json"], machines, &["--", "true"]].concat()).json()
    };
    let both = profile(&["-m", "zen4", "-m", "karakostas_thp"]);
    assert!(metrics_of(&both, "karakostas_thp", None)["energy_pj.all"].as_f64() > Some(0.0));
    assert!(!both["processes"][0]["attribution"]["mappings"].as_array().unwrap().is_empty());
    let alone = profile(&["-m", "karakostas_thp"]);
    assert_eq!(alone["processes"][0]["what_if"][1]["id"], "perfect_walk_llc");
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

/// A study has the counters that `simulate` prints, under kernels, in turns and in operating systems too.
#[test]
fn studies_take_data_sides() {
    let place = Place::with_trace();
    let study = "schema = 1\nname = \"s\"\nthp = \"always\"\ntraces = [\"good.pwt\"]\n\
                 machines = [\"karakostas_rmm\", \"karakostas_thp\", \"zen4\"]\nstructures = [\"none\", \"osf1\"]\n\
                 [[os]]\nname = \"host\"\npolicy = \"host\"\n[[os]]\npolicy = \"fixed\"\n\
                 [[together]]\nname = \"twice\"\ntraces = [\"good.pwt\", \"good.pwt\"]\nquantum = 9\n";
    place.write("s.toml", study);
    let found = place.good(&["sweep", "-q", "--json", "s.toml"]).json();
    let simulate = |more: &[&str]| {
        let arguments =
            [&["simulate", "--json", "--thp", "always", "-m", "karakostas_rmm"], more, &["good.pwt"]];
        place.good(&arguments.concat()).json()
    };
    let cell = |trace: usize, os: &str, structure: &str| {
        let is_meant = |cell: &&Value| {
            let at = ["os", "structure", "machine"].map(|key| cell[key].as_str().unwrap_or_default());
            cell["trace"] == trace && at == [os, structure, "karakostas_rmm"]
        };
        let cell = found["machines"].as_array().unwrap().iter().find(is_meant);
        cell.unwrap_or_else(|| panic!("{os} {structure} {found:#}"))["metrics"].clone()
    };
    let name = "karakostas_rmm";
    assert_eq!(cell(0, "host", "none"), metrics_of(&simulate(&[]), name, None));
    assert_eq!(cell(0, "host", "osf1"), metrics_of(&simulate(&["--structure", "osf1"]), name, None));
    assert_eq!(cell(0, "fixed", "none"), metrics_of(&simulate(&["--os", "fixed"]), name, Some("fixed")));
    let mut twice = metrics_of(&simulate(&["--quantum", "9", "good.pwt"]), name, None);
    twice.as_object_mut().unwrap().remove("switches");
    assert_eq!(cell(1, "host", "none"), twice);
}

/// Data sides under layouts, and plans for their data.
#[test]
fn layouts_take_data_sides() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "ls", "/usr"]);
    let study = "schema = 1\nname = \"s\"\nthp = \"never\"\ntraces = [\"t.pwt\"]\n\
                 machines = [\"karakostas_4k\", \"zen4_coalescing\"]\n\
                 [[layout]]\nname = \"random\"\nplanner = \"random\"\n";
    place.write("s.toml", study);
    let found = place.good(&["sweep", "-q", "--json", "-o", "out", "s.toml"]).json();
    let recorded =
        place.good(&["simulate", "--json", "--thp", "never", "-m", "karakostas_4k", "t.pwt"]).json();
    let cells = found["machines"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for (name, value) in recorded["machines"][0]["metrics"].as_object().unwrap() {
        assert_eq!(cells[0]["metrics"][name], *value, "{name}");
    }
    // Its entries hold groups of pages, for which no set is planned.
    let searched = study.replace("random", "search");
    place.write("s.toml", &searched);
    place
        .run(&["sweep", "-q", "-o", "out", "s.toml"])
        .refuses(BAD_INPUT, &["`zen4_coalescing`", "`l1d`", "entries for several pages"]);
    place.write("s.toml", searched.replace(", \"zen4_coalescing\"", ""));
    place.good(&["sweep", "-q", "-o", "out", "s.toml"]);
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
