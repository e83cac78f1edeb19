//! Data sides: misses, their cycles and their energy, compared with the first design.

use super::{Cell, Column, Content, Row, RowStyle, Section, Table, Terminal};
use crate::figures::{SideFigures, sides};
use crate::numbers::{change, ratio, signed};
use crate::schema::{ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "designs",
    link: "",
    title: "Designs side by side",
    lead: "Modelled cycles of misses and energy of translation; changes are against the first design.",
    terminal: Terminal::Parts,
    make,
};

fn make(_: &RunResult, process: &ProcessResult) -> Option<Content> {
    let sides = sides(process);
    let most = |of: fn(&SideFigures) -> f64| sides.iter().map(of).fold(0.0, f64::max);
    let (slowest, dearest) = (most(cycles), most(energy));
    let rows = sides.iter().enumerate().map(|(index, side)| {
        let against = |cell: Option<Cell>| Cell::or_dash(cell.filter(|_| index > 0));
        let look = if index == 0 { RowStyle::Emphasised } else { RowStyle::Plain };
        let SideFigures { name, level1, walks, cycles: (took, first), energy: pair } = side;
        let cells = vec![
            Cell::Text((*name).to_owned()),
            Cell::real(*level1, ratio),
            Cell::real(*walks, ratio),
            Cell::bar(cycles(side), slowest, ""),
            Cell::count(*took),
            against(Some(Cell::figure(change(*first, *took), *took as f64))),
            Cell::bar(energy(side), dearest, "memory"),
            Cell::real(pair.map(|(each, _)| each), ratio),
            against(pair.map(|(each, first)| Cell::figure(signed(each / first - 1.0), each))),
        ];
        Row::new(look, cells)
    });
    let columns = vec![
        Column::stays("Design"),
        Column::goes("level-1 misses per 1000 instr.", 1),
        Column::goes("walks per 1000 instr.", 2),
        Column::words("", 0).on_pages(),
        Column::stays("cycles of misses"),
        Column::stays("change"),
        Column::words("", 0).on_pages(),
        Column::stays("pJ a reference"),
        Column::stays("change"),
    ];
    let table = Table { columns, rows: rows.collect(), is_whole: true, ..Table::default() };
    (sides.len() > 1).then(|| Content::from(table))
}

fn cycles(side: &SideFigures) -> f64 {
    side.cycles.0 as f64
}

fn energy(side: &SideFigures) -> f64 {
    side.energy.map_or(0.0, |(each, _)| each)
}
