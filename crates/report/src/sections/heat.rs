//! Walks over time and address space.

use super::{Chart, Content, Heat, HeatGroup, Part, Section, Terminal, Tick};
use crate::figures::base_name;
use crate::numbers::{bytes, count, multiples, nice_step, percent, ratio, round, total};
use crate::printable::printable;
use crate::schema::{self, HeatRow, ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "time",
    link: "Time",
    title: "Walks over time and address space",
    lead: "Each row is a piece of address space, each column a stretch of the run; only rows with walks are drawn. The \
           strip above is the sum over all rows.",
    terminal: Terminal::Never,
    make,
};

fn make(_: &RunResult, process: &ProcessResult) -> Option<Content> {
    let heat = &process.heat;
    // The file may name more columns than its rows have.
    let longest = heat.rows.iter().map(|row| row.walks.len()).max().unwrap_or(0);
    let columns = (0..longest.min(heat.columns as usize))
        .map(|column| total(heat.rows.iter().map(|row| row.walks.get(column).copied().unwrap_or(0))));
    let columns: Vec<u64> = columns.collect();
    let all = total(columns.iter().copied());
    (all > 0).then(|| Content {
        finding: Some(finding(&columns, all)),
        parts: vec![Part::Charts(vec![Chart::Heat(chart(heat, &columns, all))])],
        ..Content::default()
    })
}

fn finding(columns: &[u64], all: u64) -> String {
    let mut ordered = columns.to_vec();
    ordered.sort_unstable_by(|a, b| b.cmp(a));
    let busiest = total(ordered.iter().take(columns.len().div_ceil(10)).copied());
    match busiest as f64 / all as f64 {
        tenth if tenth < 0.15 => "Page walks are spread evenly over the run".to_owned(),
        tenth => format!("The busiest tenth of the run holds {} of its page walks", percent(tenth)),
    }
}

fn chart(heat: &schema::Heat, columns: &[u64], all: u64) -> Heat {
    let peak = columns.iter().max().copied().unwrap_or(0);
    let most = heat.rows.iter().flat_map(|row| &row.walks).max().copied().unwrap_or(0);
    let stretch = heat.instructions_per_column;
    let end = stretch.saturating_mul(columns.len() as u64) as f64;
    let (step, _) = nice_step(end, 7.0);
    let ticks = multiples(step, 0.0..=end).map(|at| Tick { at: at / end, text: round(at as u64) });
    // The first row of a piece of address space, if any.
    let row = heat.rows.iter().find(|row| row.bytes > 0);
    let rows = row.map_or(String::new(), |row| format!("{} by ", bytes(row.bytes)));
    Heat {
        label: format!("Heat map of {} page walks, instructions across, address space down", count(all)),
        columns: columns.len() as u32,
        most,
        most_text: count(most),
        cell: format!("{rows}{} instructions", count(stretch)),
        edges: (0..=columns.len() as u64).map(|column| count(stretch.saturating_mul(column))).collect(),
        ticks: ticks.collect(),
        // Three digits are finer than a pixel.
        strip: columns.iter().map(|&walks| (walks as f64 / peak as f64 * 1e3).round() / 1e3).collect(),
        peak: ratio(peak as f64 * 1000.0 / stretch.max(1) as f64),
        groups: groups(&heat.rows).map(|rows| group(rows, all)).collect(),
    }
}

/// Neighbouring rows of one mapping.
fn groups(rows: &[HeatRow]) -> impl Iterator<Item = &[HeatRow]> {
    rows.chunk_by(|a, b| a.mapping == b.mapping)
}

fn group(rows: &[HeatRow], all: u64) -> HeatGroup {
    let walks = total(rows.iter().flat_map(|row| &row.walks).copied());
    let place = |row: &HeatRow| match row.bytes {
        // The row that collects many mappings has no address.
        0 => String::new(),
        size => format!("{:#x} – {:#x} ({})", row.start, row.start.saturating_add(size), bytes(size)),
    };
    HeatGroup {
        name: printable(base_name(&rows[0].mapping)),
        start: format!("{:#x}", rows[0].start),
        share: percent(walks as f64 / all as f64),
        places: rows.iter().map(place).collect(),
    }
}
