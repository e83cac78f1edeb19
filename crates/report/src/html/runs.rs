//! Several runs in one page: side by side in a table, with what makes them hard to compare. The rest of the page shows
//! one run: the first, or with scripts the chosen one.

use super::differences::differences;
use super::escape::escape;
use super::views::island_id;
use super::{ReportedRun, fill, summary};
use crate::figures::{base_name, per_kilo_instruction, walk_cycle_share, whole};
use crate::numbers::{change, count, percent, ratio};
use crate::schema::{MachineResult, RunResult};

/// The style for several runs; nothing for one.
pub(super) fn style(runs: &[ReportedRun<'_>]) -> &'static str {
    if runs.len() > 1 { include_str!("runs.css") } else { "" }
}

/// The link to the section.
pub(super) fn link(runs: &[ReportedRun<'_>]) -> &'static str {
    if runs.len() > 1 { "<a href=\"#runs\">Runs</a>\n      " } else { "" }
}

/// The section at the top of the page; nothing for one run.
pub(super) fn section(runs: &[ReportedRun<'_>]) -> String {
    let [first, _, ..] = runs else { return String::new() };
    fill(include_str!("runs.html"), |name| match name {
        "table" => table(first, runs),
        "differences" => listed(&differences(runs)),
        "first" => escape(first.file),
        other => unreachable!("runs.html names {other}, which nothing fills"),
    })
}

/// The chooser; nothing for one run.
pub(super) fn chooser(runs: &[ReportedRun<'_>]) -> String {
    if runs.len() < 2 {
        return String::new();
    }
    let option = |(index, run): (usize, &ReportedRun<'_>)| {
        format!("<option value=\"{index}\">{}</option>", escape(run.file))
    };
    let options: String = runs.iter().enumerate().map(option).collect();
    format!("<label class=\"scripted chooser\">Run <select id=\"run\">{options}</select></label>\n    ")
}

/// The tool, input and host of each run.
pub(super) fn about(runs: &[ReportedRun<'_>]) -> String {
    let about = |(index, run): (usize, &ReportedRun<'_>)| {
        let title = if runs.len() > 1 { run.file } else { "this report" };
        summary::about(run.result, title, &island_id(index))
    };
    runs.iter().enumerate().map(about).collect()
}

fn listed(differences: &[String]) -> String {
    if differences.is_empty() {
        return "<p class=\"nothing\">Nothing that the results tell: they agree on what ran, on the host, the engine, \
                the region of interest and the machines of one name.</p>"
            .to_owned();
    }
    let items: String = differences.iter().map(|text| format!("<li>{}</li>", escape(text))).collect();
    format!("<ul class=\"losses\">{items}</ul>")
}

fn table(first: &ReportedRun<'_>, runs: &[ReportedRun<'_>]) -> String {
    let machines = runs.iter().flat_map(|run| &run.result.machines);
    let most = machines.filter_map(|machine| whole(machine, "walk_cycles")).max().unwrap_or(0);
    let rows: String = runs.iter().enumerate().map(|(index, run)| rows(index, run, first, most)).collect();
    let head: String = ["Run", "machine", "Walk cycles"]
        .map(|title| format!("<th scope=\"col\">{title}</th>"))
        .into_iter()
        .chain(
            ["cycles", "change", "of all cycles", "walks", "per 1000 instr.", "instructions"]
                .map(|title| format!("<th class=\"number\" scope=\"col\">{title}</th>")),
        )
        .collect();
    format!("<table class=\"runs\"><thead><tr>{head}</tr></thead>{rows}</table>")
}

/// A run's machines, one row each.
fn rows(index: usize, run: &ReportedRun<'_>, first: &ReportedRun<'_>, most: u64) -> String {
    let machines = &run.result.machines;
    let name = format!(
        "<td class=\"name\" rowspan=\"{}\">{}<span class=\"sub\">{}</span></td>",
        machines.len().max(1),
        escape(run.file),
        escape(&program(run.result))
    );
    let cells = machines.iter().map(|machine| {
        let base = if index == 0 { None } else { base(first.result, machine) };
        cells(machine, base, most)
    });
    let mut cells: Vec<String> = cells.collect();
    if cells.is_empty() {
        cells.push("<td colspan=\"8\">No machine was simulated.</td>".to_owned());
    }
    format!("<tbody data-run=\"{index}\"><tr>{name}{}</tr></tbody>", cells.join("</tr><tr>"))
}

/// The first program, and how many images ran.
fn program(result: &RunResult) -> String {
    match result.processes.as_slice() {
        [] => "no process".to_owned(),
        [one] => base_name(&one.program).to_owned(),
        [first, ..] => format!("{}, {} process images", base_name(&first.program), result.processes.len()),
    }
}

/// The machine of the first run that a later run's machine is compared with.
fn base<'a>(first: &'a RunResult, machine: &MachineResult) -> Option<&'a MachineResult> {
    first.machines.iter().find(|base| base.name == machine.name).or(first.machines.first())
}

fn cells(machine: &MachineResult, base: Option<&MachineResult>, most: u64) -> String {
    let of = |name| whole(machine, name);
    let cycles = of("walk_cycles");
    let width = if most > 0 { cycles.unwrap_or(0) as f64 / most as f64 * 100.0 } else { 0.0 };
    let look = if base.is_none() { "baseline" } else { "" };
    let number = |text: Option<String>| {
        format!("<td class=\"number\">{}</td>", text.unwrap_or_else(|| "–".to_owned()))
    };
    let rate = of("walks").and_then(|walks| per_kilo_instruction(machine, walks));
    format!(
        "<td>{}</td><td class=\"picture\"><div class=\"bar\"><i class=\"{look}\" style=\"width:{width:.2}%\"></i>\
         </div></td>{}{}{}{}{}{}",
        escape(&machine.name),
        number(cycles.map(count)),
        number(base.and_then(|base| changed(machine, base))),
        number(walk_cycle_share(machine).map(percent)),
        number(of("walks").map(count)),
        number(rate.map(ratio)),
        number(of("instructions").map(count))
    )
}

/// The change of walk cycles, and the base machine's name if it differs.
fn changed(machine: &MachineResult, base: &MachineResult) -> Option<String> {
    let change = change(whole(base, "walk_cycles")?, whole(machine, "walk_cycles")?);
    Some(match machine.name == base.name {
        true => change,
        false => format!("{change}<span class=\"sub\">to {}</span>", escape(&base.name)),
    })
}
