//! Designs whose every operation is counted: misses, their cycles and their energy beside the first one's.

use super::Page;
use super::paint::{Line, Style};
use super::table::{Narrow, Table, names, numbers};
use crate::figures::{SideFigures, sides};
use crate::numbers::{change, count, ratio, signed};
use crate::printable::printable;
use crate::schema::ProcessResult;

/// The table, and whether there is one.
pub(super) fn write(page: &mut Page, process: &ProcessResult) -> bool {
    let sides = sides(process);
    if sides.is_empty() {
        return false;
    }
    let mut table = Table::new(vec![
        names("Design"),
        numbers("level-1 misses per 1000 instr.", Narrow::Drop(1)),
        numbers("walks per 1000 instr.", Narrow::Drop(2)),
        numbers("cycles of misses", Narrow::Keep),
        numbers("change", Narrow::Keep),
        numbers("pJ a reference", Narrow::Keep),
        numbers("change", Narrow::Keep),
    ]);
    let plain = |text: String| Line::new(Style::Plain, text);
    let dash = |text: Option<String>| text.map_or(Line::new(Style::Quiet, "–"), plain);
    for (index, SideFigures { name, level1, walks, cycles, energy }) in sides.into_iter().enumerate() {
        let against = |text: Option<String>| dash(text.filter(|_| index > 0));
        table.row(vec![
            plain(printable(name)),
            dash(level1.map(ratio)),
            dash(walks.map(ratio)),
            plain(count(cycles.0)),
            against(Some(change(cycles.1, cycles.0))),
            dash(energy.map(|(each, _)| ratio(each))),
            against(energy.map(|(each, first)| signed(each / first - 1.0))),
        ]);
    }
    page.table(table);
    true
}
