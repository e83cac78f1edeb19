//! `pagewalk probe`: what a quick look prints and writes; refusals. How long anything takes is never asked, but for
//! orders that hold on every machine.

use crate::harness::{Outcome, Place, USAGE};
use serde_json::Value;

fn value(result: &Value, name: &str) -> Option<f64> {
    let figures = result["figures"].as_array().expect("a list");
    figures.iter().find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no {name}"))["value"]
        .as_f64()
}

fn check(result: &Value) {
    assert_eq!(result["schema"], "pagewalk.probe/1");
    assert_eq!(result["quick"], true);
    for figure in result["figures"].as_array().unwrap() {
        assert_eq!(figure["class"], "measured", "{figure}");
        assert_eq!(figure["value"].is_null(), figure["refused"].is_string(), "{figure}");
        assert!(
            figure["repeats"].is_u64() && ["ns", "GHz"].iter().any(|unit| figure["unit"] == *unit),
            "{figure}"
        );
    }
    for tlb in result["tlbs"].as_array().unwrap() {
        assert_eq!(tlb["entries"].is_null(), tlb["refused"].is_string(), "{tlb}");
        let assumed = |key: &str| tlb["assumed"][key].as_u64().unwrap();
        assert!(assumed("ways") >= 1 && assumed("ways") <= assumed("entries"), "{tlb}");
        let replacement = &tlb["replacement"];
        assert_eq!(replacement["policy"].is_null(), replacement["undecided"].is_string(), "{tlb}");
        assert!(tlb["between"][0].as_u64() <= tlb["between"][1].as_u64(), "{tlb}");
    }
    let curve = &result["curves"].as_array().unwrap()[0];
    assert_eq!((&curve["name"], &curve["unit"]), (&Value::from("tlb.4k"), &Value::from("ns")));
    // A chase over thousands of pages takes longer than one over four, whatever else goes on.
    let points = curve["points"].as_array().unwrap();
    let low = |point: &Value| point["low"].as_f64().unwrap();
    assert!(low(points.last().unwrap()) > low(&points[0]), "{points:?}");
    // Where both are told, a walk takes longer than a first-level hit: it is what an access takes beyond one.
    if let (Some(walk), Some(hit)) = (value(result, "tlb.4k.walk_extra"), value(result, "tlb.4k.hit")) {
        assert!(walk > 0.0 && hit > 0.0);
    }
}

#[test]
fn a_quick_look_prints_and_writes_what_it_found() {
    let place = Place::new();
    let outcome =
        place.run(&["probe", "--quick", "--json", "-m", "skylake_sp", "-o", "p.json", "-o", "p.html", "-q"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let result = outcome.json();
    check(&result);
    let compared = result["tlbs"].as_array().unwrap().iter().any(|tlb| tlb["machine_entries"] == 64);
    assert!(compared || result["tlbs"].as_array().unwrap().is_empty(), "{}", result["tlbs"]);
    assert_eq!(place.json("p.json"), result);
    let finding = place.run(&["doctor", "--json"]).finding("name", "steady memory");
    assert_eq!(finding["able"], result["surroundings"]["reports_free_pages"] == false, "{finding}");
    assert_eq!(finding["enable"] == "", finding["able"] == true, "{finding}");
    assert!(String::from_utf8(place.read("p.html")).unwrap().contains("pagewalk-probe"));
    let again = place.run(&["report", "p.json", "-o", "again.html"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(place.read("again.html"), place.read("p.html"));
}

#[test]
fn the_machine_file_is_one_and_host_finds_it() {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("XDG_CONFIG_HOME", place.path("settings"));
        Outcome::of(command.output().expect("the command starts"))
    };
    let none = run(&["machines", "check", "host"]);
    let known = none.code == 0;
    assert!(known || none.stderr.contains("pagewalk probe --save"), "{}", none.stderr);
    let outcome = run(&["probe", "--quick", "--save", "-o", "own.toml"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for machine in ["own.toml", "host"] {
        let check = run(&["machines", "check", machine]);
        assert_eq!(check.code, 0, "{}", check.stderr);
    }
    let own = String::from_utf8(place.read("own.toml")).unwrap();
    assert!(own.contains("measured") && own.contains("assumed"), "{own}");
    assert_eq!(run(&["machines", "show", "--toml", "host"]).stdout, own);
    place.write("good.txt", "I  04000000,3\n L 1ffeffe7e8,8\n");
    let import = run(&["trace", "import", "--format", "lackey", "-o", "good.pwt", "good.txt"]);
    assert_eq!(import.code, 0, "{}", import.stderr);
    let simulated = run(&["simulate", "-m", "host", "good.pwt"]);
    assert_eq!(simulated.code, 0, "{}", simulated.stderr);
    assert!(simulated.stderr.contains("machine host: what was probed"), "{}", simulated.stderr);
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let outcome = place.run(&["probe", "--quick", "-o", "result.txt"]);
    assert_eq!(outcome.code, USAGE, "{}", outcome.stderr);
    assert!(outcome.stderr.contains(".toml") && !place.has("result.txt"), "{}", outcome.stderr);
    let outcome = place.run(&["probe", "--quick", "--cpu", "99999", "-o", "p.json"]);
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("may run on") && !place.has("p.json"), "{}", outcome.stderr);
    let outcome = place.run(&["probe", "--quick", "-m", "no_such_machine"]);
    assert_eq!(outcome.code, USAGE, "{}", outcome.stderr);
    // Neither says where settings are.
    let outcome = place.run(&["probe", "--quick", "--save"]);
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
}
