//! Chooses among the ways to sample misses.

use super::damon::Damon;
use super::pmu::Pmu;
use super::referenced_bits::ReferencedBits;
use super::sampler::{Sampler, SamplerKind, UnusableSampler};
use crate::tracing::sys::Pid;

impl SamplerKind {
    /// Opens this kind of sampler for process `pid`.
    ///
    /// # Errors
    /// Why this host or user cannot.
    pub fn open(self, pid: Pid) -> Result<Box<dyn Sampler>, UnusableSampler> {
        Ok(match self {
            SamplerKind::Pmu => Box::new(Pmu::open(pid)?),
            SamplerKind::Damon => Box::new(Damon::open()?),
            SamplerKind::Referenced => Box::new(ReferencedBits::open(pid)?),
        })
    }
}

/// A sampler, and the better ones that do not work.
pub struct SamplerSelection {
    /// The sampler.
    pub sampler: Box<dyn Sampler>,
    /// Better ones that do not work here.
    pub unable: Vec<UnusableSampler>,
}

/// Opens the chosen sampler, or the best that works.
///
/// # Errors
/// If none works: the reason for each.
pub fn open(choice: Option<SamplerKind>, pid: Pid) -> Result<SamplerSelection, Vec<UnusableSampler>> {
    let ways = choice.map_or_else(|| SamplerKind::ALL.to_vec(), |way| vec![way]);
    let mut unable = Vec::new();
    for way in ways {
        match way.open(pid) {
            Ok(sampler) => return Ok(SamplerSelection { sampler, unable }),
            Err(reason) => unable.push(reason),
        }
    }
    Err(unable)
}
