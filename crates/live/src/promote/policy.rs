//! Decides when to promote a region: APPROX-ONLINE for one size, on misses sampled while the process runs (Romer 1998,
//! sections 3.3.3 and 3.4.3). No clock, no kernel, no files: times and findings come in, decisions go out.
//!
//! A region is charged with the misses that a huge page would have prevented, and is due when they have cost a share of
//! its promotion. In the source a miss is charged if a neighbour of its page was in the TLB. A real TLB's contents
//! cannot be seen, so they are estimated: each region holds its share of the `entries` entries, in proportion to its
//! misses, and the chance that it holds at least one is `1 - exp(-entries * share)`.

#[cfg(test)]
mod tests;

use crate::pages::HUGE_BYTES;
use std::collections::BTreeMap;

/// Base pages of a region.
pub const PART_PAGES: u32 = (HUGE_BYTES / 4096) as u32;
/// A region with fewer resident pages is left alone: half of it, as in the source's ASAP-4-64.
pub const PAGES_LEAST: u32 = PART_PAGES / 2;
/// The share of break-even, as in the source.
pub const FACTOR: f64 = 0.125;
/// Most promotions of a region: one that is split each time only costs copies, like those that oscillate in section
/// 6.6.1.
pub const PROMOTIONS_MAX: u32 = 3;
/// Most failures of a region's promotion for reasons that may pass.
pub const FAILURES_MAX: u32 = 3;

/// The costs of misses and promotions on this host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromotionCosts {
    /// Nanoseconds by which a walk for a small page exceeds one for a huge page, with as many walks in flight as the
    /// host can have. The policy decides by this, the lowest price.
    pub walk: f64,
    /// The same if each walk waits for the one before.
    pub walk_alone: f64,
    /// Nanoseconds of processor time to promote a region.
    pub collapse: f64,
    /// Bounds of a walk's price: the two prices, or wider if one was not measured.
    pub bounds: [f64; 2],
}

/// The limits of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyLimits {
    /// The share of break-even: normally [`FACTOR`].
    pub factor: f64,
    /// Bytes that promotions may newly make resident.
    pub budget_bytes: u64,
    /// Entries for base pages in the TLB's last level.
    pub entries: u32,
}

/// A region in the page map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionView {
    /// Its address, a multiple of 2 MiB.
    pub start: u64,
    /// Its resident base pages.
    pub resident_pages: u32,
    /// Whether a huge page maps it.
    pub huge: bool,
}

/// Sampled misses of a region.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionMisses {
    /// The region's address.
    pub start: u64,
    /// At least this many misses per second of processor time, over all its pages.
    pub misses_per_second: f64,
    /// The pages seen to miss.
    pub seen: MissedPages,
    /// Whether sampling saturated.
    pub saturated: bool,
}

/// Pages seen to miss. A region is promoted only with two or more: a single page needs its TLB entry in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissedPages {
    /// These addresses.
    Pages(Vec<u64>),
    /// More than one, unknown which.
    Several,
}

/// The state of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is sampled.
    Watched,
    /// On a huge page when first seen.
    HugeBefore,
    /// Promoted by us.
    Promoted,
    /// A dry run would have promoted it.
    WouldPromote,
    /// No longer tried, and why.
    Left(String),
}

/// A region's history.
#[derive(Clone, Debug)]
pub struct RegionState {
    /// As last seen.
    pub view: RegionView,
    /// Estimated misses that a huge page would have prevented since it was last on one.
    pub charges: f64,
    /// Misses per second of processor time at the last sample; none before.
    pub misses_per_second: Option<f64>,
    /// Whether that sample saturated.
    pub saturated: bool,
    /// Its state.
    pub fate: Fate,
    /// Its promotions.
    pub promotions: u32,
    /// Modelled misses avoided since its promotion, at the last sampled rate.
    pub saved: f64,
    /// Why its last promotion failed.
    pub last_failure: Option<String>,
    failures: u32,
    charged_until: f64,
    seen_until: f64,
    first_seen: Option<u64>,
    several: bool,
}

/// A region to promote now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DuePromotion {
    /// Its address.
    pub start: u64,
    /// Its charges.
    pub charges: f64,
    /// Its resident pages.
    pub resident_pages: u32,
    /// Bytes that become resident.
    pub added_bytes: u64,
}

/// The regions of a process, and the decisions about them. Times are seconds of the process's processor time.
#[derive(Clone, Debug)]
pub struct PromotionPolicy {
    /// The prices. A collapse's price follows the measured ones.
    pub prices: PromotionCosts,
    limits: PolicyLimits,
    parts: BTreeMap<u64, RegionState>,
    /// Avoided misses of regions that are gone.
    saved_before: f64,
    /// Bytes that promotions made resident.
    pub added_bytes: u64,
    /// Promotions.
    pub promotions: u64,
    /// Promoted regions found on small pages again, or partly gone.
    pub splits: u64,
}

impl PromotionPolicy {
    /// A policy without regions.
    pub fn new(prices: PromotionCosts, limits: PolicyLimits) -> PromotionPolicy {
        PromotionPolicy {
            prices,
            limits,
            parts: BTreeMap::new(),
            saved_before: 0.0,
            added_bytes: 0,
            promotions: 0,
            splits: 0,
        }
    }

    /// All regions, by address.
    pub fn parts(&self) -> impl Iterator<Item = &RegionState> {
        self.parts.values()
    }

    /// Regions to sample, by address.
    pub fn watched(&self) -> impl Iterator<Item = &RegionState> {
        self.parts().filter(|part| part.fate == Fate::Watched && part.view.resident_pages >= PAGES_LEAST)
    }

    /// Updates the regions from the page map; returns promoted regions that are on small pages again.
    pub fn update(&mut self, now: f64, views: &[RegionView]) -> Vec<u64> {
        let mut before = std::mem::take(&mut self.parts);
        let mut split = Vec::new();
        for &view in views {
            let mut part = before.remove(&view.start).unwrap_or_else(|| RegionState::new(view, now));
            if part.update(now, view) {
                split.push(view.start);
            }
            self.parts.insert(view.start, part);
        }
        self.splits += split.len() as u64;
        self.saved_before += before.values().map(|gone| gone.saved).sum::<f64>();
        split
    }

    /// Charges regions with sampled misses, which stand for the whole time since a region's last sample.
    pub fn charge(&mut self, now: f64, found: &[RegionMisses]) {
        for found in found {
            if let Some(part) = self.parts.get_mut(&found.start) {
                part.take(found);
            }
        }
        let all = self.misses_per_second();
        for found in found {
            let Some(part) = self.parts.get_mut(&found.start) else { continue };
            let held = f64::from(self.limits.entries) * found.misses_per_second / all;
            // Without misses there is nothing to divide.
            let neighbour = if all > 0.0 { 1.0 - (-held).exp() } else { 0.0 };
            part.charges += found.misses_per_second * (now - part.charged_until).max(0.0) * neighbour;
            part.charged_until = now;
        }
    }

    /// Misses per second of processor time over all watched regions, at their last samples.
    pub fn misses_per_second(&self) -> f64 {
        let rates: Vec<f64> = self.watched().filter_map(|part| part.misses_per_second).collect();
        if rates.is_empty() {
            return 0.0;
        }
        rates.iter().sum::<f64>() / rates.len() as f64 * self.watched().count() as f64
    }

    /// Charges at which a region is promoted after `promotions` promotions: each split doubles the price of the next.
    pub fn threshold(&self, promotions: u32) -> f64 {
        self.limits.factor * self.prices.collapse / self.prices.walk * f64::from(1 << promotions.min(30))
    }

    /// The due region with most charges that fits the budget.
    pub fn due(&self) -> Option<DuePromotion> {
        let enough = |part: &&RegionState| part.several && part.charges >= self.threshold(part.promotions);
        let due = |part: &RegionState| DuePromotion {
            start: part.view.start,
            charges: part.charges,
            resident_pages: part.view.resident_pages,
            added_bytes: HUGE_BYTES - u64::from(part.view.resident_pages) * 4096,
        };
        let room = self.limits.budget_bytes.saturating_sub(self.added_bytes);
        let all = self.watched().filter(enough).map(due).filter(|due| due.added_bytes <= room);
        all.max_by(|a, b| a.charges.total_cmp(&b.charges))
    }

    /// Regions that have paid for themselves but do not fit the budget.
    pub fn over_budget(&self) -> usize {
        let room = self.limits.budget_bytes.saturating_sub(self.added_bytes);
        let paid = |part: &&RegionState| part.several && part.charges >= self.threshold(part.promotions);
        let added = |part: &RegionState| HUGE_BYTES - u64::from(part.view.resident_pages) * 4096;
        self.watched().filter(paid).filter(|part| added(part) > room).count()
    }

    /// A region was promoted in this much processor time.
    pub fn promoted(&mut self, now: f64, due: DuePromotion, nanoseconds: f64) {
        // A moving average: recent costs on this host count most.
        self.prices.collapse += (nanoseconds - self.prices.collapse) / 4.0;
        self.added_bytes += due.added_bytes;
        self.promotions += 1;
        if let Some(part) = self.parts.get_mut(&due.start) {
            part.view.huge = true;
            part.view.resident_pages = PART_PAGES;
            part.promotions += 1;
            part.restart(now, Fate::Promoted);
        }
    }

    /// A dry run would have promoted a region.
    pub fn would_promote(&mut self, now: f64, due: DuePromotion) {
        self.added_bytes += due.added_bytes;
        self.promotions += 1;
        if let Some(part) = self.parts.get_mut(&due.start) {
            part.restart(now, Fate::WouldPromote);
        }
    }

    /// A promotion failed. `may_pass`: a retry may work. Returns whether there will be one.
    pub fn failed(&mut self, now: f64, start: u64, reason: String, may_pass: bool) -> bool {
        let Some(part) = self.parts.get_mut(&start) else { return false };
        part.failures += 1;
        part.last_failure = Some(reason.clone());
        let again = may_pass && part.failures < FAILURES_MAX;
        let fate = if again { Fate::Watched } else { Fate::Left(reason) };
        part.restart(now, fate);
        again
    }

    /// The run ends: promoted regions are assumed to have stayed promoted.
    pub fn end(&mut self, now: f64) {
        for part in self.parts.values_mut().filter(|part| part.fate == Fate::Promoted) {
            let view = part.view;
            part.update(now, view);
        }
    }

    /// Modelled misses avoided by promotions.
    pub fn saved(&self) -> f64 {
        self.saved_before + self.parts().map(|part| part.saved).sum::<f64>()
    }
}

impl RegionState {
    fn new(view: RegionView, now: f64) -> RegionState {
        RegionState {
            view,
            charges: 0.0,
            misses_per_second: None,
            saturated: false,
            fate: if view.huge { Fate::HugeBefore } else { Fate::Watched },
            promotions: 0,
            saved: 0.0,
            last_failure: None,
            failures: 0,
            charged_until: now,
            seen_until: now,
            first_seen: None,
            several: false,
        }
    }

    /// Whether it was promoted and no longer is.
    fn update(&mut self, now: f64, view: RegionView) -> bool {
        self.view = view;
        if view.resident_pages < PAGES_LEAST {
            // It is not sampled: later samples say nothing about this time.
            self.charged_until = now;
        }
        let passed = std::mem::replace(&mut self.seen_until, now);
        let is_split = self.fate == Fate::Promoted && !view.huge;
        match self.fate {
            // The time of a split is unknown: time since the last look does not count.
            Fate::Promoted if !is_split => {
                self.saved += self.misses_per_second.unwrap_or(0.0) * (now - passed);
            }
            Fate::Promoted if self.promotions >= PROMOTIONS_MAX => self
                .restart(now, Fate::Left(format!("it was split after each of {PROMOTIONS_MAX} promotions"))),
            Fate::Promoted => self.restart(now, Fate::Watched),
            Fate::HugeBefore if !view.huge => self.restart(now, Fate::Watched),
            // The kernel promoted it first.
            Fate::Watched if view.huge => self.restart(now, Fate::HugeBefore),
            _ => {}
        }
        is_split
    }

    fn take(&mut self, found: &RegionMisses) {
        self.misses_per_second = Some(found.misses_per_second);
        self.saturated = found.saturated;
        match &found.seen {
            MissedPages::Several => self.several = true,
            MissedPages::Pages(pages) => {
                for &page in pages {
                    self.several |= *self.first_seen.get_or_insert(page) != page;
                }
            }
        }
    }

    /// Resets the charges.
    fn restart(&mut self, now: f64, fate: Fate) {
        self.fate = fate;
        self.charges = 0.0;
        (self.charged_until, self.seen_until) = (now, now);
        (self.first_seen, self.several) = (None, false);
    }
}
