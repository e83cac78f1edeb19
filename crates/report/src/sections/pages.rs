//! Walks by page.

use super::findings::{share, walks};
use super::{Cell, Column, Content, Row, Section, Table, Terminal};
use crate::figures::description;
use crate::numbers::{exact, page_name, percent};
use crate::schema::{PageRow, ProcessResult, RunResult};

pub(super) const SECTION: Section = Section {
    id: "pages",
    link: "",
    title: "Walks by page",
    lead: "The costliest pages.",
    terminal: Terminal::Never,
    make,
};

fn make(result: &RunResult, process: &ProcessResult) -> Option<Content> {
    let all = walks(process);
    let rows: Vec<&PageRow> = process.attribution.pages.iter().filter(|row| row.walks() > 0).collect();
    if rows.is_empty() {
        return None;
    }
    let machine = process.machines.first().and_then(|machine| description(result, &machine.name));
    let left_out = match process.attribution.pages_left_out {
        0 => String::new(),
        left_out => format!("; {} more pages with walks are left out", exact(left_out)),
    };
    let size = page_name(machine.map_or("4K", |machine| &machine.base_page));
    let table = Table {
        columns: vec![
            Column::stays("Page"),
            Column::words("mapping", 1),
            Column::stays("walks"),
            Column::stays("share"),
            Column::stays("data"),
            Column::stays("fetch"),
        ],
        rows: rows.iter().map(|row| Row::from(cells(row, all))).collect(),
        what: "pages",
        sorted: Some(2),
        ..Table::default()
    };
    Some(Content {
        finding: Some(finding(&rows, all)),
        lead: Some(format!("The costliest {size} pages{left_out}.")),
        ..Content::from(table)
    })
}

/// The finding: how many pages take half of all walks.
fn finding(rows: &[&PageRow], all: u64) -> String {
    let mut sum = 0_u64;
    for (index, row) in rows.iter().enumerate() {
        sum = sum.saturating_add(row.walks());
        if sum.saturating_mul(2) >= all {
            return match index {
                0 => "One page takes half of all page walks".to_owned(),
                _ => format!("{} pages take half of all page walks", exact(index as u64 + 1)),
            };
        }
    }
    format!(
        "The {} costliest pages take {} of all page walks",
        exact(rows.len() as u64),
        percent(share(sum, all))
    )
}

fn cells(row: &PageRow, all: u64) -> Vec<Cell> {
    vec![
        Cell::figure(format!("{:#x}", row.address), row.address as f64),
        Cell::Text(row.mapping_label()),
        Cell::count(row.walks()),
        Cell::figure(percent(share(row.walks(), all)), row.walks() as f64),
        Cell::count(row.walks_data),
        Cell::count(row.walks_fetch),
    ]
}
