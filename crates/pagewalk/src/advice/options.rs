//! What is asked of advice on a program.

use pagewalk_mm::ThpMode;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What to advise on.
#[derive(Default)]
pub struct Options {
    /// A trace of the program, instead of running it.
    pub trace: Option<PathBuf>,
    /// Processor seconds of runs of the recorded program on this host.
    pub seconds: Vec<f64>,
    /// Or the program, and its options.
    pub command: Vec<OsString>,
    /// What the program reads on standard input in every run; none: nothing.
    pub input: Option<PathBuf>,
    /// Runs of each kind at least.
    pub runs: u32,
    /// Whether memory is used and freed before each run.
    pub warm: bool,
    /// Whether no alternative is run.
    pub no_trial: bool,
    /// Bytes that may be backed and never touched; none: as much as pays.
    pub budget: Option<u64>,
    /// A probe of this host; none: the last one.
    pub probe: Option<PathBuf>,
    /// The machine's name, one at most; none: this host's.
    pub machines: Vec<String>,
    /// The mode of transparent huge pages of the baseline; none: this host's.
    pub thp: Option<ThpMode>,
}

impl Options {
    /// What the program reads.
    pub(super) fn input(&self) -> &Path {
        self.input.as_deref().unwrap_or(Path::new("/dev/null"))
    }
}
