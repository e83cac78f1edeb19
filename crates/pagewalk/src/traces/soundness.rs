//! What a trace holds, and whether it keeps the rules of streams.

use super::{bad, open};
use crate::error::Error;
use crate::listener::Listener;
use crate::stream::{Ending, follow};
use pagewalk_capture::WindowSpec;
use pagewalk_report::documents::streams::{TRACE_CHECK_SCHEMA, TraceCheckResult};
use pagewalk_trace::check::{CheckFinding, Checker, Severity};
use pagewalk_trace::pwt::{self, Info};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// What a trace holds.
///
/// # Errors
/// If it is no trace.
pub fn info(trace: &Path) -> Result<Info, Error> {
    let file = File::open(trace).map_err(|e| bad(trace, &e))?;
    pwt::info(BufReader::new(file)).map_err(|e| bad(trace, &e))
}

/// Broken rules, and how the stream ended.
pub struct Soundness {
    /// One for each broken rule. Warnings leave the trace sound.
    pub findings: Vec<CheckFinding>,
    /// How the stream ended.
    pub ending: Ending,
}

impl Soundness {
    /// Checks a trace.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn of(trace: &Path, listener: &dyn Listener) -> Result<Soundness, Error> {
        let mut checker = Checker::new();
        let mut ending = follow(open(trace, listener)?, &WindowSpec::default(), &mut checker);
        // Reading did not use the pointer to the index at the file's end, so check it too. A pipe has no end to seek
        // to.
        if !ending.cut
            && trace.metadata().is_ok_and(|about| about.is_file())
            && let Some(damage) = info(trace)?.damage
        {
            ending.cut = true;
            ending.losses.push(damage);
        }
        Ok(Soundness { findings: checker.finish(), ending })
    }

    /// As data.
    pub fn document(&self, trace: &Path) -> TraceCheckResult {
        TraceCheckResult {
            schema: TRACE_CHECK_SCHEMA,
            trace: trace.to_string_lossy().into_owned(),
            rules_broken: self.errors(),
            findings: self.findings.iter().map(CheckFinding::to_string).collect(),
            whole: !self.ending.cut,
            losses: self.ending.losses.clone(),
        }
    }

    /// How many rules are broken, without warnings.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.rule.severity() == Severity::Error).count()
    }
}
