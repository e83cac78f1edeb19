//! Promotes the regions with most walks, under a budget (Manocha et al. 2023, "Architectural Support for Optimizing
//! Huge Page Selection Within the OS", MICRO 2023: the promotion candidate cache).
//!
//! A small cache beside the page walker counts walks by region, for regions on base pages. It holds a fixed number of
//! regions; a new one replaces the region with the fewest walks, of several the oldest. Periodically the kernel reads
//! it and promotes the regions with the most walks, of several the lowest, within the budget: a share of the touched
//! memory.
//!
//! The source's abstract names the parts, and a budget of 4 % of the footprint, which reaches three quarters of the
//! possible gain. All sizes and times here are chosen, as settings.
//!
//! Modelled: counting, ranking, the budget. Not modelled: the cost of the cache itself, which is hardware, and
//! sharing of the budget among processes.

use super::khugepaged::is_collapsible;
use super::setting::{SettingError, Settings};
use super::{Actions, Policy, PolicyEvent, Rules, View, may_be_huge};
use crate::{Superpage, Vma};

/// Settings of the cache and of promotion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CandidatesSettings {
    /// Order of a huge page: 9 for 2 MiB of 4 KiB.
    pub order: u8,
    /// Regions that the cache holds: 128, chosen.
    pub entries: u64,
    /// Largest count of walks. When a counter reaches it, all halve: 255, chosen.
    pub most_walks: u64,
    /// Largest share of the touched memory on huge pages: 0.04, the source's.
    pub budget: f64,
    /// Time between promotions: 100 milliseconds, chosen.
    pub promote_sleep_millisecs: u64,
    /// Most regions promoted at a time: 16, chosen.
    pub regions_at_once: u64,
    /// Instructions that the program executes in a millisecond: 1,000,000, chosen.
    pub instructions_per_millisecond: u64,
    /// Cycles to read an entry: 10, chosen.
    pub cycles_per_entry: u64,
}

impl CandidatesSettings {
    /// The defaults for huge pages of this order.
    pub fn new(order: u8) -> CandidatesSettings {
        CandidatesSettings {
            order,
            entries: 128,
            most_walks: 255,
            budget: 0.04,
            promote_sleep_millisecs: 100,
            regions_at_once: 16,
            instructions_per_millisecond: 1_000_000,
            cycles_per_entry: 10,
        }
    }

    fn check(&self) -> Result<(), SettingError> {
        let settings = Settings("candidates");
        settings.order(self.order)?;
        settings.within("entries", self.entries, 1..=1 << 20)?;
        settings.within("most_walks", self.most_walks, 1..=u64::MAX)?;
        settings.within("budget", self.budget, 0.0..=1.0)?;
        settings.within("promote_sleep_millisecs", self.promote_sleep_millisecs, 1..=u64::MAX)?;
        settings.within("regions_at_once", self.regions_at_once, 1..=u64::MAX)?;
        settings.clock(self.instructions_per_millisecond)
    }

    fn sleep(&self) -> u64 {
        self.instructions_per_millisecond.saturating_mul(self.promote_sleep_millisecs)
    }
}

/// A region and the walks to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    region: u64,
    walks: u64,
}

/// The cache, in order of insertion.
#[derive(Clone, Debug)]
struct Cache {
    candidates: Vec<Candidate>,
    entries: usize,
    most_walks: u64,
}

impl Cache {
    fn walked(&mut self, region: u64) {
        if let Some(candidate) = self.candidates.iter_mut().find(|candidate| candidate.region == region) {
            candidate.walks += 1;
            if candidate.walks >= self.most_walks {
                self.candidates.iter_mut().for_each(|candidate| candidate.walks /= 2);
            }
            return;
        }
        if self.candidates.len() == self.entries {
            let fewest = (0..self.entries).min_by_key(|&at| self.candidates[at].walks);
            self.candidates.remove(fewest.expect("there is an entry"));
        }
        self.candidates.push(Candidate { region, walks: 1 });
    }

    fn forget(&mut self, region: u64) {
        self.candidates.retain(|candidate| candidate.region != region);
    }

    /// All regions, most walks first.
    fn ranked(&self) -> Vec<u64> {
        let mut ranked = self.candidates.clone();
        ranked.sort_unstable_by_key(|candidate| (std::cmp::Reverse(candidate.walks), candidate.region));
        ranked.into_iter().map(|candidate| candidate.region).collect()
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Candidates {
    settings: CandidatesSettings,
    cache: Cache,
    next: u64,
    /// Base pages on huge pages.
    spent: u64,
}

impl Candidates {
    /// A policy with these settings.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(settings: CandidatesSettings) -> Result<Candidates, SettingError> {
        settings.check()?;
        let cache = Cache {
            candidates: Vec::new(),
            entries: settings.entries as usize,
            most_walks: settings.most_walks,
        };
        Ok(Candidates { settings, cache, next: settings.sleep(), spent: 0 })
    }

    /// The rest of the budget, in base pages.
    fn unspent(&self, view: &View<'_>) -> u64 {
        ((self.settings.budget * view.table.touched() as f64) as u64).saturating_sub(self.spent)
    }
}

impl Policy for Candidates {
    fn rules(&self) -> Rules {
        let instructions_per_millisecond = self.settings.instructions_per_millisecond;
        Rules { instructions_per_millisecond, ..Rules::new(1 << self.settings.order).to_base_pages() }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        let order = self.settings.order;
        match event {
            PolicyEvent::Walked(unit) if unit.order < order => self.cache.walked(unit.first >> order),
            PolicyEvent::Wake { now, view } => self.look(now, view, actions),
            PolicyEvent::Promoted(block) => {
                self.spent += block.len();
                self.cache.forget(block.number());
            }
            PolicyEvent::Demoted(block) if block.order == order => {
                self.spent = self.spent.saturating_sub(block.len());
            }
            _ => {}
        }
    }

    fn takes(&self, area: &Vma) -> bool {
        may_be_huge(area)
    }

    fn wakes(&self) -> Option<u64> {
        Some(self.next)
    }
}

impl Candidates {
    fn look(&mut self, now: u64, view: &View<'_>, actions: &mut Actions) {
        self.next = now.saturating_add(self.settings.sleep());
        let ranked = self.cache.ranked();
        actions.cycles += ranked.len() as u64 * self.settings.cycles_per_entry;
        let order = self.settings.order;
        let affordable = (self.unspent(view) >> order).min(self.settings.regions_at_once) as usize;
        let blocks = ranked.into_iter().map(|region| Superpage { first: region << order, order });
        let fits = |block: &Superpage| {
            view.area_of(*block).is_some_and(|area| self.takes(area)) && is_collapsible(*block, view)
        };
        blocks.filter(fits).take(affordable).for_each(|block| actions.promote(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The slow twin: remembers every walk.
    fn slowly(walks: &[u64], entries: usize, most: u64) -> Vec<u64> {
        let mut held: Vec<u64> = Vec::new();
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for region in walks {
            if !held.contains(region) {
                if held.len() == entries {
                    let fewest = held.iter().map(|held| counts[held]).min().expect("it is full");
                    let at = held.iter().position(|held| counts[held] == fewest).expect("one has the fewest");
                    counts.remove(&held.remove(at));
                }
                held.push(*region);
            }
            let count = counts.entry(*region).or_default();
            *count += 1;
            if *count >= most && *count > 1 {
                counts.values_mut().for_each(|count| *count /= 2);
            }
        }
        let mut ranked = held;
        ranked.sort_by(|a, b| counts[b].cmp(&counts[a]).then(a.cmp(b)));
        ranked
    }

    #[test]
    fn the_cache_ranks_as_one_that_remembers_every_walk() {
        let mut state = 88_172_645_463_325_252_u64;
        for round in 0..400 {
            let mut walks = Vec::new();
            for _ in 0..300 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                walks.push(state % 7 * (state >> 40 & 3));
            }
            let (entries, most_walks) = (1 + round % 9, 2 + round as u64 % 11);
            let mut cache = Cache { candidates: Vec::new(), entries, most_walks };
            walks.iter().for_each(|&region| cache.walked(region));
            assert_eq!(cache.ranked(), slowly(&walks, entries, most_walks), "{entries} {most_walks}");
        }
    }
}
