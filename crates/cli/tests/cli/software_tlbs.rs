//! Software-managed TLBs: what is wrong in their files or on the command line, and misses without a price.

use crate::harness::{BAD_INPUT, Place, USAGE};
use serde_json::Value;
use std::collections::BTreeSet;

const R2000: &str = include_str!("../../../../machines/mips_r2000.toml");

/// How its TLB is said to replace.
const RANDOM: &str = "replacement = \"random\"\nreplacement_source = \"documented by Uhlig et al. 1994: the Random \
                      register of the R2000\"\nseed = 2000 ";

/// A place with a recording, and the R2000 under Ultrix with one thing changed.
fn changed(place: &Place, from: &str, to: &str) {
    assert!(R2000.contains(from), "{from}");
    place.write("m.toml", R2000.replacen(from, to, 1));
}

#[test]
fn a_wrong_mapped_walker_is_named_with_key_and_choices() {
    let place = Place::new();
    let lower = "lower = 8 ";
    for (from, to, parts) in [
        (lower, "lower = 64 ", &["walker.mapped.lower = 64", "64 entries", "0 to 63"][..]),
        (lower, "lower = 0 ", &["lower = 0", "placement \"a\"", "1 to 63"]),
        ("\"ultrix\" ", "\"vms\" ", &["walker.mapped.system = \"vms\"", "mach3, mach3_afs_in", "ultrix"]),
        ("\"fifo\"", "\"lru\"", &["walker.mapped.lower_replacement", "lru", "only misses", "fifo or random"]),
        (RANDOM, "replacement = \"lru\" ", &["tlb.replacement", "fifo or random"]),
        (
            "kind = \"software\"",
            "kind = \"software\"\nrefill_cycles = 20",
            &["`refill_cycles`", "[walker.mapped]"],
        ),
        ("entry_bytes = 4 ", "entry_bytes = 3 ", &["entry_bytes = 3", "power of two"]),
        ("tables = 2 ", "tables = 4 ", &["systems.ultrix.tables = 4", "1, 2 or 3"]),
        ("l2 = 494", "l4 = 494", &["systems.ultrix.cycles", "`l4`", "l1u, l1k, l2, l3"]),
        ("entries = 64 ", "entries = 64\nways = 3 ", &["64 entries", "3 ways"]),
        ("entries = 64 ", "entries = 64\nways = 16 ", &["lower = 8", "multiple of 16"]),
        ("entry_bytes = 4 ", "entry_bytes = 4\ntuning = { lower_min = 9 } ", &["lower_min (9)", "lower (8)"]),
    ] {
        changed(&place, from, to);
        place.run(&["machines", "check", "./m.toml"]).refuses(BAD_INPUT, parts);
    }
}

/// The cycles of a class that occurred and has no price are in no sum: the results are printed, and then it is said.
#[test]
fn misses_without_a_price_are_an_error_after_the_results() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    changed(&place, "l2 = 494, ", "");
    let parts = ["machine `mips_r2000`", "misses of class l2", "systems.ultrix", "l1u, l1k, modify, invalid"];
    let outcome = place.run(&["simulate", "--json", "-m", "./m.toml", "t.pwt"]);
    outcome.refuses(BAD_INPUT, &parts);
    let result = outcome.json();
    assert_eq!(result["machines"][0]["metrics"]["miss_cycles.l2"], 0);
    assert_ne!(result["machines"][0]["metrics"]["misses.l2"], 0);
    place.write("s.toml", "schema = 1\nname = \"s\"\ntraces = [\"t.pwt\"]\nmachines = [\"./m.toml\"]\n");
    place.run(&["sweep", "-q", "s.toml"]).refuses(BAD_INPUT, &parts);
}

#[test]
fn by_traps_takes_software_managed_tlbs() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    let by_traps = |more: &[&str]| place.run(&[&["simulate", "--by-traps", "16"], more, &["t.pwt"]].concat());
    by_traps(&["-m", "zen4"]).refuses(USAGE, &["`zen4`", "[walker.mapped]", "mips_r2000"]);
    by_traps(&["-m", "mips_r2000", "-m", "zen4"]).refuses(USAGE, &["`zen4`", "[walker.mapped]"]);
    changed(&place, "name = \"mips_r2000\"", "name = \"another\"");
    let rows = |more: &[&str]| by_traps(&[&["--json"], more].concat()).json()["machines"].clone();
    let (one, two) = (rows(&["-m", "mips_r2000"]), rows(&["-m", "mips_r2000", "-m", "./m.toml"]));
    assert_eq!(one.as_array().unwrap()[..], two.as_array().unwrap()[..3]);
    for (row, alike) in two.as_array().unwrap().iter().zip(&two.as_array().unwrap()[3..]) {
        assert_eq!(row["metrics"], alike["metrics"], "{}", alike["name"]);
    }
}

/// Kernels and alternatives run beside traps, and change nothing that these count.
#[test]
fn traps_go_with_every_other_option() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    let larger = R2000.replacen("page_sizes = [\"4K\"]", "page_sizes = [\"4K\", \"16K\"]", 1);
    place.write("m.toml", format!("{larger}\n[os]\npolicy = \"asap\"\nname = \"own\"\n"));
    place.write("n.toml", larger.replacen("name = \"mips_r2000\"", "name = \"n\"", 1));
    let run = |more: &[&str]| {
        let simulate = ["simulate", "-q", "--json", "-m", "./m.toml", "-m", "./n.toml", "--by-traps", "16"];
        place.good(&[&simulate, more, &["t.pwt"]].concat()).json()["processes"][0].clone()
    };
    let names = |rows: &Value, name: &str| -> BTreeSet<String> {
        rows.as_array()
            .expect("rows")
            .iter()
            .map(|row| row[name].as_str().expect("a name").to_owned())
            .collect()
    };
    for arrangement in [
        &[][..],
        &["--cores", "2"],
        &["--structure", "mach3"],
        &["--quantum", "1000", "--global-files", "t.pwt"],
    ] {
        let alone = run(arrangement);
        assert_eq!(alone["machines"].as_array().expect("rows").len(), 6, "{arrangement:?}");
        for more in [&["--what-if"][..], &["--os", "asap"], &["--os", "asap", "--os", "offline", "--what-if"]]
        {
            let options = [arrangement, more].concat();
            let process = run(&options);
            assert_eq!(process["machines"], alone["machines"], "{options:?}");
            let advice = process["advice"].as_str().expect("text");
            assert_eq!(
                advice.matches("counts what full simulation counts, in every class").count(),
                2,
                "{advice}"
            );
            let has = |option: &str| more.contains(&option);
            assert_eq!(
                names(&process["what_if"], "id").contains("double_tlb"),
                has("--what-if"),
                "{options:?}"
            );
            let policies = names(&process["kernels"], "policy");
            assert!(policies.contains("own"), "{options:?}");
            assert_eq!(policies.contains("asap"), has("asap"), "{options:?}");
            assert_eq!(policies.contains("offline"), has("offline"), "{options:?}");
        }
    }
}

/// Where the host's kernel gives larger pages, a row has the base pages that traps count.
#[test]
fn traps_of_a_machine_with_huge_pages_count_base_pages() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    changed(&place, "page_sizes = [\"4K\"]", "page_sizes = [\"4K\", \"2M\"]");
    let simulate = ["simulate", "-q", "--json", "-m", "./m.toml", "--by-traps", "16"];
    let rows = |more: &[&str]| {
        place.good(&[&simulate, more, &["t.pwt"]].concat()).json()["machines"]
            .as_array()
            .expect("rows")
            .clone()
    };
    let (small, always) = (rows(&["--thp", "never"]), rows(&["--thp", "always"]));
    assert_eq!([small.len(), always.len()], [4, 4]);
    assert_eq!(always[1]["name"], "mips_r2000, base pages");
    let misses = |row: &Value| row["metrics"]["misses.l1u"].as_u64().expect("a count");
    assert!(
        [&small[0], &small[1], &small[2], &always[1], &always[2]]
            .into_iter()
            .all(|row| { misses(row) == misses(&small[0]) })
    );
    assert!(misses(&always[0]) <= misses(&small[0]));
}

/// A profile is not for software-managed TLBs with superpages: they run alone as on one core.
#[test]
fn software_managed_superpages_run_alone_as_on_one_core() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "ls"]);
    changed(&place, "page_sizes = [\"4K\"]", "page_sizes = [\"4K\", \"16K\", \"2M\"]");
    for options in [&[][..], &["--what-if"], &["--what-if", "--os", "asap", "-m", "zen4"]] {
        for thp in ["never", "always"] {
            let simulate = ["simulate", "-q", "--json", "-m", "./m.toml", "--thp", thp, "t.pwt"];
            let run = |more: &[&str]| {
                place.good(&[&simulate, options, more].concat()).json()["processes"][0].clone()
            };
            let (alone, one_core) = (run(&[]), run(&["--cores", "1"]));
            assert_eq!(alone["kernels"], one_core["kernels"], "{options:?}");
            assert_eq!(alone["attribution"]["mappings"], one_core["attribution"]["mappings"], "{options:?}");
            let walks = |process: &Value| process["machines"][0]["metrics"]["walks"].clone();
            assert_eq!(walks(&alone), walks(&one_core), "{options:?}");
            let rows = alone["what_if"].as_array().expect("rows");
            let others = one_core["what_if"].as_array().expect("rows");
            for row in rows.iter().filter(|row| row["id"] != "baseline") {
                assert!(others.contains(row), "{options:?}: {row}");
            }
            assert_eq!(rows.iter().any(|row| row["id"] == "all_2m"), !options.is_empty());
        }
    }
    place.good(&["profile", "-q", "-m", "./m.toml", "--", "true"]);
}

/// Traps of any arrangement count what full simulation of it counts, and each arrangement counts otherwise.
#[test]
fn traps_count_alike_in_every_arrangement() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    let mut seen = BTreeSet::new();
    for more in [
        &["--cores", "1"][..],
        &["--structure", "osf1"],
        &["--structure", "mach3"],
        &["--structure", "mach3", "--cores", "2"],
        &["--quantum", "1000", "t.pwt"],
        &["--quantum", "1000", "--global-files", "t.pwt"],
        &["--quantum", "1000", "--cores", "2", "t.pwt"],
        &["--quantum", "1000", "--cores", "2", "--global-files", "t.pwt"],
        &["--quantum", "1000", "--structure", "mach3", "t.pwt"],
    ] {
        let simulate = ["simulate", "-q", "--json", "-m", "mips_r2000", "--by-traps", "16"];
        let result = place.good(&[&simulate, more, &["t.pwt"]].concat()).json();
        let rows = result["processes"][0]["machines"].as_array().expect("rows").clone();
        let classes = |row: usize| {
            ["l1u", "l1k", "l2", "l3"].map(|class| rows[row]["metrics"][format!("misses.{class}")].clone())
        };
        assert_eq!(classes(1), classes(0), "{more:?}");
        assert!(rows[1]["metrics"]["host_misses"].as_u64() >= classes(1)[0].as_u64(), "{more:?}");
        seen.insert(format!("{:?}", classes(0)));
    }
    assert!(seen.len() >= 7, "arrangements change misses: {seen:?}");
}

#[test]
fn where_a_partition_went_is_in_results_and_reports() {
    let place = Place::new();
    place.good(&["record", "-q", "-o", "t.pwt", "--", "true"]);
    let tuning = "[walker.mapped.tuning]\nperiod = 20\nprobe_after = 1\n\n[walker.mapped.systems.ultrix]";
    changed(&place, "[walker.mapped.systems.ultrix]", tuning);
    let result = place.good(&["simulate", "--json", "-o", "r.html", "-m", "./m.toml", "t.pwt"]).json();
    let machine = &result["processes"][0]["machines"][0];
    let moves = machine["partition"].as_array().expect("the partition moves");
    assert_eq!((&moves[0]["instructions"], &moves[0]["lower"]), (&0.into(), &8.into()));
    assert_eq!(machine["metrics"]["partition.moves"], moves.len() - 1);
    assert!(moves.len() > 2, "{moves:?}");
    assert!(result["machines"][0].get("partition").is_none(), "a sum over processes has no partition");
    let page = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert!(page.contains("<section id=\"classes\">") && page.contains("Slots below the partition"));
}
