//! Walks by thread.

use super::{Section, Terminal, groups};
use crate::groups::THREADS;

pub(super) const SECTION: Section = Section {
    id: "threads",
    link: "",
    title: "Walks by thread",
    lead: "What each thread executed (measured), and the walks that its fetches and data references took (modelled).",
    terminal: Terminal::Parts,
    make: |_, process| groups::content(process, &THREADS, "Thread"),
};
