//! What passes a first level of caches goes through those below.

use crate::attribution::ReferenceWaits;
use crate::caches::lookahead::CacheLookahead;
use crate::caches::waiting_walks::{PassedAt, WaitingWalks, WalkCause};
use crate::caches::{MemoryCaches, WalkCost};
use crate::moment::Moment;
use pagewalk_cache::{CacheAddress, DataSource, PassedLine, Requester};

impl MemoryCaches {
    /// Lets what passed the first level go on, and walks that waited, in order. `wait` hears what references missed, if
    /// `TELLS`, and `walk` the costs of walks.
    pub fn take_passed<const TELLS: bool>(
        &mut self,
        passed: &[PassedAt],
        walks: &WaitingWalks,
        mut wait: impl FnMut(Moment, ReferenceWaits),
        mut walk: impl FnMut(WalkCause, WalkCost),
    ) {
        debug_assert!(walks.are_noted());
        let nearest = self.hierarchy.nearest_in_order();
        let (mut walked, mut due) = (0, walks.moment(0));
        let (mut waits, mut lookahead) = (ReferenceWaits::default(), CacheLookahead::default());
        let mut next = 0;
        while next < passed.len() {
            while due.is_some_and(|due| due <= passed[next].moment) {
                self.walk_waiting(walks, walked, &mut walk);
                walked += 1;
                due = walks.moment(walked);
            }
            let before_walk = |passed: &&PassedAt| due.is_none_or(|due| passed.moment < due);
            let lines = passed[next..].iter().take_while(before_walk).map(|passed| passed.line);
            let (near, cycles) = nearest.map_or((0, 0), |nearest| self.hierarchy.pass_near(nearest, lines));
            self.counts.stall_cycles = self.counts.stall_cycles.saturating_add(cycles);
            if TELLS && let Some(nearest) = nearest {
                for at in next..next + near {
                    self.add_wait(&mut waits, passed[at].line, Some(DataSource::Cache(nearest)));
                    tell(passed, at, &mut waits, &mut wait);
                }
            }
            next += near;
            lookahead.note_near(near);
            let Some(&PassedAt { line, .. }) = passed.get(next).filter(before_walk) else { continue };
            lookahead.prefetch(&self.hierarchy, (passed, next), (walks, walked));
            let served = self.hierarchy.pass(line);
            if let (Some(served), Some(requester)) = (served, line.requester()) {
                let cycles = self.hierarchy.wait(requester, served);
                self.counts.stall_cycles = self.counts.stall_cycles.saturating_add(cycles);
                lookahead.note(served);
            }
            if TELLS {
                self.add_wait(&mut waits, line, served);
                tell(passed, next, &mut waits, &mut wait);
            }
            next += 1;
        }
        for walked in walked..walks.len() {
            self.walk_waiting(walks, walked, &mut walk);
        }
    }

    /// Adds what a line waits for. `served`: where it was found; none if it left the first level.
    #[inline(always)]
    fn add_wait(&self, waits: &mut ReferenceWaits, line: PassedLine, served: Option<DataSource>) {
        if let (Some(served), Some(requester)) = (served, line.requester()) {
            waits.cycles = waits.cycles.saturating_add(self.hierarchy.wait(requester, served));
            waits.miss(1);
            self.hierarchy.levels_before(requester, served).for_each(|level| waits.miss(level));
        }
    }

    fn walk_waiting(
        &mut self,
        walks: &WaitingWalks,
        walked: usize,
        walk: &mut impl FnMut(WalkCause, WalkCost),
    ) {
        let entries = walks.entries(walked);
        let cycles = self.read_entries(entries);
        if let Some(cause) = walks.cause(walked) {
            self.waited_cycles = self.waited_cycles.saturating_add(cycles);
            walk(cause, WalkCost { references: entries.len() as u32, cycles });
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

/// At a reference's last line, tells what the reference waits for.
#[inline(always)]
fn tell(
    passed: &[PassedAt],
    at: usize,
    waits: &mut ReferenceWaits,
    wait: &mut impl FnMut(Moment, ReferenceWaits),
) {
    let moment = passed[at].moment;
    if passed.get(at + 1).is_none_or(|next| next.moment != moment) {
        let waits = std::mem::take(waits);
        if waits.has_missed() {
            wait(moment, waits);
        }
    }
}
