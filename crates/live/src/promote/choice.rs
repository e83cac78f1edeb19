//! The choice among the ways to sample misses.

use super::damon::Damon;
use super::pmu::Pmu;
use super::referenced_bits::Referenced;
use super::sampler::{Sampler, Unable, Way};
use crate::tracing::sys::Pid;

impl Way {
    /// Whether this host and user can sample process `pid` so.
    ///
    /// # Errors
    /// Why not.
    pub fn open(self, pid: Pid) -> Result<Box<dyn Sampler>, Unable> {
        Ok(match self {
            Way::Pmu => Box::new(Pmu::open(pid)?),
            Way::Damon => Box::new(Damon::open()?),
            Way::Referenced => Box::new(Referenced::open(pid)?),
        })
    }
}

/// A sampler that was opened.
pub struct Opened {
    /// The way that can be used.
    pub sampler: Box<dyn Sampler>,
    /// Better ones that cannot.
    pub unable: Vec<Unable>,
}

/// Opens a way, or the best that can be used.
///
/// # Errors
/// If none can: all of them.
pub fn open(choice: Option<Way>, pid: Pid) -> Result<Opened, Vec<Unable>> {
    let ways = choice.map_or_else(|| Way::ALL.to_vec(), |way| vec![way]);
    let mut unable = Vec::new();
    for way in ways {
        match way.open(pid) {
            Ok(sampler) => return Ok(Opened { sampler, unable }),
            Err(reason) => unable.push(reason),
        }
    }
    Err(unable)
}
