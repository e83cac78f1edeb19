//! Huge pages for a running process where its TLB misses pay for them: Romer's APPROX-ONLINE (1998, section 3.4.3) on
//! live feedback.
//!
//! A sampler finds the regions (2 MiB, aligned) for which the process misses the TLB (`sampler`; one file for each
//! kind: `pmu`, `damon`, `referenced_bits`). Regions are charged, and chosen once their misses have cost a share of a
//! promotion (`policy`); those are collapsed from outside. The process is not stopped or changed. The pause between
//! rounds limits our processor time (`pace`).

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

pub use journal::{Decision, DecisionKind, Ended, PromotionStatus, PromotionSummary, Times, Watcher};
pub use policy::PromotionCosts;
pub use run::{PromoteOptions, run};
pub use sampler::{SampleError, SamplerKind, UnusableSampler};
pub use survey::{GrownBlocks, HugePageBan, Survey, survey};

use crate::pagemap::PagemapError;
use crate::pages::{OldKernel, check_kernel};
use crate::tracing::maps::{bytes_in, proc_text};
use crate::tracing::sys::{self, Pid};
use rustix::io::Errno;
use std::io;

/// Why promotion failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromoteError {
    /// The process cannot be read, or is not there.
    #[error(transparent)]
    Process(#[from] PagemapError),
    /// Not permitted.
    #[error("this user may not bring memory of process {pid} onto huge pages: {error}")]
    Forbidden {
        /// The process.
        pid: Pid,
        /// The reason.
        error: io::Error,
    },
    /// The kernel is too old.
    #[error(transparent)]
    Kernel(#[from] OldKernel),
    /// No sampler works.
    #[error("the misses of process {pid} cannot be sampled here:{}", listed(unable))]
    NoSampler {
        /// The process.
        pid: Pid,
        /// Each sampler with the reason.
        unable: Vec<UnusableSampler>,
    },
    /// Sampling failed.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// Anything else.
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
    /// How to enable it.
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

/// A process's processor time, in seconds.
///
/// # Errors
/// `ESRCH` if it is gone; its clock reports another error.
fn processor_seconds(pid: Pid) -> io::Result<f64> {
    sys::processor_seconds(pid).map_err(|_| Errno::SRCH.into())
}

/// The samplers of this host, without a process.
#[derive(Debug)]
pub struct Samplers {
    /// Those that work, best first.
    pub able: Vec<SamplerKind>,
    /// Those that do not.
    pub unable: Vec<UnusableSampler>,
}

/// The samplers that work for this host and user; [`crate::pages::check_host`] tells whether they may promote too.
/// Takes and changes nothing.
///
/// # Errors
/// If the kernel is too old.
pub fn check_host() -> Result<Samplers, PromoteError> {
    check_kernel()?;
    let checks = [
        (SamplerKind::Pmu, pmu::check()),
        (SamplerKind::Damon, damon::check()),
        (SamplerKind::Referenced, referenced_bits::check()),
    ];
    let mut host = Samplers { able: Vec::new(), unable: Vec::new() };
    for (way, outcome) in checks {
        match outcome {
            Ok(()) => host.able.push(way),
            Err(unable) => host.unable.push(unable),
        }
    }
    Ok(host)
}

/// A process's anonymous memory in bytes, from `/proc/PID/status`: roughly what could be promoted.
///
/// # Errors
/// If there is no such process, or it has no memory.
pub fn anonymous_bytes(pid: Pid) -> Result<u64, PromoteError> {
    let text = proc_text(pid, "status").map_err(|_| PagemapError::NoProcess(pid))?;
    bytes_in(&text, "RssAnon:").ok_or_else(|| PagemapError::NoMemory(pid).into())
}
