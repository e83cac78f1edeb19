//! Traces that take turns in a study.

use crate::study::{Study, TraceSpec};
use pagewalk_sim::Simulation;
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
}

impl FileTogether {
    /// The traces that it names; paths start from `folder`.
    pub fn check(self, folder: &Path) -> Result<TraceSpec, String> {
        let inside = |why: String| format!("together `{}`: {why}", self.name);
        let turns = turns(self.quantum, &self.switch_at).map_err(inside)?;
        let turns = turns.ok_or_else(|| inside("give quantum, switch_at or both".to_owned()))?;
        if self.traces.is_empty() {
            return Err(inside("traces = []: name some, such as [\"a.pwt\", \"b.pwt\"]".to_owned()));
        }
        let paths = self.traces.iter().map(|path| folder.join(path)).collect();
        Ok(TraceSpec::Together { name: self.name, paths, turns })
    }
}

/// Parses the keys `quantum` and `switch_at`; `None` without either.
pub fn turns(quantum: Option<u64>, switch_at: &[String]) -> Result<Option<Turns>, String> {
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
    Ok((quantum.is_some() || !calls.is_empty()).then_some(Turns { quantum, calls }))
}

/// Checks that a study uses traces that take turns only in ways that suit several processes.
pub fn check(study: &Study) -> Result<(), String> {
    let Some(trace) = study.traces.iter().find(|trace| trace.turns().is_some()) else { return Ok(()) };
    let inside =
        |why: &str| Err(format!("trace `{}` is several processes that take turns: {why}", trace.name()));
    if study.family.is_some() || study.cache_family.is_some() || study.curve.is_some() {
        return inside("[family], [cache_family] and [curve] are of one process");
    }
    Ok(())
}

/// The most processes that can take turns in the study.
pub fn most(study: &Study) -> usize {
    let specs = study.structures.iter().map(|structure| structure.spec.as_ref());
    let room = specs.chain([None]).map(Simulation::programs_max);
    room.min().expect("there is one at least")
}
