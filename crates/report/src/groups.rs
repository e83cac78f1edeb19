//! Kinds of groups: parts of a run with counters of their own on its first machine. Each kind is one entry in its
//! division.

use crate::schema::{Group, ProcessResult};
use serde_json::Value;

/// A kind of groups.
pub struct GroupKind {
    /// The value of a group's key `kind`.
    pub id: &'static str,
    /// What a group of this kind is, and what its name means.
    pub doc: &'static str,
    /// Whether it works beside the programs: the machine counts its walks and their cycles, but not its instructions,
    /// references and pages.
    pub beside_programs: bool,
    /// The words before its name in tables.
    pub(crate) before: &'static str,
}

/// Kinds of groups that divide a run together.
pub struct Division {
    /// The kinds; every part of the total is in one group of one kind.
    pub kinds: &'static [GroupKind],
    /// What their groups add up to.
    pub whole: DivisionTotal,
}

/// What the metrics of groups add up to, where they add up and the total has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DivisionTotal {
    /// The first machine's counters.
    Machine,
    /// The processes' counters: the first machine's, unless something works beside the programs.
    Processes,
}

const fn part(id: &'static str, doc: &'static str) -> GroupKind {
    GroupKind { id, doc, beside_programs: false, before: "" }
}

const fn beside(id: &'static str, before: &'static str, doc: &'static str) -> GroupKind {
    GroupKind { id, doc, beside_programs: true, before }
}

/// Processes, and what works beside them.
pub const PROCESSES: Division = Division {
    kinds: &[
        part("process", "a process: its program and number"),
        beside(
            "kernel",
            "kernel of ",
            "the kernel of an operating-system structure, which fetches nothing: the structure's name",
        ),
        beside("server", "server ", "a server of one, each of its fetches an instruction: its name there"),
    ],
    whole: DivisionTotal::Machine,
};

/// Cores, with everything that ran on each. Their translations count by page.
pub const CORES: Division =
    Division { kinds: &[part("core", "a core: its number, from 0 on")], whole: DivisionTotal::Machine };

/// Threads of processes.
pub const THREADS: Division = Division {
    kinds: &[part(
        "thread",
        "a thread: its number, in the order in which those of its process first ran, from 1 on; and whose it is, where \
         there are several processes",
    )],
    whole: DivisionTotal::Processes,
};

/// All divisions.
pub static DIVISIONS: &[Division] = &[PROCESSES, CORES, THREADS];

impl Division {
    /// The groups of a process in this division, each with its kind.
    pub fn groups<'a>(
        &self,
        process: &'a ProcessResult,
    ) -> impl Iterator<Item = (&'static GroupKind, &'a Group)> + use<'a> {
        let kinds = self.kinds;
        let of = move |group: &'a Group| Some((kinds.iter().find(|kind| kind.id == group.kind)?, group));
        process.attribution.groups.iter().filter_map(of)
    }
}

/// The names of all kinds, for JSON Schemas.
pub(crate) fn ids() -> Value {
    kinds().map(|kind| kind.id).collect()
}

/// The meaning of each kind, for JSON Schemas.
pub(crate) fn about() -> Value {
    let kinds: Vec<String> = kinds().map(|kind| format!("`{}`: {}.", kind.id, kind.doc)).collect();
    kinds.join(" ").into()
}

fn kinds() -> impl Iterator<Item = &'static GroupKind> {
    DIVISIONS.iter().flat_map(|division| division.kinds)
}
