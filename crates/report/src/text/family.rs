//! All processes of a run, condensed: one line for all images of a program.

use super::Page;
use super::paint::{Line, Style};
use super::table::{Table, WhenNarrow, names, numbers, texts};
use crate::figures::{base_name, per_kilo_instruction, walk_cycle_share, weight, whole};
use crate::metrics::sum;
use crate::numbers::{count, percent, ratio};
use crate::printable::printable;
use crate::schema::{MachineResult, ProcessResult, RunResult};
use std::collections::BTreeMap;

/// Lines of the table before one line for the rest.
const SHOWN: usize = 8;
/// Lines of the table with `-v`, which shows each process on its own line.
const SHOWN_VERBOSE: usize = 200;
/// Share of the run's walk cycles that a program needs for a line of its own, unless it has a remark and there is
/// room.
const LEAST: f64 = 0.05;

/// Process images that share a line.
struct Family<'a> {
    name: String,
    members: Vec<&'a ProcessResult>,
}

impl Family<'_> {
    /// Walk cycles, then all cycles.
    fn cost(&self) -> (u64, f64) {
        (walk_cycles(&self.members), self.members.iter().map(|process| weight(process)).sum())
    }

    /// The sum of the members' counters.
    fn totals(&self) -> MachineResult {
        let machines = self.members.iter().filter_map(|process| process.machines.first());
        MachineResult::new("", sum(machines.map(|machine| &machine.metrics)))
    }

    /// What went wrong in it; empty if nothing did.
    fn remark(&self) -> String {
        let mut endings: BTreeMap<&str, usize> = BTreeMap::new();
        for process in
            self.members.iter().filter(|process| !matches!(process.ended.as_str(), "exit 0" | "exec"))
        {
            *endings.entry(&process.ended).or_default() += 1;
        }
        let endings = endings.iter().map(|(ending, times)| match (*times, self.members.len()) {
            (1, 1) => printable(ending),
            _ => format!("{times} × {}", printable(ending)),
        });
        endings.collect::<Vec<_>>().join(", ")
    }
}

pub(super) fn write(page: &mut Page, result: &RunResult) {
    page.blank();
    let mut families = families(&result.processes, page.verbose);
    families.sort_by(|a, b| {
        let ((a_walks, a_all), (b_walks, b_all)) = (a.cost(), b.cost());
        b_walks.cmp(&a_walks).then(b_all.total_cmp(&a_all))
    });
    let mut table = Table::new(vec![
        names("All processes"),
        numbers("", WhenNarrow::Keep),
        numbers("instructions", WhenNarrow::Keep),
        numbers("walks", WhenNarrow::Keep),
        numbers("per 1000 instr.", WhenNarrow::Drop(3)),
        numbers("walk cycles", WhenNarrow::Drop(2)),
        numbers("share", WhenNarrow::Keep),
        texts("", WhenNarrow::Drop(1)),
    ]);
    if let Some(total) = result.machines.first() {
        let title = Line::new(Style::Plain, "together");
        table.row(row(title, result.processes.len(), total, String::new()));
    }
    if !page.verbose {
        families = folded(families);
    }
    let shown = if page.verbose { SHOWN_VERBOSE } else { families.len() };
    for family in families.iter().take(shown) {
        let name = Line::new(Style::Plain, family.name.clone());
        table.row(row(name, family.members.len(), &family.totals(), family.remark()));
    }
    page.table(table);
    if families.len() > shown {
        page.line(Line::new(Style::Quiet, format!("  … and {} more", families.len() - shown)));
    }
}

/// The costly programs, and one line for all others.
fn folded(families: Vec<Family<'_>>) -> Vec<Family<'_>> {
    let least = families.iter().map(|family| family.cost().0 as f64).sum::<f64>() * LEAST;
    let matters = |index: usize, family: &Family| {
        index == 0 || least == 0.0 || family.cost().0 as f64 > least || !family.remark().is_empty()
    };
    let (mut shown, mut others) = (Vec::new(), Vec::new());
    for (index, family) in families.into_iter().enumerate() {
        let matters = shown.len() < SHOWN && matters(index, &family);
        if matters { shown.push(family) } else { others.push(family) }
    }
    match others.len() {
        0 => {}
        1 => shown.append(&mut others),
        programs => shown.push(Family {
            name: format!("{programs} other programs (-v lists them)"),
            members: others.into_iter().flat_map(|family| family.members).collect(),
        }),
    }
    shown
}

fn walk_cycles(processes: &[&ProcessResult]) -> u64 {
    let machines = processes.iter().filter_map(|process| process.machines.first());
    machines.filter_map(|machine| whole(machine, "walk_cycles")).fold(0, u64::saturating_add)
}

fn row(name: Line, members: usize, machine: &MachineResult, remark: String) -> Vec<Line> {
    let plain = |text: Option<String>| Line::new(Style::Plain, text.unwrap_or_default());
    let walks = whole(machine, "walks");
    vec![
        name,
        if members > 1 { Line::new(Style::Quiet, format!("{members}×")) } else { Line::default() },
        plain(whole(machine, "instructions").map(count)),
        plain(walks.map(count)),
        plain(walks.and_then(|walks| per_kilo_instruction(machine, walks)).map(ratio)),
        plain(whole(machine, "walk_cycles").map(count)),
        plain(walk_cycle_share(machine).map(percent)),
        Line::new(Style::Warning, remark),
    ]
}

/// Images by program, in order of their first start; each image by itself if `apart`.
fn families(processes: &[ProcessResult], apart: bool) -> Vec<Family<'_>> {
    let mut families: Vec<Family> = Vec::new();
    let mut by_program: BTreeMap<&str, usize> = BTreeMap::new();
    for process in processes {
        let name = base_name(&process.program);
        if apart {
            let name = printable(&format!("{name} ({})", process.pid));
            families.push(Family { name, members: vec![process] });
            continue;
        }
        let index = *by_program.entry(&process.program).or_insert_with(|| {
            families.push(Family { name: printable(name), members: Vec::new() });
            families.len() - 1
        });
        families[index].members.push(process);
    }
    families
}
