//! What a trace holds, and whether it keeps every rule of streams.

use super::{bad, open};
use crate::error::Error;
use crate::listener::Listener;
use crate::stream::{Ending, follow};
use pagewalk_capture::WindowSpec;
use pagewalk_trace::check::{Checker, Finding, Severity};
use pagewalk_trace::pwt::{self, Info};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// What a trace holds.
///
/// # Errors
/// If it is none.
pub fn info(trace: &Path) -> Result<Info, Error> {
    let file = File::open(trace).map_err(|e| bad(trace, &e))?;
    pwt::info(BufReader::new(file)).map_err(|e| bad(trace, &e))
}

/// What breaks a rule, and how the stream ended.
pub struct Soundness {
    /// Each breach of a rule. Warnings are worth knowing but leave the trace sound.
    pub findings: Vec<Finding>,
    /// How the stream ended.
    pub ending: Ending,
}

impl Soundness {
    /// Of a trace.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn of(trace: &Path, listener: &dyn Listener) -> Result<Soundness, Error> {
        let mut checker = Checker::new();
        let mut ending = follow(open(trace, listener)?, &WindowSpec::default(), &mut checker);
        // Reading from the begin does without the pointer to the index at the file's end. A pipe has no end to look at.
        if !ending.cut
            && trace.metadata().is_ok_and(|about| about.is_file())
            && let Some(damage) = info(trace)?.damage
        {
            ending.cut = true;
            ending.losses.push(damage);
        }
        Ok(Soundness { findings: checker.finish(), ending })
    }

    /// Rules that are broken.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.rule.severity() == Severity::Error).count()
    }
}
