//! The result as one HTML page in the report's style: no scripts, nothing from the network, its data as one JSON
//! island.

use super::schema::{Figure, ProbeResult, TlbLevel};
use super::{entries, picture, quantity, replacement, replacement_basis, to_json, ways, where_measured};
use crate::html::{PageHead, STYLE, escape, escape_json, page};
use crate::numbers::exact;
use crate::sweep::markup::{head, number};
use crate::sweep::picture::{Picture, style};

const PAGE: &str = include_str!("page.html");

/// The result as a self-contained page.
pub fn render_html(result: &ProbeResult) -> String {
    let shown =
        |picture: Option<Picture>, label: &str| picture.map_or(String::new(), |made| made.element(label));
    let title = format!("pagewalk: {}", escape(&result.host.cpu));
    let top = PageHead { title, style: format!("{STYLE}\n{}", style()), is_scripted: false };
    page(top, PAGE, |name| match name {
        "headline" => format!("{}, by timing", escape(&result.host.cpu)),
        "where" => escape(&where_measured(result)),
        "quick" if result.quick => {
            "<p class=\"advice\">A quick look: few repeats over small footprints, not to be relied on.</p>"
                .to_owned()
        }
        "quick" => String::new(),
        "cards" => cards(result),
        "tlbs" => tlbs(result),
        "tlb_4k" => shown(picture::tlb(result, "4K"), "Cost of an access over 4 KB pages in turn"),
        "tlb_2m" => shown(picture::tlb(result, "2M"), "Cost of an access over 2 MB pages in turn"),
        "walks" => {
            shown(picture::walks(result), "Cost of an access over footprint, by chains at once and page size")
        }
        "caches" => shown(picture::caches(result), "Cost of a load over bytes"),
        "figures" => figures(result),
        "notes" => notes(result),
        "seconds" => format!("{:.1}", result.seconds),
        "version" => escape(&result.version),
        "schema" => escape(&result.schema),
        "island" => escape_json(&to_json(result)),
        other => unreachable!("page.html names {other}, which nothing fills"),
    })
}

fn cards(result: &ProbeResult) -> String {
    let card = |(label, name): (&str, &str)| {
        let figure = result.figure(name)?;
        let value = figure.value.map_or("–".to_owned(), |value| quantity(value, &figure.unit));
        let cycles = figure.cycles.map(|cycles| format!("{} cycles", exact(cycles.round() as u64)));
        let note =
            cycles.or_else(|| figure.refused.as_ref().map(|_| "refused".to_owned())).unwrap_or_default();
        Some(format!(
            "<div class=\"card\"><div class=\"label\">{label}<span class=\"tag measured\">measured</span></div>\
             <div class=\"value\">{}</div><div class=\"note\">{}</div></div>",
            escape(&value),
            escape(&note)
        ))
    };
    [
        ("Second-level hit, extra", "tlb.4k.l2_hit_extra"),
        ("Walk, extra", "tlb.4k.walk_extra"),
        ("4 KB fault", "fault.anonymous_4k"),
        ("2 MB fault", "fault.anonymous_2m"),
    ]
    .into_iter()
    .filter_map(card)
    .collect()
}

fn tlbs(result: &ProbeResult) -> String {
    let row = |tlb: &TlbLevel| {
        let refused = tlb.refused.as_ref().map_or(String::new(), |why| {
            let TlbLevel { assumed, .. } = tlb;
            let taken = format!("a machine file takes {} of {} ways", exact(assumed.entries), assumed.ways);
            format!("<span class=\"sub\">{}; {taken}</span>", escape(why))
        });
        let basis = replacement_basis(tlb)
            .map_or(String::new(), |basis| format!("<span class=\"sub\">{}</span>", escape(&basis)));
        let known = |machine: Option<u64>| machine.map_or(String::new(), exact);
        format!(
            "<tr><td class=\"name\">level {}, {} pages{refused}{basis}</td>{}{}{}{}</tr>",
            tlb.level,
            escape(&crate::page_name(&tlb.page)),
            number(&entries(tlb)),
            number(&ways(tlb)),
            number(&escape(&replacement(tlb))),
            number(&known(tlb.machine_entries))
        )
    };
    let rows: String = result.tlbs.iter().map(row).collect();
    let machine =
        if result.tlbs.iter().any(|tlb| tlb.machine_entries.is_some()) { "of the machine" } else { "" };
    let columns =
        [("Data TLB", false), ("entries", true), ("ways", true), ("replacement", true), (machine, true)];
    format!("<table>{}<tbody>{rows}</tbody></table>", head(&columns))
}

fn figures(result: &ProbeResult) -> String {
    let row = |figure: &Figure| {
        let shown = |value| escape(&quantity(value, &figure.unit));
        let of = |value: Option<f64>| value.map_or("–".to_owned(), shown);
        let why = figure.refused.as_ref().map_or(String::new(), |why| format!(" refused: {why}"));
        format!(
            "<tr><td class=\"name\">{}<span class=\"sub\">{}{}</span></td>{}{}{}{}{}</tr>",
            escape(&figure.title),
            escape(&figure.name),
            escape(&why),
            number(&of(figure.value)),
            number(&figure.cycles.map_or(String::new(), |cycles| exact(cycles.round() as u64))),
            number(&of(figure.low)),
            number(&of(figure.high)),
            number(&figure.repeats.to_string())
        )
    };
    let rows: String = result.figures.iter().map(row).collect();
    let columns = [
        ("Figure", false),
        ("median", true),
        ("cycles", true),
        ("10th", true),
        ("90th", true),
        ("repeats", true),
    ];
    format!("<table>{}<tbody>{rows}</tbody></table>", head(&columns))
}

fn notes(result: &ProbeResult) -> String {
    let items: String = result.notes.iter().map(|note| format!("<li>– {}</li>", escape(note))).collect();
    if items.is_empty() { items } else { format!("<ul class=\"losses\">{items}</ul>") }
}
