//! Kinds of groups: parts of a run that have counters of their own on its first machine. One entry a kind, in the
//! division that it belongs to.

use crate::schema::{Group, ProcessResult};
use serde_json::Value;

/// A kind of groups.
pub struct GroupKind {
    /// What groups name in their key `kind`.
    pub id: &'static str,
    /// What one is, and what its name says.
    pub doc: &'static str,
    /// Whether it works beside the programs: a machine counts its walks and their cycles, but its instructions,
    /// references and pages stay those of programs.
    pub beside_programs: bool,
    /// What tables have before its name.
    pub(crate) before: &'static str,
}

/// Kinds of groups that divide a run together.
pub struct Division {
    /// The kinds; each part of the whole is in one group of one of them.
    pub kinds: &'static [GroupKind],
    /// What their groups add up to.
    pub whole: Whole,
}

/// What groups add up to, in each of their metrics that does add up and that the whole has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// The first machine's counters.
    Machine,
    /// Those of the processes, and so the first machine's where nothing works beside these.
    Processes,
}

const fn part(id: &'static str, doc: &'static str) -> GroupKind {
    GroupKind { id, doc, beside_programs: false, before: "" }
}

const fn beside(id: &'static str, before: &'static str, doc: &'static str) -> GroupKind {
    GroupKind { id, doc, beside_programs: true, before }
}

/// Processes, with what works beside them.
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
    whole: Whole::Machine,
};

/// Cores, with all that ran on each. What they translate is counted by page.
pub const CORES: Division =
    Division { kinds: &[part("core", "a core: its number, from 0 on")], whole: Whole::Machine };

/// Threads of processes.
pub const THREADS: Division = Division {
    kinds: &[part(
        "thread",
        "a thread: its number, in the order in which those of its process first ran, from 1 on; and whose it is, where \
         there are several processes",
    )],
    whole: Whole::Processes,
};

/// All divisions.
pub static DIVISIONS: &[Division] = &[PROCESSES, CORES, THREADS];

impl Division {
    /// The groups of a process that are of it, each with its kind.
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

/// What each kind is, for the same.
pub(crate) fn about() -> Value {
    let kinds: Vec<String> = kinds().map(|kind| format!("`{}`: {}.", kind.id, kind.doc)).collect();
    kinds.join(" ").into()
}

fn kinds() -> impl Iterator<Item = &'static GroupKind> {
    DIVISIONS.iter().flat_map(|division| division.kinds)
}
