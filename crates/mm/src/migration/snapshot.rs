//! Snapshots of the working set: the TLB is flushed, and the pages that miss next are those in use (Romer 1998, section
//! 4.2.3; the implementation of section 4.5).

use super::conflicts::competing;
use super::{TargetRule, Targets};
use crate::placement::Colors;
use crate::promotion::{Actions, Miss, PageMove, Policy, PolicyEvent, Rules, TlbDrops};

/// What a policy counts to tell when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotClock {
    /// Cycles: Snapshot and Snapshot-Delay.
    Cycles,
    /// Misses of the cache whose colors count: Snapshot-Miss.
    Misses,
}

/// Settings of a snapshot policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// What its times are counted in.
    pub clock: SnapshotClock,
    /// Time from one snapshot to the next cycle's.
    pub period: u64,
    /// Time from a snapshot to the one that confirms it; none: one snapshot is enough.
    pub delay: Option<u64>,
    /// Time that a snapshot lasts at most: in the implementation until the next interrupt; the simulations do not say.
    pub length: u64,
    /// Different pages that end it before: 16 in the implementation.
    pub pages: usize,
    /// Cycles to record a page (16.5 in table 4-7: the test and the record).
    pub record_cycles: u64,
    /// Cycles to analyse the snapshots (table 4-7).
    pub analyse_cycles: u64,
}

impl SnapshotSettings {
    /// Snapshot, as simulated (table 4-5).
    pub const SNAPSHOT: SnapshotSettings = SnapshotSettings {
        clock: SnapshotClock::Cycles,
        period: 2_000_000,
        delay: None,
        length: 200_000,
        pages: 16,
        record_cycles: 17,
        analyse_cycles: 11_000,
    };

    /// Snapshot-Delay, as simulated (table 4-5).
    pub const DELAY: SnapshotSettings =
        SnapshotSettings { delay: Some(200_000), ..SnapshotSettings::SNAPSHOT };

    /// Snapshot-Miss, as simulated (table 4-5).
    pub const MISS: SnapshotSettings = SnapshotSettings {
        clock: SnapshotClock::Misses,
        period: 10_000,
        delay: Some(1000),
        length: 1000,
        ..SnapshotSettings::SNAPSHOT
    };
}

/// A page of a snapshot, with its color.
type Seen = (u64, u64);

#[derive(Clone, Debug)]
enum Phase {
    /// Until the next cycle.
    Waits,
    /// Records pages.
    Records,
    /// Until the confirming snapshot.
    Confirms(Vec<Seen>),
    /// Records pages of the confirming snapshot.
    RecordsAgain(Vec<Seen>),
}

/// See the module's documentation.
///
/// The source does not say which of several pages moves: here that of the lowest shared color that was seen last.
#[derive(Clone)]
pub struct Snapshot {
    settings: SnapshotSettings,
    targets: Targets,
    colors: Colors,
    phase: Phase,
    /// The present snapshot.
    seen: Vec<Seen>,
    /// The clock when the present phase began.
    since: u64,
    /// The clock when the last cycle began.
    cycle_start: u64,
    misses: u64,
}

impl Snapshot {
    /// The policy with these settings.
    pub fn new(settings: SnapshotSettings) -> Snapshot {
        Snapshot {
            settings,
            targets: Targets::new(TargetRule::Sequential, 0),
            colors: Colors::default(),
            phase: Phase::Waits,
            seen: Vec::new(),
            since: 0,
            cycle_start: 0,
            misses: 0,
        }
    }

    fn now(&self, cycles: u64) -> u64 {
        if self.settings.clock == SnapshotClock::Cycles { cycles } else { self.misses }
    }

    /// Ends a snapshot that has lasted long enough.
    fn end_old(&mut self, now: u64, actions: &mut Actions) {
        if self.is_recording() && now.saturating_sub(self.since) >= self.settings.length {
            self.finish(now, actions);
        }
    }

    /// Ends and begins snapshots that are due.
    fn look(&mut self, now: u64, actions: &mut Actions) {
        self.end_old(now, actions);
        self.phase = match std::mem::replace(&mut self.phase, Phase::Waits) {
            Phase::Waits if now.saturating_sub(self.cycle_start) >= self.settings.period => {
                self.cycle_start = now;
                Phase::Records
            }
            Phase::Confirms(first) if now.saturating_sub(self.since) >= self.settings.delay.unwrap_or(0) => {
                Phase::RecordsAgain(first)
            }
            other => {
                self.phase = other;
                return;
            }
        };
        self.seen.clear();
        self.since = now;
        actions.drops = TlbDrops::All;
    }

    fn record(&mut self, miss: Miss, actions: &mut Actions) {
        self.end_old(self.now(miss.cycles), actions);
        let Some(frame) = miss.frame.filter(|_| self.is_recording()) else { return };
        actions.recoloring_cycles += self.settings.record_cycles;
        if !self.seen.iter().any(|&(page, _)| page == miss.page) {
            self.seen.push((miss.page, self.colors.of(frame)));
        }
        if self.seen.len() == self.settings.pages {
            self.finish(self.now(miss.cycles), actions);
        }
    }

    fn is_recording(&self) -> bool {
        matches!(self.phase, Phase::Records | Phase::RecordsAgain(_))
    }

    /// Ends the present snapshot.
    fn finish(&mut self, now: u64, actions: &mut Actions) {
        let seen = std::mem::take(&mut self.seen);
        self.since = now;
        self.phase = match std::mem::replace(&mut self.phase, Phase::Waits) {
            Phase::Records if self.settings.delay.is_some() => Phase::Confirms(seen),
            Phase::RecordsAgain(first) => {
                let both = first.into_iter().filter(|page| seen.contains(page)).collect();
                self.part_pages(both, actions);
                Phase::Waits
            }
            _ => {
                self.part_pages(seen, actions);
                Phase::Waits
            }
        };
    }

    /// Requests a move of one page that shares a color with another.
    fn part_pages(&mut self, seen: Vec<Seen>, actions: &mut Actions) {
        actions.recoloring_cycles += self.settings.analyse_cycles;
        let groups = competing(seen.into_iter().map(|(page, color)| (color, page)));
        let colors: Vec<u64> = groups.keys().copied().collect();
        let Some(page) = groups.into_values().next().and_then(|pages| pages.last().copied()) else { return };
        if let Some(color) = self.targets.choose(self.colors.count, &colors, |_| 0) {
            actions.moves.push(PageMove { page, color });
        }
    }
}

impl Policy for Snapshot {
    fn rules(&self) -> Rules {
        Rules { watches_tlbs: true, watches_caches: true, ..Rules::new(1) }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Colors(colors) => self.colors = colors,
            PolicyEvent::CacheMissed(miss) => {
                self.misses += 1;
                self.look(self.now(miss.cycles), actions);
            }
            PolicyEvent::Missed { miss, .. } => self.record(miss, actions),
            _ => {}
        }
    }
}
