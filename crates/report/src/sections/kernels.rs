//! Machines under several kernels: the cost of translation, the cost of the kernel's own work, and the memory used.

mod history;
mod tradeoff;

use super::{Bar, Cell, Column, Content, Name, Part, Row, RowStyle, Section, Table, Terminal};
use crate::figures::{KERNEL_PARTS, KernelFigures, kernels, killed};
use crate::kernel_costs::{USUAL_WORK, charge_alike, usual_work};
use crate::numbers::{bytes, change, count, cycles, multiples, nice_step, percent, ratio};
use crate::schema::{ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "kernels",
    link: "Kernels",
    title: "Machines under several kernels",
    lead: "Each kernel ran on the same references in the same run. Bars show the modelled cycles of address \
           translation per instruction, with waits for caches of memory if there are any, and what takes them; the \
           dashed line is the host's kernel, whose own work is \
           not counted. Memory is what was backed at one time, at most. Some of it was never touched: the price is \
           that part of the whole.",
    terminal: Terminal::End,
    make,
};

/// The text below the last table on a terminal.
const LEGEND: &str = "cycles per instruction are modelled; together: walks, lower-level hits and all of the kernel's \
                      work. A perfect TLB with base pages: 0";

/// The same on machines with caches of memory.
const LEGEND_WITH_CACHES: &str = "cycles per instruction are modelled; together: walks, lower-level hits, waits for \
                                  caches and memory, and all of the kernel's work";

type Rows<'a> = Vec<KernelFigures<'a>>;

fn make(_: &RunResult, process: &ProcessResult) -> Option<Content> {
    let rows: Rows<'_> = kernels(process).collect();
    let scale = Scale::new(&rows);
    let legend = Part::Legend(legend(&rows, &scale));
    let groups = groups(rows);
    let finding = groups.first().map(finding)?;
    let mut parts = vec![legend];
    for (index, (machine, rows)) in groups.iter().enumerate() {
        parts.push(Part::Heading((*machine).to_owned(), "modelled"));
        let title = if groups.len() > 1 { format!("Kernel on {machine}") } else { "Kernel".to_owned() };
        let mut table = table(title, rows, &scale);
        if index + 1 == groups.len() {
            let waits = rows.iter().any(|row| row.waits().is_some());
            table.remarks.push(("", if waits { LEGEND_WITH_CACHES } else { LEGEND }.to_owned()));
        }
        parts.push(Part::Table(table));
    }
    parts.extend(groups.first().and_then(|(_, rows)| left_out(rows)));
    parts.extend(groups.iter().filter_map(|(machine, rows)| tradeoff::parts(machine, rows)).flatten());
    parts.extend(groups.iter().filter_map(|(machine, rows)| history::parts(machine, rows)).flatten());
    Some(Content { finding: Some(finding), parts, ..Content::default() })
}

/// The rows grouped by machine, in their order.
fn groups(rows: Rows<'_>) -> Vec<(&str, Rows<'_>)> {
    let mut groups: Vec<(&str, Rows<'_>)> = Vec::new();
    for row in rows {
        let name = row.of.machine.as_str();
        match groups.iter_mut().find(|(machine, _)| *machine == name) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((name, vec![row])),
        }
    }
    groups
}

fn finding((machine, rows): &(&str, Rows<'_>)) -> String {
    let doable = || rows.iter().filter(is_doable);
    let is_alike = charge_alike(doable().map(|row| row.of));
    let against_host = |row: &KernelFigures<'_>| row.together.unwrap_or(0.0) - usual_work(row.of);
    let cost =
        |row: &KernelFigures<'_>| if is_alike { row.together.unwrap_or(0.0) } else { against_host(row) };
    let best = doable().reduce(|a, b| if cost(a) <= cost(b) { a } else { b });
    let (Some(host), Some(best)) = (rows.iter().find(|row| row.is_host()), best) else {
        return format!("{machine} under several kernels");
    };
    let what = if host.waits().is_some() {
        "address translation and waits for memory"
    } else {
        "address translation"
    };
    let before = host.together.unwrap_or(0.0);
    if before == 0.0 {
        return "Address translation costs nothing under the host's kernel".to_owned();
    }
    match against_host(best) / before {
        left if left > 0.95 => format!("No kernel makes {what} much cheaper than the host's"),
        left => format!("{}: {} of the cost of {what} is gone", best.of.policy, percent(1.0 - left)),
    }
}

/// Whether a user can have the kernel, and its figures are of the whole program.
fn is_doable(row: &&KernelFigures<'_>) -> bool {
    !row.is_host() && row.of.class == "modelled" && row.killed().is_none()
}

/// What the finding leaves out, if any kernel's sum has it.
fn left_out(rows: &Rows<'_>) -> Option<Part> {
    let doable = || rows.iter().filter(is_doable).map(|row| row.of);
    if doable().all(|row| usual_work(row) == 0.0) {
        return None;
    }
    let why =
        if charge_alike(doable()) { "the host's are not counted" } else { "not all kernels charge them" };
    Some(Part::Note(format!("The finding leaves out {USUAL_WORK}: {why}.")))
}

/// The scale of bars.
struct Scale {
    /// Cycles per instruction at the right end.
    end: f64,
    /// The highest price.
    dearest: f64,
}

impl Scale {
    /// Cuts the bar of a kernel that costs far more than the others, so that theirs stay readable.
    fn new(rows: &[KernelFigures<'_>]) -> Scale {
        let mut together: Vec<f64> = rows.iter().filter_map(|row| row.together).collect();
        together.sort_by(f64::total_cmp);
        let most = together.last().copied().unwrap_or(0.0);
        let median = together.get(together.len() / 2).copied().unwrap_or(0.0);
        let hosts =
            rows.iter().filter(|row| row.is_host()).filter_map(|row| row.together).fold(0.0, f64::max);
        let dearest = rows.iter().filter_map(KernelFigures::price).fold(0.0, f64::max);
        Scale { end: most.min(hosts.max(3.0 * median)), dearest }
    }

    fn part(&self, cycles: f64) -> f64 {
        if self.end > 0.0 { (cycles / self.end).min(1.0) } else { 0.0 }
    }

    fn is_cut(&self, row: &KernelFigures<'_>) -> bool {
        row.together.is_some_and(|together| together > self.end)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        if self.end <= 0.0 {
            return Vec::new();
        }
        let (step, digits) = nice_step(self.end, 4.0);
        let at = multiples(step, 0.0..=self.end);
        let text = |at: f64| if at == 0.0 { "0".to_owned() } else { format!("{at:.digits$}") };
        at.map(|at| (self.part(at), text(at))).collect()
    }
}

/// The parts that some bar shows.
fn legend(rows: &[KernelFigures<'_>], scale: &Scale) -> Vec<(&'static str, &'static str)> {
    let named = KERNEL_PARTS.iter().enumerate();
    let occurs = named.filter(|&(part, _)| rows.iter().any(|row| row.parts()[part] > 0.0));
    let mut legend: Vec<_> = occurs.map(|(_, key)| *key).collect();
    if rows.iter().any(|row| scale.is_cut(row)) {
        legend.push(("cut", "longer than drawn"));
    }
    legend
}

fn table(title: String, rows: &[KernelFigures<'_>], scale: &Scale) -> Table {
    let host = rows.iter().find(|row| row.is_host());
    let mark = host.and_then(|host| host.together).map(|together| scale.part(together));
    let killed = rows.iter().filter_map(|row| {
        let (at, asked) = row.killed()?;
        let backed = row.text("kernel.backed_bytes_peak").unwrap_or_default();
        let told = killed(at, asked);
        let text = format!("{} was {told} with {backed} backed. Its figures end there.", row.of.policy);
        Some(("killed", text))
    });
    let moves = rows.iter().any(|row| row.of("kernel.recolorings").is_some());
    let mut lines: Vec<Row> = rows.iter().map(|row| line(row, scale, mark)).collect();
    lines.push(perfect(host, mark));
    let mut columns = vec![
        Column::stays(title),
        Column::words("Cycles, and what takes them", 0).on_pages(),
        Column::stays("walks"),
        Column::stays("change"),
        Column::goes("walk cyc/instr.", 2),
        Column::stays("hit cyc/instr.").on_pages(),
        Column::goes("kernel cyc/instr.", 2),
        Column::stays("together"),
        Column::goes("promotions", 1),
        Column::stays("backed"),
        Column::goes("never touched", 3),
        Column::stays("price").on_pages(),
    ];
    if moves {
        columns.push(Column::goes("recolored", 1));
        for (line, moved) in lines.iter_mut().zip(rows.iter().map(Some).chain([None])) {
            let moved = moved.and_then(|row| row.of("kernel.recolorings"));
            line.cells.push(Cell::or_dash(moved.map(|moved| Cell::figure(count(moved), moved as f64))));
        }
    }
    Table {
        columns,
        rows: lines,
        ticks: scale.ticks(),
        remarks: killed.collect(),
        is_whole: true,
        ..Table::default()
    }
}

fn line(row: &KernelFigures<'_>, scale: &Scale, mark: Option<f64>) -> Row {
    let counted = |name, write: fn(u64) -> String| {
        Cell::or_dash(row.of(name).map(|value| Cell::figure(write(value), value as f64)))
    };
    let is_compared = !row.is_host() && row.killed().is_none();
    let changed = || Cell::figure(change(row.host_walks, row.walks), row.walks as f64);
    let price = |part| Cell::Price(percent(part), part, super::table::part(part, scale.dearest));
    let cells = vec![
        Cell::Name(Name {
            text: row.of.policy.clone(),
            tag: if row.of.class == "modelled" { String::new() } else { row.of.class.clone() },
            sub: row.killed().map_or(String::new(), |(at, bytes)| killed(at, bytes)),
        }),
        Cell::Bar(bar(row, scale, mark)),
        Cell::count(row.walks),
        Cell::or_dash(is_compared.then(changed)),
        Cell::real(row.walk_cycles, cycles),
        Cell::real(row.hit_cycles, cycles),
        Cell::real(row.kernel_cycles, cycles),
        Cell::real(row.together, cycles),
        counted("kernel.promotions", count),
        counted("kernel.backed_bytes_peak", bytes),
        counted("kernel.untouched_bytes_peak", bytes),
        Cell::or_dash(row.price().map(price)),
    ];
    Row::new(if row.is_host() { RowStyle::Emphasised } else { RowStyle::Plain }, cells)
}

/// The bound: no walks and no lower-level hits, and the host's waits for memory. A terminal prints it below the table.
fn perfect(host: Option<&KernelFigures<'_>>, mark: Option<f64>) -> Row {
    let host_walks = host.map_or(0, |host| host.walks);
    let waits = host.and_then(KernelFigures::waits);
    let zero = || Cell::Text("0".to_owned());
    let dash = || Cell::or_dash(None);
    let (name, tag) = ("a perfect TLB".to_owned(), "bound".to_owned());
    let cells = vec![
        Cell::Name(Name { text: name, tag, sub: String::new() }),
        Cell::Bar(Bar { parts: vec![(0.0, "bound")], mark, ..Bar::default() }),
        zero(),
        Cell::figure(change(host_walks, 0), 0.0),
        zero(),
        zero(),
        dash(),
        waits.map_or_else(zero, |waits| Cell::real(Some(waits), cycles)),
        dash(),
        dash(),
        dash(),
        dash(),
    ];
    Row::new(RowStyle::Minor, cells)
}

/// The stacked bar, with the kernel's part in words.
fn bar(row: &KernelFigures<'_>, scale: &Scale, mark: Option<f64>) -> Bar {
    let mut from = 0.0;
    let parts = row.parts();
    let pieces = parts.iter().zip(KERNEL_PARTS).map(|(part, (look, _))| {
        let width = scale.part(from + part) - scale.part(from);
        from += part;
        (width, look)
    });
    let pieces = pieces.collect();
    let words = parts.iter().zip(KERNEL_PARTS).skip(3).filter(|&(&part, _)| part > 0.0);
    let words: Vec<String> = words.map(|(&part, (look, _))| format!("{look} {}", ratio(part))).collect();
    Bar { parts: pieces, mark, is_cut: scale.is_cut(row), sub: words.join(", ") }
}
