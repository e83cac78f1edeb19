//! The result as one HTML page in the report's style: no scripts, nothing from the network, its data as one JSON
//! island.

use super::picture::{reach, reach_label, run_lengths, run_lengths_label};
use super::schema::{ContiguityResult, Design, MappingContiguity, PERCENTS};
use super::to_json;
use crate::figures::base_name;
use crate::html::{PageHead, STYLE, escape, escape_json, page};
use crate::numbers::{bytes, exact, percent};
use crate::sweep::markup::{head, number};
use crate::sweep::picture;
use crate::text::{contiguity_again, contiguity_moment, contiguity_segment};

const PAGE: &str = include_str!("page.html");

/// Rows of the table: the mappings with most memory. The data has all.
const MAPPINGS_SHOWN: usize = 24;

/// The result as a self-contained page.
pub fn render_html(result: &ContiguityResult) -> String {
    let program = base_name(&result.process.program);
    let memory = bytes(result.present_pages.saturating_mul(result.page_bytes));
    let title = format!("pagewalk: memory of {}", escape(program));
    let top = PageHead { title, style: format!("{STYLE}\n{}", picture::style()), is_scripted: false };
    page(top, PAGE, |name| match name {
        "command" => escape(&result.process.command_line.join(" ").replace('\n', " ")),
        "headline" => format!("{memory} of memory of {}", escape(program)),
        "advice" => escape(&result.advice),
        "cards" => cards(result),
        "designs" => designs(result),
        "missing" => missing(result),
        "reach" => reach(result).element(&reach_label(result)),
        "run_lengths" => run_lengths(result).element(&run_lengths_label(result)),
        "segment" => escape(&contiguity_segment(result)),
        "colors" => super::colors::section(result.colors.as_ref()),
        "mappings" => mappings(result),
        "version" => escape(&result.version),
        "host" => {
            escape(&format!("{}, Linux {}, THP {}", result.host.cpu, result.host.kernel, result.host.thp))
        }
        "schema" => escape(&result.schema),
        "island" => escape_json(&to_json(result)),
        other => unreachable!("page.html names {other}, which nothing fills"),
    })
}

fn cards(result: &ContiguityResult) -> String {
    let card = |label: &str, value: String, note: String| {
        format!(
            "<div class=\"card\"><div class=\"label\">{label}<span class=\"tag measured\">measured</span></div>\
             <div class=\"value\">{}</div><div class=\"note\">{}</div></div>",
            escape(&value),
            escape(&note)
        )
    };
    let of_pages = |pages: u64| bytes(pages.saturating_mul(result.page_bytes));
    let share = result.huge_mapped_pages as f64 / result.all_mapped_pages().max(1) as f64;
    let mut peak = result
        .peak_resident_bytes
        .map_or(String::new(), |peak| format!("at most {} at one time", bytes(peak)));
    if let Some(again) = contiguity_again(result) {
        peak += &format!("; {again}");
    }
    let swapped = format!("{} swapped out", of_pages(result.swapped_pages));
    let runs = |pages: Option<u64>| pages.map_or("–".to_owned(), of_pages);
    [
        card("Present", of_pages(result.present_pages), peak),
        card("On huge pages", percent(share), swapped),
        card("Longest range", runs(result.largest_range_pages), "pages and frames".to_owned()),
        card("Longest run of pages", runs(Some(result.largest_virtual_run_pages)), contiguity_moment(result)),
    ]
    .concat()
}

fn designs(result: &ContiguityResult) -> String {
    let titles: Vec<String> = PERCENTS.iter().map(|percent| format!("{percent} %")).collect();
    let mut columns = vec![("An entry maps", false)];
    columns.extend(titles.iter().map(|title| (title.as_str(), true)));
    columns.push(("all", true));
    let figure = |entries: Option<u64>| number(&entries.map_or("–".to_owned(), exact));
    let row = |design: &Design| {
        let tag = if design.class == "bound" { " <span class=\"tag bound\">bound</span>" } else { "" };
        let shares: String = PERCENTS.iter().map(|&percent| figure(design.covering(percent))).collect();
        format!(
            "<tr><td class=\"name\">{}{tag}</td>{shares}{}</tr>",
            escape(&design.title),
            figure(design.entries)
        )
    };
    let rows: String = result.designs.iter().map(row).collect();
    format!("<table>{}<tbody>{rows}</tbody></table>", head(&columns))
}

fn missing(result: &ContiguityResult) -> String {
    let item = |missing: &&super::schema::MissingFigures| {
        format!("<li>– {}. To enable: {}.</li>", escape(&missing.reason), escape(&missing.enable))
    };
    let items: String = result.missing().iter().map(item).collect();
    if items.is_empty() { items } else { format!("<ul class=\"losses\">{items}</ul>") }
}

fn mappings(result: &ContiguityResult) -> String {
    let mut shown: Vec<&MappingContiguity> = result.mappings.iter().collect();
    shown.sort_by_key(|mapping| std::cmp::Reverse(mapping.present_pages));
    shown.truncate(MAPPINGS_SHOWN);
    let known = |pages: Option<u64>| pages.map_or("–".to_owned(), exact);
    let row = |mapping: &&MappingContiguity| {
        let share = |pages: u64| percent(pages as f64 / mapping.present_pages.max(1) as f64);
        format!(
            "<tr><td class=\"name\">{}<span class=\"sub\">{} {}</span></td>{}{}{}{}</tr>",
            escape(if mapping.name.is_empty() { "plain memory" } else { &mapping.name }),
            escape(&mapping.start),
            escape(&mapping.rights),
            number(&bytes(mapping.present_pages.saturating_mul(result.page_bytes))),
            number(&mapping.huge_mapped_pages.map_or("–".to_owned(), share)),
            number(&exact(mapping.virtual_runs)),
            number(&known(mapping.ranges)),
        )
    };
    let rows: String = shown.iter().map(row).collect();
    let columns =
        [("Mapping", false), ("present", true), ("on huge pages", true), ("runs", true), ("ranges", true)];
    format!("<table>{}<tbody>{rows}</tbody></table>", head(&columns))
}
