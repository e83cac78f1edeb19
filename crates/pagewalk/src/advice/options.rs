//! Options of advice on a program.

use pagewalk_mm::ThpMode;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What to advise on.
#[derive(Default)]
pub struct AdviceOptions {
    /// A trace of the program, instead of running it.
    pub trace: Option<PathBuf>,
    /// Processor seconds of the recorded program's runs on this host.
    pub seconds: Vec<f64>,
    /// Or the program with its arguments.
    pub command: Vec<OsString>,
    /// Standard input of every run; none: empty.
    pub input: Option<PathBuf>,
    /// Fewest runs of each kind.
    pub runs: u32,
    /// Whether to use and free memory before each run.
    pub warm: bool,
    /// Whether to run no alternative.
    pub no_trial: bool,
    /// Bytes that may be backed but never touched; none: as much as pays.
    pub budget: Option<u64>,
    /// A probe of this host; none: the last one.
    pub probe: Option<PathBuf>,
    /// The machine's name, at most one; none: this host's.
    pub machines: Vec<String>,
    /// The baseline's mode of transparent huge pages; none: this host's.
    pub thp: Option<ThpMode>,
}

impl AdviceOptions {
    /// The program's input.
    pub(super) fn input(&self) -> &Path {
        self.input.as_deref().unwrap_or(Path::new("/dev/null"))
    }
}
