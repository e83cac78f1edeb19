//! Walks by core.

use super::{Section, Terminal, groups};
use crate::groups::CORES;

pub(super) const SECTION: Section = Section {
    id: "cores",
    link: "",
    title: "Walks by core",
    lead: "What the first level of each core was asked for, a reference to two pages twice, and the walks that it took \
           (modelled).",
    terminal: Terminal::Parts,
    make: |_, process| groups::content(process, &CORES, "Core"),
};
