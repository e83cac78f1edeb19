//! Designs whose every operation is counted, as the page shows them without scripts. `js/sides.js` writes the same for
//! whichever process is chosen.

use super::escape::escape;
use crate::figures::{SideFigures, sides};
use crate::numbers::{change, count, ratio, signed};
use crate::schema::ProcessResult;

/// The designs with bars for cycles of misses and for energy; nothing for other machines, and where there is one.
pub(super) fn table(process: &ProcessResult) -> String {
    let sides = sides(process);
    if sides.len() < 2 {
        return String::new();
    }
    let most = |of: fn(&SideFigures) -> f64| sides.iter().map(of).fold(0.0, f64::max);
    let scales = [most(cycles), most(energy)];
    let rows: String = sides.iter().enumerate().map(|(index, side)| row(side, index, scales)).collect();
    let head = |title: &str| format!("<th scope=\"col\">{title}</th>");
    let number = |title: &str| format!("<th class=\"number\" scope=\"col\">{title}</th>");
    let head = [
        head("Design"),
        head("Cycles of misses"),
        number("cycles"),
        number("change"),
        head("Energy"),
        number("pJ a reference"),
        number("change"),
        number("level-1 misses per 1000 instr."),
        number("walks per 1000 instr."),
    ]
    .concat();
    format!(
        "<div class=\"scroll\"><table class=\"sides\"><thead><tr>{head}</tr></thead>\
         <tbody>{rows}</tbody></table></div>"
    )
}

fn cycles(side: &SideFigures) -> f64 {
    side.cycles.0 as f64
}

fn energy(side: &SideFigures) -> f64 {
    side.energy.map_or(0.0, |(each, _)| each)
}

fn row(side: &SideFigures, index: usize, scales: [f64; 2]) -> String {
    let bar = |value: f64, scale: f64, look: &str| {
        let width = if scale > 0.0 { value / scale * 100.0 } else { 0.0 };
        format!(
            "<td class=\"picture\"><div class=\"bar\"><i class=\"{look}\" style=\"width:{width:.2}%\"></i></div></td>"
        )
    };
    let number =
        |text: Option<String>| format!("<td class=\"number\">{}</td>", text.unwrap_or("–".to_owned()));
    let against = |text: Option<String>| number(text.filter(|_| index > 0));
    let SideFigures { name, level1, walks, cycles: (took, first), energy: pair } = side;
    let look = if index == 0 { " class=\"emphasis\"" } else { "" };
    format!(
        "<tr{look}><td class=\"mono\">{}</td>{}{}{}{}{}{}{}{}</tr>",
        escape(name),
        bar(cycles(side), scales[0], ""),
        number(Some(count(*took))),
        against(Some(change(*first, *took))),
        bar(energy(side), scales[1], "memory"),
        number(pair.map(|(each, _)| ratio(each))),
        against(pair.map(|(each, first)| signed(each / first - 1.0))),
        number(level1.map(ratio)),
        number(walks.map(ratio)),
    )
}
