//! Streams with moved libraries.

use crate::harness::{BAD_INPUT, Place, USAGE, metric};
use serde_json::Value;

/// A place with `t.pwt` of a program with libraries; returns the first mapping of its C library.
fn with_library() -> (Place, Library) {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "ls", "/usr"]);
    let dump = place.good(&["trace", "dump", "t.pwt"]).stdout;
    let events = dump.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("# ")?).ok());
    let is_library = |map: &Value| {
        let path = map["file"]["path"].as_str().unwrap_or_default();
        path.contains("/libc.so") && map["file"]["offset"] == 0
    };
    let map = events.map(|event| event["map"].clone()).find(is_library).expect("ls has a C library");
    let number = |key: &str| map[key].as_u64().unwrap();
    let library = Library {
        file: map["file"]["path"].as_str().unwrap().to_owned(),
        base: number("start"),
        size: number("bytes"),
    };
    (place, library)
}

struct Library {
    file: String,
    base: u64,
    size: u64,
}

impl Library {
    /// In the format of before 0.2.0, which is still read.
    fn plan(&self, offset: u64, size: u64) -> String {
        format!(
            "schema = \"pagewalk.layout/1\"\nplanner = \"hand\"\n[program]\npath = \"/usr/bin/ls\"\n[[place]]\n\
             file = \"{}\"\noffset = \"{offset:#x}\"\nsize = \"{size:#x}\"\n",
            self.file
        )
    }
}

#[test]
fn a_library_that_moves_by_gigabytes_keeps_its_sets() {
    let (place, library) = with_library();
    let of = |arguments: &[&str]| {
        let run = [&["simulate", "--json", "--thp", "never", "-m", "k8"], arguments, &["t.pwt"]].concat();
        place.good(&run).json()
    };
    let recorded = of(&[]);
    place.write("same.toml", library.plan(library.base % (1 << 30), library.size));
    let same = of(&["--layout", "same.toml"]);
    place.write("other.toml", library.plan((library.base + 0x55_5000) % (1 << 30), library.size));
    let other = of(&["--layout", "other.toml"]);
    for name in ["instructions", "references", "tlb.l1i.misses", "tlb.l2i.misses", "tlb.l2d.misses"] {
        assert_eq!(metric(&same, name), metric(&recorded, name), "{name}");
    }
    assert_eq!(metric(&other, "references"), metric(&recorded, "references"));
    let walks = |result: &Value| {
        let kernels = result["processes"][0]["kernels"].as_array().expect("kernels");
        kernels.iter().map(|row| row["metrics"]["walks"].as_u64()).collect::<Vec<_>>()
    };
    let under = of(&["-m", "golden_cove", "--os", "offline", "--layout", "same.toml"]);
    assert_eq!(
        walks(&under),
        walks(&of(&["-m", "golden_cove", "--os", "offline"])),
        "moved to the same sets"
    );
    let by_set = |arguments: &[&str]| {
        let found = place.good(&[&["layout", "analyze", "--json"], arguments, &["t.pwt"]].concat()).json();
        found["arrays"][0]["misses_by_set"].clone()
    };
    assert_eq!(by_set(&["--layout", "same.toml"]), by_set(&[]));
    assert_ne!(by_set(&["--layout", "other.toml"]), by_set(&[]));
    let names = |result: &Value| {
        let rows = result["processes"][0]["attribution"]["mappings"].as_array().unwrap().clone();
        rows.into_iter().map(|row| (row["name"].to_string(), row["references_fetch"].as_u64())).collect()
    };
    let (mut before, mut after): (Vec<_>, Vec<_>) = (names(&recorded), names(&other));
    before.sort();
    after.sort();
    assert_eq!(after, before, "each mapping has its references still");
}

#[test]
fn plans_that_do_not_fit_are_refused() {
    let (place, library) = with_library();
    let simulate =
        |more: &[&str]| place.run(&[&["simulate", "--layout", "plan.toml"], more, &["t.pwt"]].concat());
    place.write("plan.toml", library.plan(0, library.size - 4096));
    simulate(&[]).refuses(BAD_INPUT, &["plan.toml", "t.pwt", &library.file, "do not fit"]);
    let other_build = library.plan(0, library.size) + "build_id = \"00\"\n";
    place.write("plan.toml", other_build);
    simulate(&[]).refuses(BAD_INPUT, &[&library.file, "build-id 00"]);
    place.write("plan.toml", library.plan(0, 0));
    simulate(&[]).refuses(BAD_INPUT, &["plan.toml", "at least one page"]);
    place.write("plan.toml", library.plan(0, library.size));
    let absent = library.plan(0, library.size).replace(&library.file, "/nowhere.so");
    place.write("plan.toml", absent);
    let told = simulate(&["--json"]);
    assert!(told.stderr.contains("/nowhere.so is no shared object of t.pwt"), "{}", told.stderr);
}

#[test]
fn watched_arrays_miss_as_simulated_ones_do() {
    let (place, library) = with_library();
    place.write("plan.toml", library.plan(0x5000, library.size));
    for machine in ["konireddygari_u512", "konireddygari_split64"] {
        for layout in [&[][..], &["--layout", "plan.toml"][..]] {
            let analyze = [&["layout", "analyze", "--json", "-m", machine], layout, &["t.pwt"]].concat();
            let found = place.good(&analyze).json();
            let simulate = [&["simulate", "--json", "--thp", "never", "-m", machine], layout, &["t.pwt"]];
            let simulated = place.good(&simulate.concat()).json();
            assert_eq!(found["code"]["instructions"], metric(&simulated, "instructions"));
            for array in found["arrays"].as_array().unwrap() {
                let name = array["name"].as_str().unwrap();
                let misses =
                    array["misses"]["code"].as_u64().unwrap() + array["misses"]["data"].as_u64().unwrap();
                assert_eq!(misses, metric(&simulated, &format!("tlb.{name}.misses")), "{name}");
                let kinds = ["compulsory", "capacity", "conflict"].map(|kind| array[kind].as_u64().unwrap());
                assert_eq!(kinds.iter().sum::<u64>(), misses);
                assert!(array["owners"].to_string().contains(&library.file));
            }
        }
    }
}

#[test]
fn an_analysis_writes_page_data_graph_and_calls() {
    let (place, library) = with_library();
    let files = ["-o", "r.html", "-o", "r.json", "--dot", "r.dot", "--callgrind", "r.out"];
    let analyze = ["layout", "analyze", "-m", "konireddygari_split64", "--set", "3", "--least", "0"];
    let text = place.good(&[&analyze[..], &files, &["t.pwt"]].concat());
    assert!(text.stdout.contains("dtlb, for data: 64 entries, 16 sets of 4 ways"), "{}", text.stdout);
    let result = place.json("r.json");
    let array = &result["arrays"][0];
    let all: u64 =
        ["compulsory", "capacity", "conflict"].iter().map(|kind| array[kind].as_u64().unwrap()).sum();
    assert!(array["conflict"].as_u64().unwrap() * 50 > all, "its sets cost something: {array}");
    let next = "next: pagewalk layout plan -m konireddygari_split64 -o plan.toml t.pwt\n";
    assert!(text.stderr.ends_with(next), "{}", text.stderr);
    assert_eq!(place.good(&["layout", "analyze", "-q", "t.pwt"]).stderr, "");
    let graph = &result["arrays"][1]["graphs"][0];
    assert_eq!(graph["set"], 3, "the set asked for comes first");
    let counted: u64 =
        graph["edges"].as_array().unwrap().iter().map(|edge| edge["count"].as_u64().unwrap()).sum();
    assert!(
        counted > 0 && counted + graph["left_out"].as_u64().unwrap() <= graph["misses"].as_u64().unwrap()
    );
    place.good(&["report", "-o", "again.html", "r.json"]);
    assert!(place.read("again.html") == place.read("r.html"));
    let dot = String::from_utf8(place.read("r.dot")).unwrap();
    assert!(dot.starts_with("digraph \"itlb set 3\" {") && dot.contains("digraph \"dtlb set 3\""), "{dot}");
    let calls = result["code"]["calls"].as_array().unwrap();
    assert!(calls.len() > 10);
    let executed: u64 = result["code"]["pages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| page["instructions"].as_u64().unwrap())
        .sum();
    assert_eq!(result["code"]["instructions"], executed);
    let annotate =
        std::process::Command::new("callgrind_annotate").arg(place.path("r.out")).output().unwrap();
    let report = String::from_utf8_lossy(&annotate.stdout);
    assert!(
        annotate.status.success() && annotate.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&annotate.stderr)
    );
    let totals = report.lines().find(|line| line.contains("PROGRAM TOTALS")).unwrap().replace(',', "");
    assert_eq!(totals.split_whitespace().next().unwrap(), executed.to_string());
    assert!(report.contains(&library.file), "{report}");
}

#[test]
fn a_region_knows_what_was_mapped_before_it() {
    let (place, library) = with_library();
    let analyze =
        |more: &[&str]| place.good(&[&["layout", "analyze", "--json"], more, &["t.pwt"]].concat()).json();
    let all = analyze(&[])["code"]["instructions"].as_u64().unwrap();
    let skipped = (all - 20_000).to_string();
    let end = analyze(&["--skip", &skipped]);
    assert!(end["code"]["instructions"].as_u64().unwrap() <= 20_000);
    let owners = end["arrays"][0]["owners"].as_array().unwrap();
    let of_library = owners.iter().find(|owner| owner["name"] == library.file.as_str());
    assert_eq!(of_library.unwrap()["kind"], "object");
}

#[test]
fn a_file_takes_part_in_each_eviction_once() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "ls", "/usr/include"]);
    let found = place.good(&["layout", "analyze", "-m", "mips_r2000", "--json", "t.pwt"]).json();
    let owners = found["arrays"][0]["owners"].as_array().unwrap();
    // Every eviction is once by someone and once of someone; one that a file does to itself counts once for it.
    let of = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let evictions = |name: &str| owners.iter().map(|owner| of(owner, name)).sum::<u64>();
    assert_eq!(evictions("evicted"), evictions("was_evicted"));
    for owner in owners {
        let (by, own, of_it) = (of(owner, "evicted"), of(owner, "evicted_own"), of(owner, "was_evicted"));
        assert!(own <= by.min(of_it) && by + of_it - own <= evictions("evicted"), "{owner}");
    }
    assert!(evictions("evicted_own") > 0, "{owners:?}");
}

#[test]
fn analyses_that_cannot_be_are_refused() {
    let place = Place::with_trace();
    let analyze = |more: &[&str]| place.run(&[&["layout", "analyze"], more, &["good.pwt"]].concat());
    analyze(&["--tlb", "l9"]).refuses(USAGE, &["no array `l9`", "choose from tlb"]);
    analyze(&["-m", "mips_r4000"]).refuses(USAGE, &["jtlb", "--tlb"]);
    let level = "level = 1\nserves = [\"fetch\", \"load\", \"store\"]\npage_sizes = [\"4K\"]\nentries = 16\n";
    let (first, late) = (level, level.replace("= 1\n", "= 2\n") + "fills = \"victims\"\n");
    let rest = "[walker]\nkind = \"software\"\nrefill_cycles = 30\n[cost]\nl2_hit = 0\n\
                cycles_per_instruction = 1.0\n";
    let arrays = format!("[[tlb]]\nname = \"l1\"\n{first}[[tlb]]\nname = \"late\"\n{late}");
    place.write("v.toml", format!("schema = 1\nname = \"with_victims\"\n{arrays}{rest}"));
    analyze(&["-m", "v.toml", "--tlb", "late"]).refuses(USAGE, &["array `late` cannot be watched: victims"]);
    let without = analyze(&["-m", "v.toml"]);
    assert!(without.stderr.contains("array `late` is left out: victims"), "{}", without.stderr);
    assert!(without.stdout.contains("l1, for") && !without.stdout.contains("late"), "{}", without.stdout);
    analyze(&["--set", "128"]).refuses(USAGE, &["--set 128", "0 to 127"]);
    analyze(&["--least", "150%"]).refuses(USAGE, &["150%"]);
    analyze(&["-o", "r.txt"]).refuses(USAGE, &["r.txt", ".html"]);
    let absent = ["layout", "analyze", "nothing.pwt"];
    place.run(&absent).refuses(BAD_INPUT, &["nothing.pwt"]);
    assert!(analyze(&[]).stdout.contains("konireddygari_u512"));
}

/// The written plan, simulated by itself, walks as often as stated; nothing is worse than as recorded.
#[test]
fn planned_walks_are_those_that_simulation_finds() {
    let (place, _) = with_library();
    let machines = ["konireddygari_split64", "konireddygari_u256"];
    let both = ["-m", machines[0], "-m", machines[1]];
    let plan = |arguments: &[&str]| {
        place
            .good(&[&["layout", "plan", "-q", "--json", "-o", "plan.toml"], arguments, &["t.pwt"]].concat())
            .json()
    };
    let found = plan(&both);
    assert_eq!(found["schema"], "pagewalk.layout-plan/1");
    for (number, machine) in machines.iter().enumerate() {
        let told = &found["machines"][number];
        let walks = |layout: &[&str]| {
            let simulate =
                [&["simulate", "--json", "--thp", "never", "-m", machine], layout, &["t.pwt"]].concat();
            metric(&place.good(&simulate).json(), "walks")
        };
        assert_eq!(told["name"], *machine);
        assert_eq!(told["recorded"], walks(&[]));
        assert_eq!(told["planned"], walks(&["--layout", "plan.toml"]));
        assert!(told["planned"].as_u64() <= told["recorded"].as_u64(), "{told}");
        let random = &told["random"];
        assert!(random["least"].as_f64() <= random["median"].as_f64() && random["count"] == 30);
    }
    let text = place.good(&["layout", "plan", "-v", "t.pwt"]).stdout;
    assert!(text.contains("konireddygari_u512") && text.contains("/libc.so"), "{text}");
    for planner in ["single", "callgraph", "pack", "random"] {
        let found = plan(&["--planner", planner]);
        assert_eq!(found["planner"], planner);
        let objects = found["objects"].as_array().unwrap().len();
        let moved = found["objects"].as_array().unwrap().iter().filter(|object| object["shift"] != 0).count();
        assert!(objects > 1 && (planner != "single" || moved <= 1), "{found}");
        let again = place.good(&[
            "simulate",
            "--json",
            "--thp",
            "never",
            "-m",
            "konireddygari_u512",
            "--layout",
            "plan.toml",
            "t.pwt",
        ]);
        assert_eq!(found["machines"][0]["planned"], metric(&again.json(), "walks"), "{planner}");
    }
}

#[test]
fn plans_that_cannot_be_made_are_refused() {
    let (place, _) = with_library();
    let plan = |arguments: &[&str]| place.run(&[&["layout", "plan", "-q"], arguments, &["t.pwt"]].concat());
    plan(&["-m", "zen4_coalescing"])
        .refuses(USAGE, &["zen4_coalescing", "`l1d`", "entries for several pages"]);
    // A plan that looks at no machine is for any, without an estimate.
    for planner in ["pack", "random"] {
        let planned = plan(&["-m", "zen4_coalescing", "--planner", planner, "--json", "-o", "any.toml"]);
        let machine = planned.json()["machines"][0].clone();
        assert_eq!((&machine["name"], &machine["random"]["count"]), (&"zen4_coalescing".into(), &0.into()));
    }
    plan(&["-m", "konireddygari_u256", "-m", "k8", "--planner", "single"])
        .refuses(USAGE, &["2 machines", "--planner search"]);
    plan(&["--planner", "best"]).refuses(USAGE, &["best", "search, single, callgraph, pack, random"]);
    place.run(&["layout", "plan", "none.pwt"]).refuses(BAD_INPUT, &["none.pwt"]);
    place
        .run(&["layout", "plan", "/dev/null"])
        .refuses(BAD_INPUT, &["/dev/null", "layout plan reads a trace twice"]);
    place.write("alone.c", "int main(void) { return 0; }");
    let mut gcc = std::process::Command::new("gcc");
    assert!(
        gcc.args(["-static", "-o", "alone", "alone.c"])
            .current_dir(place.path(""))
            .status()
            .unwrap()
            .success()
    );
    place.good(&["record", "-q", "-o", "alone.pwt", "--", "./alone"]);
    let why = ["alone.pwt", "no shared object that can move", "linked dynamically"];
    place.run(&["layout", "plan", "-q", "-o", "plan.toml", "alone.pwt"]).refuses(BAD_INPUT, &why);
    assert!(!place.has("plan.toml"), "nothing is left of a plan that was not made");
}
