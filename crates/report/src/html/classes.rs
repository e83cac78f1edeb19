//! Misses of a software-managed TLB by class, as the page shows them without scripts. `js/classes.js` writes the same
//! for whichever process is chosen.

use crate::figures::{MissClassFigures, miss_classes, per_kilo_instruction};
use crate::numbers::{count, percent, ratio};
use crate::schema::MachineResult;

/// The classes with a bar for the share of all classes' cycles; nothing for machines without such a TLB, and where
/// nothing missed.
pub(super) fn table(machine: &MachineResult) -> String {
    let classes = miss_classes(machine);
    let misses: u64 = classes.iter().map(|class| class.misses).sum();
    let cycles: u64 = classes.iter().map(|class| class.cycles).sum();
    if misses == 0 {
        return String::new();
    }
    let all = MissClassFigures { name: "all", what: "", misses, cycles };
    let row = |look: &str, class: &MissClassFigures| row(machine, look, class, &all);
    let rows: String = classes.iter().map(|class| row("", class)).collect();
    let head: String = ["Misses by class", "what misses", "Cycles, as a part of all classes'"]
        .map(|title| format!("<th scope=\"col\">{title}</th>"))
        .into_iter()
        .chain(
            ["of all cycles", "cycles", "cycles each", "misses", "of all misses", "per 1000 instr."]
                .map(|title| format!("<th class=\"number\" scope=\"col\">{title}</th>")),
        )
        .collect();
    format!(
        "<div class=\"scroll\"><table class=\"classes\"><thead><tr>{head}</tr></thead>\
         <tbody>{rows}{}</tbody></table></div>",
        row(" class=\"emphasis\"", &all)
    )
}

fn row(machine: &MachineResult, look: &str, class: &MissClassFigures, all: &MissClassFigures) -> String {
    let MissClassFigures { name, what, misses, cycles } = class;
    let share = |part: u64, all: u64| match all {
        0 => "–".to_owned(),
        _ => percent(part as f64 / all as f64),
    };
    let each = match misses {
        0 => "–".to_owned(),
        _ => ratio(*cycles as f64 / *misses as f64),
    };
    let width = if all.cycles == 0 { 0.0 } else { *cycles as f64 / all.cycles as f64 * 100.0 };
    let figures = [
        share(*cycles, all.cycles),
        count(*cycles),
        each,
        count(*misses),
        share(*misses, all.misses),
        per_kilo_instruction(machine, *misses).map_or("–".to_owned(), ratio),
    ];
    let figures = figures.map(|text| format!("<td class=\"number\">{text}</td>")).concat();
    format!(
        "<tr{look}><td class=\"mono\">{name}</td><td>{what}</td><td class=\"picture\"><div class=\"bar\">\
         <i style=\"width:{width:.2}%\"></i></div></td>{figures}</tr>"
    )
}
