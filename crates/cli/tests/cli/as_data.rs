//! The data of commands besides results, and figures of several processes that must not be added up.

use crate::harness::{BAD_INPUT, EXAMPLE_MACHINE, Place, USAGE};
use serde_json::{Value, json};

#[test]
fn a_recording_tells_its_files() {
    let place = Place::new();
    place.write("many.sh", "/bin/true\n/bin/true\n");
    let told = place.good(&["record", "--json", "-q", "-o", "t.pwt", "--", "sh", "many.sh"]).json();
    assert_eq!(told["schema"], "pagewalk.record/1");
    let files = told["files"].as_array().unwrap();
    assert!(files.len() >= 3, "{told}");
    for file in files {
        let name = file["file"].as_str().unwrap();
        let info = place.good(&["trace", "info", "--json", name]).json();
        for (of_record, of_info) in
            [("references_data", "references"), ("block_executions", "block_executions"), ("bytes", "bytes")]
        {
            assert_eq!(file[of_record], info[of_info], "{name}: {of_record}");
        }
        assert_eq!((&file["losses"], &file["error"]), (&json!([]), &Value::Null));
    }
    // Fewer files the next time: the remaining ones belong to another recording.
    let fewer = place.good(&["record", "-q", "-o", "t.pwt", "--", "/bin/true"]);
    assert!(
        fewer.stderr.contains("t.1.pwt and higher numbers are of an earlier recording"),
        "{}",
        fewer.stderr
    );
    let alone = place.good(&["record", "-q", "-o", "u.pwt", "--", "/bin/true"]);
    assert_eq!(alone.stderr, "");
}

#[test]
fn checks_tell_their_findings() {
    let place = Place::with_trace();
    let sound = place.good(&["trace", "check", "--json", "good.pwt"]).json();
    assert_eq!(sound["schema"], "pagewalk.trace-check/1");
    assert_eq!((&sound["rules_broken"], &sound["whole"]), (&json!(0), &json!(true)));
    let bytes = place.read("good.pwt");
    place.write("cut.pwt", &bytes[..bytes.len() / 2]);
    let cut = place.run(&["trace", "check", "--json", "cut.pwt"]);
    assert_eq!(cut.code, BAD_INPUT);
    assert_eq!(cut.json()["whole"], false);
    assert!(cut.json()["losses"][0].as_str().unwrap().contains("byte"), "{}", cut.stdout);
    place.write("m.toml", EXAMPLE_MACHINE.replace("entries = 64", "entries = 65"));
    let checked = place.run(&["machines", "check", "--json", "zen4", "./m.toml"]);
    assert_eq!(checked.code, BAD_INPUT);
    let rows = checked.json()["machines"].clone();
    assert_eq!(
        (&rows[0]["ok"], &rows[0]["base_page"], &rows[1]["ok"]),
        (&json!(true), &json!("4K"), &json!(false))
    );
    assert!(rows[1]["error"].as_str().unwrap().contains("l1d"), "{rows}");
    place.run(&["machines", "check", "--json", "pentium"]).refuses(USAGE, &["pentium"]);
}

#[test]
fn what_is_no_sum_is_not_added_up() {
    let place = Place::with_trace();
    let machine = |result: &Value| result["machines"][0]["metrics"].clone();
    let simulate = |traces: &[&str]| {
        machine(&place.good(&[&["simulate", "--json", "-m", "mips_r2000"], traces].concat()).json())
    };
    let (one, two) = (simulate(&["good.pwt"]), simulate(&["good.pwt", "good.pwt"]));
    assert_eq!(one["instructions"].as_u64().unwrap() * 2, two["instructions"].as_u64().unwrap());
    assert_eq!(one["partition.lower"], 8);
    assert_eq!((two.get("partition.lower"), two.get("partition.lower_mean")), (None, None));
}
