//! The classes of a result's figures: each number is measured, modelled or a bound, or no figure at all.

use serde_json::Value;

/// Numbers in results that are no figures: process ids, exit statuses, and settings.
const NO_FIGURES: [&str; 7] = ["process", "pid", "number", "tracer", "end", "plan", "limits"];

/// Checks that every number of a result stands under a name that the result's `classes` have, or beside a `class`; but
/// for what is no figure, here or in results of this kind (`given`).
#[track_caller]
pub fn all_are_told(result: &Value, given: &[&str]) {
    let classes = result["classes"].as_object().expect("results tell what their figures are");
    let is_class = |class: &Value| ["measured", "modelled", "bound"].iter().any(|known| class == known);
    assert!(!classes.is_empty() && classes.values().all(is_class), "{classes:?}");
    let is_told =
        |name: &str| classes.contains_key(name) || NO_FIGURES.contains(&name) || given.contains(&name);
    let mut untold = Vec::new();
    collect(result, "", &is_told, &mut untold);
    assert!(untold.is_empty(), "it is not told what these are: {untold:?}");
}

/// The names of numbers without a class above them.
fn collect<'a>(value: &'a Value, name: &'a str, is_told: &impl Fn(&str) -> bool, untold: &mut Vec<&'a str>) {
    match value {
        Value::Number(_) => untold.push(name),
        Value::Array(values) => values.iter().for_each(|value| collect(value, name, is_told, untold)),
        Value::Object(values) if !values.contains_key("class") => {
            let values = values.iter().filter(|(name, _)| !is_told(name));
            values.for_each(|(name, value)| collect(value, name, is_told, untold));
        }
        _ => {}
    }
}
