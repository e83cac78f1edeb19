//! Snapshots: the TLB is emptied, and the pages that miss next are in use.

use super::{Colored, MigrationModel, Target, TargetChoice, Translation, Wishes, shared_colors};
use pagewalk_units::Draws;

/// Times of a snapshot policy, in cycles or cache misses.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotTimes {
    /// Whether it counts cache misses.
    pub in_misses: bool,
    /// From the beginning of a snapshot to that of the next cycle's.
    pub period: u64,
    /// From the end of the first snapshot to the confirming one; none: there is none.
    pub delay: Option<u64>,
    /// Of a snapshot.
    pub length: u64,
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Snapshot {
    times: SnapshotTimes,
    /// Different pages that end a snapshot.
    pages: usize,
    /// Cycles to record a page, and to analyse snapshots.
    costs: (u64, u64),
    colors: u64,
    target: Target,
    misses: u64,
    /// When the cycle began.
    cycle: u64,
    /// The snapshot that is being taken, and when it began.
    taken: Option<(u64, Vec<Colored>)>,
    /// The cycle's first snapshot, and when it ended.
    first: Option<(u64, Vec<Colored>)>,
}

impl Snapshot {
    /// The policy for so many colors. `costs`: cycles to record a page, and to analyse snapshots.
    pub fn new(times: SnapshotTimes, pages: usize, costs: (u64, u64), colors: u64) -> Snapshot {
        let target = Target::new(TargetChoice::Sequential, Draws::new(0));
        Snapshot { times, pages, costs, colors, target, misses: 0, cycle: 0, taken: None, first: None }
    }

    fn now(&self, cycles: u64) -> u64 {
        if self.times.in_misses { self.misses } else { cycles }
    }

    fn end_if(&mut self, now: u64, is_over: bool, wishes: &mut Wishes) {
        let Some((_, seen)) = self.taken.clone().filter(|_| is_over) else { return };
        self.taken = None;
        match self.first.take() {
            None if self.times.delay.is_some() => self.first = Some((now, seen)),
            None => self.analyse(&seen, wishes),
            Some((_, first)) => {
                let in_both: Vec<_> = first.into_iter().filter(|page| seen.contains(page)).collect();
                self.analyse(&in_both, wishes);
            }
        }
    }

    /// Of the lowest color that several pages have, the page seen last moves, to a color that no pages share.
    fn analyse(&mut self, pages: &[Colored], wishes: &mut Wishes) {
        wishes.cycles += self.costs.1;
        let shared = shared_colors(pages, self.colors);
        let Some(lowest) = shared.first() else { return };
        let &(page, _) = pages.iter().rfind(|(_, color)| color == lowest).unwrap();
        let target = self.target.next(&shared, &vec![0; self.colors as usize]);
        wishes.moves.extend(target.map(|color| (page, color)));
    }

    /// Whether the snapshot being taken has lasted long enough.
    fn is_old(&self, now: u64) -> bool {
        self.taken.as_ref().is_some_and(|(since, _)| now >= since + self.times.length)
    }
}

impl MigrationModel for Snapshot {
    fn cache_missed(&mut self, _: u64, _: Option<u64>, cycles: u64) -> Wishes {
        let mut wishes = Wishes::default();
        self.misses += 1;
        let now = self.now(cycles);
        self.end_if(now, self.is_old(now), &mut wishes);
        let is_due = match &self.first {
            _ if self.taken.is_some() => false,
            Some((ended, _)) => now.saturating_sub(*ended) >= self.times.delay.unwrap(),
            None => now >= self.cycle + self.times.period,
        };
        if is_due {
            if self.first.is_none() {
                self.cycle = now;
            }
            self.taken = Some((now, Vec::new()));
            wishes.drops_all = true;
        }
        wishes
    }

    fn missed(&mut self, missing: Translation, _: &[Translation], cycles: u64) -> Wishes {
        let mut wishes = Wishes::default();
        let now = self.now(cycles);
        self.end_if(now, self.is_old(now), &mut wishes);
        let Some((_, seen)) = &mut self.taken else { return wishes };
        wishes.cycles += self.costs.0;
        if !seen.iter().any(|(page, _)| *page == missing.page) {
            seen.push((missing.page, missing.color));
        }
        let is_full = seen.len() == self.pages;
        self.end_if(now, is_full, &mut wishes);
        wishes
    }
}
