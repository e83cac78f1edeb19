//! Kernels side by side: misses, time and memory by trace and kernel, next to published tables; and pictures of cycles
//! by cause and of cycles against memory.

use super::bars::{bars, legend};
use super::comparison::{figure, host_is_among, killed, mcpi, memory_added, real, signed, time_saved};
use super::layouts::{Settled, settled};
use super::markup::{PictureFile, file_name, head, number};
use super::picture::Picture;
use super::plane::plane;
use super::schema::{MachineCell, PublishedTable, SweepResult};
use crate::html::escape;
use crate::kernel_costs::{HOSTS_MEMORY, HOSTS_WORK};
use crate::numbers::count;
use std::collections::HashMap;

/// A machine under several kernels.
struct Group<'a> {
    title: String,
    kernels: Vec<&'a str>,
    /// Each trace with its cells in the order of the kernels.
    rows: Vec<(&'a str, Vec<&'a MachineCell>)>,
}

/// The machines that run under several kernels.
fn groups<'a>(result: &'a SweepResult, settled: &'a [Settled<'a>]) -> Vec<Group<'a>> {
    let names = || result.traces.iter().map(|trace| (trace.name.as_str(), Vec::new())).collect();
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for settled in settled {
        let cell = settled.cell.as_ref();
        let Some(kernel) = cell.os.as_deref() else { continue };
        let title = settled.title("os");
        let place = *places.entry(title.clone()).or_insert_with(|| {
            groups.push(Group { title, kernels: Vec::new(), rows: names() });
            groups.len() - 1
        });
        let Group { kernels, rows, .. } = &mut groups[place];
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
        rows[cell.trace].1.push(cell);
    }
    groups.retain(|group| group.kernels.len() > 1);
    groups.iter_mut().for_each(|group| group.rows.retain(|(_, cells)| !cells.is_empty()));
    groups
}

/// The figure of a cell given its base; `None` if it has none.
type MakeFigure = fn(&MachineCell, &MachineCell) -> Option<String>;

/// A table of one figure.
struct Figure {
    /// Its name in `[[published]]`.
    key: &'static str,
    title: &'static str,
    about: &'static str,
    /// What it lacks where the host's kernel is among the kernels.
    of_host: &'static str,
    make: MakeFigure,
}

const FIGURES: [Figure; 4] = [
    Figure {
        key: "misses",
        title: "TLB misses",
        about: "Walks, or refills by software.",
        of_host: "",
        make: |cell, _| Some(killed(cell).unwrap_or_else(|| count(real(cell, "walks") as u64))),
    },
    Figure {
        key: "time",
        title: "Run time saved",
        about: "Of all modelled cycles, the kernel's included, against the first kernel; − takes more.",
        of_host: HOSTS_WORK,
        make: |cell, base| time_saved(cell, base).map(signed),
    },
    Figure {
        key: "mcpi",
        title: "Cycles for each instruction",
        about: "What translation, the kernel's work and, on machines with caches, memory take.",
        of_host: HOSTS_WORK,
        make: |cell, _| Some(killed(cell).unwrap_or_else(|| figure(mcpi(cell)))),
    },
    Figure {
        key: "memory",
        title: "Memory backed",
        about: "Most that was backed at one time, beyond that of the first kernel.",
        of_host: HOSTS_MEMORY,
        make: |cell, base| memory_added(cell, base).map(signed),
    },
];

/// The lead of a part, with what it lacks for the host's kernel if that is among the kernels.
fn lead(groups: &[Group<'_>], title: &str, about: &str, of_host: &str) -> String {
    let cells = groups.iter().flat_map(|group| &group.rows).flat_map(|(_, cells)| cells.iter().copied());
    let lacks =
        if !of_host.is_empty() && host_is_among(cells) { format!(" {of_host}") } else { String::new() };
    format!("<h3>{title}</h3><p class=\"lead\">{about}{lacks}</p>")
}

const CYCLES: &str = "Cycles of translation for each instruction: what misses take, and what the kernel's own work \
                      does. An arrow: the bar is longer than shown.";

const PLANES: &str = "Cycles of translation for each instruction, upwards and logarithmic, against memory beyond that \
                      of the first kernel: the lower left corner is best.";

/// The section of the page; empty if no machine runs under several kernels.
pub(super) fn section(result: &SweepResult) -> String {
    let settled = settled(result);
    let groups = groups(result, &settled);
    if groups.is_empty() {
        return String::new();
    }
    let tables: String = FIGURES.iter().map(|figure| tables(result, &groups, figure)).collect();
    let legend = legend().element("What the colours of the bars mean");
    let bars =
        drawn(&groups, |group, trace, cells| Some(bars(trace, cells).element(&bars_label(group, trace))));
    let planes =
        drawn(&groups, |group, trace, cells| Some(plane(trace, cells)?.element(&plane_label(group, trace))));
    let about_bars = lead(&groups, "Where cycles go", CYCLES, HOSTS_WORK);
    let about_planes = match planes.is_empty() {
        true => String::new(),
        false => lead(&groups, "Cycles and memory", PLANES, ""),
    };
    format!(
        "<h2>Kernels</h2>{tables}{}{about_bars}<div class=\"legend\">{legend}</div>{bars}{about_planes}{planes}",
        others(result)
    )
}

/// The tables of one figure, and those that sources published; empty if there is none.
fn tables(result: &SweepResult, groups: &[Group<'_>], figure: &Figure) -> String {
    let of_groups = groups.iter().map(|group| table(group, figure.make));
    let beside = result.published.iter().filter(|table| table.beside == figure.key).map(published);
    let tables: String = of_groups.chain(beside).collect();
    if tables.is_empty() {
        return tables;
    }
    format!("{}{tables}", lead(groups, figure.title, figure.about, figure.of_host))
}

/// Published tables that go with no other table.
fn others(result: &SweepResult) -> String {
    let is_laid = result.machines.iter().any(|cell| cell.layout.is_some());
    let is_shown = |table: &&PublishedTable| {
        FIGURES.iter().any(|figure| table.beside == figure.key) || (is_laid && table.beside == "layouts")
    };
    result.published.iter().filter(|table| !is_shown(table)).map(published).collect()
}

/// The pictures of each machine under its title, if it has any.
fn drawn(
    groups: &[Group<'_>],
    picture: impl Fn(&Group<'_>, &str, &[&MachineCell]) -> Option<String>,
) -> String {
    let of_group = |group: &Group<'_>| {
        let pictures: String =
            group.rows.iter().filter_map(|(trace, cells)| picture(group, trace, cells)).collect();
        let title = escape(&group.title);
        (!pictures.is_empty()).then(|| format!("<h4>{title}</h4><div class=\"pictures\">{pictures}</div>"))
    };
    groups.iter().filter_map(of_group).collect()
}

/// A table of one machine; empty if no kernel but the first has a figure.
fn table(group: &Group<'_>, figure: MakeFigure) -> String {
    let mut others =
        group.rows.iter().flat_map(|(_, cells)| cells.iter().skip(1).map(|cell| (cell, cells[0])));
    if others.all(|(cell, base)| figure(cell, base).is_none()) {
        return String::new();
    }
    let mut titles = vec![(group.title.as_str(), false)];
    titles.extend(group.kernels.iter().map(|&kernel| (kernel, true)));
    let row = |(trace, cells): &(&str, Vec<&MachineCell>)| {
        let told = |cell: &&MachineCell| number(&figure(cell, cells[0]).unwrap_or_else(|| "–".to_owned()));
        let cells: String = cells.iter().map(told).collect();
        format!("<tr><td class=\"unbroken\">{}</td>{cells}</tr>", escape(trace))
    };
    let rows: String = group.rows.iter().map(row).collect();
    format!("<div class=\"scroll\"><table>{}<tbody>{rows}</tbody></table></div>", head(&titles))
}

/// A published table.
pub(super) fn published(table: &PublishedTable) -> String {
    let mut titles = vec![("the source", false)];
    titles.extend(table.columns.iter().map(|column| (column.as_str(), true)));
    let row = |row: &super::schema::PublishedRow| {
        let cells: String = row.values.iter().map(|value| number(&escape(value))).collect();
        format!("<tr><td class=\"unbroken\">{}</td>{cells}</tr>", escape(&row.name))
    };
    format!(
        "<p class=\"lead published\">{} ({})</p>\
         <div class=\"scroll\"><table>{}<tbody>{}</tbody></table></div>",
        escape(&table.title),
        escape(&table.source),
        head(&titles),
        table.rows.iter().map(row).collect::<String>()
    )
}

fn bars_label(group: &Group<'_>, trace: &str) -> String {
    format!("Cycles of translation per instruction by kernel, {} on {trace}", group.title)
}

fn plane_label(group: &Group<'_>, trace: &str) -> String {
    format!("Cycles of translation per instruction against memory by kernel, {} on {trace}", group.title)
}

/// The section's pictures as files.
pub(super) fn pictures(result: &SweepResult) -> Vec<PictureFile> {
    let mut files = Vec::new();
    let settled = settled(result);
    for group in groups(result, &settled) {
        for (trace, cells) in &group.rows {
            let place = format!("{}-{}", file_name(&group.title), file_name(trace));
            let mut add = |kind: &str, picture: Picture, label: String| {
                files.push(PictureFile { name: format!("{kind}-{place}.svg"), svg: picture.file(&label) });
            };
            add("cycles", bars(trace, cells), bars_label(&group, trace));
            if let Some(picture) = plane(trace, cells) {
                add("memory", picture, plane_label(&group, trace));
            }
        }
    }
    files
}
