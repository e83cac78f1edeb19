//! The choice of blocks after a replay.

use pagewalk_mm::Superpage;
use pagewalk_mm::promotion::{Charges, ChoicesPerReplay, Growth, OfflineSettings};
use pagewalk_units::PageSize;
use rustc_hash::FxHashMap;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;

/// A block that may be chosen.
#[derive(Clone, Debug)]
struct Candidate {
    block: Superpage,
    /// Misses that it would prevent.
    misses: u64,
    /// Its full price, times its number of builds.
    price: u64,
    /// Its misses in the sample, and how many of them no chosen block prevents.
    sampled: Vec<u32>,
    left: u32,
}

/// A candidate ranked by its last known worth.
#[derive(Clone, Copy, PartialEq)]
struct RankedCandidate {
    misses_per_cycle: f64,
    block: Superpage,
    candidate: usize,
}

impl Eq for RankedCandidate {}

impl Ord for RankedCandidate {
    /// By misses per cycle, then the smallest, then the lowest.
    fn cmp(&self, other: &RankedCandidate) -> Ordering {
        let place = |worth: &RankedCandidate| Reverse((worth.block.order, worth.block.first));
        let by_worth = self.misses_per_cycle.total_cmp(&other.misses_per_cycle);
        by_worth.then_with(|| place(self).cmp(&place(other)))
    }
}

impl PartialOrd for RankedCandidate {
    fn partial_cmp(&self, other: &RankedCandidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The blocks chosen so far, and the candidates.
pub(super) struct Choice<'a> {
    settings: &'a OfflineSettings,
    base: PageSize,
    charges: &'a Charges,
    candidates: Vec<Candidate>,
    by_block: FxHashMap<Superpage, usize>,
    /// The candidates charged for each sampled miss; empty once a chosen block prevents it.
    sample: Vec<Vec<usize>>,
    /// Blocks in force in the replay. Blocks inside others are built where the outer ones do not fit.
    chosen: BTreeSet<Superpage>,
    /// The new choices, by first page. They do not overlap.
    new: BTreeMap<u64, Superpage>,
}

impl<'a> Choice<'a> {
    /// Prepares the choice after a replay with `blocks` in force that gave `charges`.
    pub fn new(
        settings: &'a OfflineSettings,
        base: PageSize,
        orders: u32,
        blocks: &[Superpage],
        charges: &'a Charges,
    ) -> Choice<'a> {
        let mut choice = Choice {
            settings,
            base,
            charges,
            candidates: Vec::new(),
            by_block: FxHashMap::default(),
            sample: Vec::new(),
            chosen: blocks.iter().copied().collect(),
            new: BTreeMap::new(),
        };
        charges.each(|block, charge| {
            let price = choice.price(block, charge.builds);
            let misses = charge.prefetch + charge.capacity;
            if orders >> block.order & 1 == 1 && !choice.chosen.contains(&block) {
                choice.by_block.insert(block, choice.candidates.len());
                choice.candidates.push(Candidate { block, misses, price, sampled: Vec::new(), left: 0 });
            }
        });
        for (miss, blocks) in (0..).zip(charges.sample()) {
            let charged: Vec<usize> =
                blocks.iter().filter_map(|block| choice.by_block.get(block).copied()).collect();
            for &candidate in &charged {
                choice.candidates[candidate].sampled.push(miss);
                choice.candidates[candidate].left += 1;
            }
            choice.sample.push(charged);
        }
        choice
    }

    /// Chooses. Returns all chosen blocks, in order, and the number of new ones.
    pub fn made(mut self) -> (Vec<Superpage>, usize) {
        let mut heap: BinaryHeap<RankedCandidate> =
            (0..self.candidates.len()).filter_map(|at| self.worth(at)).collect();
        let mut least = None;
        while let Some(top) = heap.pop() {
            // Blocks chosen since may prevent some of its misses.
            let Some(now) = self.worth(top.candidate) else { continue };
            if now.misses_per_cycle < top.misses_per_cycle {
                heap.push(now);
                continue;
            }
            let least = *least.get_or_insert(match self.settings.take {
                ChoicesPerReplay::One => f64::INFINITY,
                ChoicesPerReplay::Share(share) => now.misses_per_cycle * share,
            });
            if !self.new.is_empty() && now.misses_per_cycle < least {
                break;
            }
            self.choose(now.candidate);
        }
        let new = self.new.len();
        self.chosen.extend(self.new.into_values());
        (self.chosen.into_iter().collect(), new)
    }

    /// Cycles of `builds` builds of a block.
    fn price(&self, block: Superpage, builds: u32) -> u64 {
        let kib = block.len() << self.base.shift() >> 10;
        self.settings.costs.copy_per_kib.saturating_mul(kib).saturating_mul(builds.into())
    }

    fn overlaps_new(&self, block: Superpage) -> bool {
        let around = self.new.range(..=block.first).next_back();
        let inside = self.new.range(block.pages()).next();
        around.is_some_and(|(_, other)| other.holds(block)) || inside.is_some()
    }

    /// The present worth of a candidate; `None` if below its cost or if it overlaps a new choice. Near a new choice
    /// misses change in ways that charges do not show, because it makes room in the TLB.
    fn worth(&self, candidate: usize) -> Option<RankedCandidate> {
        let of = &self.candidates[candidate];
        if self.overlaps_new(of.block) {
            return None;
        }
        // Blocks inside it are not built once it is.
        let first = |page: u64| Superpage { first: page, order: 0 };
        let Range { start, end } = of.block.pages();
        let inside = self.chosen.range(first(start)..first(end)).filter(|other| of.block.holds(**other));
        let saved = match self.settings.growth {
            Growth::Difference => {
                let built = |other: &Superpage| self.charges.built_within(*other, of.block.order);
                inside.map(|other| self.price(*other, built(other))).sum()
            }
            Growth::Full => 0,
        };
        let cost = of.price.saturating_sub(saved);
        // A candidate outside the sample has few misses, and no known block shares them.
        let share = if of.sampled.is_empty() { 1.0 } else { f64::from(of.left) / of.sampled.len() as f64 };
        let misses = of.misses as f64 * share;
        let pays = misses * self.settings.miss_cycles as f64 > cost as f64;
        let misses_per_cycle = misses / cost.max(1) as f64;
        pays.then_some(RankedCandidate { misses_per_cycle, block: of.block, candidate })
    }

    fn choose(&mut self, candidate: usize) {
        let block = self.candidates[candidate].block;
        self.new.insert(block.first, block);
        for miss in std::mem::take(&mut self.candidates[candidate].sampled) {
            for other in std::mem::take(&mut self.sample[miss as usize]) {
                self.candidates[other].left -= 1;
            }
        }
    }
}
