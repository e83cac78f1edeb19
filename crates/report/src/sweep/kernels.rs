//! Kernels side by side: misses, time and memory by trace and kernel, next to published tables; and pictures of cycles
//! by cause and of cycles against memory.

use super::bars::{bars, legend};
use super::comparison::{figure, killed, mcpi, memory_added, real, signed, time_saved};
use super::markup::{PictureFile, file_name, head, number};
use super::picture::Picture;
use super::plane::plane;
use super::schema::{MachineCell, PublishedTable, SweepResult};
use crate::html::escape;
use crate::numbers::count;
use std::fmt::Write;

/// A machine under several kernels.
struct Group<'a> {
    title: String,
    kernels: Vec<&'a str>,
    /// Each trace with its cells in the order of the kernels.
    rows: Vec<(&'a str, Vec<&'a MachineCell>)>,
}

/// The machines that run under several kernels.
fn groups(result: &SweepResult) -> Vec<Group<'_>> {
    let names = || result.traces.iter().map(|trace| (trace.name.as_str(), Vec::new())).collect();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for cell in &result.machines {
        let Some(kernel) = cell.os.as_deref() else { continue };
        let title = cell.title("os");
        let place = groups.iter().position(|group| group.title == title).unwrap_or_else(|| {
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

/// A table of one figure: its name in `[[published]]`, its title, its description, and the figure of a cell given its
/// base.
type Figure = (&'static str, &'static str, &'static str, fn(&MachineCell, &MachineCell) -> String);

const FIGURES: [Figure; 4] = [
    ("misses", "TLB misses", "Walks, or refills by software.", |cell, _| {
        killed(cell).unwrap_or_else(|| count(real(cell, "walks") as u64))
    }),
    (
        "time",
        "Run time saved",
        "Of all modelled cycles, the kernel's included, against the first kernel; − takes more.",
        |cell, base| time_saved(cell, base).map_or("–".to_owned(), signed),
    ),
    (
        "mcpi",
        "Cycles for each instruction",
        "What translation, the kernel's work and, on machines with caches, memory take.",
        |cell, _| killed(cell).unwrap_or_else(|| figure(mcpi(cell))),
    ),
    (
        "memory",
        "Memory backed",
        "Most that was backed at one time, beyond that of the first kernel.",
        |cell, base| memory_added(cell, base).map_or("–".to_owned(), signed),
    ),
];

/// The section of the page; empty if no machine runs under several kernels.
pub(super) fn section(result: &SweepResult) -> String {
    let groups = groups(result);
    if groups.is_empty() {
        return String::new();
    }
    let mut out = "<h2>Kernels</h2>".to_owned();
    for (index, (key, title, about, figure)) in FIGURES.into_iter().enumerate() {
        let _ = write!(out, "<h3>{title}</h3><p class=\"lead\">{about}</p>");
        for group in &groups {
            out += &table(group, figure);
        }
        result
            .published
            .iter()
            .filter(|table| table.beside == key)
            .for_each(|table| out += &published(table));
        if index + 1 == FIGURES.len() {
            let named = |table: &&PublishedTable| FIGURES.iter().any(|(key, ..)| table.beside == *key);
            let others = result.published.iter().filter(|table| !named(table));
            others.for_each(|table| out += &published(table));
        }
    }
    out += "<h3>Where cycles go</h3><p class=\"lead\">Cycles of translation for each instruction: what misses take, \
            and what the kernel's own work does. An arrow: the bar is longer than shown.</p>";
    let _ =
        write!(out, "<div class=\"legend\">{}</div>", legend().element("What the colours of the bars mean"));
    for group in &groups {
        let pictures =
            group.rows.iter().map(|(trace, cells)| bars(trace, cells).element(&bars_label(group, trace)));
        let _ = write!(
            out,
            "<h4>{}</h4><div class=\"pictures\">{}</div>",
            escape(&group.title),
            pictures.collect::<String>()
        );
    }
    out += "<h3>Cycles and memory</h3><p class=\"lead\">Cycles of translation for each instruction, upwards and \
            logarithmic, against memory beyond that of the first kernel: the lower left corner is best.</p>";
    for group in &groups {
        let of = |(trace, cells): &(&str, Vec<&MachineCell>)| {
            Some(plane(trace, cells)?.element(&plane_label(group, trace)))
        };
        let _ = write!(
            out,
            "<h4>{}</h4><div class=\"pictures\">{}</div>",
            escape(&group.title),
            group.rows.iter().filter_map(of).collect::<String>()
        );
    }
    out
}

fn table(group: &Group<'_>, figure: fn(&MachineCell, &MachineCell) -> String) -> String {
    let mut titles = vec![(group.title.as_str(), false)];
    titles.extend(group.kernels.iter().map(|&kernel| (kernel, true)));
    let row = |(trace, cells): &(&str, Vec<&MachineCell>)| {
        let cells: String = cells.iter().map(|cell| number(&figure(cell, cells[0]))).collect();
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
    for group in groups(result) {
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
