//! Active policies: no two pages in the TLB may have the same color (Romer 1998, section 4.2.2).

use super::{TargetRule, Targets};
use crate::Superpage;
use crate::frames::Frame;
use crate::placement::Colors;
use crate::promotion::{Actions, Miss, PageMove, Policy, PolicyEvent, Rules, TlbDrops};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Settings of an active policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActiveSettings {
    /// Misses with a competing page in the TLB, of one color, that move a page: 1 for Active-Naive, 100 for
    /// Active-Delay and Active-Throttle (table 4-5).
    pub misses: u64,
    /// Cycles in which at most one page moves; 0: no limit. 1,000,000 for Active-Throttle.
    pub interval: u64,
}

/// See the module's documentation.
///
/// The source does not say which of two competing pages moves, which entry is dropped, nor what becomes of the color's
/// count then: here the missing page moves, the other one's entry is dropped (of several, the lowest page's), and the
/// count begins anew.
#[derive(Clone)]
pub struct Active {
    settings: ActiveSettings,
    targets: Targets,
    colors: Colors,
    held: HeldUnits,
    missing: Option<MissingPage>,
    counts: BTreeMap<u64, u64>,
    /// Cycles of the last move, plus one.
    moved: u64,
}

impl Active {
    /// The policy with these settings.
    pub fn new(settings: ActiveSettings) -> Active {
        Active {
            settings,
            targets: Targets::new(TargetRule::Sequential, 0),
            colors: Colors::default(),
            held: HeldUnits::default(),
            missing: None,
            counts: BTreeMap::new(),
            moved: 0,
        }
    }

    fn missed(&mut self, miss: Miss, actions: &mut Actions) {
        let Some(frame) = miss.frame else { return };
        let color = self.colors.of(frame);
        self.missing = Some(MissingPage { unit: miss.unit, entry: miss.entry, color });
        let rests = self.settings.interval > 0
            && self.moved > 0
            && miss.cycles.saturating_add(1).saturating_sub(self.moved) < self.settings.interval;
        if rests {
            return;
        }
        let Some(rival) = self.held.rival(color, miss.entry.first) else { return };
        let count = self.counts.entry(color).or_default();
        *count += 1;
        if *count < self.settings.misses {
            actions.drops = TlbDrops::Page(rival);
            return;
        }
        *count = 0;
        let taken: Vec<u64> = self.held.colors().chain([color]).collect();
        let target = self.targets.choose(self.colors.count, &taken, |_| 0);
        if let Some(target) = target.or_else(|| self.targets.choose(self.colors.count, &[color], |_| 0)) {
            actions.moves.push(PageMove { page: miss.page, color: target });
            self.moved = miss.cycles.saturating_add(1);
        }
    }

    fn entered(&mut self, entry: Superpage) {
        if let Some(missing) = self.missing.filter(|missing| missing.entry == entry) {
            self.held.entered(entry.first, missing.color);
        }
    }

    fn recolored(&mut self, page: u64, frame: Frame) {
        self.held.forget(&(page..page + 1));
        if let Some(missing) = &mut self.missing
            && missing.unit.first == page
        {
            missing.color = self.colors.of(frame);
        }
    }
}

/// What missed last.
#[derive(Clone, Copy)]
struct MissingPage {
    unit: Superpage,
    entry: Superpage,
    color: u64,
}

/// The entries of the TLBs, by their first pages.
#[derive(Clone, Default)]
struct HeldUnits {
    /// Each one's color, and how many TLBs hold it.
    units: BTreeMap<u64, (u64, u32)>,
    /// Each one's color and first page.
    by_color: BTreeSet<(u64, u64)>,
}

impl HeldUnits {
    /// The lowest unit of this color, except `missing`.
    fn rival(&self, color: u64, missing: u64) -> Option<u64> {
        let mut rivals = self.by_color.range((color, 0)..=(color, u64::MAX)).map(|&(_, first)| first);
        rivals.find(|&first| first != missing)
    }

    /// Each unit's color.
    fn colors(&self) -> impl Iterator<Item = u64> {
        self.by_color.iter().map(|&(color, _)| color)
    }

    fn entered(&mut self, first: u64, color: u64) {
        let held = self.units.entry(first).or_insert((color, 0));
        self.by_color.remove(&(held.0, first));
        self.by_color.insert((color, first));
        *held = (color, held.1 + 1);
    }

    fn left(&mut self, first: u64) {
        if let Some((_, tlbs)) = self.units.get_mut(&first) {
            *tlbs -= 1;
            if *tlbs == 0 {
                self.remove(first);
            }
        }
    }

    fn remove(&mut self, first: u64) {
        if let Some((color, _)) = self.units.remove(&first) {
            self.by_color.remove(&(color, first));
        }
    }

    /// Forgets the units that begin among these pages.
    fn forget(&mut self, pages: &Range<u64>) {
        while let Some((&first, _)) = self.units.range(pages.clone()).next() {
            self.remove(first);
        }
    }
}

impl Policy for Active {
    fn rules(&self) -> Rules {
        Rules { watches_tlbs: true, ..Rules::new(1) }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Colors(colors) => self.colors = colors,
            PolicyEvent::Missed { miss, .. } => self.missed(miss, actions),
            PolicyEvent::Entered { entry, .. } => self.entered(entry),
            PolicyEvent::Left { entry, .. } => self.held.left(entry.first),
            PolicyEvent::Promoted(block) => self.held.forget(&block.pages()),
            PolicyEvent::Flushed(pages) => self.held.forget(pages),
            PolicyEvent::Recolored { page, frame } => self.recolored(page, frame),
            _ => {}
        }
    }
}
