//! Misses of a software-managed TLB by class, and the moves of its partition.

use super::{
    Axis, Cell, Chart, Column, Content, Curve, Part, Plot, Point, Row, RowStyle, Section, Table, Terminal,
    Tick,
};
use crate::figures::{MissClassFigures, miss_classes, per_kilo_instruction, whole};
use crate::numbers::{count, exact, nice_step, percent, ratio, total};
use crate::printable::printable;
use crate::schema::{MachineResult, ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "classes",
    link: "",
    title: "Misses by class",
    lead: "Misses of the software-managed TLB by what misses, and the modelled cycles of their handlers.",
    terminal: Terminal::Machine,
    make,
};

fn make(_: &RunResult, process: &ProcessResult) -> Option<Content> {
    let several = process.machines.len() > 1;
    let parts: Vec<Part> = process.machines.iter().flat_map(|machine| of(machine, several)).collect();
    (!parts.is_empty()).then(|| Content { parts, ..Content::default() })
}

fn of(machine: &MachineResult, several: bool) -> Vec<Part> {
    let mut parts: Vec<Part> = table(machine, several).map(Part::Table).into_iter().collect();
    if several && !parts.is_empty() {
        parts.insert(0, Part::Heading(machine.name.clone(), ""));
    }
    if let (Some(last), moves) = (machine.partition.last(), machine.partition.len().saturating_sub(1)) {
        let mean = machine.metrics.get("partition.lower_mean").map_or(0.0, |mean| mean.as_f64());
        let end = whole(machine, "instructions").unwrap_or(0).max(last.instructions).max(1);
        parts.push(Part::Heading(format!("Slots below the partition of {}", machine.name), ""));
        parts.push(Part::Note(format!(
            "It moved {} times; on average over instructions {} slots lay below it.",
            exact(moves as u64),
            ratio(mean)
        )));
        parts.push(Part::Charts(vec![Chart::Plot(partition(machine, end))]));
    }
    parts
}

/// The table, if the machine has such a TLB with any misses.
fn table(machine: &MachineResult, several: bool) -> Option<Table> {
    let classes = miss_classes(machine);
    let misses = total(classes.iter().map(|class| class.misses));
    let cycles = total(classes.iter().map(|class| class.cycles));
    let all = MissClassFigures { name: "all", what: "", misses, cycles };
    let mut rows: Vec<Row> = classes.iter().map(|class| row(machine, RowStyle::Plain, class, &all)).collect();
    rows.push(row(machine, RowStyle::Emphasised, &all, &all));
    let title =
        if several { format!("Misses by class on {}", machine.name) } else { "Misses by class".to_owned() };
    let columns = vec![
        Column::stays(title),
        Column::words("what misses", 1),
        Column::stays("misses"),
        Column::stays("of all"),
        Column::goes("per 1000 instr.", 2),
        Column::stays("cycles each"),
        Column::words("Cycles, as a part of all classes'", 0).on_pages(),
        Column::stays("cycles"),
        Column::stays("of all"),
    ];
    (misses > 0).then(|| Table { columns, rows, is_whole: true, ..Table::default() })
}

fn row(machine: &MachineResult, look: RowStyle, class: &MissClassFigures, all: &MissClassFigures) -> Row {
    let MissClassFigures { name, what, misses, cycles } = *class;
    let quotient = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
    let cells = vec![
        Cell::Text(name.to_owned()),
        Cell::Text(what.to_owned()),
        Cell::count(misses),
        Cell::real(quotient(misses, all.misses), percent),
        Cell::real(per_kilo_instruction(machine, misses), ratio),
        Cell::real(quotient(cycles, misses), ratio),
        Cell::bar(cycles as f64, all.cycles as f64, ""),
        Cell::count(cycles),
        Cell::real(quotient(cycles, all.cycles), percent),
    ];
    Row::new(look, cells)
}

/// The partition over the run.
fn partition(machine: &MachineResult, end: u64) -> Plot {
    let moves = &machine.partition;
    let most = moves.iter().map(|at| at.lower).max().unwrap_or(0);
    let grain = nice_step(f64::from(most.max(1)), 4.0).0.max(1.0);
    let highest = (f64::from(most) / grain).ceil().max(1.0) * grain;
    let ends = moves.iter().skip(1).map(|at| at.instructions).chain([end]);
    let steps = moves.iter().zip(ends).flat_map(|(at, to)| {
        let told = format!("from instruction {} to {}", count(at.instructions), count(to));
        let point = |instructions: u64| Point {
            x: instructions as f64 / end as f64,
            y: 1.0 - f64::from(at.lower) / highest,
            tells: vec![format!("{} slots", at.lower), told.clone()],
            ..Point::default()
        };
        [point(at.instructions), point(to)]
    });
    let ticks = (0..=(highest / grain).round() as u32).map(|index| {
        let slots = f64::from(index) * grain;
        Tick { at: 1.0 - slots / highest, text: format!("{slots:.0}") }
    });
    let [first, .., last] = [moves.first(), moves.last()].map(|at| at.map_or(0, |at| at.lower));
    Plot {
        label: format!(
            "Slots below the partition of {}: {first} at the start, at most {most}, {last} at the end",
            printable(&machine.name)
        ),
        height: 170,
        x: Axis {
            title: format!("{} instructions", count(end)),
            ticks: vec![Tick { at: 0.0, text: "0".to_owned() }],
        },
        y: Axis { title: String::new(), ticks: ticks.collect() },
        curves: vec![Curve {
            look: "partition",
            is_joined: true,
            points: steps.collect(),
            ..Curve::default()
        }],
        ..Plot::default()
    }
}
