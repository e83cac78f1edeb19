//! Periodic policies: now and then a page in the TLB moves (Romer 1998, section 4.2.3).

use super::conflicts::competing;
use super::{TargetRule, Targets};
use crate::placement::Colors;
use crate::promotion::{Actions, Miss, PageMove, Policy, PolicyEvent, Rules};
use pagewalk_units::{Draws, mixed};
use std::collections::BTreeMap;

/// Which page moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodicChoice {
    /// Any: Periodic-Random.
    Random,
    /// One that shares its color with another: Periodic-Color.
    Competing,
}

/// Settings of a periodic policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicSettings {
    /// Which page moves.
    pub choice: PeriodicChoice,
    /// Cycles from one move to the next: 2,000,000 (table 4-5).
    pub period: u64,
    /// The seed of random choices.
    pub seed: u64,
}

/// See the module's documentation. It looks at the first TLB miss after each period.
#[derive(Clone)]
pub struct Periodic {
    settings: PeriodicSettings,
    targets: Targets,
    draws: Draws,
    colors: Colors,
    /// Colors of base pages by page and TLB: those that missed there since they left it last.
    held: BTreeMap<(u64, usize), u64>,
    last: u64,
}

impl Periodic {
    /// The policy with these settings.
    pub fn new(settings: PeriodicSettings) -> Periodic {
        Periodic {
            settings,
            // Of another seed, so that the color does not depend on the page.
            targets: Targets::new(TargetRule::Random, mixed(settings.seed)),
            draws: Draws::new(settings.seed),
            colors: Colors::default(),
            held: BTreeMap::new(),
            last: 0,
        }
    }

    fn missed(&mut self, miss: Miss, actions: &mut Actions) {
        if miss.cycles.saturating_sub(self.last) >= self.settings.period {
            self.last = miss.cycles;
            self.move_one(actions);
        }
        if let Some(frame) = miss.frame {
            self.held.insert((miss.page, miss.tlb), self.colors.of(frame));
        }
    }

    fn move_one(&mut self, actions: &mut Actions) {
        let held: BTreeMap<u64, u64> = self.held.iter().map(|(&(page, _), &color)| (page, color)).collect();
        let groups = competing(held.iter().map(|(&page, &color)| (color, page)));
        let mut excluded: Vec<u64> = groups.keys().copied().collect();
        let pages: Vec<u64> = match self.settings.choice {
            PeriodicChoice::Random => held.keys().copied().collect(),
            PeriodicChoice::Competing => groups.into_values().flatten().collect(),
        };
        if pages.is_empty() {
            return;
        }
        let page = pages[self.draws.below(pages.len() as u64) as usize];
        if self.settings.choice == PeriodicChoice::Random {
            excluded = vec![held[&page]];
        }
        if let Some(color) = self.targets.choose(self.colors.count, &excluded, |_| 0) {
            actions.moves.push(PageMove { page, color });
        }
    }
}

impl Policy for Periodic {
    fn rules(&self) -> Rules {
        Rules { watches_tlbs: true, ..Rules::new(1) }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Colors(colors) => self.colors = colors,
            PolicyEvent::Missed { miss, .. } => self.missed(miss, actions),
            PolicyEvent::Left { tlb, entry, .. } => {
                self.held.retain(|&(page, of), _| of != tlb || !entry.pages().contains(&page));
            }
            PolicyEvent::Promoted(block) => self.held.retain(|(page, _), _| !block.pages().contains(page)),
            PolicyEvent::Flushed(pages) => self.held.retain(|(page, _), _| !pages.contains(page)),
            PolicyEvent::Recolored { page, .. } => self.held.retain(|&(held, _), _| held != page),
            _ => {}
        }
    }
}
