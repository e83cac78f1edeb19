//! Walks by thread.

use super::{Cell, Column, Content, Row, Section, Table, Terminal};
use crate::metrics::{self, Metric};
use crate::schema::{Group, ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "threads",
    link: "",
    title: "Walks by thread",
    lead: "What each thread executed (measured), and the walks that its fetches and data references took (modelled).",
    terminal: Terminal::Parts,
    make,
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
fn make(_: &RunResult, process: &ProcessResult) -> Option<Content> {
    let cycles = |group: &Group| group.metrics.get("walk_cycles").map_or(0.0, |number| number.as_f64());
    let mut threads: Vec<&Group> =
        process.attribution.groups.iter().filter(|group| group.kind == "thread").collect();
    threads.sort_by(|a, b| cycles(b).total_cmp(&cycles(a)));
    let shown: Vec<(&Metric, u8)> =
        SHOWN.iter().filter_map(|&(name, goes)| Some((metrics::find(name)?, goes))).collect();
    let columns = shown.iter().map(|(metric, goes)| Column::goes(metric.title(), *goes));
    let row = |thread: &&Group| {
        let cell = |(metric, _): &(&Metric, u8)| {
            let figure = |number| Cell::figure(metric.unit.text(number), number.as_f64());
            Cell::or_dash(metric.of(&thread.metrics).map(figure))
        };
        Row::from(
            std::iter::once(Cell::Text(thread.name.clone()))
                .chain(shown.iter().map(cell))
                .collect::<Vec<_>>(),
        )
    };
    let table = Table {
        columns: std::iter::once(Column::stays("Thread")).chain(columns).collect(),
        rows: threads.iter().map(row).collect(),
        what: "threads",
        ..Table::default()
    };
    (!threads.is_empty()).then(|| Content::from(table))
}
