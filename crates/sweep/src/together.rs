//! Traces that take turns in a study.

use crate::study::{Study, TraceSpec};
use pagewalk_sim::{Sharing, Simulation};
use pagewalk_trace::{Turns, call_number};
use serde::Deserialize;
use std::path::Path;

/// A `[[together]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTogether {
    name: String,
    traces: Vec<String>,
    quantum: Option<u64>,
    #[serde(default)]
    switch_at: Vec<String>,
    #[serde(default)]
    global_files: bool,
}

impl FileTogether {
    /// The traces that it names; paths start from `folder`.
    pub fn check(self, folder: &Path) -> Result<TraceSpec, String> {
        let inside = |why: String| format!("together `{}`: {why}", self.name);
        let sharing = sharing(self.quantum, &self.switch_at, self.global_files).map_err(inside)?;
        let sharing = sharing.ok_or_else(|| inside("give quantum, switch_at or both".to_owned()))?;
        if self.traces.is_empty() {
            return Err(inside("traces = []: name some, such as [\"a.pwt\", \"b.pwt\"]".to_owned()));
        }
        let paths = self.traces.iter().map(|path| folder.join(path)).collect();
        Ok(TraceSpec::Together { name: self.name, paths, sharing })
    }
}

/// Parses the keys `quantum`, `switch_at` and `global_files`; `None` without turns.
pub fn sharing(
    quantum: Option<u64>,
    switch_at: &[String],
    global_files: bool,
) -> Result<Option<Sharing>, String> {
    if quantum == Some(0) {
        return Err("quantum = 0: give 1 instruction or more".to_owned());
    }
    let call = |name: &String| {
        call_number(name).or_else(|| name.parse().ok()).ok_or_else(|| {
            format!(
                "switch_at: \"{name}\": give names of x86-64 Linux's system calls such as read, or numbers"
            )
        })
    };
    let calls = switch_at.iter().map(call).collect::<Result<Vec<u32>, String>>()?;
    if quantum.is_some() || !calls.is_empty() {
        return Ok(Some(Sharing { turns: Turns { quantum, calls }, global_files }));
    }
    match global_files {
        true => {
            Err("global_files: it is for processes that take turns: give quantum or switch_at".to_owned())
        }
        false => Ok(None),
    }
}

/// The most processes that can take turns in the study.
pub fn most(study: &Study) -> usize {
    let specs = study.structures.iter().map(|structure| structure.spec.as_ref());
    let room = specs.chain([None]).map(Simulation::programs_max);
    room.min().expect("there is one at least")
}
