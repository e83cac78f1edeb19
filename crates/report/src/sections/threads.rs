//! Walks by thread.

use super::{Section, groups};
use crate::groups::THREADS;

pub(super) const SECTION: Section = Section {
    id: "threads",
    title: "Walks by thread",
    lead: "What each thread executed (measured), and the walks that its fetches and data references took (modelled).",
    table: |process| groups::table(process, &THREADS, "Thread"),
};
