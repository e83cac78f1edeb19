//! The result as JSON: round trips, identical bytes each time, and errors that name what was found.

use crate::fixtures;
use pagewalk_report::kinds::ResultKind;
use pagewalk_report::schema::{RESULT_SCHEMA, RESULT_SCHEMA_1};
use pagewalk_report::{from_json, to_json};

#[test]
fn what_is_written_reads_back_the_same() {
    for (_, result) in fixtures::all() {
        let json = to_json(&result);
        assert_eq!(from_json(&json).unwrap(), result);
        assert_eq!(to_json(&from_json(&json).unwrap()), json);
    }
}

#[test]
fn the_schema_comes_first_and_a_newline_last() {
    let json = to_json(&fixtures::no_walks());
    assert!(json.starts_with("{\n  \"schema\": \"pagewalk.result/2\",\n  \"tool\": {\n"), "{json}");
    assert!(json.ends_with("\n}\n"));
    assert!(json.contains("\"command_line\": [\"pagewalk\", \"profile\", \"--\", \"true\"]"));
    let standard: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(standard, serde_json::to_value(fixtures::no_walks()).unwrap());
}

#[test]
fn results_without_descriptions_are_read() {
    let mut result = fixtures::no_walks();
    result.descriptions.clear();
    let json = to_json(&result);
    assert!(!json.contains("descriptions"));
    assert_eq!(from_json(&json).unwrap(), result);
}

/// Results of version 1 had all groups but threads among mappings.
#[test]
fn results_of_version_1_are_read_as_those_of_today() {
    let result = fixtures::together();
    let mut older = serde_json::to_value(&result).unwrap();
    older["schema"] = RESULT_SCHEMA_1.into();
    let rows = result.processes[0].attribution.groups.iter().map(|group| {
        let (name, kind) = match group.kind.as_str() {
            "core" => (format!("core {}", group.name), "core"),
            "kernel" => (format!("kernel of {}", group.name), "process"),
            "server" => (format!("server {}", group.name), "process"),
            _ => (group.name.clone(), "process"),
        };
        let any = |names: &[&str]| names.iter().find_map(|name| group.metrics.get(*name));
        let of = |names: &[&str]| any(names).map_or(0, |number| number.as_f64() as u64);
        serde_json::json!({
            "name": name, "kind": kind, "build_id": null, "start": 0, "bytes": 0,
            "pages_touched": of(&["pages_touched"]),
            "references_fetch": of(&["instructions", "translations_fetch"]),
            "references_data": of(&["references_data", "translations_data"]),
            "walks_fetch": of(&["walks_fetch"]),
            "walks_data": of(&["walks_data"]),
            "walk_cycles": of(&["walk_cycles"]),
        })
    });
    let rows: Vec<serde_json::Value> = rows.collect();
    let attribution = &mut older["processes"][0]["attribution"];
    attribution["mappings"] = rows.into();
    attribution.as_object_mut().unwrap().remove("groups");
    assert_eq!(from_json(&older.to_string()).unwrap(), result);
    let mut mapped = fixtures::cpython();
    mapped.schema = RESULT_SCHEMA_1.to_owned();
    assert_eq!(from_json(&to_json(&mapped)).unwrap(), fixtures::cpython(), "mappings stay mappings");
}

#[test]
fn errors_name_what_was_found_and_expected() {
    let message = |text: &str| from_json(text).unwrap_err().to_string();
    assert_eq!(
        message(r#"{"schema": "pagewalk.result/9"}"#),
        r#"the result has schema "pagewalk.result/9"; this version of pagewalk reads "pagewalk.result/2""#
    );
    assert_eq!(
        message(r#"{"machines": []}"#),
        r#"not a pagewalk result: no "schema" field; expected "pagewalk.result/2""#
    );
    assert_eq!(
        message(&format!(r#"{{"schema": "{RESULT_SCHEMA}"}}"#)),
        r#"the result does not fit schema "pagewalk.result/2": missing field `tool` at line 1 column 31"#
    );
    assert!(message("PWT\u{1}").starts_with("not a pagewalk result: expected value at line 1 column 1"));
    assert!(message("[]").starts_with("not a pagewalk result: invalid length 0"), "{}", message("[]"));
    assert!(message("").starts_with("not a pagewalk result: EOF while parsing"));
}

#[test]
fn results_fit_the_schema_made_from_their_type() {
    let kind = ResultKind::named(RESULT_SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&kind.json_schema()).unwrap();
    for (name, result) in fixtures::all() {
        let mut result = serde_json::to_value(result).unwrap();
        let wrong: Vec<String> = validator
            .iter_errors(&result)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{name}: {}", wrong.join("\n"));
        result["machines"][0]["metrics"]["walks"] = "many".into();
        assert!(!validator.is_valid(&result), "{name}: a count is a number");
        result = serde_json::json!({ "schema": "pagewalk.other/1" });
        assert!(!validator.is_valid(&result), "{name}: another kind's");
    }
}
