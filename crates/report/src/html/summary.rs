//! The summary of a process above its sections, and the facts of the run below them.

use super::escape::escape;
use crate::figures::{
    self, description, forbidden, inferred_areas, page_bytes, per_kilo_instruction, spin_share, total_cycles,
    walk_cycle_share, whole,
};
use crate::metrics;
use crate::numbers::{bytes, count, percent, ratio};
use crate::schema::{MachineResult, ProcessResult, RunResult};

pub(super) fn command(process: &ProcessResult) -> String {
    let line = escape(&figures::command(process));
    let known: Vec<String> =
        std::iter::once(process.origin.clone()).chain(figures::circumstances(process)).collect();
    format!("<code>{line}</code> ({})", escape(&known.join(", ")))
}

pub(super) fn headline(process: &ProcessResult) -> String {
    escape(&figures::headline(process))
}

/// The advice with its `quoted` parts as code.
pub(super) fn advice(process: &ProcessResult) -> String {
    let parts = process.advice.split('`').enumerate().map(|(index, part)| {
        let part = escape(part);
        if index % 2 == 1 { format!("<code>{part}</code>") } else { part }
    });
    parts.collect()
}

pub(super) fn cut_short(process: &ProcessResult) -> String {
    let why = process.cut_short.as_ref();
    why.map_or(String::new(), |why| format!("Cut short: these figures lack {}", escape(why)))
}

pub(super) fn losses(process: &ProcessResult) -> String {
    process.losses.iter().map(|loss| format!("<li>Lost: {}</li>", escape(loss))).collect()
}

pub(super) fn tag(class: &str) -> String {
    format!("<span class=\"tag {class}\">{class}</span>")
}

pub(super) fn cards(result: &RunResult, process: &ProcessResult) -> String {
    let Some(machine) = process.machines.first() else { return String::new() };
    let page_bytes = page_bytes(description(result, &machine.name));
    let of = |name| whole(machine, name).unwrap_or(0);
    let counted = |name| whole(machine, name).map_or("–".to_owned(), count);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let walks = of("walks");
    let depth = match walks {
        0 => "no walks".to_owned(),
        _ => format!("{} per walk", ratio(of("walk_references") as f64 / walks as f64)),
    };
    let bound = process.what_if.iter().find(|what_if| what_if.id == "perfect_tlb").and_then(|what_if| {
        let cycles = total_cycles(machine).filter(|cycles| *cycles > 0.0)?;
        Some(percent(what_if.baseline_walk_cycles.saturating_sub(what_if.walk_cycles) as f64 / cycles))
    });
    let mut cards = vec![
        (
            "Instructions",
            counted("instructions"),
            format!("{} fetches", counted("references_fetch")),
            class("instructions"),
        ),
        (
            "Data references",
            counted("references_data"),
            "loads, stores and modifies".to_owned(),
            class("references_data"),
        ),
        (
            "Pages touched",
            counted("pages_touched"),
            bytes(of("pages_touched").saturating_mul(page_bytes)),
            class("pages_touched"),
        ),
        (
            "Page walks",
            counted("walks"),
            format!("{} data, {} fetch", counted("walks_data"), counted("walks_fetch")),
            class("walks"),
        ),
        (
            "Walk rate",
            or_dash(per_kilo_instruction(machine, walks).map(ratio)),
            "per 1000 instructions (WPKI)".to_owned(),
            class("walks_per_kilo_instruction"),
        ),
        ("Walk references", counted("walk_references"), depth, class("walk_references")),
        (
            "Walk cycles",
            or_dash(walk_cycle_share(machine).map(percent)),
            format!("{} of all modelled cycles", counted("walk_cycles")),
            class("walk_cycles"),
        ),
        ("Perfect TLB saves", or_dash(bound), "of all modelled cycles".to_owned(), "bound"),
    ];
    cards.extend(rare(process, machine));
    let card = |(label, value, note, class): &(&str, String, String, &str)| {
        format!(
            "<div class=\"card\"><div class=\"label\">{label}{}</div><div class=\"value\">{value}</div>\
             <div class=\"note\">{note}</div></div>",
            tag(class)
        )
    };
    cards.iter().map(card).collect()
}

/// The class of a metric, by its name.
fn class(name: &str) -> &'static str {
    metrics::find(name).map_or("", |metric| metric.class.name())
}

/// Cards for figures that few runs have.
fn rare(
    process: &ProcessResult,
    machine: &MachineResult,
) -> Vec<(&'static str, String, String, &'static str)> {
    let mut cards = Vec::new();
    if let Some(share) = spin_share(machine) {
        let note = "of instructions: threads run one at a time here, so spinning lasts longer than natively";
        cards.push(("Waiting by spinning", percent(share), note.to_owned(), class("spin_instructions")));
    }
    if let Some(inferred) = inferred_areas(process.inferred_gap) {
        let inferred = inferred.replace('`', "");
        cards.push(("Areas", "inferred".to_owned(), escape(&inferred), "modelled"));
    }
    if let Some(forbidden) = forbidden(process) {
        let forbidden = forbidden.replace('`', "");
        cards.push(("Huge pages", "forbidden".to_owned(), escape(&forbidden), "measured"));
    }
    cards
}

/// The tool, input and host of the report; the page's element `island` holds the data.
pub(super) fn about(result: &RunResult, title: &str, island: &str) -> String {
    let machines: Vec<&str> = result.machines.iter().map(|machine| machine.name.as_str()).collect();
    let facts = [
        ("Command", format!("<code>{}</code>", escape(&result.tool.command_line.join(" ")))),
        ("pagewalk", escape(&result.tool.version)),
        ("Engine", escape(&result.tool.engine)),
        ("Machine simulated", escape(&machines.join(", "))),
        ("Host CPU", escape(&result.host.cpu)),
        ("Kernel", escape(&result.host.kernel)),
        ("THP on the host", escape(&result.host.thp)),
        ("Data", format!("<code>{}</code>, in this file as <code>#{island}</code>", escape(&result.schema))),
    ];
    let facts: String = facts.map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>")).concat();
    let losses: String = result
        .processes
        .iter()
        .flat_map(|process| process.losses.iter().map(move |loss| (process.pid, loss)))
        .map(|(pid, loss)| format!("<li>pid {pid}: {}</li>", escape(loss)))
        .collect();
    let lost = match losses.as_str() {
        "" => "<p>Nothing was lost: every stream is whole.</p>".to_owned(),
        _ => format!("<ul>{losses}</ul>"),
    };
    format!("<h2>About {}</h2><dl class=\"facts\">{facts}</dl><h3>What was lost</h3>{lost}", escape(title))
}
