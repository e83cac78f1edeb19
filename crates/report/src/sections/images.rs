//! The process images of a run. It belongs to no process: a page shows it before their sections.

use super::{Cell, Column, Row, RowStyle, Table};
use crate::figures::{base_name, by_cost, walk_cycle_share, whole};
use crate::numbers::percent;
use crate::printable::shortened;
use crate::schema::{ProcessResult, RunResult};

/// Characters of a command line that are shown.
const TOLD: usize = 90;
/// Rows that a page shows at first.
const FIRST: usize = 10;

/// All process images, the costliest first.
pub(crate) fn images(result: &RunResult) -> Table {
    let mut order: Vec<(usize, &ProcessResult)> = result.processes.iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| by_cost(b, a));
    let row = |(index, process): (usize, &ProcessResult)| Row {
        cells: cells(process),
        look: RowStyle::Plain,
        opens: Some(index),
    };
    Table {
        columns: vec![
            Column::stays("Program"),
            Column::stays("pid"),
            Column::words("start", 0),
            Column::words("end", 0),
            Column::stays("instructions"),
            Column::stays("walk cycles"),
            Column::stays("walks"),
            Column::stays("share"),
        ],
        rows: order.into_iter().map(row).collect(),
        what: "processes",
        first: Some(FIRST),
        ..Table::default()
    }
}

fn cells(process: &ProcessResult) -> Vec<Cell> {
    let machine = process.machines.first();
    let counted = |name| Cell::or_dash(machine.and_then(|machine| whole(machine, name)).map(Cell::count));
    let command = process.command_line.join(" ");
    vec![
        Cell::named(base_name(&process.program), shortened(&command, TOLD)),
        Cell::figure(process.pid.to_string(), f64::from(process.pid)),
        Cell::Text(process.origin.clone()),
        Cell::Text(process.ended.clone()),
        counted("instructions"),
        counted("walk_cycles"),
        counted("walks"),
        Cell::real(machine.and_then(walk_cycle_share), percent),
    ]
}
