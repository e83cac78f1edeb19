//! Walks by process, with an operating system's kernel and servers among them.

use super::{Section, Terminal, groups};
use crate::groups::PROCESSES;

pub(super) const SECTION: Section = Section {
    id: "by-process",
    link: "",
    title: "Walks by process",
    lead: "What each process executed (measured), and the walks that its fetches and data references took (modelled). \
           What a kernel and servers beside them do is modelled altogether.",
    terminal: Terminal::Parts,
    make: |_, process| groups::content(process, &PROCESSES, "Process"),
};
