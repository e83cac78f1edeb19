//! CML: moves pages apart that the CML buffer counts too many misses for (Romer 1998, section 5.3).

use super::{CmlBuffer, CmlTuple, TargetRule, Targets, conflicts};
use crate::frames::Frame;
use crate::placement::Colors;
use crate::promotion::{Actions, CacheMiss, Policy, PolicyEvent, Rules};
use std::ops::Range;

/// Hardware that counts misses by page: an associative array of tuples.
pub trait MissBuffer: Clone + Send + Sync + 'static {
    /// Counts a miss; returns the page's count, which is one more than at its last miss, or 1.
    fn count(&mut self, frame: Frame, page: Option<u64>) -> u64;

    /// All tuples.
    fn tuples(&self) -> impl Iterator<Item = CmlTuple>;

    /// Drops tuples that it is not to keep, such as those of frames that hold their pages no longer.
    fn keep(&mut self, keeps: impl Fn(CmlTuple) -> bool);

    /// Sets all counters to zero; tags stay.
    fn clear(&mut self);
}

/// Settings of CML.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CmlSettings {
    /// Misses of a page above which it competes; none: its lines and 4 more, so that first touches alone do not count,
    /// but fewer than those that interrupt.
    pub recolor_above: Option<u64>,
    /// Misses of a page that interrupt; none: 60 more.
    pub interrupt_at: Option<u64>,
    /// Cycles between clears of the buffer.
    pub clear_cycles: u64,
    /// How target colors are chosen.
    pub target: TargetRule,
    /// Cycles to deliver an interrupt (70 in table 4-7), to read the buffer and to analyse it (table 5-1).
    pub interrupt_cycles: u64,
}

impl Default for CmlSettings {
    fn default() -> CmlSettings {
        CmlSettings {
            recolor_above: None,
            interrupt_at: None,
            clear_cycles: 5_000_000,
            target: TargetRule::default(),
            interrupt_cycles: 970,
        }
    }
}

/// See the module's documentation.
#[derive(Clone)]
pub struct Cml<B = CmlBuffer> {
    settings: CmlSettings,
    buffer: B,
    targets: Targets,
    colors: Colors,
    /// Cycles at the last clear.
    cleared: u64,
}

impl<B: MissBuffer> Cml<B> {
    /// The policy with these settings, which reads this buffer.
    pub fn new(settings: CmlSettings, buffer: B) -> Cml<B> {
        let targets = Targets::new(settings.target, 0);
        Cml { settings, buffer, targets, colors: Colors::default(), cleared: 0 }
    }

    fn recolor_above(&self) -> u64 {
        let usual = self.colors.lines_per_page + 4;
        let below = self.settings.interrupt_at.map_or(usual, |at| usual.min(at.saturating_sub(1)));
        self.settings.recolor_above.unwrap_or(below)
    }

    fn interrupt_at(&self) -> u64 {
        self.settings.interrupt_at.unwrap_or(self.recolor_above() + 60)
    }

    fn missed(&mut self, miss: CacheMiss, actions: &mut Actions) {
        if miss.cycles.saturating_sub(self.cleared) >= self.settings.clear_cycles {
            self.buffer.clear();
            self.targets.clear();
            self.cleared = miss.cycles;
        }
        if self.buffer.count(miss.frame, miss.page) == self.interrupt_at() {
            actions.recoloring_cycles += self.settings.interrupt_cycles;
            self.part_pages(actions);
        }
    }

    /// Requests moves that part the pages that compete.
    fn part_pages(&mut self, actions: &mut Actions) {
        let counted = self.buffer.tuples().collect();
        let moves = conflicts::part(counted, self.recolor_above(), self.colors, &mut self.targets);
        self.buffer.keep(|tuple| !moves.iter().any(|&(frame, _)| frame == tuple.frame));
        actions.moves.extend(moves.into_iter().map(|(_, wish)| wish));
    }

    /// Drops the tuples of frames that hold these pages no longer.
    fn forget(&mut self, pages: Range<u64>) {
        self.buffer.keep(|tuple| tuple.page.is_none_or(|page| !pages.contains(&page)));
    }
}

impl<B: MissBuffer> Policy for Cml<B> {
    fn rules(&self) -> Rules {
        let watches_cache_hits = self.targets.counts_references();
        Rules { watches_caches: true, watches_cache_hits, ..Rules::new(1) }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Colors(colors) => self.colors = colors,
            PolicyEvent::CacheHit(frame) => self.targets.referenced(self.colors.of(frame)),
            PolicyEvent::CacheMissed(miss) => {
                self.targets.referenced(self.colors.of(miss.frame));
                self.missed(miss, actions);
            }
            PolicyEvent::Promoted(block) | PolicyEvent::Moved(block) => self.forget(block.pages()),
            PolicyEvent::Gone(page) => self.forget(page..page + 1),
            _ => {}
        }
    }
}
