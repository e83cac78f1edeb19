//! Upgrades results of older versions.

use crate::metrics::record_count;
use crate::schema::{Group, MappingRow, Metrics, ProcessResult, RESULT_SCHEMA, RunResult};

/// Upgrades `pagewalk.result/1`, which lists cores, processes, kernels and servers as mappings.
pub(crate) fn from_1(mut result: RunResult) -> RunResult {
    for process in &mut result.processes {
        let rows = std::mem::take(&mut process.attribution.mappings);
        let is_group = |row: &MappingRow| ["core", "process"].contains(&row.kind.as_str());
        let (parts, mappings): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_group);
        let groups: Vec<Group> = parts.iter().map(|row| group(row, process)).collect();
        process.attribution.mappings = mappings;
        process.attribution.groups.splice(0..0, groups);
    }
    RunResult { schema: RESULT_SCHEMA.to_owned(), ..result }
}

fn group(row: &MappingRow, process: &ProcessResult) -> Group {
    let after = |start| row.name.strip_prefix(start).filter(|_| process.structure.is_some());
    let (kind, name) = match (row.kind.as_str(), after("kernel of "), after("server ")) {
        ("core", ..) => ("core", row.name.strip_prefix("core ").unwrap_or(&row.name)),
        (_, Some(name), _) => ("kernel", name),
        (_, _, Some(name)) => ("server", name),
        _ => ("process", row.name.as_str()),
    };
    let [fetches, data] = match kind {
        "core" => ["translations_fetch", "translations_data"],
        _ => ["instructions", "references_data"],
    };
    let mut metrics = Metrics::new();
    let mut count = |name: &str, count| record_count(&mut metrics, name, count);
    count(fetches, row.references_fetch);
    count(data, row.references_data);
    if kind != "core" {
        count("pages_touched", row.pages_touched);
    }
    count("walks", row.walks_fetch.saturating_add(row.walks_data));
    count("walks_fetch", row.walks_fetch);
    count("walks_data", row.walks_data);
    count("walk_cycles", row.walk_cycles);
    Group { kind: kind.to_owned(), name: name.to_owned(), metrics }
}
