//! Alternatives: the walk cycles that each leaves, and the misses of caches and the waits for them.

mod caches;

use super::findings::{capitalised, walks};
use super::{Bar, Cell, Column, Content, Name, Part, Row, RowStyle, Section, Table, Terminal};
use crate::figures::total_cycles;
use crate::numbers::{change, count, mebibytes, percent, signed};
use crate::schema::{ProcessResult, RunResult, WhatIf};

pub(super) const SECTION: Section = Section {
    id: "what-if",
    link: "What if",
    title: "What each alternative leaves of the walk cycles",
    lead: "Every alternative was simulated on the same references in the same run. Bars show modelled walk cycles; the \
           dashed line is the program as it is. What was counted only from some instruction on is compared with the \
           same stretch of the program as it is, and recolored pages with the same kernel's own frames. The memory \
           price is what would newly be backed but never touched; of another kernel, what it backs and the program \
           has not touched yet, at most.",
    terminal: Terminal::End,
    make,
};

/// Alternatives that a user can apply.
const DOABLE: [&str; 3] = ["thp", "mapping_2m", "all_4k"];

/// Rows that a section of kernels shows too.
const OF_KERNELS: [&str; 3] = ["baseline", "kernel", "perfect_tlb"];

fn make(result: &RunResult, process: &ProcessResult) -> Option<Content> {
    let is_new = |what_if: &WhatIf| process.kernels.is_empty() || !OF_KERNELS.contains(&what_if.id.as_str());
    let is_shown = process.what_if.iter().any(is_new);
    is_shown.then(|| {
        let parts = std::iter::once(Part::Table(table(process))).chain(caches::parts(result, process));
        Content { finding: finding(process), parts: parts.collect(), ..Content::default() }
    })
}

fn saved(what_if: &WhatIf) -> f64 {
    what_if.baseline_walk_cycles as f64 - what_if.walk_cycles as f64
}

fn finding(process: &ProcessResult) -> Option<String> {
    if walks(process) == 0 {
        return Some("There are no page walks to remove".to_owned());
    }
    let is_doable = |what_if: &&WhatIf| what_if.class == "modelled" && DOABLE.contains(&what_if.id.as_str());
    let doable = process.what_if.iter().filter(is_doable);
    let best = doable.reduce(|a, b| if saved(a) >= saved(b) { a } else { b })?;
    let baseline = best.baseline_walk_cycles as f64;
    if saved(best) <= 0.05 * baseline {
        return Some("No change within reach removes many page walks".to_owned());
    }
    let (title, part) = (capitalised(&best.title), percent(saved(best) / baseline));
    Some(format!("{title}: {part} of the walk cycles are gone"))
}

/// Walk cycles as a share of the baseline's over the same stretch.
fn relative(what_if: &WhatIf) -> f64 {
    match what_if.baseline_walk_cycles {
        0 => 0.0,
        baseline => what_if.walk_cycles as f64 / baseline as f64,
    }
}

fn table(process: &ProcessResult) -> Table {
    let scale = process.what_if.iter().map(relative).fold(1.0, f64::max);
    let dearest = process.what_if.iter().map(|what_if| what_if.memory_price_mib).fold(0.0, f64::max);
    let cycles = process.machines.first().and_then(total_cycles).filter(|cycles| *cycles > 0.0);
    let is_late = |what_if: &WhatIf| what_if.to_instruction.is_none() && what_if.from_instruction > 0;
    let late = "from instr.: counted from there on, compared with the baseline of the same stretch";
    Table {
        columns: vec![
            Column::words("What if", 0),
            Column::words("Walk cycles, as it is = 100 %", 0).on_pages(),
            Column::goes("walks", 2),
            Column::stays("walk cycles"),
            Column::stays("change"),
            Column::goes("of all cycles", 3),
            Column::stays("memory"),
            Column::words("class", 1).on_terminals(),
            Column::stays("from instr.").on_terminals(),
        ],
        rows: process.what_if.iter().map(|what_if| row(what_if, scale, dearest, cycles)).collect(),
        ticks: [(0.0, "0"), (0.5, "50 %"), (1.0, "100 %")]
            .map(|(at, text)| (at / scale, text.to_owned()))
            .into(),
        remarks: process.what_if.iter().any(is_late).then(|| ("", late.to_owned())).into_iter().collect(),
        is_whole: true,
        ..Table::default()
    }
}

/// Memory beside that of the baseline: `+3.2 MiB`.
fn more(mib: f64) -> String {
    let sign = if mib < 0.05 { "" } else { "+" };
    format!("{sign}{}", mebibytes(mib))
}

fn row(what_if: &WhatIf, scale: f64, dearest: f64, cycles: Option<f64>) -> Row {
    let is_baseline = what_if.id == "baseline";
    let is_bound = what_if.class == "bound" && !is_baseline;
    let versus = |cell: Option<Cell>| Cell::or_dash(cell.filter(|_| !is_baseline));
    let changed = what_if.walk_cycles as f64 - what_if.baseline_walk_cycles as f64;
    let (from, to) = (what_if.from_instruction, what_if.to_instruction);
    let stretch = to.map_or(count(from), |to| format!("{} to {}", count(from), count(to)));
    let price = what_if.memory_price_mib;
    let bar_look = if is_baseline {
        "baseline"
    } else if is_bound {
        "bound"
    } else {
        ""
    };
    let cells = vec![
        Cell::Name(Name {
            text: what_if.title.clone(),
            tag: if is_bound { "bound".to_owned() } else { String::new() },
            sub: if from > 0 { format!("from instruction {stretch}") } else { String::new() },
        }),
        Cell::Bar(Bar {
            parts: vec![(relative(what_if) / scale, bar_look)],
            mark: Some(1.0 / scale),
            ..Bar::default()
        }),
        Cell::count(what_if.walks),
        Cell::count(what_if.walk_cycles),
        versus(Some(Cell::figure(
            change(what_if.baseline_walk_cycles, what_if.walk_cycles),
            relative(what_if),
        ))),
        versus(cycles.map(|cycles| Cell::figure(signed(changed / cycles), changed / cycles))),
        versus(Some(Cell::Price(more(price), price, super::table::part(price, dearest)))),
        Cell::Text(what_if.class.clone()),
        Cell::Text(if from > 0 || to.is_some() { stretch } else { String::new() }),
    ];
    let look = match to {
        _ if is_baseline => RowStyle::Emphasised,
        _ if is_bound => RowStyle::Bound,
        // An alternative abandoned in mid-run had too little to save.
        Some(_) => RowStyle::Minor,
        None => RowStyle::Plain,
    };
    Row::new(look, cells)
}
