//! Walks by core.

use super::{Section, groups};
use crate::groups::CORES;

pub(super) const SECTION: Section = Section {
    id: "cores",
    title: "Walks by core",
    lead: "What the first level of each core was asked for, a reference to two pages twice, and the walks that it took \
           (modelled).",
    table: |process| groups::table(process, &CORES, "Core"),
};
