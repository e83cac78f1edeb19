//! Sites: moves pages apart that hold many sampled addresses of cache misses (Sites, US patent 5,442,571, 1995, as
//! Romer tells it: 1998, section 2.2).
//!
//! Hardware keeps the address of the last miss, and a counter of misses interrupts, so the kernel samples one miss in
//! some, as processors of today can (PEBS, IBS, SPE). How often it samples, and what follows, is open: here it waits
//! for a number of samples, moves pages apart as [CML](super::Cml) does, and begins anew.

use super::{CmlTuple, TargetRule, Targets, conflicts};
use crate::placement::Colors;
use crate::promotion::{Actions, CacheMiss, Policy, PolicyEvent, Rules};
use pagewalk_units::{Draws, mixed};
use std::ops::Range;

/// Settings of Sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SitesSettings {
    /// Misses from one sample to the next, on average. Each time is drawn, from about half to one and a half of it:
    /// otherwise, of two pages that miss by turns, only one might be seen.
    pub period: u64,
    /// Samples between looks at them.
    pub samples: u64,
    /// Samples of a page above which it competes; none: as many as its lines and 4 more misses, as for CML.
    pub recolor_above: Option<u64>,
    /// How target colors are chosen.
    pub target: TargetRule,
    /// The seed of random choices.
    pub seed: u64,
    /// Cycles of a sample: an interrupt and a record (87 in table 4-7).
    pub sample_cycles: u64,
    /// Cycles of a look: to read and to analyse 64 samples, twice what 32 tuples of CML take (table 5-1).
    pub analyse_cycles: u64,
}

impl Default for SitesSettings {
    fn default() -> SitesSettings {
        SitesSettings {
            period: 64,
            samples: 64,
            recolor_above: None,
            target: TargetRule::default(),
            seed: 0,
            sample_cycles: 87,
            analyse_cycles: 1800,
        }
    }
}

/// See the module's documentation.
#[derive(Clone)]
pub struct Sites {
    settings: SitesSettings,
    targets: Targets,
    colors: Colors,
    draws: Draws,
    /// Misses until the next sample.
    remaining: u64,
    /// Samples by frame, in the order of the first ones.
    sampled: Vec<CmlTuple>,
    /// Samples since the last look.
    samples: u64,
}

impl Sites {
    /// The policy with these settings.
    pub fn new(settings: SitesSettings) -> Sites {
        let mut sites = Sites {
            // Of another seed, so that the color does not depend on the time.
            targets: Targets::new(settings.target, mixed(settings.seed)),
            colors: Colors::default(),
            draws: Draws::new(settings.seed),
            remaining: 0,
            sampled: Vec::new(),
            samples: 0,
            settings,
        };
        sites.remaining = sites.gap();
        sites
    }

    /// Draws the misses until a sample.
    fn gap(&mut self) -> u64 {
        let period = self.settings.period;
        period - (period - 1) / 2 + self.draws.below(period)
    }

    fn missed(&mut self, miss: CacheMiss, actions: &mut Actions) {
        self.remaining -= 1;
        if self.remaining > 0 {
            return;
        }
        self.remaining = self.gap();
        actions.recoloring_cycles += self.settings.sample_cycles;
        self.record(miss);
        self.samples += 1;
        if self.samples == self.settings.samples {
            actions.recoloring_cycles += self.settings.analyse_cycles;
            let usual = (self.colors.lines_per_page + 4) / self.settings.period;
            let above = self.settings.recolor_above.unwrap_or(usual.max(1));
            let sampled = std::mem::take(&mut self.sampled);
            let moves = conflicts::part(sampled, above, self.colors, &mut self.targets);
            actions.moves.extend(moves.into_iter().map(|(_, wish)| wish));
            self.samples = 0;
            self.targets.clear();
        }
    }

    fn record(&mut self, CacheMiss { page, frame, .. }: CacheMiss) {
        match self.sampled.iter_mut().find(|tuple| tuple.frame == frame) {
            Some(tuple) => (tuple.page, tuple.count) = (page, tuple.count + 1),
            None => self.sampled.push(CmlTuple { frame, page, count: 1 }),
        }
    }

    /// Drops samples of frames that hold these pages no longer.
    fn forget(&mut self, pages: Range<u64>) {
        self.sampled.retain(|tuple| tuple.page.is_none_or(|page| !pages.contains(&page)));
    }
}

impl Policy for Sites {
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
