//! First levels that several machines share.
//!
//! Machines that differ only below the first level hold the same lines there at all times, if nothing below changes
//! what it holds ([`shares_first_level`]). So one hierarchy simulates it and logs what passes it: the accesses that
//! miss, and the dirty lines that leave. The others simulate the levels below, from that log.

use super::Hierarchy;
use crate::recent_lines::Need;
use crate::{CacheAddress, CacheFills, CacheOrganisation, CacheSpec, Requester, StoreRule};

/// An access that misses the first level, or a dirty line that leaves it.
#[derive(Clone, Copy, Debug)]
pub struct PassedLine {
    address: CacheAddress,
    /// Whose access misses; none: the line leaves.
    requester: Option<Requester>,
}

/// Whether two machines have the same first level, and its contents depend on the program's references alone.
pub fn shares_first_level(one: &[CacheSpec], other: &[CacheSpec]) -> bool {
    fn first(specs: &[CacheSpec]) -> impl Iterator<Item = (usize, &CacheSpec)> {
        specs.iter().enumerate().filter(|(_, cache)| cache.level == 1)
    }
    first(one).eq(first(other)) && [one, other].into_iter().all(is_separable)
}

/// Whether all references of the program, and nothing else, end or are filled in at the first level.
fn is_separable(specs: &[CacheSpec]) -> bool {
    let program = [Requester::Fetch, Requester::Load, Requester::Store];
    let is_served =
        |&requester: &Requester| specs.iter().any(|cache| cache.level == 1 && cache.serves.has(requester));
    let keeps_out = |cache: &CacheSpec| match cache.level {
        1 => !cache.serves.has(Requester::Walk) && cache.organisation == CacheOrganisation::Sets,
        // A line that hits among victims may bring its dirt along.
        2 => cache.fills == CacheFills::Misses,
        _ => true,
    };
    program.iter().all(is_served)
        && specs.iter().all(|cache| cache.stores == StoreRule::Back && !cache.inclusive && keeps_out(cache))
}

impl Hierarchy {
    /// Logs what passes the first level from now on.
    pub fn log_passed(&mut self) {
        self.passed.0.get_or_insert_default();
    }

    /// Takes what has passed the first level since the last call. Give the list back, for its memory.
    pub fn take_passed(&mut self) -> Vec<PassedLine> {
        self.passed.0.replace(Vec::new()).unwrap_or_default()
    }

    /// Takes back the list of [`Hierarchy::take_passed`].
    pub fn give_back_passed(&mut self, mut passed: Vec<PassedLine>) {
        passed.clear();
        self.passed.0 = Some(passed);
    }

    /// The caches below the first level, with what they hold and have counted. `specs`: all caches of this machine,
    /// which [`shares_first_level`] accepts.
    pub fn below_first(&self, specs: &[CacheSpec]) -> Hierarchy {
        let lower: Vec<CacheSpec> = specs.iter().filter(|cache| cache.level > 1).cloned().collect();
        let mut below = Hierarchy::new(&lower, self.memory_latency);
        let held = specs.iter().zip(&self.caches).filter(|(spec, _)| spec.level > 1);
        below.caches = held.map(|(_, cache)| cache.clone()).collect();
        for (path, whole) in below.paths.iter_mut().zip(&self.paths) {
            path.fastest = whole.fastest;
            // The first level holds what is stored.
            (path.soils, path.need) = (false, Need::of(false));
        }
        below
    }

    /// Lets a line pass that passed another hierarchy's first level. Returns the cycles that its requester waits beyond
    /// an access of the first level.
    pub fn pass(&mut self, PassedLine { address, requester }: PassedLine) -> u64 {
        let Some(requester) = requester else {
            self.pass_down(1, address);
            return 0;
        };
        let served = self.find::<true>(requester, address);
        self.latency(served).saturating_sub(self.paths[requester as usize].fastest)
    }
}

/// What passed the first level, if somebody reads it.
#[derive(Clone, Debug, Default)]
pub(super) struct PassedLog(Option<Vec<PassedLine>>);

impl PassedLog {
    /// Notes that an access of a line misses the first level, or with no requester, that a dirty line leaves it.
    #[inline]
    pub fn note(&mut self, address: CacheAddress, requester: Option<Requester>) {
        if let Some(passed) = &mut self.0 {
            passed.push(PassedLine { address, requester });
        }
    }
}
