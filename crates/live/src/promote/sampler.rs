//! Samplers of misses; each kind has its own file.

use super::policy::{RegionMisses, RegionView};
use crate::tracing::sys::Pid;
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// A process whose misses are sampled.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its process id.
    pub pid: Pid,
    /// Its page map.
    pub pagemap: &'a File,
}

/// Finds the regions for which a process misses the TLB.
pub trait Sampler {
    /// Its kind.
    fn way(&self) -> SamplerKind;

    /// How many regions it samples per round; more take turns.
    fn parts_at_once(&self) -> usize;

    /// Samples these regions, which are not on huge pages, and waits as long as that takes. Regions without findings
    /// are left out.
    ///
    /// # Errors
    /// If the process has ended, or sampling failed.
    fn sample(&mut self, target: Target<'_>, parts: &[RegionView]) -> Result<Vec<RegionMisses>, SampleError>;

    /// Processor time, in seconds, of kernel threads that sample.
    fn kernel_seconds(&self) -> f64;

    /// What was skipped and why, as text.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why sampling ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The process is gone.
    #[error("the process ended while it was sampled")]
    Ended,
    /// Anything else.
    #[error("sampling by {way} failed: {error}")]
    Io {
        /// The sampler.
        way: SamplerKind,
        /// The reason.
        error: io::Error,
    },
}

impl SampleError {
    /// An error of the kernel's.
    pub(super) fn of(way: SamplerKind, error: io::Error) -> SampleError {
        match Errno::from_io_error(&error) {
            Some(Errno::SRCH) => SampleError::Ended,
            _ => SampleError::Io { way, error },
        }
    }

    /// An error of a file in `/proc/PID`, which disappears with its process.
    pub(super) fn of_process(way: SamplerKind, error: io::Error) -> SampleError {
        match error.kind() {
            io::ErrorKind::NotFound => SampleError::Ended,
            _ => SampleError::of(way, error),
        }
    }
}

/// Why a kind of sampler does not work here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{way}: {why}")]
pub struct UnusableSampler {
    /// Its kind.
    pub way: SamplerKind,
    /// Why.
    pub why: String,
    /// How to enable it.
    pub enable: String,
}

impl UnusableSampler {
    /// The reason and the remedy.
    pub(super) fn new(
        way: SamplerKind,
        why: impl Into<String>,
        enable: impl Into<String>,
    ) -> UnusableSampler {
        UnusableSampler { way, why: why.into(), enable: enable.into() }
    }
}

/// The kinds of samplers, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplerKind {
    /// The processor's own samples of misses, with addresses.
    Pmu,
    /// Accessed bits of single pages, by the kernel's DAMON.
    Damon,
    /// Accessed bits of whole mappings.
    Referenced,
}

impl SamplerKind {
    /// All, best first.
    pub const ALL: [SamplerKind; 3] = [SamplerKind::Pmu, SamplerKind::Damon, SamplerKind::Referenced];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SamplerKind::Pmu => "pmu",
            SamplerKind::Damon => "damon",
            SamplerKind::Referenced => "referenced",
        }
    }

    /// What it samples.
    pub fn title(self) -> &'static str {
        match self {
            SamplerKind::Pmu => "precise samples of misses by the processor, in which all misses are alike",
            SamplerKind::Damon => {
                "accessed bits of single pages (DAMON): at most one miss of a page is seen in each interval, so all \
                 rates are lower bounds"
            }
            SamplerKind::Referenced => {
                "accessed bits of whole mappings (smaps): parts of a mapping are charged alike, by their resident \
                 pages, and all rates are lower bounds"
            }
        }
    }
}

impl std::fmt::Display for SamplerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
