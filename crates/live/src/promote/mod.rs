//! Huge pages for a process that runs, as its TLB misses pay for them: Romer's APPROX-ONLINE (1998, section 3.4.3) on
//! live feedback.
//!
//! Which parts of its memory (2 MiB, aligned) a process misses the TLB for is sampled (`sampler`, one file for each
//! way: `pmu`, `damon`, `referenced`); parts are charged, and chosen when their misses have cost a share of what a
//! promotion costs (`policy`); those are collapsed from outside. The process is not stopped, and nothing is put into
//! it. Rounds are as far apart as our own processor time asks (`pace`).

mod choice;
mod damon;
mod estimate;
mod journal;
mod pace;
mod parts;
mod pmu;
pub mod policy;
mod referenced_bits;
mod round;
mod run;
mod sampler;
mod survey;

pub use journal::{Decision, DecisionKind, Ended, PromotionStatus, Summary, Times, Watcher};
pub use policy::Prices;
pub use run::{Options, run};
pub use sampler::{SampleError, SamplerKind, UnusableSampler};
pub use survey::{GrownBlocks, HugePageBan, Survey, survey};

use crate::pagemap::{self, PagemapError};
use crate::pages::{OldKernel, check_kernel};
use crate::tracing::maps::proc_text;
use crate::tracing::sys::{self, Pid};
use rustix::io::Errno;
use std::io;

/// Why nothing, or nothing more, could be promoted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromoteError {
    /// The process cannot be read, or is not there.
    #[error(transparent)]
    Process(#[from] PagemapError),
    /// No right.
    #[error("this user may not bring memory of process {pid} onto huge pages: {error}")]
    Forbidden {
        /// The process.
        pid: Pid,
        /// The reason.
        error: io::Error,
    },
    /// Too old.
    #[error(transparent)]
    Kernel(#[from] OldKernel),
    /// Nothing to sample with.
    #[error("the misses of process {pid} cannot be sampled here:{}", listed(unable))]
    NoSampler {
        /// The process.
        pid: Pid,
        /// Each way that was tried, with the reason.
        unable: Vec<UnusableSampler>,
    },
    /// It failed in the middle.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The rest.
    #[error("following process {pid}: {error}")]
    Io {
        /// The process.
        pid: Pid,
        /// The reason.
        error: io::Error,
    },
}

fn listed(unable: &[UnusableSampler]) -> String {
    unable.iter().map(|unable| format!("\n  {unable}")).collect()
}

impl PromoteError {
    /// What would make it possible.
    pub fn enable(&self) -> String {
        match self {
            PromoteError::Process(error) => error.enable().to_owned(),
            PromoteError::Forbidden { .. } => {
                "be root, or have the capabilities CAP_SYS_NICE and CAP_SYS_PTRACE; or look on: --dry-run"
                    .to_owned()
            }
            PromoteError::Kernel(_) => "a newer kernel".to_owned(),
            PromoteError::NoSampler { unable, .. } => {
                let lines: Vec<String> =
                    unable.iter().map(|unable| format!("{}: {}", unable.way, unable.enable)).collect();
                lines.join("\n  ")
            }
            PromoteError::Sample(_) => "another way to sample: --sampler".to_owned(),
            PromoteError::Io { .. } => "try it again".to_owned(),
        }
    }
}

/// Processor time that a process has used, in seconds.
///
/// # Errors
/// `ESRCH` if it is gone, which the clock tells as another error.
fn processor_seconds(pid: Pid) -> io::Result<f64> {
    sys::processor_seconds(pid).map_err(|_| Errno::SRCH.into())
}

/// What this host can sample by, without a process.
#[derive(Debug)]
pub struct Host {
    /// The ways that can be used, best first.
    pub able: Vec<SamplerKind>,
    /// Those that cannot.
    pub unable: Vec<UnusableSampler>,
}

/// What this host and user can sample by; whether they may promote too says [`crate::pages::check_host`]. Takes nothing
/// and changes nothing.
///
/// # Errors
/// If the kernel is too old.
pub fn check_host() -> Result<Host, PromoteError> {
    check_kernel()?;
    let checks = [
        (SamplerKind::Pmu, pmu::check()),
        (SamplerKind::Damon, damon::check()),
        (SamplerKind::Referenced, referenced_bits::check()),
    ];
    let mut host = Host { able: Vec::new(), unable: Vec::new() };
    for (way, outcome) in checks {
        match outcome {
            Ok(()) => host.able.push(way),
            Err(unable) => host.unable.push(unable),
        }
    }
    Ok(host)
}

/// Memory without a file that a process has, in bytes, as `/proc/PID/status` tells it: what could be promoted, about.
///
/// # Errors
/// If there is no such process, or it has no memory.
pub fn anonymous_bytes(pid: Pid) -> Result<u64, PromoteError> {
    let text = proc_text(pid, "status").map_err(|_| PagemapError::NoProcess(pid))?;
    let value = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = value.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.ok_or(pagemap::PagemapError::NoMemory(pid))? * 1024)
}
