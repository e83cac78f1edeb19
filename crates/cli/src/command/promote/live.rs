//! What is shown and logged while it runs.

use super::ranges;
use super::text;
use crate::error::CliError;
use crate::output::{Output, cannot_write};
use crate::progress;
use indicatif::ProgressBar;
use pagewalk_live::promote::{Decision, Standing, Watcher, What};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// So long a picture stands.
const PERIOD: Duration = Duration::from_millis(500);
/// Ranges that are shown.
const RANGES_SHOWN: usize = 6;

/// The picture on a terminal, and the log.
pub struct Live {
    pid: i32,
    bar: ProgressBar,
    drawn: Option<Instant>,
    log: Option<(File, PathBuf)>,
    /// The first failure of writing to the log, after which nothing more is written.
    failure: Option<CliError>,
}

impl Live {
    /// Nothing is shown yet.
    pub fn new(pid: i32, quiet: bool, log: Option<Output>) -> Result<Live, CliError> {
        let open = |output: Output| {
            let path = output.path().to_owned();
            output.begin().map(|file| (file, path.clone())).map_err(|error| cannot_write(&path, &error))
        };
        let log = log.map(open).transpose()?;
        Ok(Live { pid, bar: progress::picture(quiet), drawn: None, log, failure: None })
    }

    /// Takes the picture away.
    ///
    /// # Errors
    /// If the log could not be written.
    pub fn finish(self) -> Result<(), CliError> {
        self.bar.finish_and_clear();
        self.failure.map_or(Ok(()), Err)
    }
}

impl Watcher for Live {
    fn decided(&mut self, decision: &Decision) {
        let Some((file, path)) = &mut self.log else { return };
        if let Err(error) = write(file, &line(decision)) {
            self.failure = Some(cannot_write(path, &error));
            self.log = None;
        }
    }

    fn passed(&mut self, standing: &Standing<'_>) {
        if self.bar.is_hidden() || self.drawn.is_some_and(|drawn| drawn.elapsed() < PERIOD) {
            return;
        }
        self.drawn = Some(Instant::now());
        let mut picture = text::heading(self.pid, standing);
        picture += &text::table(&ranges::of(standing.policy), RANGES_SHOWN);
        picture += &text::balance(standing.policy, standing.times);
        self.bar.set_message(picture.trim_end().to_owned());
        self.bar.tick();
    }
}

fn write(file: &mut File, value: &Value) -> io::Result<()> {
    file.write_all(format!("{value}\n").as_bytes())
}

/// A decision as a line of the log.
fn line(decision: &Decision) -> Value {
    let (word, nanoseconds, reason, again) = match &decision.what {
        What::Promoted { nanoseconds } => ("promoted", Some(*nanoseconds), None, None),
        What::WouldPromote => ("would_promote", None, None, None),
        What::Failed { reason, again } => ("failed", None, Some(reason), Some(*again)),
        What::Split => ("split", None, None, None),
    };
    json!({
        "seconds": decision.seconds,
        "processor_seconds": decision.processor_seconds,
        "decision": word,
        "start": format!("{:#x}", decision.start),
        "charges": decision.charges,
        "resident_pages": decision.resident_pages,
        "added_bytes": decision.added_bytes,
        "promotion_nanoseconds": nanoseconds,
        "reason": reason,
        "again": again,
    })
}
