//! Walks by thread.

use super::{Cell, Column, Section, Table};
use crate::metrics::{self, Metric};
use crate::schema::{Group, ProcessResult};

pub(super) const SECTION: Section = Section {
    id: "threads",
    title: "Walks by thread",
    lead: "What each thread executed (measured), and the walks that its fetches and data references took (modelled).",
    table,
};

/// Metrics, and in which order their columns go: see [`Column::goes`].
const SHOWN: [(&str, u8); 7] = [
    ("instructions", 0),
    ("references_data", 3),
    ("walks", 0),
    ("walks_data", 2),
    ("walks_fetch", 2),
    ("walk_cycles", 0),
    ("walks_per_kilo_instruction", 1),
];

/// The threads, those with most cycles of walks first.
fn table(process: &ProcessResult) -> Option<Table> {
    let cycles = |group: &Group| group.metrics.get("walk_cycles").map_or(0.0, |number| number.as_f64());
    let mut threads: Vec<&Group> =
        process.attribution.groups.iter().filter(|group| group.kind == "thread").collect();
    threads.sort_by(|a, b| cycles(b).total_cmp(&cycles(a)));
    let shown: Vec<(&Metric, u8)> =
        SHOWN.iter().filter_map(|&(name, goes)| Some((metrics::find(name)?, goes))).collect();
    let columns = shown.iter().map(|(metric, goes)| Column::goes(metric.title(), *goes));
    let row = |thread: &&Group| {
        let cell = |(metric, _): &(&Metric, u8)| {
            Cell::or_dash(metric.of(&thread.metrics).map(|number| metric.unit.text(number)))
        };
        std::iter::once(Cell::Text(thread.name.clone())).chain(shown.iter().map(cell)).collect()
    };
    (!threads.is_empty()).then(|| Table {
        columns: std::iter::once(Column::stays("Thread")).chain(columns).collect(),
        rows: threads.iter().map(row).collect(),
        emphasised: None,
    })
}
