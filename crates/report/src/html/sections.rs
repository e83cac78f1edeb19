//! Sections that are tables, in the page: of every process of every run that has them. Scripts show the part of the
//! process that is chosen.

use super::Run;
use super::escape::escape;
use crate::figures::costliest;
use crate::numbers::count;
use crate::sections::{Cell, SECTIONS, Section, Table};

/// All sections.
pub(super) fn all(runs: &[Run<'_>]) -> String {
    SECTIONS.iter().map(|section| one(section, runs)).collect()
}

/// A section; hidden where the process that is shown first does not have it, nothing where none has.
fn one(section: &Section, runs: &[Run<'_>]) -> String {
    let shown = runs.first().and_then(|run| costliest(run.result)).map(|process| (0, process));
    let hidden = |is_hidden: bool| if is_hidden { " hidden" } else { "" };
    let (mut parts, mut is_hidden) = (String::new(), true);
    for (run, of) in runs.iter().enumerate() {
        for (process, result) in of.result.processes.iter().enumerate() {
            let Some(table) = (section.table)(result) else { continue };
            let is_shown = shown == Some((run, process));
            is_hidden &= !is_shown;
            let (table, hidden) = (self::table(&table), hidden(!is_shown));
            parts.push_str(&format!(
                "<div class=\"scroll\" data-of=\"{run}.{process}\"{hidden}>{table}</div>"
            ));
        }
    }
    if parts.is_empty() {
        return parts;
    }
    let Section { id, title, lead, .. } = section;
    format!(
        "<section id=\"{id}\" class=\"made\"{}><h2>{title}</h2><p class=\"lead\">{lead}</p>{parts}</section>",
        hidden(is_hidden)
    )
}

fn table(table: &Table) -> String {
    let heads = table.columns.iter().enumerate().map(|(index, column)| {
        let is_text = |row: &Vec<Cell>| index > 0 && matches!(row[index], Cell::Text(_));
        let look = if table.rows.iter().any(is_text) { " class=\"number\"" } else { "" };
        format!("<th scope=\"col\"{look}>{}</th>", escape(&column.title))
    });
    let rows = table.rows.iter().enumerate().map(|(index, cells)| {
        let look = if table.emphasised == Some(index) { " class=\"emphasis\"" } else { "" };
        format!("<tr{look}>{}</tr>", cells.iter().enumerate().map(cell).collect::<String>())
    });
    let (heads, rows): (String, String) = (heads.collect(), rows.collect());
    format!("<table class=\"made\"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>")
}

fn cell((index, cell): (usize, &Cell)) -> String {
    match cell {
        Cell::Text(text) if index == 0 => format!("<td class=\"mono\">{}</td>", escape(text)),
        Cell::Text(text) => format!("<td class=\"number\">{}</td>", escape(text)),
        &Cell::Walks { data, fetch, of } => {
            let width = |walks: u64| walks as f64 / of.max(1) as f64 * 100.0;
            format!(
                "<td class=\"picture\"><div class=\"bar\" title=\"{} data, {} fetch\"><i style=\"width:{:.2}%\"></i><i \
                 class=\"fetch\" style=\"width:{:.2}%\"></i></div></td>",
                count(data),
                count(fetch),
                width(data),
                width(fetch)
            )
        }
        Cell::Bar(part, look) => format!(
            "<td class=\"picture\"><div class=\"bar\"><i class=\"{look}\" style=\"width:{:.2}%\"></i></div></td>",
            part * 100.0
        ),
    }
}
