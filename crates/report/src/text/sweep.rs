//! A sweep's result on the terminal: machines, families and curves trace by trace, then comparisons with sources.

use super::cache_families::caches;
use super::paint::{Line, Style, plain};
use super::table::{Table, WhenNarrow, numbers, texts};
use super::{Page, TextOptions};
use crate::figures::{base_name, inferred_areas};
use crate::numbers::{count, percent, ratio};
use crate::printable::printable;
use crate::sweep::layouts::{self, laid};
use crate::sweep::machines::machines;
use crate::sweep::schema::{
    Comparison, CurveCell, FamilyCell, FamilySize, MachineCell, Method, SweepResult, SweepTrace,
    TraceQuotient,
};

/// The result as text for a terminal.
pub fn render_sweep_text(result: &SweepResult, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    page.line(strong(printable(&result.title)));
    let classes =
        "instructions are measured; all else is modelled, and curves that are sampled are estimates";
    page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, classes);
    for (index, trace) in result.traces.iter().enumerate() {
        page.blank();
        let turns = trace.turns.as_ref().map_or(String::new(), |turns| format!(", in {turns}"));
        let program = base_name(&trace.program);
        let about = format!("  {program}, {} instructions{turns}", count(trace.instructions));
        page.line(strong(printable(&trace.name)).and(Style::Quiet, printable(&about)));
        if let Some(inferred) = inferred_areas(trace.inferred_gap) {
            page.paragraph(Line::new(Style::Quiet, "  "), Style::Quiet, &inferred);
        }
        let cells: Vec<&MachineCell> = result.machines.iter().filter(|cell| cell.trace == index).collect();
        let under_layouts = laid(result, index);
        if !under_layouts.is_empty() {
            super::sections::table(&mut page, &layouts::table(&under_layouts));
        } else if !cells.is_empty() {
            super::sections::table(&mut page, &machines(&cells));
        }
        for family in result.families.iter().filter(|family| family.trace == index) {
            let shown = if page.verbose { family.sizes.len() } else { 1 };
            family.sizes.iter().take(shown).for_each(|size| shapes(&mut page, trace, family, size));
        }
        for cell in result.cache_families.iter().filter(|cell| cell.trace == index) {
            caches(&mut page, trace, cell);
        }
        let serves = ["data", "fetches", "everything"];
        for serves in serves {
            let of_trace = |curve: &&CurveCell| curve.trace == index && curve.serves == serves;
            curves(&mut page, serves, &result.curves.iter().filter(of_trace).collect::<Vec<_>>());
        }
    }
    comparisons(&mut page, result);
    page.end()
}

fn strong(text: impl Into<String>) -> Line {
    Line::new(Style::Strong, text)
}

/// Misses of the arrays of one page size: columns by ways in powers of two, rows by sets.
fn shapes(page: &mut Page, trace: &SweepTrace, family: &FamilyCell, size: &FamilySize) {
    page.line(Line::new(
        Style::Quiet,
        format!("  misses per 1000 instructions, {} on {} pages", family.serves, size.page_size),
    ));
    let shown: Vec<usize> = (0..size.ways.len())
        .filter(|&column| size.ways.len() <= 8 || size.ways[column].is_power_of_two())
        .collect();
    let mut columns = vec![texts("sets", WhenNarrow::Keep)];
    columns.extend(shown.iter().map(|&column| {
        let ways = size.ways[column];
        numbers(&format!("{ways} {}", if ways == 1 { "way" } else { "ways" }), WhenNarrow::Keep)
    }));
    let mut table = Table::new(columns);
    for (sets, misses) in size.sets.iter().zip(&size.misses) {
        let rate = |misses: u64| ratio(misses as f64 * 1000.0 / trace.instructions.max(1) as f64);
        let mut row = vec![plain(sets.to_string())];
        row.extend(shown.iter().map(|&column| plain(rate(misses[column]))));
        table.row(row);
    }
    page.table(table);
}

/// The curves of one kind of references side by side, at powers of two.
fn curves(page: &mut Page, serves: &str, curves: &[&CurveCell]) {
    if curves.is_empty() {
        return;
    }
    let what = format!("  misses per 100 references, {serves} on 4K pages, fully associative");
    page.line(Line::new(Style::Quiet, what));
    let mut columns = vec![texts("entries", WhenNarrow::Keep)];
    columns.extend(curves.iter().map(|curve| numbers(&how(&curve.method), WhenNarrow::Keep)));
    let mut table = Table::new(columns);
    let mut entries: Vec<u64> = curves.iter().flat_map(|curve| curve.entries.iter().copied()).collect();
    entries.sort_unstable();
    entries.dedup();
    let last = entries.last().copied();
    let is_shown = |entries: &u64| entries.is_power_of_two() || Some(*entries) == last;
    for entries in entries.into_iter().filter(|entries| page.verbose || is_shown(entries)) {
        let mut row = vec![plain(entries.to_string())];
        row.extend(curves.iter().map(|curve| point(curve, entries)));
        table.row(row);
    }
    page.table(table);
}

fn how(method: &Method) -> String {
    match method {
        Method::Exact => "exact".to_owned(),
        Method::FixedRate { rate } => format!("sampled, rate {rate}"),
        Method::FixedSize { pages, .. } => format!("sampled, {pages} pages"),
    }
}

/// A point of a curve, with its standard error if it has one. Beyond its end a curve keeps its last value.
fn point(curve: &CurveCell, entries: u64) -> Line {
    let index = match curve.entries.binary_search(&entries) {
        Ok(index) => index,
        Err(index) if index == curve.entries.len() && index > 0 => index - 1,
        Err(_) => return plain("–"),
    };
    let share = |misses: f64| misses / curve.references.max(1) as f64;
    let value = percent(share(curve.misses[index]));
    match curve.standard_errors.get(index) {
        Some(&error) => plain(format!("{value} ± {}", percent(share(error)))),
        None => plain(value),
    }
}

fn comparisons(page: &mut Page, result: &SweepResult) {
    if result.comparisons.is_empty() {
        return;
    }
    page.blank();
    page.line(strong("What sources found, and what was found here"));
    for comparison in &result.comparisons {
        page.blank();
        page.paragraph(plain("  "), Style::Strong, &printable(&comparison.title));
        let said = format!("{} ({})", comparison.said, comparison.source);
        page.paragraph(Line::new(Style::Quiet, "    source  "), Style::Plain, &printable(&said));
        page.paragraph(
            Line::new(Style::Quiet, "    here    "),
            Style::Plain,
            &printable(&here(result, comparison)),
        );
        let style = if comparison.agrees { Style::Accent } else { Style::Warning };
        let verdict = sweep_verdict(comparison);
        let bounds = format!(", asked for {}: {}", sweep_on(comparison), sweep_bounds(comparison));
        page.line(plain("            ").and(style, verdict).and(Style::Quiet, bounds));
    }
}

/// The quotients, trace by trace.
fn here(result: &SweepResult, comparison: &Comparison) -> String {
    let all = comparison.found.iter().map(|found| sweep_quotient(result, found));
    let told = all.chain(sweep_mean(comparison)).chain(sweep_left_out(result, comparison));
    told.collect::<Vec<_>>().join(", ")
}

/// Whether what was found agrees.
pub(crate) fn sweep_verdict(comparison: &Comparison) -> &'static str {
    match (comparison.agrees, comparison.found.is_empty()) {
        (true, _) => "agrees",
        (false, false) => "differs",
        (false, true) => "nothing to compare",
    }
}

/// The cases that a comparison leaves out, if any: `left out: gzip, sort (killed); perl (no figure)`.
pub(crate) fn sweep_left_out(result: &SweepResult, comparison: &Comparison) -> Option<String> {
    let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
    for one in &comparison.left_out {
        let place = case(result, one.trace, one.machine.as_deref());
        match by_reason.iter_mut().find(|(why, _)| *why == one.why) {
            Some((_, places)) => places.push(place),
            None => by_reason.push((&one.why, vec![place])),
        }
    }
    let told = by_reason.iter().map(|(why, places)| match *why {
        "" => places.join(", "),
        why => format!("{} ({why})", places.join(", ")),
    });
    (!by_reason.is_empty()).then(|| format!("left out: {}", told.collect::<Vec<_>>().join("; ")))
}

/// The name of a trace, with the machine if several are compared.
fn case(result: &SweepResult, trace: usize, machine: Option<&str>) -> String {
    let name = &result.traces[trace].name;
    machine.map_or(name.clone(), |machine| format!("{name} on {machine}"))
}

/// The mean over traces, if the comparison is of the mean.
pub(crate) fn sweep_mean(comparison: &Comparison) -> Option<String> {
    let mean = Comparison::mean(&comparison.found).filter(|_| comparison.on == "average")?;
    Some(format!("on average {} ×", ratio(mean)))
}

/// The traces on which a comparison must hold, in words.
pub(crate) fn sweep_on(comparison: &Comparison) -> String {
    let must = if comparison.strict { ", and must hold" } else { "" };
    match comparison.on.as_str() {
        "average" => format!("on average{must}"),
        on => format!("on {on} traces{must}"),
    }
}

/// A trace with its quotient, in brackets if outside the bounds.
pub(crate) fn sweep_quotient(result: &SweepResult, found: &TraceQuotient) -> String {
    let quotient = found.quotient().map_or("–".to_owned(), |quotient| format!("{} ×", ratio(quotient)));
    let name = case(result, found.trace, found.machine.as_deref());
    if found.agrees { format!("{name} {quotient}") } else { format!("({name} {quotient})") }
}

/// The quotients that agree, in words.
pub(crate) fn sweep_bounds(comparison: &Comparison) -> String {
    match (comparison.least, comparison.most) {
        (Some(least), Some(most)) => format!("from {least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => "any".to_owned(),
    }
}
