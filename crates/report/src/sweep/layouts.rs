//! Machines under several layouts: the data of tables and pictures, the table, the section of the page, and its
//! pictures.

use super::kernels::published;
use super::machines::{MakeCell, killed_programs, names};
use super::markup::{PictureFile, file_name};
use super::picture::{LINE_COLORS, Picture, short};
use super::schema::{MachineCell, SweepResult};
use crate::html::{self, escape};
use crate::numbers::{count, percent, ratio};
use crate::schema::Number;
use crate::sections::{Cell, Column, Row, Table};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;

/// The layout that is the base of comparison.
const RECORDED: &str = "recorded";

/// The minimum, the lower median and the maximum of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Option<Spread> {
        figures.sort_by(f64::total_cmp);
        let last = figures.len().checked_sub(1)?;
        Some(Spread { least: figures[0], median: figures[last / 2], most: figures[last] })
    }

    /// The median as text, with the least and the most if their texts differ.
    pub(crate) fn told(&self, one: impl Fn(f64) -> String) -> String {
        let range = self.range(&one);
        let space = if range.is_empty() { "" } else { " " };
        format!("{}{space}{range}", one(self.median))
    }

    /// The least and the most, if their texts differ.
    fn range(&self, one: impl Fn(f64) -> String) -> String {
        let (least, most) = (one(self.least), one(self.most));
        if least == most { String::new() } else { format!("{least}…{most}") }
    }

    /// The figures as shares of `of`; `None` if that is 0.
    pub(crate) fn to(&self, of: f64) -> Option<Spread> {
        let share = |figure: f64| figure / of;
        let Spread { least, median, most } = *self;
        (of != 0.0).then(|| Spread { least: share(least), median: share(median), most: share(most) })
    }
}

/// A machine under one layout, or under several random draws of it.
pub(crate) struct LayoutRow<'a> {
    pub layout: &'a str,
    pub cells: Vec<&'a MachineCell>,
}

impl<'a> LayoutRow<'a> {
    /// The cell that names the row: of several draws the first, or the first whose program was killed.
    fn first(&self) -> &'a MachineCell {
        let mut cells = self.cells.iter().copied();
        cells.find(|cell| cell.was_killed()).unwrap_or(self.cells[0])
    }

    /// A counter's spread over the draws; `None` if the machine lacks it.
    pub(crate) fn spread(&self, metric: &str) -> Option<Spread> {
        let figure = |cell: &&MachineCell| Some(cell.metrics.get(metric)?.as_f64());
        Spread::of(self.cells.iter().map(figure).collect::<Option<Vec<f64>>>()?)
    }

    /// The layout's name and number of draws.
    pub(crate) fn title(&self) -> String {
        match self.cells.len() {
            1 => self.layout.to_owned(),
            draws => format!("{} ({draws})", self.layout),
        }
    }
}

/// A machine under all its layouts on one trace.
pub(crate) struct MachineLayouts<'a> {
    pub title: String,
    pub rows: Vec<LayoutRow<'a>>,
}

impl MachineLayouts<'_> {
    /// A counter under the recorded layout; 0 if there is nothing to compare with.
    fn recorded(&self, metric: &str) -> f64 {
        let row = self.rows.iter().find(|row| row.layout == RECORDED && !row.first().was_killed());
        row.and_then(|row| row.spread(metric)).map_or(0.0, |spread| spread.median)
    }

    /// A counter of a row against the recorded layout's; `None` if they do not compare.
    fn to_recorded(&self, row: &LayoutRow<'_>, metric: &str) -> Option<Spread> {
        row.spread(metric).filter(|_| !row.first().was_killed())?.to(self.recorded(metric))
    }
}

/// The machines of a trace under layouts; empty if the study names no layouts.
pub(crate) fn laid(result: &SweepResult, trace: usize) -> Vec<MachineLayouts<'_>> {
    let mut machines: Vec<MachineLayouts<'_>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for cell in result.machines.iter().filter(|cell| cell.trace == trace) {
        let Some(layout) = cell.layout.as_deref() else { continue };
        let title = cell.title("layout");
        let place = *places.entry(title.clone()).or_insert_with(|| {
            machines.push(MachineLayouts { title, rows: Vec::new() });
            machines.len() - 1
        });
        let rows = &mut machines[place].rows;
        match rows.iter_mut().find(|row| row.layout == layout) {
            Some(row) => row.cells.push(cell),
            None => rows.push(LayoutRow { layout, cells: vec![cell] }),
        }
    }
    machines
}

/// A machine as it is, or the one in the middle of several draws of a layout.
pub(super) struct Settled<'a> {
    pub cell: Cow<'a, MachineCell>,
    draws: usize,
}

impl<'a> Settled<'a> {
    /// With median counters. A draw whose program was killed stands for all.
    fn of(draws: &[&'a MachineCell]) -> Settled<'a> {
        if let [cell] = draws {
            return Settled { cell: Cow::Borrowed(cell), draws: 1 };
        }
        let mut middle = LayoutRow { layout: "", cells: draws.to_vec() }.first().clone();
        for (name, number) in &mut middle.metrics {
            let mut all: Vec<Number> =
                draws.iter().filter_map(|cell| cell.metrics.get(name)).copied().collect();
            all.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
            if let Some(found) = all.get(all.len().saturating_sub(1) / 2) {
                *number = *found;
            }
        }
        Settled { cell: Cow::Owned(middle), draws: draws.len() }
    }

    /// As [`MachineCell::title`], with the number of draws in place of a seed.
    pub fn title(&self, without: &str) -> String {
        match (&self.cell.layout, self.draws) {
            (Some(layout), draws @ 2..) => {
                self.cell.title_under(without, Some(format!("{layout} ({draws})")))
            }
            _ => self.cell.title(without),
        }
    }
}

/// All machines; draws of one layout become one.
pub(super) fn settled(result: &SweepResult) -> Vec<Settled<'_>> {
    let mut settled: Vec<Vec<&MachineCell>> = Vec::new();
    for cell in &result.machines {
        let alike = |other: &&MachineCell| {
            cell.layout_seed.is_some()
                && (cell.trace, &cell.layout) == (other.trace, &other.layout)
                && cell.title("layout") == other.title("layout")
        };
        match settled.last_mut().filter(|draws| draws.first().is_some_and(alike)) {
            Some(draws) => draws.push(cell),
            None => settled.push(vec![cell]),
        }
    }
    settled.iter().map(|draws| Settled::of(draws)).collect()
}

const ABOUT: &str = "<h2>Layouts</h2><p class=\"lead\">Walks of each machine with its shared objects where they were \
recorded, and where they are planned; and what the sets of its last level cost, each array alone. Of layouts that are \
drawn at random: the one in the middle, the least and the most.</p>";

/// The section of the page; empty if the study names no layouts.
pub(super) fn section(result: &SweepResult) -> String {
    let mut out = String::new();
    for (index, trace) in result.traces.iter().enumerate() {
        let machines = laid(result, index);
        if machines.is_empty() {
            continue;
        }
        let picture = picture(&machines).map(|picture| picture.element(&label(&trace.name)));
        let _ = write!(
            out,
            "<h3>{}</h3><div class=\"pictures\">{}</div>{}",
            escape(&trace.name),
            picture.unwrap_or_default(),
            html::table(&table(&machines))
        );
    }
    if out.is_empty() {
        return out;
    }
    let tables = result.published.iter().filter(|table| table.beside == "layouts");
    format!("{ABOUT}{out}{}", tables.map(published).collect::<String>())
}

/// Every picture of the section as a file.
pub(super) fn pictures(result: &SweepResult) -> Vec<PictureFile> {
    let of_trace = |(index, trace): (usize, &super::schema::SweepTrace)| {
        let name = format!("layouts-{}.svg", file_name(&trace.name));
        Some(PictureFile { name, svg: picture(&laid(result, index))?.file(&label(&trace.name)) })
    };
    result.traces.iter().enumerate().filter_map(of_trace).collect()
}

fn label(trace: &str) -> String {
    format!("Walks under each layout to those as recorded, by machine, {trace}")
}

/// The machines of one trace, each under all its layouts, for the terminal and for pages. Pages have what the sets cost
/// too.
pub(crate) fn table(machines: &[MachineLayouts<'_>]) -> Table {
    let rows = || machines.iter().flat_map(|machine| machine.rows.iter().map(move |row| (machine, row)));
    let (mut columns, names): (Vec<Column>, Vec<MakeCell>) =
        names(&rows().map(|(_, row)| row.first()).collect::<Vec<_>>()).into_iter().unzip();
    columns.extend([
        Column::words("layout", 0),
        Column::stays("walks"),
        Column::stays("to recorded"),
        Column::goes("conflict misses", 1),
        Column::goes("conflicts to recorded", 2),
        Column::goes("fully associative misses", 3),
        Column::stays("variation over sets").on_pages(),
        Column::stays("most involved page").on_pages(),
    ]);
    let row = |(machine, row): (&MachineLayouts<'_>, &LayoutRow<'_>)| {
        let named = names.iter().map(|make| make(row.first(), row.first()));
        Row::from(named.chain(figures(machine, row)).collect::<Vec<_>>())
    };
    let all: Vec<&MachineCell> = rows().flat_map(|(_, row)| row.cells.iter().copied()).collect();
    let (rows, remarks) = (rows().map(row).collect(), killed_programs(&all));
    let mut table = Table { columns, rows, remarks, is_whole: true, ..Table::default() };
    table.leave_out_unknown();
    table
}

/// The cells of a row after those that name the machine.
fn figures(machine: &MachineLayouts<'_>, row: &LayoutRow<'_>) -> [Cell; 8] {
    let whole = |metric: &str| {
        let told = |of: Spread| {
            let one = |figure: f64| count(figure as u64);
            Cell::Figure(one(of.median), of.median, of.range(one))
        };
        Cell::or_dash(row.spread(metric).map(told))
    };
    let share = |metric: &str| {
        let to = machine.to_recorded(row, metric);
        Cell::or_dash(to.map(|to| Cell::figure(to.told(ratio), to.median)))
    };
    let of_arrays = |metric: &str, one: fn(f64) -> String| {
        let is_meant =
            |name: &&String| name.starts_with("last_level.") && name.rsplit('.').next() == Some(metric);
        let names = row.cells[0].metrics.keys().filter(is_meant);
        let told: Vec<String> = names.filter_map(|name| Some(row.spread(name)?.told(one))).collect();
        Cell::or_dash((!told.is_empty()).then(|| Cell::Text(told.join("; "))))
    };
    [
        Cell::Text(row.title()),
        whole("walks"),
        share("walks"),
        whole("last_level.conflict_misses"),
        share("last_level.conflict_misses"),
        whole("last_level.fully_associative_misses"),
        of_arrays("misses_per_set_variation", ratio),
        of_arrays("most_involved_page_share", percent),
    ]
}

/// Room for the machines' names, if they need no more.
const LEFT: f64 = 190.0;
/// The average width of a letter.
const LETTER: f64 = 6.6;
const WIDTH: f64 = 420.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 24.0;
const ROW: f64 = 26.0;
/// A line of the legend.
const LINE: f64 = 15.0;

/// A line for each machine, with every layout at its ratio of walks to the recorded layout's; draws are thin strokes.
/// `None` if no machine has walks under the recorded layout.
fn picture(machines: &[MachineLayouts<'_>]) -> Option<Picture> {
    let machines: Vec<_> = machines.iter().filter(|machine| machine.recorded("walks") > 0.0).collect();
    let most_letters = machines.iter().map(|machine| machine.title.chars().count()).max()?;
    let left = (LETTER * most_letters as f64 + 8.0).max(LEFT);
    let shares = |machine: &MachineLayouts<'_>, row: &LayoutRow<'_>| -> Vec<f64> {
        let recorded = machine.recorded("walks");
        let compared = row.cells.iter().filter(|_| !row.first().was_killed());
        let walks = compared.filter_map(|cell| cell.metrics.get("walks"));
        walks.map(|walks| walks.as_f64() / recorded).collect()
    };
    let all =
        || machines.iter().flat_map(|machine| machine.rows.iter().flat_map(move |row| shares(machine, row)));
    let most = all().fold(1.1, f64::max);
    let x = |share: f64| left + share / most * WIDTH;
    let bottom = TOP + ROW * machines.len() as f64;
    let mut names: Vec<String> = Vec::new();
    for row in machines.iter().flat_map(|machine| &machine.rows) {
        if !names.contains(&row.title()) {
            names.push(row.title());
        }
    }
    let mut picture = Picture::new(left + WIDTH + RIGHT, bottom + 30.0 + LINE * names.len() as f64);
    for tick in [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0].into_iter().filter(|tick| *tick <= most) {
        picture.line("grid", [x(tick), TOP], [x(tick), bottom]);
        picture.text("", [x(tick), bottom + 16.0], "middle", &short(tick));
    }
    for (place, machine) in machines.iter().enumerate() {
        let y = TOP + ROW * place as f64;
        picture.text("", [left - 8.0, y + 17.0], "end", &machine.title);
        for row in &machine.rows {
            let color = names.iter().position(|name| *name == row.title()).unwrap_or(0) % LINE_COLORS;
            for (share, cell) in shares(machine, row).into_iter().zip(&row.cells) {
                let seed = cell.layout_seed.map_or(String::new(), |seed| format!(" by seed {seed}"));
                let about = format!("{}{seed}: {}", row.layout, ratio(share));
                let drawn = row.cells.len() > 1;
                let (width, inset) = if drawn { (1.5, 3.0) } else { (7.0, 8.5) };
                let at = [x(share) - width / 2.0, y + inset, width, ROW - 2.0 * inset];
                picture.cell(&format!("f{color}"), at, &about);
            }
        }
    }
    picture.line("axis", [left, bottom], [left + WIDTH, bottom]);
    for (index, name) in names.iter().enumerate() {
        let y = bottom + 26.0 + LINE * index as f64;
        picture.cell(&format!("f{}", index % LINE_COLORS), [left, y, 10.0, 10.0], name);
        picture.text("", [left + 16.0, y + 9.5], "start", name);
    }
    Some(picture)
}
