//! Sections of the report of one process: one file a section, and its line in [`SECTIONS`].
//!
//! A section makes tables and charts from the result; the renderers of text and of pages show every section alike. What
//! is in a cell, at a tick or in a tooltip is text already: renderers compute no figure.

mod chart;
mod classes;
mod cores;
mod findings;
mod functions;
mod groups;
mod heat;
mod images;
mod kernels;
mod mappings;
mod pages;
mod processes;
mod reach;
mod sides;
mod table;
mod threads;
mod tlbs;
mod what_if;

pub(crate) use chart::{Axis, Chart, Curve, Heat, HeatGroup, Mark, Plot, Point, Tick};
pub(crate) use images::images;
pub(crate) use table::{Bar, Cell, Column, Look, Name, Only, Row, Table};

use crate::schema::{ProcessResult, RunResult};

/// All sections, in the order in which a page shows them.
pub(crate) static SECTIONS: &[Section] = &[
    what_if::SECTION,
    kernels::SECTION,
    mappings::SECTION,
    heat::SECTION,
    reach::SECTION,
    functions::SECTION,
    pages::SECTION,
    processes::SECTION,
    cores::SECTION,
    threads::SECTION,
    sides::SECTION,
    classes::SECTION,
    tlbs::SECTION,
];

/// A section of the report.
pub(crate) struct Section {
    /// What links to it name.
    pub id: &'static str,
    /// The word of its link in the bar of the page; empty: no link.
    pub link: &'static str,
    /// Where a process has no finding of its own to tell.
    pub title: &'static str,
    /// What it tells, in a sentence or two; on pages.
    pub lead: &'static str,
    pub terminal: Terminal,
    /// What it shows, if the process has what it tells of.
    pub make: fn(&RunResult, &ProcessResult) -> Option<Content>,
}

/// Where a terminal shows the tables of a section.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Terminal {
    /// Behind those of the TLBs.
    Machine,
    /// Behind those of who causes walks.
    Parts,
    /// At the end, where they tell what to do.
    End,
    /// Not at all: it has a table of its own there.
    Never,
}

/// What a section shows of a process.
#[derive(Default)]
pub(crate) struct Content {
    /// What it finds, instead of the section's title.
    pub finding: Option<String>,
    /// Instead of the section's lead.
    pub lead: Option<String>,
    pub parts: Vec<Part>,
}

impl From<Table> for Content {
    fn from(table: Table) -> Content {
        Content { parts: vec![Part::Table(table)], ..Content::default() }
    }
}

/// A part of a section.
pub(crate) enum Part {
    /// What the parts after it are of, and its class.
    Heading(String, &'static str),
    /// Colours by their names in the style of pages, with their meanings.
    Legend(Vec<(&'static str, &'static str)>),
    Table(Table),
    /// Several stand side by side.
    Charts(Vec<Chart>),
    /// A sentence; on pages.
    Note(String),
}
