//! The result as one HTML page in the report's style: nothing from the network, its data as one JSON island, from which
//! a script draws the sets.

use super::schema::{ArrayResult, ConflictsResult};
use super::{array_title, headline, page_name, summary, to_json};
use crate::figures::base_name;
use crate::html::{PageHead, STYLE, escape, escape_json, page};
use crate::numbers::{count, exact, percent};
use crate::sweep::markup::{head, number};

const PAGE: &str = include_str!("page.html");
const OWN_STYLE: &str = include_str!("style.css");
/// The report's builder of elements, then the chooser of sets.
const SCRIPTS: [&str; 2] = [include_str!("../html/js/dom.js"), include_str!("sets.js")];

/// Rows that the tables show; the data has more.
const ROWS_SHOWN: usize = 24;

/// The result as a self-contained page.
pub fn render_html(result: &ConflictsResult) -> String {
    let title = format!("pagewalk: who fights for a set, {}", escape(base_name(&result.program)));
    let top = PageHead { title, style: format!("{STYLE}\n{OWN_STYLE}"), is_scripted: true };
    page(top, PAGE, |name| match name {
        "command" => escape(&result.command_line.join(" ").replace('\n', " ")),
        "headline" => escape(&headline(result)),
        "losses" => result.losses.iter().map(|loss| format!("<li>{}</li>", escape(loss))).collect(),
        "arrays" => result.arrays.iter().enumerate().map(array).collect(),
        "version" => escape(&result.version),
        "trace" => escape(&result.trace),
        "host" => escape(&format!("{}, Linux {}", result.host.cpu, result.host.kernel)),
        "least" => escape(&result.least),
        "schema" => escape(&result.schema),
        "island" => escape_json(&to_json(result)),
        "script" => SCRIPTS.join("\n"),
        other => unreachable!("page.html names {other}, which nothing fills"),
    })
}

fn array((index, array): (usize, &ArrayResult)) -> String {
    format!(
        "<section><h2>{}</h2><p class=\"advice\">{}</p><div class=\"cards\">{}</div>\
         <h3 class=\"scripted\">Misses of each set</h3><div class=\"sets\" id=\"sets-{index}\"></div>\
         <h3>Files and memory</h3><div class=\"scroll\">{}</div><h3>Pages</h3><div class=\"scroll\">{}</div></section>",
        escape(&array_title(array)),
        escape(&summary(array)),
        cards(array),
        owners(array),
        pages(array)
    )
}

fn cards(array: &ArrayResult) -> String {
    let card = |label: &str, value: u64, note: String| {
        format!(
            "<div class=\"card\"><div class=\"label\">{label}<span class=\"tag\">modelled</span></div>\
             <div class=\"value\">{}</div><div class=\"note\">{}</div></div>",
            escape(&count(value)),
            escape(&note)
        )
    };
    let of = |misses: u64| format!("{} of misses", percent(array.share_of_misses(misses)));
    let (references, misses) = (array.references.total(), array.misses.total());
    let ratio = percent(misses as f64 / references.max(1) as f64);
    [
        card("Misses", misses, format!("{ratio} of {} references", count(references))),
        card("Compulsory", array.compulsory, of(array.compulsory)),
        card("Capacity", array.capacity, of(array.capacity)),
        card("Conflict", array.conflict, format!("{}; {} spared", of(array.conflict), count(array.spared))),
    ]
    .concat()
}

const INVOLVEMENT: [(&str, bool); 5] =
    [("code", true), ("data", true), ("evicted", true), ("was evicted", true), ("involved", true)];

fn owners(array: &ArrayResult) -> String {
    let row = |owner: &super::schema::OwnerRow| {
        let tag = if owner.kind == "object" { " <span class=\"tag measured\">can move</span>" } else { "" };
        format!(
            "<tr><td class=\"name\">{}{tag}</td>{}{}{}{}{}{}</tr>",
            escape(&owner.name),
            number(&exact(owner.pages)),
            number(&exact(owner.misses.code)),
            number(&exact(owner.misses.data)),
            number(&exact(owner.evicted)),
            number(&exact(owner.was_evicted)),
            number(&escape(&percent(array.share_of_misses(owner.involved()))))
        )
    };
    let rows: String = array.owners.iter().take(ROWS_SHOWN).map(row).collect();
    let columns = [&[("File or memory", false), ("pages", true)], &INVOLVEMENT[..]].concat();
    format!("<table>{}<tbody>{rows}</tbody></table>", head(&columns))
}

fn pages(array: &ArrayResult) -> String {
    let row = |page: &super::schema::ConflictPage| {
        format!(
            "<tr><td class=\"name\">{}<span class=\"sub\">{}</span></td>{}{}{}{}{}{}</tr>",
            escape(&page_name(page)),
            escape(&page.start),
            number(&page.set.to_string()),
            number(&exact(page.misses.code)),
            number(&exact(page.misses.data)),
            number(&exact(page.evicted)),
            number(&exact(page.was_evicted)),
            number(&escape(&percent(array.share_of_misses(page.involved()))))
        )
    };
    let rows: String = array.pages.iter().take(ROWS_SHOWN).map(row).collect();
    let columns = [&[("Page", false), ("set", true)], &INVOLVEMENT[..]].concat();
    format!("<table>{}<tbody>{rows}</tbody></table>", head(&columns))
}
