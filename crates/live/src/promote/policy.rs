//! When a part of a process's memory is brought onto a huge page: APPROX-ONLINE for one size, on misses that were
//! sampled while the process ran (Romer 1998, sections 3.3.3 and 3.4.3). No clock, no kernel, no files: times and
//! findings come in, decisions go out.
//!
//! A part is charged with the misses that a huge page would have prevented, and is due when they have cost a share of
//! what its promotion costs. In the source a miss is charged if a neighbour of its page was in the TLB. What a real TLB
//! holds cannot be seen, so that is estimated: of `entries` entries each part holds its share of all misses, and the
//! chance that it holds at least one is `1 - exp(-entries * share)`.

#[cfg(test)]
mod tests;

use crate::pages::HUGE_BYTES;
use std::collections::BTreeMap;

/// Base pages of a part.
pub const PART_PAGES: u32 = (HUGE_BYTES / 4096) as u32;
/// A part with fewer resident pages is left alone: half of it, as in the source's ASAP-4-64.
pub const PAGES_LEAST: u32 = PART_PAGES / 2;
/// The share of break-even that is asked, as in the source.
pub const FACTOR: f64 = 0.125;
/// So often a part is promoted at most: one that is split each time only costs copies, as those that oscillate in
/// section 6.6.1.
pub const PROMOTIONS_MAX: u32 = 3;
/// So often a promotion of a part may fail for reasons that may pass.
pub const FAILURES_MAX: u32 = 3;

/// What misses and promotions cost on this host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Nanoseconds that a walk takes longer for a small page than for a huge one, where as many as the host can have
    /// are on their way at once: what decides, as it is the least.
    pub walk: f64,
    /// The same where each walk waits for the one before.
    pub walk_alone: f64,
    /// Nanoseconds of processor time for bringing a part onto a huge page.
    pub collapse: f64,
    /// Between what a walk may take: the two prices themselves, and beyond them where one was not measured.
    pub bounds: [f64; 2],
}

/// What a policy keeps to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The share of break-even that is asked: [`FACTOR`], if nothing speaks for another.
    pub factor: f64,
    /// Bytes that promotions may make resident and were not.
    pub budget_bytes: u64,
    /// Entries for base pages of the TLB's last level.
    pub entries: u32,
}

/// A part as the page map shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionView {
    /// Its address, a multiple of 2 MiB.
    pub start: u64,
    /// Base pages that it has.
    pub resident_pages: u32,
    /// Whether a huge page maps it.
    pub huge: bool,
}

/// What sampling found of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionMisses {
    /// The part.
    pub start: u64,
    /// Misses in a second of the process's processor time, by all its pages: at least so many.
    pub misses_per_second: f64,
    /// Which pages were seen to miss.
    pub seen: MissedPages,
    /// Whether more could not have been seen.
    pub saturated: bool,
}

/// Pages that were seen to miss. A part is promoted only if there were two: a single page needs its entry in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissedPages {
    /// These addresses.
    Pages(Vec<u64>),
    /// More than one, whichever they were.
    Several,
}

/// What became of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is sampled.
    Watched,
    /// It was on a huge page when it was first seen.
    HugeBefore,
    /// It was promoted here.
    Promoted,
    /// It would have been promoted.
    WouldPromote,
    /// It is no longer tried.
    Left(String),
}

/// All that is known of a part.
#[derive(Clone, Debug)]
pub struct RegionState {
    /// As it was seen last.
    pub view: RegionView,
    /// Misses, estimated, that a huge page would have prevented, since it was last on one.
    pub charges: f64,
    /// Misses in a second of processor time, when it was sampled last; none before.
    pub misses_per_second: Option<f64>,
    /// Whether that is all that could have been seen.
    pub saturated: bool,
    /// What became of it.
    pub fate: Fate,
    /// How often it was promoted.
    pub promotions: u32,
    /// Misses, modelled, that it would have had since: as many as when it was sampled last.
    pub saved: f64,
    /// Why the last promotion of it failed.
    pub last_failure: Option<String>,
    failures: u32,
    charged_until: f64,
    seen_until: f64,
    first_seen: Option<u64>,
    several: bool,
}

/// A part that is to be promoted now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DuePromotion {
    /// Which.
    pub start: u64,
    /// Its charges.
    pub charges: f64,
    /// Its pages.
    pub resident_pages: u32,
    /// Bytes that become resident.
    pub added_bytes: u64,
}

/// The parts of a process, and what is decided of them. Times are seconds of the process's processor time.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What it decides by. A collapse's price follows those that were made.
    pub prices: Prices,
    limits: Limits,
    parts: BTreeMap<u64, RegionState>,
    /// Misses that parts would have had which are gone.
    saved_before: f64,
    /// Bytes that became resident by promotions.
    pub added_bytes: u64,
    /// Promotions.
    pub promotions: u64,
    /// Promoted parts that were found on small pages again, or partly gone.
    pub splits: u64,
}

impl Policy {
    /// Knows no part.
    pub fn new(prices: Prices, limits: Limits) -> Policy {
        Policy {
            prices,
            limits,
            parts: BTreeMap::new(),
            saved_before: 0.0,
            added_bytes: 0,
            promotions: 0,
            splits: 0,
        }
    }

    /// All parts, by address.
    pub fn parts(&self) -> impl Iterator<Item = &RegionState> {
        self.parts.values()
    }

    /// Parts that are to be sampled, by address.
    pub fn watched(&self) -> impl Iterator<Item = &RegionState> {
        self.parts().filter(|part| part.fate == Fate::Watched && part.view.resident_pages >= PAGES_LEAST)
    }

    /// Takes in how the memory looks; returns promoted parts that are on small pages again.
    pub fn look(&mut self, now: f64, views: &[RegionView]) -> Vec<u64> {
        let mut before = std::mem::take(&mut self.parts);
        let mut split = Vec::new();
        for &view in views {
            let mut part = before.remove(&view.start).unwrap_or_else(|| RegionState::new(view, now));
            if part.look(now, view) {
                split.push(view.start);
            }
            self.parts.insert(view.start, part);
        }
        self.splits += split.len() as u64;
        self.saved_before += before.values().map(|gone| gone.saved).sum::<f64>();
        split
    }

    /// Charges parts with what was found; the findings stand for all time since the same parts' last.
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

    /// Misses in a second of processor time by all watched parts, as those show that were sampled.
    pub fn misses_per_second(&self) -> f64 {
        let rates: Vec<f64> = self.watched().filter_map(|part| part.misses_per_second).collect();
        if rates.is_empty() {
            return 0.0;
        }
        rates.iter().sum::<f64>() / rates.len() as f64 * self.watched().count() as f64
    }

    /// Charges for which a part is promoted that was promoted `promotions` times before: each time it is split, the
    /// next costs twice as much.
    pub fn threshold(&self, promotions: u32) -> f64 {
        self.limits.factor * self.prices.collapse / self.prices.walk * f64::from(1 << promotions.min(30))
    }

    /// The part with most charges that has enough of them and fits under the budget.
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

    /// Parts that have paid for themselves and do not fit under the budget.
    pub fn over_budget(&self) -> usize {
        let room = self.limits.budget_bytes.saturating_sub(self.added_bytes);
        let paid = |part: &&RegionState| part.several && part.charges >= self.threshold(part.promotions);
        let added = |part: &RegionState| HUGE_BYTES - u64::from(part.view.resident_pages) * 4096;
        self.watched().filter(paid).filter(|part| added(part) > room).count()
    }

    /// A part was promoted, for so many nanoseconds of processor time.
    pub fn promoted(&mut self, now: f64, due: DuePromotion, nanoseconds: f64) {
        // What it costs here and now counts more with each.
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

    /// A part would have been promoted.
    pub fn would_promote(&mut self, now: f64, due: DuePromotion) {
        self.added_bytes += due.added_bytes;
        self.promotions += 1;
        if let Some(part) = self.parts.get_mut(&due.start) {
            part.restart(now, Fate::WouldPromote);
        }
    }

    /// A promotion failed. `may_pass` if it is worth another try; returns whether there will be one.
    pub fn failed(&mut self, now: f64, start: u64, reason: String, may_pass: bool) -> bool {
        let Some(part) = self.parts.get_mut(&start) else { return false };
        part.failures += 1;
        part.last_failure = Some(reason.clone());
        let again = may_pass && part.failures < FAILURES_MAX;
        let fate = if again { Fate::Watched } else { Fate::Left(reason) };
        part.restart(now, fate);
        again
    }

    /// It is over: what is promoted is taken to have stayed so until now.
    pub fn end(&mut self, now: f64) {
        for part in self.parts.values_mut().filter(|part| part.fate == Fate::Promoted) {
            let view = part.view;
            part.look(now, view);
        }
    }

    /// Misses that promoted parts would have had since, modelled.
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

    /// Whether it was promoted and is no longer.
    fn look(&mut self, now: f64, view: RegionView) -> bool {
        self.view = view;
        if view.resident_pages < PAGES_LEAST {
            // It is not sampled: what is found later says nothing of this time.
            self.charged_until = now;
        }
        let passed = std::mem::replace(&mut self.seen_until, now);
        let is_split = self.fate == Fate::Promoted && !view.huge;
        match self.fate {
            // When it was split is not known: what passed since the last look is not counted.
            Fate::Promoted if !is_split => {
                self.saved += self.misses_per_second.unwrap_or(0.0) * (now - passed);
            }
            Fate::Promoted if self.promotions >= PROMOTIONS_MAX => self
                .restart(now, Fate::Left(format!("it was split after each of {PROMOTIONS_MAX} promotions"))),
            Fate::Promoted => self.restart(now, Fate::Watched),
            Fate::HugeBefore if !view.huge => self.restart(now, Fate::Watched),
            // The kernel was there first.
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

    /// Charges begin again at nothing.
    fn restart(&mut self, now: f64, fate: Fate) {
        self.fate = fate;
        self.charges = 0.0;
        (self.charged_until, self.seen_until) = (now, now);
        (self.first_seen, self.several) = (None, false);
    }
}
