//! The choice among the ways to sample misses.

use super::damon::Damon;
use super::pmu::Pmu;
use super::referenced_bits::ReferencedBits;
use super::sampler::{Sampler, SamplerKind, UnusableSampler};
use crate::tracing::sys::Pid;

impl SamplerKind {
    /// Whether this host and user can sample process `pid` so.
    ///
    /// # Errors
    /// Why not.
    pub fn open(self, pid: Pid) -> Result<Box<dyn Sampler>, UnusableSampler> {
        Ok(match self {
            SamplerKind::Pmu => Box::new(Pmu::open(pid)?),
            SamplerKind::Damon => Box::new(Damon::open()?),
            SamplerKind::Referenced => Box::new(ReferencedBits::open(pid)?),
        })
    }
}

/// A sampler that was opened.
pub struct SamplerSelection {
    /// The way that can be used.
    pub sampler: Box<dyn Sampler>,
    /// Better ones that cannot.
    pub unable: Vec<UnusableSampler>,
}

/// Opens a way, or the best that can be used.
///
/// # Errors
/// If none can: all of them.
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
