//! One process image in full: the finding, its counters, what causes walks, and the alternatives.

use super::Page;
use super::paint::{Line, Style, bar, plain};
use super::table::{Table, WhenNarrow, names, numbers, texts, walks};
use crate::figures::{
    self, TlbFigures, base_name, command, description, headline, level_misses, page_bytes,
    per_kilo_instruction, tlbs, walk_cycle_share, whole,
};
use crate::metrics::parts_of;
use crate::numbers::{bytes, count, percent, ratio};
use crate::printable::printable;
use crate::schema::{MachineDescription, MachineResult, ProcessResult, RunResult, STRIPPED};
use crate::sections::Terminal;

/// The classes of figures in all tables.
const CLASSES: &str = "instructions, references and pages are measured, all else but bounds is modelled";

pub(super) fn write(page: &mut Page, result: &RunResult, process: &ProcessResult) {
    let what = match figures::circumstances(process) {
        none if none.is_empty() => String::new(),
        known => format!("  {}", printable(&known.join(", "))),
    };
    let command = Line::new(Style::Quiet, printable(&command(process)));
    let room = page.width.saturating_sub(what.chars().count());
    page.line(command.fit(room).and(Style::Quiet, what));
    page.paragraph(Line::default(), Style::Strong, &printable(&headline(process)));
    if !process.advice.is_empty() {
        page.paragraph(Line::new(Style::Accent, "→ "), Style::Accent, &printable(&process.advice));
    }
    let Some(machine) = process.machines.first() else { return };
    page.blank();
    let shape = description(result, &machine.name);
    key_figures(page, machine, page_bytes(shape), has_caches(shape));
    page.paragraph(quiet("  "), Style::Quiet, CLASSES);
    notes(page, process, machine);
    page.blank();
    tlb_table(page, result, machine);
    super::sections::write(page, result, process, Terminal::Machine);
    // Data sides alone have a table of their own.
    if process.machines.len() > figures::sides(process).len().max(1) {
        page.blank();
        other_machines(page, &process.machines);
    }
    who_pays(page, process, whole(machine, "walks").unwrap_or(0));
    super::sections::write(page, result, process, Terminal::Parts);
    super::sections::write(page, result, process, Terminal::End);
}

/// Caveats for comparing the figures with a native run.
fn notes(page: &mut Page, process: &ProcessResult, machine: &MachineResult) {
    if let Some(share) = figures::spin_share(machine) {
        let waiting = format!(
            "waiting by spinning: {} of instructions (measured): threads run one at a time here, so spinning lasts \
             longer than natively",
            percent(share)
        );
        page.paragraph(quiet("  "), Style::Quiet, &waiting);
    }
    if let Some(inferred) = figures::inferred_areas(process.inferred_gap) {
        page.paragraph(quiet("  "), Style::Quiet, &inferred);
    }
    if let Some(forbidden) = figures::forbidden(process) {
        page.paragraph(quiet("  "), Style::Quiet, forbidden);
    }
}

/// The text of a figure, or a dash if the result lacks it.
fn or_dash(text: Option<String>) -> Line {
    text.map_or(Line::new(Style::Quiet, "–"), plain)
}

fn quiet(text: impl Into<String>) -> Line {
    Line::new(Style::Quiet, text)
}

/// Whether a machine has caches of memory, whose names may be those of TLBs.
fn has_caches(shape: Option<&MachineDescription>) -> bool {
    shape.is_some_and(|shape| !shape.caches.is_empty())
}

/// Measured counts on the left, modelled ones on the right.
fn key_figures(page: &mut Page, machine: &MachineResult, page_bytes: u64, has_caches: bool) {
    let of = |name| whole(machine, name);
    let counted = |name| or_dash(of(name).map(count));
    let walks = of("walks").unwrap_or(0);
    let rate = per_kilo_instruction(machine, walks).map(|x| format!("{} per 1000 instructions", ratio(x)));
    let depth = of("walk_references")
        .filter(|_| walks > 0)
        .map(|n| format!("{} per walk", ratio(n as f64 / walks as f64)));
    let share = walk_cycle_share(machine).map(|share| format!("{} of modelled cycles", percent(share)));
    let touched = of("pages_touched").map(|pages| format!("({})", bytes(pages.saturating_mul(page_bytes))));
    let mut table = Table::new(vec![
        texts("", WhenNarrow::Keep),
        numbers("", WhenNarrow::Keep),
        texts("", WhenNarrow::Drop(2)),
        texts("", WhenNarrow::Keep),
        numbers("", WhenNarrow::Keep),
        texts("", WhenNarrow::Drop(1)),
    ]);
    let none = Line::default;
    let note = |text: Option<String>| text.map_or(none(), quiet);
    table.row(vec![
        quiet("instructions"),
        counted("instructions"),
        none(),
        quiet("walks"),
        counted("walks"),
        note(rate),
    ]);
    table.row(vec![
        quiet("data references"),
        counted("references_data"),
        none(),
        quiet("walk references"),
        counted("walk_references"),
        note(depth),
    ]);
    table.row(vec![
        quiet("fetches"),
        counted("references_fetch"),
        none(),
        quiet("walk cycles"),
        counted("walk_cycles"),
        note(share),
    ]);
    table.row(vec![
        quiet("pages touched"),
        counted("pages_touched"),
        note(touched),
        quiet(if has_caches { "level-2 TLB hit cycles" } else { "level-2 hit cycles" }),
        counted("l2_hit_cycles"),
        none(),
    ]);
    page.table(table);
}

fn tlb_table(page: &mut Page, result: &RunResult, machine: &MachineResult) {
    let mut table = Table::new(vec![
        names("TLB"),
        texts("entries, pages", WhenNarrow::Drop(1)),
        numbers("lookups", WhenNarrow::Keep),
        numbers("misses", WhenNarrow::Keep),
        numbers("miss ratio", WhenNarrow::Keep),
        numbers("misses per 1000 instr.", WhenNarrow::Drop(2)),
        numbers("useful prefetches", WhenNarrow::Keep),
    ]);
    let shape = description(result, &machine.name);
    let rows = tlbs(machine, shape);
    let which = if has_caches(shape) { " TLB" } else { "" };
    let name = |tlb: &TlbFigures| format!("{}{which}", printable(tlb.name));
    let verbose = page.verbose;
    let idle = |tlb: &TlbFigures| tlb.hits() == 0 && !verbose;
    for tlb in rows.iter().filter(|tlb| !idle(tlb)) {
        table.row(vec![
            plain(name(tlb)),
            quiet(tlb.geometry()),
            plain(count(tlb.lookups)),
            plain(count(tlb.misses)),
            or_dash(tlb.miss_ratio().map(percent)),
            or_dash(per_kilo_instruction(machine, tlb.misses).map(ratio)),
            tlb.useful_prefetches().map_or(Line::default(), plain),
        ]);
    }
    for (level, misses) in level_misses(machine) {
        // The line of a level with one array would repeat the array's.
        if rows.iter().filter(|tlb| tlb.description.is_some_and(|d| d.level == level)).count() == 1 {
            continue;
        }
        table.row(vec![
            Line::new(Style::Strong, format!("level {level}{which}")),
            quiet("all its arrays"),
            Line::default(),
            Line::new(Style::Strong, count(misses)),
            Line::default(),
            or_dash(per_kilo_instruction(machine, misses).map(ratio)),
            Line::default(),
        ]);
    }
    page.table(table);
    let unused: Vec<String> = rows.iter().filter(|tlb| idle(tlb)).map(name).collect();
    if !unused.is_empty() {
        page.paragraph(quiet("  never hit: "), Style::Quiet, &unused.join(", "));
    }
    if page.verbose {
        walk_cache_line(page, machine);
    }
}

fn walk_cache_line(page: &mut Page, machine: &MachineResult) {
    let caches: Vec<String> = machine
        .metrics
        .keys()
        .filter_map(|key| parts_of("walk_cache.{cache}.lookups", key)?.pop())
        .filter_map(|name| {
            let lookups = whole(machine, &format!("walk_cache.{name}.lookups")).filter(|n| *n > 0)?;
            let hits = whole(machine, &format!("walk_cache.{name}.hits"))?;
            Some(format!("{} {}", printable(name), percent(hits as f64 / lookups as f64)))
        })
        .collect();
    if !caches.is_empty() {
        page.paragraph(quiet("  page-walk caches, hits of lookups: "), Style::Quiet, &caches.join(", "));
    }
}

fn other_machines(page: &mut Page, machines: &[MachineResult]) {
    let mut table = Table::new(vec![
        names("Machine"),
        numbers("walks", WhenNarrow::Keep),
        numbers("walk references", WhenNarrow::Drop(1)),
        numbers("walk cycles", WhenNarrow::Keep),
        numbers("share of cycles", WhenNarrow::Keep),
    ]);
    for machine in machines {
        let counted = |name| or_dash(whole(machine, name).map(count));
        table.row(vec![
            plain(printable(&machine.name)),
            counted("walks"),
            counted("walk_references"),
            counted("walk_cycles"),
            or_dash(walk_cycle_share(machine).map(percent)),
        ]);
    }
    page.table(table);
}

/// A hint for functions without names.
const STRIPPED_HINT: &str = "stripped: no names of functions are in that file; install its debug package (for libc: \
     libc6-dbg), or build it without -s and strip";

/// A row of "who pays": a mapping, a function or a page.
struct Payer {
    name: String,
    place: String,
    walks_data: u64,
    walks_fetch: u64,
    walk_cycles: Option<u64>,
}

fn who_pays(page: &mut Page, process: &ProcessResult, all_walks: u64) {
    let attribution = &process.attribution;
    let mappings = attribution.mappings.iter().map(|row| Payer {
        name: printable(&row.label()),
        place: String::new(),
        walks_data: row.walks_data,
        walks_fetch: row.walks_fetch,
        walk_cycles: Some(row.walk_cycles),
    });
    let functions = attribution.functions.iter().map(|row| Payer {
        name: printable(&row.name),
        place: match (&row.file, row.line) {
            (Some(file), Some(line)) => printable(&format!("{}:{line}", base_name(file))),
            _ => printable(base_name(&row.object)),
        },
        walks_data: row.walks_data,
        walks_fetch: row.walks_fetch,
        walk_cycles: Some(row.walk_cycles),
    });
    let pages = attribution.pages.iter().map(|row| Payer {
        name: format!("{:#x}", row.address),
        place: printable(&row.mapping_label()),
        walks_data: row.walks_data,
        walks_fetch: row.walks_fetch,
        walk_cycles: None,
    });
    let limit = if page.verbose { 40 } else { 4 };
    payers(page, "Mapping", all_walks, mappings, limit, 0);
    payers(page, "Function", all_walks, functions, limit, 0);
    let shown = attribution.functions.iter().filter(|row| row.walks() > 0).take(limit);
    if all_walks > 0 && shown.into_iter().any(|row| row.name.contains(STRIPPED)) {
        page.paragraph(quiet("  "), Style::Quiet, STRIPPED_HINT);
    }
    if page.verbose {
        payers(page, "Page", all_walks, pages, 20, attribution.pages_left_out);
    }
}

/// The first `limit` payers with walks, and the number of others.
fn payers(
    page: &mut Page,
    title: &str,
    all_walks: u64,
    rows: impl Iterator<Item = Payer>,
    limit: usize,
    left_out: u64,
) {
    let rows: Vec<Payer> = rows.filter(|row| row.walks_data.saturating_add(row.walks_fetch) > 0).collect();
    if rows.is_empty() || all_walks == 0 {
        return;
    }
    page.blank();
    let mut table = Table::new(vec![
        names(title),
        texts("", WhenNarrow::Drop(2)),
        numbers("walks", WhenNarrow::Keep),
        numbers("share", WhenNarrow::Keep),
        walks(WhenNarrow::Drop(3)),
        numbers("data", WhenNarrow::Keep),
        numbers("fetch", WhenNarrow::Keep),
        numbers("cycles", WhenNarrow::Drop(1)),
    ]);
    for row in rows.iter().take(limit) {
        let walks = row.walks_data.saturating_add(row.walks_fetch);
        table.row(vec![
            plain(row.name.clone()),
            quiet(row.place.clone()),
            plain(count(walks)),
            plain(percent(walks as f64 / all_walks as f64)),
            bar(row.walks_data, row.walks_fetch, all_walks),
            plain(count(row.walks_data)),
            plain(count(row.walks_fetch)),
            row.walk_cycles.map_or(Line::default(), |cycles| plain(count(cycles))),
        ]);
    }
    page.table(table);
    let more = rows.len().saturating_sub(limit) as u64 + left_out;
    if more > 0 {
        page.line(quiet(format!("  … and {} more", count(more))));
    }
}
