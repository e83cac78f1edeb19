//! Sections of the report of one process: each is one file and one line of [`SECTIONS`].
//!
//! A section makes tables and charts from the result; the renderers of text and of pages show all sections the same
//! way. Cells, ticks and tooltips are text already: renderers compute no figure.

mod caches;
mod chart;
mod classes;
mod colors;
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
mod waits;
mod what_if;

pub(crate) use chart::{Axis, Bars, Chart, Curve, Heat, HeatGroup, Mark, Plot, Point, Stack, Tick};
pub(crate) use images::images;
pub(crate) use table::{Audience, Bar, Cell, Column, Name, Row, RowStyle, Table};

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
    caches::SECTION,
    waits::SECTION,
    colors::SECTION,
];

/// A section of the report.
pub(crate) struct Section {
    /// Its id, for links.
    pub id: &'static str,
    /// The text of its link in the page's bar; empty: no link.
    pub link: &'static str,
    /// Its title for a process without a finding.
    pub title: &'static str,
    /// The text below its title, on pages.
    pub lead: &'static str,
    pub terminal: Terminal,
    /// Makes its content, if the process has the figures.
    pub make: fn(&RunResult, &ProcessResult) -> Option<Content>,
}

/// Where on a terminal the tables of a section appear.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Terminal {
    /// After the tables of the TLBs.
    Machine,
    /// After the tables of what causes walks.
    Parts,
    /// At the end, before the advice.
    End,
    /// Nowhere: the terminal has a table of its own.
    Never,
}

/// A section's content for a process.
#[derive(Default)]
pub(crate) struct Content {
    /// The finding, in place of the section's title.
    pub finding: Option<String>,
    /// Replaces the section's lead.
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
    /// The heading of the parts after it, and the class of their figures.
    Heading(String, &'static str),
    /// Colours, by their names in the page's style, with their meanings.
    Legend(Vec<(&'static str, &'static str)>),
    Table(Table),
    /// Charts side by side.
    Charts(Vec<Chart>),
    /// A sentence; on pages.
    Note(String),
}
