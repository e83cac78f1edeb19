//! The live picture and the log of a promotion.

use crate::terminal::picture;
use indicatif::ProgressBar;
use pagewalk::Error;
use pagewalk::output::{Output, cannot_write};
use pagewalk::promotion::{self, Decision, PromotionStatus, Watcher};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the picture changes.
const PERIOD: Duration = Duration::from_millis(500);

/// The picture on a terminal, and the log.
pub struct Picture {
    pid: i32,
    bar: ProgressBar,
    drawn: Option<Instant>,
    log: Option<(File, PathBuf)>,
    /// The first failure to write the log; nothing is written after it.
    failure: Option<Error>,
}

impl Picture {
    /// Starts without a picture.
    pub fn new(pid: i32, quiet: bool, log: Option<Output>) -> Result<Picture, Error> {
        let open = |output: Output| {
            let path = output.path().to_owned();
            output.begin().map(|file| (file, path.clone())).map_err(|error| cannot_write(&path, &error))
        };
        let log = log.map(open).transpose()?;
        Ok(Picture { pid, bar: picture(quiet), drawn: None, log, failure: None })
    }

    /// Removes the picture.
    ///
    /// # Errors
    /// If the log could not be written.
    pub fn finish(self) -> Result<(), Error> {
        self.bar.finish_and_clear();
        self.failure.map_or(Ok(()), Err)
    }
}

impl Watcher for Picture {
    fn decided(&mut self, decision: &Decision) {
        let Some((file, path)) = &mut self.log else { return };
        if let Err(error) = write(file, &promotion::line(decision)) {
            self.failure = Some(cannot_write(path, &error));
            self.log = None;
        }
    }

    fn passed(&mut self, standing: &PromotionStatus<'_>) {
        if self.bar.is_hidden() || self.drawn.is_some_and(|drawn| drawn.elapsed() < PERIOD) {
            return;
        }
        self.drawn = Some(Instant::now());
        let picture = promotion::picture(self.pid, standing);
        self.bar.set_message(picture.trim_end().to_owned());
        self.bar.tick();
    }
}

fn write(file: &mut File, value: &Value) -> io::Result<()> {
    file.write_all(format!("{value}\n").as_bytes())
}
