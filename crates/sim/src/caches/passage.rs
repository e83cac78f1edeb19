//! What passes a first level of caches goes through those below.

use crate::attribution::ReferenceWaits;
use crate::caches::lookahead::CacheLookahead;
use crate::caches::waiting_walks::{PassedAt, WaitingWalks, WalkCause};
use crate::caches::{MemoryCaches, WalkCost};
use crate::moment::Moment;
use pagewalk_cache::{CacheAddress, DataSource, Requester};

/// What a line waits for, by requester.
pub(crate) type WaitsByRequester = [ReferenceWaits; Requester::ALL.len()];

/// Who hears what becomes of lines below the first level, and of walks; by default of nothing.
pub(crate) trait Listener {
    /// Whether it hears of lines.
    const HEARS_LINES: bool = false;

    /// Lines that the cache below has, or that left the first level.
    fn near(&mut self, _passed: &[PassedAt], _each: &WaitsByRequester) {}

    /// Another line, and what it waits for.
    fn wait(&mut self, _moment: Moment, _waits: ReferenceWaits) {}

    /// A walk that waited.
    fn walk(&mut self, _cause: WalkCause, _cost: WalkCost) {}
}

/// Nobody.
pub(crate) struct Nobody;

impl Listener for Nobody {}

impl MemoryCaches {
    /// Lets what passed the first level go on, and walks that waited, in order.
    pub fn take_passed<L: Listener>(&mut self, passed: &[PassedAt], walks: &WaitingWalks, listener: &mut L) {
        debug_assert!(walks.are_noted());
        let nearest = self.hierarchy.nearest_in_order();
        let each = if L::HEARS_LINES { self.near_waits() } else { WaitsByRequester::default() };
        let (mut walked, mut due) = (0, walks.moment(0));
        let mut lookahead = CacheLookahead::default();
        let mut next = 0;
        while next < passed.len() {
            while due.is_some_and(|due| due <= passed[next].moment) {
                self.walk_waiting(walks, walked, listener);
                walked += 1;
                due = walks.moment(walked);
            }
            let before_walk = |passed: &&PassedAt| due.is_none_or(|due| passed.moment < due);
            let lines = passed[next..].iter().take_while(before_walk).map(|passed| passed.line);
            let (near, cycles) = nearest.map_or((0, 0), |nearest| self.hierarchy.pass_near(nearest, lines));
            self.counts.stall_cycles = self.counts.stall_cycles.saturating_add(cycles);
            if L::HEARS_LINES && near > 0 {
                listener.near(&passed[next..next + near], &each);
            }
            next += near;
            lookahead.note_near(near);
            let Some(&PassedAt { line, moment }) = passed.get(next).filter(before_walk) else { continue };
            lookahead.prefetch(&self.hierarchy, (passed, next), (walks, walked));
            let served = match nearest {
                Some(nearest) => self.hierarchy.pass_far(nearest, line),
                None => self.hierarchy.pass(line),
            };
            if let (Some(served), Some(requester)) = (served, line.requester()) {
                let cycles = self.hierarchy.wait(requester, served);
                self.counts.stall_cycles = self.counts.stall_cycles.saturating_add(cycles);
                lookahead.note(served);
                if L::HEARS_LINES {
                    listener.wait(moment, self.waits(requester, served));
                }
            }
            next += 1;
        }
        for walked in walked..walks.len() {
            self.walk_waiting(walks, walked, listener);
        }
    }

    /// What a line that missed the first level waits for. `served`: where it was found.
    #[inline(always)]
    fn waits(&self, requester: Requester, served: DataSource) -> ReferenceWaits {
        let mut waits = ReferenceWaits::of_cycles(self.hierarchy.wait(requester, served));
        waits.miss(1);
        self.hierarchy.levels_before(requester, served).for_each(|level| waits.miss(level));
        waits
    }

    /// What a line that missed the first level waits for if the cache below has it, by requester.
    pub fn near_waits(&self) -> WaitsByRequester {
        let Some(nearest) = self.hierarchy.nearest_in_order() else { return WaitsByRequester::default() };
        Requester::ALL.map(|by| match by {
            Requester::Walk => ReferenceWaits::default(),
            by => self.waits(by, DataSource::Cache(nearest)),
        })
    }

    fn walk_waiting(&mut self, walks: &WaitingWalks, walked: usize, listener: &mut impl Listener) {
        let entries = walks.entries(walked);
        let cycles = self.read_entries(entries);
        if let Some(cause) = walks.cause(walked) {
            self.waited_cycles = self.waited_cycles.saturating_add(cycles);
            listener.walk(cause, WalkCost { references: entries.len() as u32, cycles });
        }
    }

    /// Reads page-table entries; returns the cycles that takes.
    pub(super) fn read_entries(&mut self, entries: &[u64]) -> u64 {
        let mut cycles = 0u64;
        for &entry in entries {
            let served = self.hierarchy.access(Requester::Walk, CacheAddress::same(entry));
            self.counts.walk_references += u64::from(served == DataSource::Memory);
            cycles = cycles.saturating_add(self.hierarchy.latency(served));
        }
        cycles
    }
}
