//! Sections of the page: tables as elements, charts as data that scripts draw.

use super::escape::{escape, escape_json};
use super::summary::tag;
use crate::numbers::exact;
use crate::schema::{ProcessResult, RunResult};
use crate::sections::{
    Audience, Bar, Cell, Chart, Column, Content, Part, Row, RowStyle, SECTIONS, Section, Table,
};

/// Rows that a table shows without scripts, and with scripts before the reader asks for more.
const FIRST: usize = 40;

/// A section and its content, if it has any.
pub(super) type SectionContent = (&'static Section, Option<Content>);

/// All sections, with the content for the process shown.
pub(super) fn made(result: &RunResult, shown: Option<&ProcessResult>) -> Vec<SectionContent> {
    let content = |section: &Section| shown.and_then(|process| (section.make)(result, process));
    SECTIONS.iter().map(|section| (section, content(section))).collect()
}

/// The sections with content, as elements.
pub(super) fn all(made: &[SectionContent]) -> String {
    made.iter().filter_map(|(section, content)| Some(one(section, content.as_ref()?))).collect()
}

/// Links to sections; those without content are hidden.
pub(super) fn links(made: &[SectionContent]) -> String {
    let link = |(section, content): &SectionContent| {
        let Section { id, link, .. } = section;
        let look = if content.as_ref().is_some_and(needs_scripts) { " class=\"scripted\"" } else { "" };
        let hidden = if content.is_none() { " hidden" } else { "" };
        format!("<a href=\"#{id}\"{look}{hidden}>{link}</a>\n      ")
    };
    made.iter().filter(|(section, _)| !section.link.is_empty()).map(link).collect()
}

/// Whether content is invisible without scripts.
fn needs_scripts(content: &Content) -> bool {
    content.parts.iter().all(|part| matches!(part, Part::Charts(_)))
}

fn one(section: &Section, content: &Content) -> String {
    let title = escape(content.finding.as_deref().unwrap_or(section.title));
    let lead = escape(content.lead.as_deref().unwrap_or(section.lead));
    let parts: String = content.parts.iter().map(part).collect();
    let look = if needs_scripts(content) { " class=\"scripted\"" } else { "" };
    format!(
        "<section id=\"{}\"{look}><h2>{title}</h2><p class=\"lead\">{lead}</p>{parts}</section>\n",
        section.id
    )
}

fn part(part: &Part) -> String {
    match part {
        Part::Heading(title, "") => format!("<h3>{}</h3>", escape(title)),
        Part::Heading(title, class) => format!("<h3>{} {}</h3>", escape(title), tag(class)),
        Part::Legend(keys) => {
            let key = |(look, text): &(&str, &str)| {
                format!("<span class=\"entry\"><span class=\"key {look}\"></span>{text}</span>")
            };
            format!("<div class=\"legend\">{}</div>", keys.iter().map(key).collect::<String>())
        }
        Part::Table(made) => table(made),
        Part::Charts(charts) => charts_of(charts),
        Part::Note(text) => format!("<p class=\"lead\">{}</p>", escape(text)),
    }
}

fn charts_of(charts: &[Chart]) -> String {
    let one = |chart: &Chart| {
        let data = serde_json::to_string(chart).expect("a chart is valid JSON");
        let data = escape_json(&data);
        format!("<div class=\"chart\"><script type=\"application/json\">{data}</script></div>")
    };
    let look = if charts.len() > 1 { "scripted multiples" } else { "scripted" };
    format!("<div class=\"{look}\">{}</div>", charts.iter().map(one).collect::<String>())
}

/// A table. Scripts sort and search it if it names its rows.
pub(crate) fn table(made: &Table) -> String {
    let heads =
        made.columns.iter().enumerate().filter(|(_, column)| is_shown(column)).map(|(index, column)| {
            let look = if index == 0 || column.is_words { "" } else { " class=\"number\"" };
            format!("<th scope=\"col\"{look}>{}</th>", escape(&column.title))
        });
    let heads: String = heads.collect();
    let rows: String = made.rows.iter().map(|row| self::row(made, row)).collect();
    let hidden = made.columns.iter().filter(|column| !is_shown(column)).count();
    let left_out = if made.is_whole { 0 } else { made.rows.len().saturating_sub(FIRST) };
    let (mut look, mut more) = ("made", String::new());
    if !made.ticks.is_empty() {
        look = "made blocks";
    } else if left_out > 0 {
        look = "made long";
        more = format!("<p class=\"unscripted nothing\">and {} more</p>", exact(left_out as u64));
    }
    let mut sorts = String::new();
    if !made.what.is_empty() {
        let first = made.first.unwrap_or(FIRST);
        sorts = format!(" data-what=\"{}\" data-first=\"{first}\"", made.what);
        if let Some(column) = made.sorted {
            sorts.push_str(&format!(" data-sorted=\"{column}\""));
        }
    }
    format!(
        "<div class=\"scroll\"><table class=\"{look}\"{sorts}><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>{}\
         </table></div>{more}",
        ticks(&made.ticks, made.columns.len() - hidden)
    )
}

fn is_shown(column: &Column) -> bool {
    column.only != Audience::Terminals
}

/// Labels below the bars, which stand in the second column.
fn ticks(ticks: &[(f64, String)], columns: usize) -> String {
    if ticks.is_empty() {
        return String::new();
    }
    let labels =
        ticks.iter().map(|(at, text)| format!("<span style=\"left:{:.2}%\">{text}</span>", at * 100.0));
    format!(
        "<tfoot><tr><td></td><td class=\"picture\"><div class=\"ticks\">{}</div></td><td colspan=\"{}\"></td></tr>\
         </tfoot>",
        labels.collect::<String>(),
        columns - 2
    )
}

fn row(made: &Table, row: &Row) -> String {
    let look = match row.look {
        RowStyle::Emphasised => " class=\"emphasis\"",
        RowStyle::Minor => " class=\"faint\"",
        RowStyle::Plain | RowStyle::Bound => "",
    };
    let opens = row.opens.map_or(String::new(), |index| format!(" data-opens=\"{index}\""));
    let cells = row.cells.iter().zip(&made.columns).enumerate().filter(|(_, (_, column))| is_shown(column));
    let cells: String = cells.map(|(index, (told, column))| cell(made, index, told, column)).collect();
    format!("<tr{look}{opens}>{cells}</tr>")
}

fn cell(made: &Table, index: usize, cell: &Cell, column: &Column) -> String {
    let look = match cell {
        Cell::Bar(_) | Cell::Walks { .. } => "picture",
        _ if index == 0 => "name",
        _ if column.is_words => "",
        _ => "number",
    };
    // A narrow screen has no room for the head.
    let word = match made.ticks.is_empty() || index == 0 || column.is_words {
        true => String::new(),
        false => format!(" data-word=\"{}\"", escape(&column.title)),
    };
    let value = match cell {
        Cell::Figure(text, value, _) | Cell::Price(text, value, _)
            if !made.what.is_empty() && !tells_itself(text) =>
        {
            format!(" data-value=\"{value}\"")
        }
        _ => String::new(),
    };
    let look = if look.is_empty() { String::new() } else { format!(" class=\"{look}\"") };
    format!("<td{look}{word}{value}>{}</td>", told(cell))
}

/// Whether a text begins with the number that it is sorted by. Rows with equal percentages keep their order.
fn tells_itself(text: &str) -> bool {
    text.ends_with(" %") || text.starts_with("0x") || text.bytes().all(|byte| byte.is_ascii_digit())
}

fn told(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => escape(text),
        Cell::Name(name) => {
            let class =
                if name.tag.is_empty() { String::new() } else { format!(" {}", tag(&escape(&name.tag))) };
            format!("{}{class}{}", escape(&name.text), sub(&name.sub))
        }
        Cell::Figure(text, _, below) => format!("{}{}", escape(text), sub(below)),
        Cell::Price(text, _, part) => format!(
            "<span class=\"price\">{}<span class=\"bar\"><i class=\"memory\" style=\"width:{:.2}%\"></i></span></span>",
            escape(text),
            part * 100.0
        ),
        Cell::Bar(bar) => self::bar(bar),
        &Cell::Walks { data, fetch, of } => {
            let part = |walks: u64| if of > 0 { walks as f64 / of as f64 } else { 0.0 };
            self::bar(&Bar { parts: vec![(part(data), ""), (part(fetch), "fetch")], ..Bar::default() })
        }
    }
}

fn bar(bar: &Bar) -> String {
    let piece = |(part, look): &(f64, &str)| {
        let look = if look.is_empty() { String::new() } else { format!(" class=\"{look}\"") };
        format!("<i{look} style=\"width:{:.1}%\"></i>", part * 100.0)
    };
    let pieces: String = bar.parts.iter().map(piece).collect();
    let mark = bar.mark.map_or(String::new(), |at| format!("<b style=\"left:{:.2}%\"></b>", at * 100.0));
    let cut = if bar.is_cut { " cut" } else { "" };
    format!("<div class=\"bar{cut}\">{pieces}{mark}</div>{}", sub(&bar.sub))
}

fn sub(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<span class=\"sub\">{}</span>", escape(text)) }
}
