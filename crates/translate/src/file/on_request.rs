//! Caches that a machine file describes and that are simulated on request only: `NAME+caches`.

use crate::MachineError;
use serde::Deserialize;
use toml::{Table, Value};

/// When the caches of a file are simulated.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
pub(super) enum FileCachesUsed {
    /// Always.
    #[default]
    #[serde(rename = "always")]
    Always,
    /// For `NAME+caches`. Otherwise page-table entries cost `cost.walk_reference`.
    #[serde(rename = "on request")]
    OnRequest,
}

/// What the name of a machine ends with if its caches are simulated too.
const SUFFIX: &str = "+caches";

/// A machine's name without its request for caches, and whether it has one.
pub fn requests_caches(name: &str) -> (&str, bool) {
    match name.strip_suffix(SUFFIX) {
        Some(name) => (name, true),
        None => (name, false),
    }
}

/// The text of a machine file whose caches are simulated on request, with them always simulated. Its machine is named
/// `NAME+caches`.
///
/// # Errors
/// If the file has no caches.
pub fn with_caches(file: &str, text: &str) -> Result<String, MachineError> {
    let syntax = |message: String| MachineError::Syntax { file: file.to_owned(), message };
    let mut machine: Table = text.parse().map_err(|error: toml::de::Error| syntax(error.to_string()))?;
    if !machine.contains_key("cache") {
        return Err(MachineError::Rule {
            file: file.to_owned(),
            why: format!("{SUFFIX} needs a machine with [[cache]], and this one has none"),
        });
    }
    if machine.get("caches").and_then(Value::as_str) != Some("on request") {
        return Ok(text.to_owned());
    }
    machine.remove("caches");
    if let Some(Value::Table(cost)) = machine.get_mut("cost") {
        cost.remove("walk_reference");
        cost.remove("walk");
    }
    if let Some(Value::String(name)) = machine.get_mut("name") {
        name.push_str(SUFFIX);
    }
    if let Some(Value::String(title)) = machine.get_mut("title") {
        title.push_str(" with its caches");
    }
    machine.remove("match");
    toml::to_string(&machine).map_err(|error| syntax(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MachineSpec;

    const MACHINE: &str = r#"
schema = 1
name = "m"
title = "M"
caches = "on request"
[[tlb]]
name = "tlb"
level = 1
serves = ["fetch", "load", "store"]
page_sizes = ["4K"]
entries = 16
[[cache]]
name = "l1"
level = 1
serves = ["fetch", "load", "store", "walk"]
size = "4K"
ways = 4
latency = 4
[walker]
kind = "radix"
levels = 4
[cost]
walk_reference = 20
memory = 100
"#;

    #[test]
    fn caches_are_simulated_on_request() {
        let plain = MachineSpec::from_toml("m.toml", MACHINE).unwrap();
        assert!(plain.caches.is_empty());
        assert_eq!((plain.cost.walk_reference, plain.cost.memory), (20, 0));
        let text = with_caches("m.toml", MACHINE).unwrap();
        let asked = MachineSpec::from_toml("m.toml", &text).unwrap();
        assert_eq!((asked.caches.len(), asked.cost.memory, asked.name.as_str()), (1, 100, "m+caches"));
        let always = MACHINE.replace("on request", "always");
        for text in [text, always] {
            assert_eq!(with_caches("m.toml", &text).unwrap(), text);
        }
        assert_eq!(requests_caches("m+caches"), ("m", true));
        assert_eq!(requests_caches("m"), ("m", false));
    }

    #[test]
    fn a_machine_without_caches_has_none_to_simulate() {
        let why = with_caches("m.toml", "schema = 1").unwrap_err().to_string();
        assert!(why.contains("+caches needs a machine with [[cache]]"), "{why}");
    }

    #[test]
    fn caches_that_nobody_requests_are_checked_too() {
        let wrong = MACHINE.replace("memory = 100", "");
        let why = MachineSpec::from_toml("m.toml", &wrong).unwrap_err().to_string();
        assert!(why.contains("cost: missing key `memory`"), "{why}");
        let wrong = MACHINE.replace("walk_reference = 20", "");
        let why = MachineSpec::from_toml("m.toml", &wrong).unwrap_err().to_string();
        assert!(why.contains("cost: missing key `walk_reference`"), "{why}");
    }
}
