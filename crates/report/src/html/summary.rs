//! What the page shows without scripts. `js/summary.js` writes the same for whichever process is chosen.

use super::classes;
use super::escape::escape;
use crate::figures::{
    self, array, base_name, description, forbidden, level_misses, page_bytes, per_kilo_instruction,
    spin_share, total_cycles, walk_cycle_share, weight, whole,
};
use crate::metrics;
use crate::numbers::{bytes, change, count, exact, mebibytes, percent, ratio};
use crate::schema::{MachineDescription, MachineResult, Number, ProcessResult, RunResult, WhatIf};
use std::fmt::Write;

/// Processes listed without scripts.
const PROCESSES_LISTED: usize = 40;

pub(super) fn command(_: &RunResult, process: &ProcessResult) -> String {
    let line = escape(&figures::command(process));
    let (origin, ended) = (escape(&process.origin), escape(&process.ended));
    let structure = process.structure.iter().map(|name| format!(", under {}", escape(name)));
    format!("<code>{line}</code> ({origin}, pid {}, {ended}{})", process.pid, structure.collect::<String>())
}

pub(super) fn headline(process: &ProcessResult) -> String {
    escape(&figures::headline(process))
}

/// The advice with its `quoted` parts as code.
pub(super) fn advice(_: &RunResult, process: &ProcessResult) -> String {
    let parts = process.advice.split('`').enumerate().map(|(index, part)| {
        let part = escape(part);
        if index % 2 == 1 { format!("<code>{part}</code>") } else { part }
    });
    parts.collect()
}

pub(super) fn cut_short(_: &RunResult, process: &ProcessResult) -> String {
    let why = process.cut_short.as_ref();
    why.map_or(String::new(), |why| format!("Cut short: these figures lack {}", escape(why)))
}

pub(super) fn losses(_: &RunResult, process: &ProcessResult) -> String {
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
            bytes(of("pages_touched") * page_bytes),
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

/// Cards of what few runs have.
fn rare(
    process: &ProcessResult,
    machine: &MachineResult,
) -> Vec<(&'static str, String, String, &'static str)> {
    let mut cards = Vec::new();
    if let Some(share) = spin_share(machine) {
        let note = "of instructions: threads run one at a time here, so spinning lasts longer than natively";
        cards.push(("Waiting by spinning", percent(share), note.to_owned(), class("spin_instructions")));
    }
    if let Some(forbidden) = forbidden(process) {
        let forbidden = forbidden.replace('`', "");
        cards.push(("Huge pages", "forbidden".to_owned(), escape(&forbidden), "measured"));
    }
    cards
}

/// Walk cycles as a part of the baseline's over the same stretch.
fn relative(what_if: &WhatIf) -> f64 {
    match what_if.baseline_walk_cycles {
        0 => 0.0,
        baseline => what_if.walk_cycles as f64 / baseline as f64,
    }
}

pub(super) fn what_if(_: &RunResult, process: &ProcessResult) -> String {
    if process.what_if.is_empty() {
        return "<p class=\"nothing\">No alternatives were simulated for this process.</p>".to_owned();
    }
    let scale = process.what_if.iter().map(relative).fold(1.0, f64::max);
    let dearest = process.what_if.iter().map(|w| w.memory_price_mib).fold(0.0, f64::max);
    let cycles = process.machines.first().and_then(total_cycles).filter(|cycles| *cycles > 0.0);
    let rows: String = process.what_if.iter().map(|w| what_if_row(w, scale, dearest, cycles)).collect();
    let number = |title| format!("<th class=\"number\" scope=\"col\">{title}</th>");
    let numbers: String =
        ["walks", "walk cycles", "change", "of all cycles", "memory price"].map(number).concat();
    let tick = |at: f64, text| format!("<span style=\"left:{:.2}%\">{text}</span>", at / scale * 100.0);
    format!(
        "<table class=\"what-if\"><thead><tr><th scope=\"col\">Alternative</th>\
         <th scope=\"col\">Walk cycles, as it is = 100 %</th>{numbers}</tr></thead><tbody>{rows}</tbody>\
         <tfoot><tr><td></td><td class=\"picture\"><div class=\"ticks\">{}{}{}</div></td>\
         <td colspan=\"5\"></td></tr></tfoot>\
         </table>",
        tick(0.0, "0"),
        tick(0.5, "50 %"),
        tick(1.0, "100 %")
    )
}

fn what_if_row(what_if: &WhatIf, scale: f64, dearest: f64, cycles: Option<f64>) -> String {
    let is_baseline = what_if.id == "baseline";
    let is_bound = what_if.class == "bound" && !is_baseline;
    let (row, look) = if is_baseline {
        (" class=\"emphasis\"", "baseline")
    } else {
        ("", if is_bound { "bound" } else { "" })
    };
    let versus = |text: String| if is_baseline { "–".to_owned() } else { text };
    let saved = cycles.map_or("–".to_owned(), |cycles| {
        let difference = what_if.walk_cycles as f64 - what_if.baseline_walk_cycles as f64;
        let sign = match difference {
            d if d < 0.0 => "−",
            d if d > 0.0 => "+",
            _ => "",
        };
        format!("{sign}{}", percent(difference.abs() / cycles))
    });
    let mut title = escape(&what_if.title);
    if is_bound {
        title.push(' ');
        title.push_str(&tag("bound"));
    }
    if what_if.from_instruction > 0 {
        let from = count(what_if.from_instruction);
        let to = what_if.to_instruction.map_or(String::new(), |to| format!(" to {}", count(to)));
        let _ = write!(title, "<span class=\"sub\">from instruction {from}{to}</span>");
    }
    let price_width = if dearest > 0.0 { what_if.memory_price_mib / dearest * 100.0 } else { 0.0 };
    let price = format!(
        "<span class=\"price\">{}<span class=\"bar\">\
         <i class=\"memory\" style=\"width:{price_width:.2}%\"></i></span></span>",
        mebibytes(what_if.memory_price_mib)
    );
    let cell = |word: &str, text: String| format!("<td class=\"number\" data-word=\"{word}\">{text}</td>");
    format!(
        "<tr{row}><td class=\"name\">{title}</td><td class=\"picture\"><div class=\"bar\">\
         <i class=\"{look}\" style=\"width:{:.2}%\"></i><b style=\"left:{:.2}%\"></b></div></td>\
         {}{}{}{}{}</tr>",
        relative(what_if) / scale * 100.0,
        100.0 / scale,
        cell("walks", count(what_if.walks)),
        cell("walk cycles", count(what_if.walk_cycles)),
        cell("change", versus(change(what_if.baseline_walk_cycles, what_if.walk_cycles))),
        cell("of all cycles", versus(saved)),
        cell("memory price", versus(price))
    )
}

pub(super) fn tlbs(result: &RunResult, process: &ProcessResult) -> String {
    let several = process.machines.len() > 1;
    let machine = |machine: &MachineResult| {
        let title = if several { format!("<h3>{}</h3>", escape(&machine.name)) } else { String::new() };
        format!(
            "{title}{}{}{}",
            tlb_table(result, machine),
            classes::table(machine),
            walker_line(result, machine)
        )
    };
    process.machines.iter().map(machine).collect()
}

fn tlb_table(result: &RunResult, machine: &MachineResult) -> String {
    let rate = |events| per_kilo_instruction(machine, events).map_or("–".to_owned(), ratio);
    let number = |text: String| format!("<td class=\"number\">{text}</td>");
    let mut rows = String::new();
    for tlb in figures::tlbs(machine, description(result, &machine.name)) {
        let look = if tlb.hits() == 0 { " class=\"faint\"" } else { "" };
        let shape = tlb.description.map_or(["", "", "", ""].map(str::to_owned), |d| {
            [
                d.level.to_string(),
                escape(&d.serves.join(", ")),
                escape(&d.page_sizes.join(", ")),
                array(d.entries, d.ways),
            ]
        });
        let shape: String = shape.map(|text| format!("<td>{text}</td>")).concat();
        let figures = [
            count(tlb.lookups),
            count(tlb.misses),
            tlb.miss_ratio().map_or("–".to_owned(), percent),
            rate(tlb.misses),
        ];
        let figures: String = figures.map(number).concat();
        let _ = write!(rows, "<tr{look}><td class=\"mono\">{}</td>{shape}{figures}</tr>", escape(tlb.name));
    }
    for (level, misses) in level_misses(machine) {
        let _ = write!(
            rows,
            "<tr class=\"emphasis\"><td>Level {level}</td><td>{level}</td>\
             <td colspan=\"3\">missed every array of the level</td>{}{}{}{}</tr>",
            number(String::new()),
            number(count(misses)),
            number(String::new()),
            number(rate(misses))
        );
    }
    let head: String = ["Array", "level", "serves", "pages", "entries"]
        .map(|title| format!("<th scope=\"col\">{title}</th>"))
        .into_iter()
        .chain(
            ["lookups", "misses", "miss ratio", "misses per 1000 instr."]
                .map(|title| format!("<th class=\"number\" scope=\"col\">{title}</th>")),
        )
        .collect();
    format!("<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>")
}

fn walker_line(result: &RunResult, machine: &MachineResult) -> String {
    let Some(shape) = description(result, &machine.name) else { return String::new() };
    let or_none = |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    let caches = shape.walk_caches.iter().map(|cache| {
        let of = |what| whole(machine, &format!("walk_cache.{}.{what}", cache.name));
        let share = match (of("lookups"), of("hits")) {
            (Some(lookups), Some(hits)) if lookups > 0 => {
                format!(", {} hits", percent(hits as f64 / lookups as f64))
            }
            _ => String::new(),
        };
        format!("{} ({}{share})", cache.name, array(cache.entries, cache.ways))
    });
    let cost = shape.cost.iter().map(|(name, cycles)| match cycles {
        Number::Count(cycles) => format!("{name} {cycles}"),
        Number::Real(cycles) => format!("{name} {cycles}"),
    });
    format!(
        "<p class=\"lead\">Page table: {}. Page-walk caches: {}. Prices in cycles: {}.</p>",
        escape(&walker(shape)),
        escape(&or_none(caches.collect())),
        escape(&or_none(cost.collect()))
    )
}

/// What finds translations; older results say only how many levels it reads.
fn walker(shape: &MachineDescription) -> String {
    if shape.walker.is_empty() {
        format!("radix, {} levels", shape.walk_levels)
    } else {
        shape.walker.clone()
    }
}

/// The costliest processes; scripts replace this by a table of all of them.
pub(super) fn processes(result: &RunResult) -> String {
    let mut order: Vec<&ProcessResult> = result.processes.iter().collect();
    order.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let mut rows = String::new();
    for process in order.iter().take(PROCESSES_LISTED) {
        let counted = |name| {
            let text = process.machines.first().and_then(|machine| whole(machine, name)).map(count);
            format!("<td class=\"number\">{}</td>", text.unwrap_or_default())
        };
        let share = process.machines.first().and_then(walk_cycle_share).map(percent).unwrap_or_default();
        let _ = write!(
            rows,
            "<tr><td class=\"name\">{}</td><td class=\"number\">{}</td>{}{}\
             <td class=\"number\">{share}</td></tr>",
            escape(base_name(&process.program)),
            process.pid,
            counted("instructions"),
            counted("walks")
        );
    }
    let more = match order.len().saturating_sub(PROCESSES_LISTED) {
        0 => String::new(),
        more => format!("<p class=\"nothing\">and {} more</p>", exact(more as u64)),
    };
    let head: String = ["pid", "instructions", "walks", "share"]
        .map(|title| format!("<th class=\"number\" scope=\"col\">{title}</th>"))
        .concat();
    format!(
        "<table><thead><tr><th scope=\"col\">Program</th>{head}</tr></thead>\
         <tbody>{rows}</tbody></table>{more}"
    )
}

/// What made this report, from what, and where; the data stands in the page's element `island`.
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
