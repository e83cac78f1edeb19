//! First levels that several machines share.
//!
//! Machines that differ only below the first level hold the same lines there at all times, if nothing below changes
//! what it holds ([`shares_first_level`]). So one hierarchy simulates it and logs what passes it: the accesses that
//! miss, and the dirty lines that leave. Others simulate the levels below, from that log.

use super::{DataSource, Hierarchy};
use crate::path::Path;
use crate::stamps::Accesses;
use crate::{CacheAddress, CacheFills, CacheOrganisation, CacheSpec, Requester, StoreRule};

/// An access that misses the first level, or a dirty line that leaves it. Its physical and logical addresses are the
/// same.
#[derive(Clone, Copy, Debug)]
pub struct PassedLine(u64);

/// Hits by requester.
pub type Hits = [u64; Requester::ALL.len()];

/// Bits of a passed line that tell whose access misses, by the requester's code and one: they are free, as lines have
/// at least 8 bytes.
const WHOSE: u64 = 3;

impl PassedLine {
    /// `requester`: whose access misses; none if the line leaves.
    #[inline(always)]
    fn new(address: CacheAddress, requester: Option<Requester>) -> PassedLine {
        debug_assert_eq!(address.physical, address.logical);
        assert_ne!(requester, Some(Requester::Walk), "walks do not go through a first level");
        let whose = requester.map_or(0, |requester| requester as u64 + 1);
        PassedLine(address.physical & !WHOSE | whose)
    }

    /// Whose access misses; none if the line leaves.
    #[inline(always)]
    pub fn requester(self) -> Option<Requester> {
        match self.0 & WHOSE {
            0 => None,
            code => Some(Requester::ALL[code as usize - 1]),
        }
    }

    /// Its address, which is both its physical and its logical one.
    #[inline(always)]
    pub fn address(self) -> CacheAddress {
        CacheAddress::same(self.0 & !WHOSE)
    }
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
    /// The first level alone of these caches, which logs what passes it. `specs`: caches that [`shares_first_level`]
    /// accepts.
    pub fn first_level(specs: &[CacheSpec], memory_latency: u64) -> Hierarchy {
        let first: Vec<CacheSpec> = specs.iter().filter(|cache| cache.level == 1).cloned().collect();
        let mut first = Hierarchy::new(&first, memory_latency);
        first.passed.0.get_or_insert_default();
        first
    }

    /// The caches below the first level, empty. `specs`: all caches, which [`shares_first_level`] accepts.
    pub fn below_first_level(specs: &[CacheSpec], memory_latency: u64) -> Hierarchy {
        let lower: Vec<CacheSpec> = specs.iter().filter(|cache| cache.level > 1).cloned().collect();
        let mut below = Hierarchy::new(&lower, memory_latency);
        for (path, requester) in below.paths.iter_mut().zip(Requester::ALL) {
            path.fastest = Path::new(specs, requester, memory_latency).fastest;
            // The first level holds what is stored.
            (path.soils, path.repeats_in) = (false, None);
        }
        // Most accesses repeat above.
        below.caches.iter_mut().for_each(|cache| cache.recent.is_used = false);
        below
    }

    /// Takes lines that passed the first level until one is not in the cache that all look up first: see
    /// [`Hierarchy::nearest_in_order`]. Until then only that cache changes. Returns how many lines it took, and how
    /// many cycles their requesters wait.
    #[inline]
    pub fn pass_near(&mut self, nearest: usize, lines: impl Iterator<Item = PassedLine>) -> (usize, u64) {
        let shift = self.least_line_shift;
        let lines = lines.map(|line| (line.address().physical >> shift, line.requester()));
        let mut hits = [0; Requester::ALL.len()];
        let stack = self.caches[nearest].in_order_mut().expect("its lines are in order of use");
        let passed = stack.use_while_held(lines, &mut hits);
        if passed == 0 {
            return (0, 0);
        }
        let mut cycles = 0_u64;
        for (by, hits) in Requester::ALL.into_iter().zip(hits) {
            let counts = &mut self.caches[nearest].counts[by as usize];
            counts.lookups += hits;
            counts.hits += hits;
            let each = self.wait(by, DataSource::Cache(nearest));
            cycles = cycles.saturating_add(hits.saturating_mul(each));
        }
        (passed, cycles)
    }

    /// The cache that fetches, loads and stores all look up first, if its lines are in order of use and it takes dirty
    /// lines.
    pub fn nearest_in_order(&self) -> Option<usize> {
        let nearest = self.paths[Requester::Load as usize].nearest;
        let program = [Requester::Fetch, Requester::Load, Requester::Store];
        let is_one = program.iter().all(|&by| {
            let path = &self.paths[by as usize];
            path.nearest == nearest && !path.steps.is_empty()
        });
        let takes_dirt = self.takers[1].first() == Some(&nearest);
        (is_one && takes_dirt && self.caches[nearest].in_order().is_some()).then_some(nearest)
    }

    /// Lets the loads and stores of records go through a first level whose lines keep their times of use. `passes`
    /// hears what passes, with the numbers of its record and access. Returns whether there is such a level; if not,
    /// nothing is done.
    #[inline(always)]
    pub fn take_data<A: Accesses>(
        &mut self,
        records: &[A::Record],
        accesses: A,
        passes: impl FnMut((usize, usize), PassedLine),
    ) -> bool {
        self.take(&[Requester::Load, Requester::Store], records, accesses, passes)
    }

    /// As [`Hierarchy::take_data`], for fetches.
    #[inline(always)]
    pub fn take_fetches<A: Accesses>(
        &mut self,
        records: &[A::Record],
        accesses: A,
        passes: impl FnMut((usize, usize), PassedLine),
    ) -> bool {
        self.take(&[Requester::Fetch], records, accesses, passes)
    }

    /// `requesters`: who reads, and who stores.
    #[inline(always)]
    fn take<A: Accesses>(
        &mut self,
        requesters: &[Requester],
        records: &[A::Record],
        accesses: A,
        mut passes: impl FnMut((usize, usize), PassedLine),
    ) -> bool {
        let nearest = self.paths[requesters[0] as usize].nearest;
        let is_one = requesters.iter().all(|&by| self.paths[by as usize].nearest == nearest);
        let cache = &mut self.caches[nearest];
        let shift = cache.line_shift;
        let Some(sets) = cache.stamped().filter(|_| is_one) else { return false };
        let (mut misses, mut writebacks) = ([0; 2], [0; 2]);
        let lookups = sets.enter_all(shift, records, accesses, |at, line, soils, oldest| {
            let by = usize::from(soils);
            misses[by] += 1;
            let passed = |line: u64, requester| PassedLine::new(CacheAddress::same(line << shift), requester);
            passes(at, passed(line, Some(requesters[by])));
            if let Some((oldest, true)) = oldest.line() {
                writebacks[by] += 1;
                passes(at, passed(oldest, None));
            }
        });
        for (by, &requester) in requesters.iter().enumerate() {
            let counts = &mut cache.counts[requester as usize];
            counts.lookups += lookups[by];
            counts.hits += lookups[by] - misses[by];
            counts.writebacks += writebacks[by];
        }
        true
    }

    /// Takes the hits so far, by cache and requester. The other counts of a first level are those of what passes it:
    /// they are set to zero.
    pub fn take_hits(&mut self) -> Vec<Hits> {
        self.take_counts().0.iter().map(|of_cache| of_cache.map(|counts| counts.hits)).collect()
    }

    /// Counts hits that another first level of the same caches had.
    pub fn add_hits(&mut self, hits: &[Hits]) {
        for (cache, hits) in self.caches.iter_mut().zip(hits) {
            for (counts, hits) in cache.counts.iter_mut().zip(hits) {
                counts.lookups += hits;
                counts.hits += hits;
            }
        }
    }

    /// Counts a line that passed another first level of the same caches. `by`: whose access made it pass.
    pub fn count_passed(&mut self, line: PassedLine, by: Requester) {
        let Some(cache) = self.caches.get_mut(self.paths[by as usize].nearest) else { return };
        let counts = &mut cache.counts[by as usize];
        match line.requester() {
            Some(_) => counts.lookups += 1,
            None => counts.writebacks += 1,
        }
    }

    /// What has passed the first level since the last call of [`Hierarchy::clear_passed`].
    #[inline(always)]
    pub fn passed(&self) -> &[PassedLine] {
        self.passed.0.as_deref().unwrap_or_default()
    }

    /// Forgets what has passed the first level.
    pub fn clear_passed(&mut self) {
        self.passed.0.iter_mut().for_each(Vec::clear);
    }

    /// Lets a line pass at which [`Hierarchy::pass_near`] stopped: the cache `nearest` lacks it. Only for caches
    /// below a first level ([`Hierarchy::below_first_level`]). Returns where it was found; none if it left.
    #[inline]
    pub fn pass_far(&mut self, nearest: usize, line: PassedLine) -> Option<DataSource> {
        match line.requester() {
            Some(requester) => {
                let path = &self.paths[requester as usize];
                debug_assert!(path.nearest == nearest && !path.soils, "below a first level");
                Some(self.find_missing(requester, line.address()))
            }
            None => {
                self.pass_down(self.levels[nearest], line.address());
                None
            }
        }
    }

    /// Lets a line pass that passed the first level. Returns where it was found; none if it left.
    #[inline]
    pub fn pass(&mut self, line: PassedLine) -> Option<DataSource> {
        match line.requester() {
            Some(requester) => Some(self.find::<true>(requester, line.address())),
            None => {
                self.pass_down(1, line.address());
                None
            }
        }
    }

    /// Cycles that a requester waits beyond its fastest access, if its line was found there.
    #[inline]
    pub fn wait(&self, requester: Requester, served: DataSource) -> u64 {
        self.latency(served).saturating_sub(self.paths[requester as usize].fastest)
    }

    /// Prefetches what an access will read if no cache has its line.
    #[inline]
    pub fn prefetch(&self, requester: Requester, address: CacheAddress) {
        let caches = &self.paths[requester as usize].caches;
        for &index in caches {
            self.caches[index].prefetch(address);
        }
        // The nearest cache's oldest line may go to the next cache.
        if let [nearest, next, ..] = **caches
            && let Some(oldest) = self.caches[nearest].oldest(address)
        {
            self.caches[next].prefetch(oldest);
        }
    }

    /// Whether fetches and data references go through different first levels, each of which sees nothing else.
    pub fn is_split(&self) -> bool {
        let [fetch, load, store] =
            [Requester::Fetch, Requester::Load, Requester::Store].map(|by| self.paths[by as usize].nearest);
        fetch != load && fetch != store
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
            passed.push(PassedLine::new(address, requester));
        }
    }
}
