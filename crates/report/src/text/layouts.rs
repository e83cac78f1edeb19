//! Machines under layouts, on the terminal.

use super::Page;
use super::paint::{Line, Style};
use super::table::{Table, WhenNarrow, names, numbers, texts};
use crate::numbers::{count, ratio};
use crate::printable::printable;
use crate::sweep::layouts::{LayoutRow, MachineLayouts};

/// The machines of one trace, each under all its layouts.
pub(super) fn layouts(page: &mut Page, machines: &[MachineLayouts<'_>]) {
    let mut table = Table::new(vec![
        names("machine"),
        texts("layout", WhenNarrow::Keep),
        numbers("walks", WhenNarrow::Keep),
        numbers("to recorded", WhenNarrow::Keep),
        numbers("conflict misses", WhenNarrow::Keep),
        numbers("to recorded", WhenNarrow::Keep),
        numbers("fully assoc.", WhenNarrow::Drop(1)),
    ]);
    for machine in machines {
        for row in &machine.rows {
            table.row(cells(machine, row));
        }
    }
    page.table(table);
}

fn cells(machine: &MachineLayouts<'_>, row: &LayoutRow<'_>) -> Vec<Line> {
    let plain = |text: String| Line::new(Style::Plain, text);
    let whole = |metric: &str| plain(row.spread(metric).map_or("–".to_owned(), |of| count(of.median as u64)));
    let share = |metric: &str| {
        let to = row.spread(metric).and_then(|of| of.to(machine.recorded(metric)));
        plain(to.map_or("–".to_owned(), |to| to.told(ratio)))
    };
    vec![
        plain(printable(&machine.title)),
        plain(printable(&row.title())),
        whole("walks"),
        share("walks"),
        whole("last_level.conflict_misses"),
        share("last_level.conflict_misses"),
        whole("last_level.fully_associative_misses"),
    ]
}
