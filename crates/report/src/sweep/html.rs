//! The result as one HTML page in the report's style: no scripts, nothing from the network, its data as one JSON
//! island.

use super::cache_families;
use super::comparison::host_is_among;
use super::curve::curves;
use super::heat::{Scale, heat_map};
use super::kernels;
use super::layouts;
use super::lines;
use super::machines::machines as machine_rows;
use super::markup::{PictureFile, file_name, head, number};
use super::picture;
use super::schema::{Comparison, CurveCell, FamilyCell, Plot, SweepResult, SweepTrace};
use super::to_json;
use crate::figures::base_name;
use crate::html::{PageHead, STYLE, escape, escape_json, page, table};
use crate::kernel_costs::HOSTS_WORK;
use crate::numbers::{bytes, count};
use crate::text::{sweep_bounds, sweep_left_out, sweep_mean, sweep_on, sweep_quotient, sweep_verdict};
use std::fmt::Write;

const PAGE: &str = include_str!("page.html");

/// Style beyond the report's.
const OWN_STYLE: &str = ".pictures{display:flex;flex-wrap:wrap;gap:18px 26px}
.pictures svg,.legend svg{max-width:100%;height:auto}
h3 .sub{color:var(--ink-soft);font-weight:400;font-size:.9rem;margin-left:.6em}
#kernels .scroll{margin-bottom:1.4em}
#kernels .published{margin-bottom:0}
.verdict.differs{color:var(--warn);font-weight:600}
.verdict.agrees{color:var(--curve-2m);font-weight:600}
";

const FAMILIES: &str = "<h2>Families of LRU arrays</h2>\
<p class=\"lead\">Every array of so many sets and ways, as if all memory were in pages of one size. Both axes are \
logarithmic: arrays of one size lie on a line, of which some are drawn. Colours mean the same for all page sizes of a \
trace.</p>";

const PLOTS: &str = "<h2>Plots</h2><p class=\"lead\">Counters of machines against a key that the study varies, \
over the instructions of the program, or machine by machine. A square marks the least of a line against a key.</p>";

const CURVES: &str = "<h2>Miss-ratio curves</h2>\
<p class=\"lead\">Misses of fully associative LRU arrays of 4K pages against their entries. Sampled curves are \
estimates, with twice their standard error on both sides; they begin where the sample tells anything.</p>";

/// The result as a self-contained page.
pub fn render_html(result: &SweepResult) -> String {
    let sections = [
        ("comparisons", "Sources", comparisons(result)),
        ("kernels", "Kernels", kernels::section(result)),
        ("layouts", "Layouts", layouts::section(result)),
        ("plots", "Plots", plots(result)),
        ("machines", "Machines", machines(result)),
        ("families", "Families", families(result)),
        ("caches", "Caches", cache_families::section(result)),
        ("curves", "Curves", all_curves(result)),
    ];
    let shown = || sections.iter().filter(|(_, _, content)| !content.is_empty());
    let link = |(id, title, _): &(&str, &str, String)| format!("<a href=\"#{id}\">{title}</a>");
    let section =
        |(id, _, content): &(&str, &str, String)| format!("<section id=\"{id}\">{content}</section>\n");
    let title = format!("pagewalk: {}", escape(&result.title));
    let top =
        PageHead { title, style: format!("{STYLE}\n{}{OWN_STYLE}", picture::style()), is_scripted: false };
    page(top, PAGE, |name| match name {
        "title" => escape(&result.title),
        "name" => escape(&result.name),
        "version" => escape(&result.version),
        "schema" => escape(&result.schema),
        "links" => shown().map(link).collect(),
        "traces" => traces(&result.traces),
        "sections" => shown().map(section).collect(),
        "island" => escape_json(&to_json(result)),
        other => unreachable!("page.html names {other}, which nothing fills"),
    })
}

/// Every picture of the page as a file.
pub fn pictures(result: &SweepResult) -> Vec<PictureFile> {
    let mut files = kernels::pictures(result);
    files.extend(layouts::pictures(result));
    for family in &result.families {
        let trace = &result.traces[family.trace];
        let scale = Scale::new(trace, family);
        for size in &family.sizes {
            files.push(PictureFile {
                name: format!("family-{}-{}-{}.svg", file_name(&trace.name), family.serves, size.page_size),
                svg: heat_map(size, &scale).file(&family_label(trace, family, &size.page_size)),
            });
        }
    }
    for (number, plot) in (1..).zip(&result.plots) {
        for panel in lines::panels(plot, result) {
            // A plot's only panel has no title.
            let of = if panel.title.is_empty() { "" } else { "-" };
            let name = format!("plot-{number}{of}{}.svg", file_name(&panel.title));
            files.push(PictureFile { name, svg: panel.picture.file(&plot_label(plot, &panel)) });
        }
    }
    for (trace, cells) in curves_by_trace(result) {
        let name = format!("curve-{}.svg", file_name(&trace.name));
        files.push(PictureFile { name, svg: curves(&cells).file(&curve_label(trace)) });
    }
    files
}

fn family_label(trace: &SweepTrace, family: &FamilyCell, page_size: &str) -> String {
    format!("Misses of LRU arrays of {page_size} pages by sets and ways, {} of {}", family.serves, trace.name)
}

fn plot_label(plot: &Plot, panel: &lines::Panel) -> String {
    format!("{}: {}", plot.title, panel.title)
}

fn curve_label(trace: &SweepTrace) -> String {
    format!("Misses of fully associative LRU arrays of 4K pages by entries, {}", trace.name)
}

fn curves_by_trace(result: &SweepResult) -> Vec<(&SweepTrace, Vec<&CurveCell>)> {
    let of = |index: usize| result.curves.iter().filter(|cell| cell.trace == index).collect::<Vec<_>>();
    let all = result.traces.iter().enumerate().map(|(index, trace)| (trace, of(index)));
    all.filter(|(_, cells)| !cells.is_empty()).collect()
}

fn traces(traces: &[SweepTrace]) -> String {
    let row = |trace: &SweepTrace| {
        format!(
            "<tr><td class=\"unbroken\">{}</td><td class=\"name\"><code>{}</code>{}</td>{}{}<td>{}</td><td>{}</td>\
             </tr>",
            escape(&trace.name),
            escape(&shortened(&trace.command_line.join(" "))),
            trace.turns.as_ref().map_or(String::new(), |turns| {
                format!("<span class=\"sub\">{} in {}</span>", escape(&trace.program), escape(turns))
            }),
            number(&count(trace.instructions)),
            number(&count(trace.references_data)),
            escape(&trace.thp),
            trace.inferred_gap.map_or("recorded".to_owned(), |gap| format!("inferred, gap {}", bytes(gap)))
        )
    };
    let titles = [
        ("Trace", false),
        ("command", false),
        ("instructions", true),
        ("data references", true),
        ("huge pages", false),
        ("areas", false),
    ];
    format!("<table>{}<tbody>{}</tbody></table>", head(&titles), traces.iter().map(row).collect::<String>())
}

/// A command line, shortened.
fn shortened(line: &str) -> String {
    let line = line.replace('\n', " ");
    if line.chars().count() <= 110 { line } else { line.chars().take(109).chain(['…']).collect() }
}

fn comparisons(result: &SweepResult) -> String {
    if result.comparisons.is_empty() {
        return String::new();
    }
    let row = |comparison: &Comparison| {
        let (mark, verdict) =
            (if comparison.agrees { "agrees" } else { "differs" }, sweep_verdict(comparison));
        let quotient =
            |found| format!("<span class=\"unbroken\">{}</span>", escape(&sweep_quotient(result, found)));
        let left_out = sweep_left_out(result, comparison).map(|told| escape(&told));
        let here = comparison.found.iter().map(quotient).chain(sweep_mean(comparison)).chain(left_out);
        let here: Vec<String> = here.collect();
        format!(
            "<tr><td class=\"name\">{}<span class=\"sub\">{}</span></td><td>{}</td><td>{}</td>\
             <td><span class=\"verdict {mark}\">{verdict}</span><span class=\"sub\">{}: {}</span></td></tr>",
            escape(&comparison.title),
            escape(&comparison.source),
            escape(&comparison.said),
            here.join("<br>"),
            escape(&sweep_on(comparison)),
            escape(&sweep_bounds(comparison))
        )
    };
    let titles = [("Finding", false), ("the source", false), ("here", false), ("verdict", false)];
    format!(
        "<h2>What sources found, and what was found here</h2><p class=\"lead\">Quotients of two figures on each trace; \
         those outside the bounds stand in brackets.</p><div class=\"scroll\"><table>{}<tbody>{}</tbody></table></div>",
        head(&titles),
        result.comparisons.iter().map(row).collect::<String>()
    )
}

fn machines(result: &SweepResult) -> String {
    // Machines under layouts have a section of their own.
    if result.machines.first().is_none_or(|cell| cell.layout.is_some()) {
        return String::new();
    }
    let mut out = "<h2>Machines</h2>".to_owned();
    if host_is_among(result.machines.iter()) {
        let _ = write!(out, "<p class=\"lead\">{HOSTS_WORK}</p>");
    }
    for (index, trace) in result.traces.iter().enumerate() {
        let cells: Vec<_> = result.machines.iter().filter(|cell| cell.trace == index).collect();
        let _ = write!(out, "<h3>{}</h3>{}", escape(&trace.name), table(&machine_rows(&cells)));
    }
    out
}

fn plots(result: &SweepResult) -> String {
    if result.plots.is_empty() {
        return String::new();
    }
    let mut out = PLOTS.to_owned();
    for plot in &result.plots {
        let panels = lines::panels(plot, result);
        let pictures = panels.iter().map(|panel| panel.picture.element(&plot_label(plot, panel)));
        let shown = match panels.is_empty() {
            true => format!("<p class=\"lead\">No machine has {} here.</p>", escape(&plot.y.join(", "))),
            false => format!("<div class=\"pictures\">{}</div>", pictures.collect::<String>()),
        };
        let (title, source) = (escape(&plot.title), escape(&plot.source));
        let _ = write!(out, "<h3>{title}<span class=\"sub\">{source}</span></h3>{shown}");
    }
    out
}

fn families(result: &SweepResult) -> String {
    if result.families.is_empty() {
        return String::new();
    }
    let mut out = FAMILIES.to_owned();
    for family in &result.families {
        let trace = &result.traces[family.trace];
        let scale = Scale::new(trace, family);
        let maps = family
            .sizes
            .iter()
            .map(|size| heat_map(size, &scale).element(&family_label(trace, family, &size.page_size)));
        let _ = write!(
            out,
            "<h3>{}<span class=\"sub\">{}, {} references</span></h3><div class=\"legend\">{}</div>\
             <div class=\"pictures\">{}</div>",
            escape(&trace.name),
            escape(&family.serves),
            count(family.references),
            scale.legend().element("Colours from the fewest misses to the most"),
            maps.collect::<String>()
        );
    }
    out
}

fn all_curves(result: &SweepResult) -> String {
    if result.curves.is_empty() {
        return String::new();
    }
    let mut out = CURVES.to_owned();
    for (trace, cells) in curves_by_trace(result) {
        let name = base_name(&trace.program);
        let _ = write!(
            out,
            "<h3>{}<span class=\"sub\">{}</span></h3><div class=\"pictures\">{}</div>",
            escape(&trace.name),
            escape(name),
            curves(&cells).element(&curve_label(trace))
        );
    }
    out
}
