//! The choice of blocks after a replay.

use super::{ChargesByProcess, ChosenBlock};
use pagewalk_mm::Superpage;
use pagewalk_mm::promotion::{ChoicesPerReplay, Growth, OfflineSettings};
use pagewalk_translate::Asid;
use pagewalk_units::PageSize;
use rustc_hash::FxHashMap;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;

/// A block that may be chosen.
#[derive(Clone, Debug)]
struct Candidate {
    of: ChosenBlock,
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
    of: ChosenBlock,
    candidate: usize,
}

impl Eq for RankedCandidate {}

impl Ord for RankedCandidate {
    /// By misses per cycle, then the smallest, then the lowest of the first process.
    fn cmp(&self, other: &RankedCandidate) -> Ordering {
        let place = |worth: &RankedCandidate| Reverse((worth.of.block.order, worth.of));
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
    charges: &'a ChargesByProcess<'a>,
    candidates: Vec<Candidate>,
    by_block: FxHashMap<ChosenBlock, usize>,
    /// The candidates charged for each sampled miss; empty once a chosen block prevents it.
    sample: Vec<Vec<usize>>,
    /// Blocks in force in the replay. Blocks inside others are built where the outer ones do not fit.
    chosen: BTreeSet<ChosenBlock>,
    /// The new choices, by process and first page. They do not overlap.
    new: BTreeMap<(Asid, u64), Superpage>,
}

impl<'a> Choice<'a> {
    /// Prepares the choice after a replay with `blocks` in force that gave `charges`.
    pub fn new(
        settings: &'a OfflineSettings,
        base: PageSize,
        orders: u32,
        blocks: &[ChosenBlock],
        charges: &'a ChargesByProcess<'a>,
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
        for (&process, charges) in charges {
            charges.each(|block, charge| {
                let of = ChosenBlock { process, block };
                let price = choice.price(block, charge.builds);
                let misses = charge.prefetch + charge.capacity;
                if orders >> block.order & 1 == 1 && !choice.chosen.contains(&of) {
                    choice.by_block.insert(of, choice.candidates.len());
                    choice.candidates.push(Candidate { of, misses, price, sampled: Vec::new(), left: 0 });
                }
            });
            charges.sample().for_each(|blocks| choice.note_miss(process, blocks));
        }
        choice
    }

    /// Adds a miss to the sample, with the blocks that it is charged to.
    fn note_miss(&mut self, process: Asid, blocks: &[Superpage]) {
        let miss = self.sample.len() as u32;
        let candidate = |&block| self.by_block.get(&ChosenBlock { process, block }).copied();
        let charged: Vec<usize> = blocks.iter().filter_map(candidate).collect();
        for &candidate in &charged {
            self.candidates[candidate].sampled.push(miss);
            self.candidates[candidate].left += 1;
        }
        self.sample.push(charged);
    }

    /// Chooses. Returns all chosen blocks, in order, and the number of new ones.
    pub fn made(mut self) -> (Vec<ChosenBlock>, usize) {
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
        let new_blocks = self.new.into_iter().map(|((process, _), block)| ChosenBlock { process, block });
        self.chosen.extend(new_blocks);
        (self.chosen.into_iter().collect(), new)
    }

    /// Cycles of `builds` builds of a block.
    fn price(&self, block: Superpage, builds: u32) -> u64 {
        let kib = block.len() << self.base.shift() >> 10;
        self.settings.costs.copy_per_kib.saturating_mul(kib).saturating_mul(builds.into())
    }

    fn overlaps_new(&self, ChosenBlock { process, block }: ChosenBlock) -> bool {
        let around = self.new.range((process, 0)..=(process, block.first)).next_back();
        let inside = self.new.range((process, block.first)..(process, block.pages().end)).next();
        around.is_some_and(|(_, other)| other.holds(block)) || inside.is_some()
    }

    /// The present worth of a candidate; `None` if below its cost or if it overlaps a new choice. Near a new choice
    /// misses change in ways that charges do not show, because it makes room in the TLB.
    fn worth(&self, candidate: usize) -> Option<RankedCandidate> {
        let Candidate { of, misses, price, ref sampled, left } = self.candidates[candidate];
        if self.overlaps_new(of) {
            return None;
        }
        // Blocks inside it are not built once it is.
        let ChosenBlock { process, block } = of;
        let first = |first: u64| ChosenBlock { process, block: Superpage { first, order: 0 } };
        let Range { start, end } = block.pages();
        let inside = self.chosen.range(first(start)..first(end)).map(|other| other.block);
        let saved = match self.settings.growth {
            Growth::Difference => {
                let built = |other| self.charges[&process].built_within(other, block.order);
                let replaced = inside.filter(|&other| block.holds(other));
                replaced.map(|other| self.price(other, built(other))).sum()
            }
            Growth::Full => 0,
        };
        let cost = price.saturating_sub(saved);
        // A candidate outside the sample has few misses, and no known block shares them.
        let share = if sampled.is_empty() { 1.0 } else { f64::from(left) / sampled.len() as f64 };
        let misses = misses as f64 * share;
        let pays = misses * self.settings.miss_cycles as f64 > cost as f64;
        let misses_per_cycle = misses / cost.max(1) as f64;
        pays.then_some(RankedCandidate { misses_per_cycle, of, candidate })
    }

    fn choose(&mut self, candidate: usize) {
        let ChosenBlock { process, block } = self.candidates[candidate].of;
        self.new.insert((process, block.first), block);
        for miss in std::mem::take(&mut self.candidates[candidate].sampled) {
            for other in std::mem::take(&mut self.sample[miss as usize]) {
                self.candidates[other].left -= 1;
            }
        }
    }
}
