//! Traces that take turns in a study.

use crate::error::SweepError;
use crate::study::{Study, TraceSpec};
use pagewalk_sim::{Sharing, SharingError, Simulation};
use pagewalk_trace::{Turns, all_calls};
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
    Sharing::new(quantum, switch_at, global_files).map_err(|error| match error {
        SharingError::Empty => format!("quantum = 0: {error}"),
        SharingError::Call(..) => format!("switch_at: {error}"),
        SharingError::Alone => format!("global_files: {error}: give quantum or switch_at"),
    })
}

/// Checks that so many processes of a trace can take turns in the study.
pub fn check_number(study: &Study, trace: &str, processes: usize) -> Result<(), SweepError> {
    let alone = (Simulation::programs_max(None), String::new());
    let with = study.structures.iter().map(|structure| {
        let most = Simulation::programs_max(structure.spec.as_ref());
        (most, format!(" in the structure `{}`", structure.name))
    });
    let (most, place) =
        std::iter::once(alone).chain(with).min_by_key(|(most, _)| *most).expect("there is one");
    if processes <= most {
        return Ok(());
    }
    let why = format!("trace `{trace}` has {processes} processes: at most {most} can take turns{place}");
    Err(SweepError::Study { file: study.file.clone(), why })
}

/// How processes take turns, in words.
pub fn told(sharing: &Sharing) -> String {
    let Sharing { turns: Turns { quantum, calls }, global_files } = sharing;
    let instructions = quantum.map(|quantum| format!("of {quantum} instructions"));
    let name = |&number: &u32| {
        all_calls()
            .find(|&(known, _)| known == number)
            .map_or(number.to_string(), |(_, name)| name.to_owned())
    };
    let named: Vec<String> = calls.iter().map(name).collect();
    let calls = (!named.is_empty()).then(|| format!("up to {}", named.join(", ")));
    let ends: Vec<String> = instructions.into_iter().chain(calls).collect();
    let global = if *global_files { ", with global pages of files" } else { "" };
    format!("turns {}{global}", ends.join(" or "))
}

/// Programs in order of first appearance, without their folders: `2 × sqlite3 + gzip`.
pub fn named(programs: &[&str]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for program in programs.iter().map(|path| path.rsplit('/').next().unwrap_or(path)) {
        match counted.iter_mut().find(|(known, _)| *known == program) {
            Some((_, times)) => *times += 1,
            None => counted.push((program, 1)),
        }
    }
    let name = |(program, times): (&str, usize)| match times {
        1 => program.to_owned(),
        _ => format!("{times} × {program}"),
    };
    counted.into_iter().map(name).collect::<Vec<_>>().join(" + ")
}
