//! Tables of groups of all kinds: what parts of a run executed, and their walks.

use super::{Cell, Column, Content, Row, Table};
use crate::figures::whole;
use crate::groups::{Division, GroupKind};
use crate::metrics::{self, Aggregation, Metric};
use crate::numbers::percent;
use crate::schema::{Group, Number, ProcessResult};

/// The content of a column.
enum GroupColumn {
    Of(&'static Metric),
    /// The share of all walks on the first machine.
    Share,
    /// That share as a bar.
    Bar,
}

/// Metrics before the share of walks, with their [`Column::goes`].
const BEFORE: [(&str, u8); 6] = [
    ("instructions", 4),
    ("references_data", 8),
    ("translations_fetch", 7),
    ("translations_data", 7),
    ("pages_touched", 6),
    ("walks", 0),
];
/// Metrics after the share of walks.
const AFTER: [(&str, u8); 4] =
    [("walks_data", 2), ("walks_fetch", 2), ("walk_cycles", 1), ("walks_per_kilo_instruction", 5)];

/// The groups of a division under `heading`, those with most walk cycles first.
pub(super) fn content(process: &ProcessResult, division: &Division, heading: &str) -> Option<Content> {
    let mut groups: Vec<(&GroupKind, &Group)> = division.groups(process).collect();
    let cycles = |group: &Group| value(group, "walk_cycles");
    groups.sort_by(|(_, a), (_, b)| cycles(b).total_cmp(&cycles(a)));
    let all = process.machines.first().and_then(|machine| whole(machine, "walks")).unwrap_or(0);
    let columns = columns(&groups);
    let row = |(kind, group): &(&GroupKind, &Group)| {
        let name = Cell::Text(format!("{}{}", kind.before, group.name));
        let cells = columns.iter().map(|(shown, _)| cell(shown, group, all));
        Row::from(std::iter::once(name).chain(cells).collect::<Vec<_>>())
    };
    let titles = columns.iter().map(|(shown, goes)| Column::goes(title(shown), *goes));
    let table = Table {
        columns: std::iter::once(Column::stays(heading)).chain(titles).collect(),
        rows: groups.iter().map(row).collect(),
        what: "parts",
        ..Table::default()
    };
    (!groups.is_empty()).then(|| Content::from(table))
}

/// The columns that some group has a value for.
fn columns(groups: &[(&GroupKind, &Group)]) -> Vec<(GroupColumn, u8)> {
    let of = |&(name, goes): &(&str, u8)| {
        let metric = metrics::find(name)?;
        groups
            .iter()
            .any(|(_, group)| number(metric, group).is_some())
            .then_some((GroupColumn::Of(metric), goes))
    };
    let share = [(GroupColumn::Share, 0), (GroupColumn::Bar, 3)];
    BEFORE.iter().filter_map(of).chain(share).chain(AFTER.iter().filter_map(of)).collect()
}

fn title(shown: &GroupColumn) -> String {
    match shown {
        // They follow all walks, as in other tables.
        GroupColumn::Of(metric) => match metric.id {
            "walks_data" => "data".to_owned(),
            "walks_fetch" => "fetch".to_owned(),
            "walk_cycles" => "cycles".to_owned(),
            _ => metric.title(),
        },
        GroupColumn::Share => "share".to_owned(),
        GroupColumn::Bar => "data and fetch".to_owned(),
    }
}

fn cell(shown: &GroupColumn, group: &Group, all: u64) -> Cell {
    let of = |name: &str| value(group, name) as u64;
    match shown {
        GroupColumn::Of(metric) => {
            let figure = |number: Number| Cell::figure(metric.unit.text(number), number.as_f64());
            Cell::or_dash(number(metric, group).map(figure))
        }
        GroupColumn::Share => {
            let share = (value(group, "walks_data") + value(group, "walks_fetch")) / all as f64;
            Cell::real((all > 0).then_some(share), percent)
        }
        GroupColumn::Bar => Cell::Walks { data: of("walks_data"), fetch: of("walks_fetch"), of: all },
    }
}

/// The group's value; none for a quotient over 0.
fn number(metric: &Metric, group: &Group) -> Option<Number> {
    match metric.adds {
        Aggregation::Recomputed { over, .. } if value(group, over) == 0.0 => None,
        _ => metric.of(&group.metrics),
    }
}

fn value(group: &Group, name: &str) -> f64 {
    group.metrics.get(name).map_or(0.0, |number| number.as_f64())
}
