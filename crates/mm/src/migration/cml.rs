//! CML: moves pages apart that the CML buffer counts too many misses for (Romer 1998, section 5.3).

use super::{CmlBuffer, CmlTuple, TargetRule, Targets, competing};
use crate::placement::Colors;
use crate::promotion::{Actions, CacheMiss, PageMove, Policy, PolicyEvent, Rules};

/// Settings of CML.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CmlSettings {
    /// Entries of the LRU segment.
    pub recent_entries: usize,
    /// Entries of the HOT segment.
    pub hot_entries: usize,
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
            recent_entries: 16,
            hot_entries: 16,
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
pub struct Cml {
    settings: CmlSettings,
    buffer: CmlBuffer,
    targets: Targets,
    colors: Colors,
    /// Cycles at the last clear.
    cleared: u64,
}

impl Cml {
    /// The policy with these settings.
    pub fn new(settings: CmlSettings) -> Cml {
        Cml {
            buffer: CmlBuffer::new(settings.recent_entries, settings.hot_entries),
            targets: Targets::new(settings.target, 0),
            colors: Colors::default(),
            cleared: 0,
            settings,
        }
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
            self.cleared = miss.cycles;
        }
        if self.buffer.count(miss.frame, miss.page) == self.interrupt_at() {
            actions.recoloring_cycles += self.settings.interrupt_cycles;
            self.part_pages(actions);
        }
    }

    /// Requests moves of all competing pages but one of each color: one that cannot move, or that counted most.
    fn part_pages(&mut self, actions: &mut Actions) {
        let above = self.recolor_above();
        let hot = self.buffer.tuples().filter(|tuple| tuple.count > above).copied();
        let groups = competing(hot.map(|tuple| (self.colors.of(tuple.frame), tuple)));
        let colors: Vec<u64> = groups.keys().copied().collect();
        for mut tuples in groups.into_values() {
            tuples.sort_by_key(|tuple| std::cmp::Reverse((tuple.page.is_none(), tuple.count)));
            for CmlTuple { frame, page, .. } in tuples.into_iter().skip(1) {
                let Some(page) = page else { continue };
                let buffer = &self.buffer;
                let misses = |color| {
                    let of_it = buffer.tuples().filter(|tuple| self.colors.of(tuple.frame) == color);
                    of_it.map(|tuple| tuple.count).sum()
                };
                let Some(color) = self.targets.choose(self.colors.count, &colors, misses) else { return };
                actions.moves.push(PageMove { page, color });
                self.buffer.forget(frame);
            }
        }
    }
}

impl Policy for Cml {
    fn rules(&self) -> Rules {
        Rules { watches_caches: true, ..Rules::new(1) }
    }

    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Colors(colors) => self.colors = colors,
            PolicyEvent::CacheMissed(miss) => self.missed(miss, actions),
            PolicyEvent::Promoted(block) => self.buffer.forget_pages(&block.pages()),
            PolicyEvent::Gone(page) => self.buffer.forget_pages(&(page..page + 1)),
            _ => {}
        }
    }
}
