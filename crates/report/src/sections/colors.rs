//! Misses of the second-level cache by the color of the page: which pages fight for a color.

use super::{
    Axis, Bars, Cell, Chart, Column, Content, Mark, Part, Row, RowStyle, Section, Stack, Table, Terminal,
    Tick,
};
use crate::color_misses::{ColorColumn, ColorMisses, ColorPage};
use crate::figures::{base_name, per_kilo_instruction};
use crate::numbers::{count, counted, exact, multiples, nice_step, percent, ratio, total};
use crate::printable::printable;
use crate::schema::{MachineResult, ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "colors",
    link: "Colors",
    title: "Misses of the second-level cache by color",
    lead: "A page's color is the part of the cache that its lines can be in; pages of one color compete for the same \
           sets. Columns show the misses of the program's references, by the mapping of the page; the dashed line is \
           an even spread. Frames follow addresses here, as under page coloring.",
    terminal: Terminal::Parts,
    make,
};

/// Styles of the stacked mappings; the last is that of all others together.
const LOOKS: [&str; 8] = ["part-0", "part-1", "part-2", "part-3", "part-4", "part-5", "part-6", "part-rest"];
/// Columns below which the busiest one says nothing, as a multiple of an even spread.
const UNEVEN: f64 = 1.5;

fn make(_: &RunResult, process: &ProcessResult) -> Option<Content> {
    let machine = process.machines.first()?;
    let colors = process.attribution.colors.as_ref()?;
    let sums: Vec<u64> = (0..colors.columns.len()).map(|column| misses(colors, column)).collect();
    let all = total(sums.iter().copied());
    (all > 0).then(|| Content {
        finding: finding(colors, &sums, all),
        parts: vec![
            Part::Charts(vec![Chart::Bars(bars(colors, &sums, all))]),
            Part::Table(table(machine, colors, &sums, all)),
        ],
        ..Content::default()
    })
}

/// All misses of a column.
fn misses(colors: &ColorMisses, column: usize) -> u64 {
    total(colors.parts.iter().filter_map(|part| part.misses.get(column).copied()))
}

/// The colors of a column.
fn name(colors: &ColorMisses, column: usize) -> String {
    let first = (column as u64).saturating_mul(colors.colors_per_column);
    match colors.colors_per_column {
        0 | 1 => first.to_string(),
        several => format!("{first} to {}", first.saturating_add(several - 1)),
    }
}

fn finding(colors: &ColorMisses, sums: &[u64], all: u64) -> Option<String> {
    let (column, &most) = sums.iter().enumerate().rev().max_by_key(|&(_, &misses)| misses)?;
    let cache = printable(&colors.cache);
    let share = most as f64 / all as f64;
    Some(match share * sums.len() as f64 {
        times if times < UNEVEN => format!("Misses of the {cache} cache are spread evenly over its colors"),
        times => format!(
            "Color {} of the {cache} cache takes {} of its misses, {} times an even spread",
            name(colors, column),
            percent(share),
            ratio(times)
        ),
    })
}

fn bars(colors: &ColorMisses, sums: &[u64], all: u64) -> Bars {
    let most = sums.iter().max().copied().unwrap_or(0).max(1) as f64;
    let columns = sums.len().max(1) as f64;
    let even = all as f64 / columns;
    let (step, _) = nice_step(most, 6.0);
    let x = (0..sums.len()).map(|at| Tick { at: (at as f64 + 0.5) / columns, text: name(colors, at) });
    let y = multiples(step, 0.0..=most).map(|at| Tick { at: 1.0 - at / most, text: count(at as u64) });
    let is_last = |at: usize| at + 1 == colors.parts.len() && colors.parts.len() == LOOKS.len();
    let legend = colors.parts.iter().enumerate().map(|(at, part)| {
        let look = if is_last(at) { LOOKS[LOOKS.len() - 1] } else { LOOKS[at % (LOOKS.len() - 1)] };
        (look, printable(base_name(&part.mapping)))
    });
    Bars {
        label: format!("{} misses of {} by the color of the page", count(all), printable(&colors.cache)),
        height: 240,
        x: Axis { title: "color".to_owned(), ticks: x.collect() },
        y: Axis { title: format!("misses of the {} cache", printable(&colors.cache)), ticks: y.collect() },
        marks: vec![Mark { x: None, y: Some(1.0 - even / most), text: "even".to_owned() }],
        legend: legend.collect(),
        stacks: (0..sums.len()).map(|column| stack(colors, column, sums[column], most)).collect(),
    }
}

fn stack(colors: &ColorMisses, column: usize, sum: u64, most: f64) -> Stack {
    let of = |part: &crate::schema::ColorPart| part.misses.get(column).copied().unwrap_or(0);
    let mut tells = vec![format!("color {}: {} misses", name(colors, column), exact(sum))];
    let present = colors.parts.iter().filter(|part| of(part) > 0);
    tells.extend(present.map(|part| format!("{} {}", exact(of(part)), printable(base_name(&part.mapping)))));
    let missing = &colors.columns[column];
    tells.push(format!("{} missed, for {} ways", counted(missing.pages, "page"), colors.ways));
    tells.extend(missing.worst.iter().map(|page| format!("{}: {}", place(page), exact(page.misses))));
    Stack { parts: colors.parts.iter().map(|part| of(part) as f64 / most).collect(), tells }
}

fn place(page: &ColorPage) -> String {
    format!("{:#x} of {}", page.address, printable(base_name(&page.mapping)))
}

fn table(machine: &MachineResult, colors: &ColorMisses, sums: &[u64], all: u64) -> Table {
    let mut busiest: Vec<usize> = (0..sums.len()).filter(|&column| sums[column] > 0).collect();
    busiest.sort_by_key(|&column| (std::cmp::Reverse(sums[column]), column));
    let cache = printable(&colors.cache);
    let remark = format!(
        "color: the part of the {cache} cache that a page's lines can be in, of {}; each holds {} pages at once",
        exact(colors.colors),
        colors.ways
    );
    let rows = busiest.into_iter().enumerate();
    Table {
        columns: vec![
            Column::stays(format!("Color of the {cache} cache")),
            Column::goes("misses per 1000 instr.", 2),
            Column::stays("share"),
            Column::stays("pages that miss"),
            Column::words("those that miss most", 0).on_pages(),
            Column::words("the one that misses most", 1).on_terminals(),
        ],
        rows: rows.map(|(rank, column)| row(machine, colors, column, sums[column], all, rank)).collect(),
        remarks: vec![("", remark)],
        what: "colors",
        sorted: Some(2),
        first: Some(super::mappings::FIRST),
        ..Table::default()
    }
}

fn row(
    machine: &MachineResult,
    colors: &ColorMisses,
    column: usize,
    misses: u64,
    all: u64,
    rank: usize,
) -> Row {
    let ColorColumn { pages, worst } = &colors.columns[column];
    let worst: Vec<String> = worst.iter().map(place).collect();
    let share = misses as f64 / all as f64;
    let is_even = share * (colors.columns.len() as f64) < UNEVEN;
    let cells = vec![
        Cell::named(name(colors, column), ""),
        Cell::real(per_kilo_instruction(machine, misses), ratio),
        Cell::real(Some(share), percent),
        Cell::count(*pages),
        Cell::Text(worst.join(", ")),
        Cell::Text(worst.first().cloned().unwrap_or_default()),
    ];
    Row::new(if is_even && rank > 0 { RowStyle::Minor } else { RowStyle::Plain }, cells)
}
