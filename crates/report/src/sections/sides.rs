//! Designs whose every operation is counted: misses, their cycles and their energy beside the first one's.

use super::{Cell, Column, Section, Table};
use crate::figures::{SideFigures, sides};
use crate::numbers::{change, count, ratio, signed};
use crate::schema::ProcessResult;

pub(super) const SECTION: Section = Section {
    id: "designs",
    title: "Designs side by side",
    lead: "Modelled cycles of misses and energy of translation; changes are against the first design.",
    table,
};

fn table(process: &ProcessResult) -> Option<Table> {
    let sides = sides(process);
    let most = |of: fn(&SideFigures) -> f64| sides.iter().map(of).fold(0.0, f64::max);
    let (slowest, dearest) = (most(cycles), most(energy));
    let rows = sides.iter().enumerate().map(|(index, side)| {
        let against = |text: Option<String>| Cell::or_dash(text.filter(|_| index > 0));
        let SideFigures { name, level1, walks, cycles: (took, first), energy: pair } = side;
        vec![
            Cell::Text((*name).to_owned()),
            Cell::or_dash(level1.map(ratio)),
            Cell::or_dash(walks.map(ratio)),
            Cell::bar(cycles(side), slowest, ""),
            Cell::Text(count(*took)),
            against(Some(change(*first, *took))),
            Cell::bar(energy(side), dearest, "memory"),
            Cell::or_dash(pair.map(|(each, _)| ratio(each))),
            against(pair.map(|(each, first)| signed(each / first - 1.0))),
        ]
    });
    let columns = vec![
        Column::stays("Design"),
        Column::goes("level-1 misses per 1000 instr.", 1),
        Column::goes("walks per 1000 instr.", 2),
        Column::stays(""),
        Column::stays("cycles of misses"),
        Column::stays("change"),
        Column::stays(""),
        Column::stays("pJ a reference"),
        Column::stays("change"),
    ];
    (sides.len() > 1).then(|| Table { columns, rows: rows.collect(), emphasised: Some(0) })
}

fn cycles(side: &SideFigures) -> f64 {
    side.cycles.0 as f64
}

fn energy(side: &SideFigures) -> f64 {
    side.energy.map_or(0.0, |(each, _)| each)
}
