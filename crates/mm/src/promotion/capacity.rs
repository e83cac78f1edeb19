//! Capacity charges: misses that a superpage would have prevented by freeing TLB entries (Romer 1998, section 3.3.2).
//!
//! An LRU TLB of T entries holds the T most recently used translations. A translation at depth d > T of that order
//! would still be held if a block had merged k of the translations above it, with k − 1 ≥ d − T. The block need not
//! contain the page that missed.
//!
//! Only misses are visible, so the order of the TLB's entries is unknown, and not needed; departed entries follow in
//! order. If r of a block's k translations are in the TLB, the block is charged if at most r − 2 of the departed
//! translations above the page lie outside it. Going down the stack, blocks drop out; the remaining ones are nested.

use crate::Superpage;
use crate::kernel::tree::{Place, Tree};
use rustc_hash::FxHashMap;

/// Charges of all blocks, and a recency stack for each TLB.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    top: u8,
    charges: Tree<u64>,
    tlbs: Vec<RecencyStack>,
}

impl Capacity {
    /// Charges for superpages up to order `top`.
    pub fn new(top: u8) -> Capacity {
        Capacity { top, charges: Tree::from_order(1, top), tlbs: Vec::new() }
    }

    pub fn watch(&mut self, entries: &[u64]) {
        self.tlbs = entries.iter().map(|&entries| RecencyStack::new(self.top, entries)).collect();
    }

    /// Charges a miss, which needs `entry`, to the `wanted` blocks that would have prevented it, and reports the new
    /// charges of each.
    pub fn charge(
        &mut self,
        tlb: usize,
        entry: Superpage,
        wanted: impl Fn(Superpage) -> bool,
        mut told: impl FnMut(Superpage, u64),
    ) {
        let tlb = &mut self.tlbs[tlb];
        tlb.find_keepers(entry);
        for keeper in tlb.keepers.iter().filter(|keeper| wanted(keeper.block)) {
            let place = match keeper.place {
                Some(place) => place,
                None => self.charges.place(keeper.block),
            };
            let charges = self.charges.at_mut(place);
            *charges += 1;
            told(keeper.block, *charges);
        }
    }

    pub fn of(&self, block: Superpage) -> u64 {
        self.charges.get(block)
    }

    /// The number of counters in use.
    pub fn counters(&self) -> usize {
        self.charges.len()
    }

    pub fn entered(&mut self, tlb: usize, unit: Superpage) {
        let Capacity { charges, tlbs, .. } = self;
        tlbs[tlb].enter(unit, charges);
    }

    /// `lost`: it never comes back.
    pub fn left(&mut self, tlb: usize, unit: Superpage, lost: bool) {
        self.tlbs[tlb].leave(unit);
        self.tlbs[tlb].gone.push(unit);
        if lost {
            self.demoted(unit);
        }
    }

    /// A superpage was built: its parts leave all TLBs and stacks.
    pub fn built(&mut self, block: Superpage) {
        self.tlbs.iter_mut().for_each(|tlb| tlb.drop_parts(block));
    }

    /// A superpage split after it had left all TLBs.
    pub fn demoted(&mut self, block: Superpage) {
        self.tlbs.iter_mut().for_each(|tlb| tlb.gone.drop_around(block));
    }

    /// Resets the charges of blocks that overlap this one.
    pub fn forgive(&mut self, block: Superpage) {
        self.charges.fill_inside(block, 0);
        self.charges.climb(block.first, block.order, |_, charges| {
            *charges = 0;
            true
        });
    }
}

/// The number of a block's translations in a TLB, and the block's index in the list of blocks with two or more.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct BlockCount {
    count: u16,
    /// The index, if `count` is 2 or more.
    at: u16,
}

/// A block with two or more translations in a TLB: only such blocks can be charged.
#[derive(Clone, Copy, Debug)]
struct SharedBlock {
    block: Superpage,
    count: u16,
    place: Place,
}

/// A candidate for a charge.
#[derive(Clone, Copy, Debug)]
struct ChargeCandidate {
    block: Superpage,
    /// The index of its charges, if known.
    place: Option<Place>,
    /// How many more translations outside it may lie above the page.
    slack: i64,
}

/// The recency stack of one TLB.
#[derive(Clone, Debug)]
struct RecencyStack {
    top: u8,
    entries: u64,
    held: Tree<BlockCount>,
    held_in_all: u64,
    crowded: Vec<SharedBlock>,
    gone: DepartedUnits,
    /// The result of the last search, kept to reuse its allocation.
    keepers: Vec<ChargeCandidate>,
}

impl RecencyStack {
    fn new(top: u8, entries: u64) -> RecencyStack {
        RecencyStack {
            top,
            entries,
            held: Tree::new(top),
            held_in_all: 0,
            crowded: Vec::new(),
            // A block merges at most as many entries as it has parts, pages or larger, so nothing deeper is charged.
            // Promotions may raise forgotten entries later, which is ignored.
            gone: DepartedUnits::new((2 << top) + entries as usize),
            keepers: Vec::new(),
        }
    }

    fn enter(&mut self, unit: Superpage, charges: &mut Tree<u64>) {
        let RecencyStack { held, crowded, .. } = self;
        held.climb(unit.first, unit.order, |order, held| {
            held.count += 1;
            let block = Superpage::around(unit.first, order);
            match held.count {
                1 => {}
                2 => {
                    held.at = crowded.len() as u16;
                    crowded.push(SharedBlock { block, count: 2, place: charges.place(block) });
                }
                count => crowded[usize::from(held.at)].count = count,
            }
            true
        });
        self.held_in_all += 1;
        self.gone.remove(unit);
    }

    fn leave(&mut self, unit: Superpage) {
        self.take(unit, 1);
    }

    /// Subtracts `n` translations from `unit` and all blocks around it.
    fn take(&mut self, unit: Superpage, n: u16) {
        let mut no_longer = [0u16; crate::ORDERS];
        let mut ended = 0;
        let crowded = &mut self.crowded;
        self.held.climb(unit.first, unit.order, |_, held| {
            let was = held.count;
            held.count -= n;
            if held.count >= 2 {
                crowded[usize::from(held.at)].count = held.count;
            } else if was >= 2 {
                no_longer[ended] = held.at;
                ended += 1;
            }
            true
        });
        no_longer[..ended].sort_unstable();
        no_longer[..ended].iter().rev().for_each(|&at| self.uncrowd(at));
        self.held_in_all -= u64::from(n);
    }

    fn uncrowd(&mut self, at: u16) {
        self.crowded.swap_remove(usize::from(at));
        if let Some(moved) = self.crowded.get(usize::from(at)) {
            self.held.get_mut(moved.block).at = at;
        }
    }

    fn drop_parts(&mut self, block: Superpage) {
        self.gone.drop_parts(block);
        let held = self.held.get(block).count;
        if held > 0 {
            self.take(block, held);
        }
        for at in (0..self.crowded.len()).rev() {
            if block.holds(self.crowded[at].block) {
                self.uncrowd(at as u16);
            }
        }
        self.held.fill_inside(block, BlockCount::default());
    }

    /// Finds the blocks that, as one page, would have kept `unit` in the TLB.
    fn find_keepers(&mut self, unit: Superpage) {
        let RecencyStack { top, entries, held, held_in_all, crowded, gone, keepers } = self;
        keepers.clear();
        let Some(above) = gone.above(unit) else { return };
        keepers.extend(crowded.iter().map(|of| ChargeCandidate {
            block: of.block,
            place: Some(of.place),
            slack: i64::from(of.count) - 2,
        }));
        let mut above = above.iter().rev().copied();
        // If the TLB has free entries, the last departed units still count among its entries.
        let free = entries.saturating_sub(*held_in_all);
        if free > 0 {
            let near: Vec<Superpage> =
                above.by_ref().filter(|&code| code != NONE).map(decode).take(free as usize).collect();
            if (near.len() as u64) < free {
                keepers.clear();
                return;
            }
            join(keepers, &near, held, *top);
        }
        drop_out(keepers, above, *entries);
    }
}

/// Counts additional translations as held. Goes up by order, as larger blocks are fewer: a map of all blocks would take
/// ten times as long. `keepers` are those of the crowded blocks, in their order.
fn join(keepers: &mut Vec<ChargeCandidate>, near: &[Superpage], held: &Tree<BlockCount>, top: u8) {
    // Blocks of the order below and units that begin here, by address, and how many of the translations each has.
    let mut blocks: Vec<(u64, u16)> = Vec::with_capacity(near.len());
    for order in 1..=top {
        blocks.extend(near.iter().filter(|unit| unit.order.max(1) == order).map(|unit| (unit.first, 1)));
        blocks.iter_mut().for_each(|(first, _)| *first = Superpage::around(*first, order).first);
        // Stable, as that is fast where parts are in order already.
        blocks.sort_by_key(|&(first, _)| first);
        blocks.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        for &(first, more) in &blocks {
            let block = Superpage { first, order };
            let BlockCount { count, at } = held.get(block);
            let slack = i64::from(count + more) - 2;
            if count >= 2 {
                keepers[usize::from(at)].slack = slack;
            } else if slack >= 0 {
                keepers.push(ChargeCandidate { block, place: None, slack });
            }
        }
    }
}

/// Drops candidates with too many translations `above` outside them.
fn drop_out(keepers: &mut Vec<ChargeCandidate>, mut above: impl Iterator<Item = u64>, entries: u64) {
    for _ in 0..=2 * entries {
        if keepers.is_empty() {
            return;
        }
        let Some(code) = above.by_ref().find(|&code| code != NONE) else { return };
        let unit = decode(code);
        keepers.retain_mut(|keeper| {
            keeper.slack -= i64::from(!keeper.block.holds(unit));
            keeper.slack >= 0
        });
    }
    // Each remaining block holds more than half of the same translations, so they are nested.
    keepers.sort_unstable_by_key(|keeper| keeper.block.order);
    debug_assert!(keepers.windows(2).all(|pair| pair[1].block.holds(pair[0].block)));
    drop_out_of_nested(keepers, above);
}

/// Drops nested candidates, many translations at a time.
fn drop_out_of_nested(keepers: &mut Vec<ChargeCandidate>, mut above: impl Iterator<Item = u64>) {
    let Some(inside) = keepers.first().map(|keeper| keeper.block.first) else { return };
    // Number of translations by the order of the smallest block around `inside` that holds them.
    let mut needed = [0i64; 65];
    let gap = encode(Superpage { first: inside, order: 0 });
    let mut ended = false;
    while !ended && !keepers.is_empty() {
        let mut looked_at = 0;
        above.by_ref().take(64).for_each(|code| {
            // A gap counts as held by all blocks.
            let Superpage { first, order } = decode(if code == NONE { gap } else { code });
            needed[(64 - (first ^ inside).leading_zeros() as usize).max(order.into())] += 1;
            looked_at += 1;
        });
        keepers.retain(|keeper| {
            needed[usize::from(keeper.block.order) + 1..].iter().sum::<i64>() <= keeper.slack
        });
        ended = looked_at < 64;
    }
}

/// A gap in the list.
const NONE: u64 = u64::MAX;

fn encode(unit: Superpage) -> u64 {
    unit.first << 8 | u64::from(unit.order)
}

fn decode(code: u64) -> Superpage {
    Superpage { first: code >> 8, order: code as u8 }
}

/// Units that have left a TLB, the latest last, with gaps.
#[derive(Clone, Debug)]
struct DepartedUnits {
    /// The list.
    list: Vec<u64>,
    at: FxHashMap<u64, u32>,
    /// Most units remembered.
    most: usize,
    /// The index of the oldest unit: only gaps lie before it.
    oldest: usize,
    /// The orders of all units so far, one bit each.
    orders: u64,
}

impl DepartedUnits {
    fn new(most: usize) -> DepartedUnits {
        DepartedUnits { list: Vec::new(), at: FxHashMap::default(), most, oldest: 0, orders: 0 }
    }

    fn push(&mut self, unit: Superpage) {
        self.orders |= 1 << unit.order;
        self.remove(unit);
        if self.at.len() == self.most {
            self.forget_oldest();
        }
        if self.list.len() >= 2 * self.most + 64 {
            self.tidy();
        }
        self.at.insert(encode(unit), self.list.len() as u32);
        self.list.push(encode(unit));
    }

    fn tidy(&mut self) {
        self.list.retain(|&code| code != NONE);
        self.oldest = 0;
        self.at.clear();
        self.at.extend((0..).zip(&self.list).map(|(at, &code)| (code, at)));
    }

    fn forget_oldest(&mut self) {
        let gaps = self.list[self.oldest..].iter().take_while(|&&code| code == NONE).count();
        self.oldest += gaps;
        self.remove(decode(self.list[self.oldest]));
    }

    fn remove(&mut self, unit: Superpage) {
        if let Some(at) = self.at.remove(&encode(unit)) {
            self.list[at as usize] = NONE;
        }
    }

    fn drop_parts(&mut self, block: Superpage) {
        for code in &mut self.list {
            if *code != NONE && block.holds(decode(*code)) {
                self.at.remove(code);
                *code = NONE;
            }
        }
    }

    /// Forgets entries that map a superpage, alone or with others.
    fn drop_around(&mut self, block: Superpage) {
        let orders = self.orders;
        for order in (block.order..u64::BITS as u8).filter(|order| orders >> order & 1 == 1) {
            self.remove(Superpage::around(block.first, order));
        }
    }

    /// The units that left after `unit`, if it is remembered.
    fn above(&self, unit: Superpage) -> Option<&[u64]> {
        let at = *self.at.get(&encode(unit))? as usize;
        Some(&self.list[at + 1..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *state >> 33
    }

    /// The slow twin: blocks that would have kept `page`, by a search of the whole stack.
    fn searched(stack: &[u64], page: u64, entries: usize, top: u8) -> Vec<Superpage> {
        let Some(above) = stack.iter().position(|&other| other == page) else { return Vec::new() };
        let mut merged: BTreeMap<(u8, u64), usize> = BTreeMap::new();
        for &other in &stack[..above] {
            for order in 1..=top {
                *merged.entry((order, Superpage::around(other, order).first)).or_default() += 1;
            }
        }
        let kept = merged.into_iter().filter(|(_, merged)| above + 1 - (merged - 1) <= entries);
        kept.map(|((order, first), _)| Superpage { first, order }).collect()
    }

    #[test]
    fn keepers_are_what_a_search_of_the_stack_finds() {
        const TOP: u8 = 9;
        for seed in 0..16 {
            let mut state = seed;
            let entries = 2 + random(&mut state) as usize % 9;
            let mut capacity = Capacity::new(TOP);
            capacity.watch(&[entries as u64]);
            // Most recent first.
            let mut stack: Vec<u64> = Vec::new();
            let spread = [12, 60, 400, 1500][seed as usize % 4];
            for _ in 0..1500 {
                let page = random(&mut state) % spread * (1 + random(&mut state) % 2 * (seed % 3));
                let at = stack.iter().position(|&other| other == page);
                if at.is_none_or(|at| at >= entries) {
                    let unit = Superpage::around(page, 0);
                    let mut found = Vec::new();
                    capacity.charge(0, unit, |_| true, |block, _| found.push(block));
                    found.sort_unstable_by_key(|block| (block.order, block.first));
                    assert_eq!(found, searched(&stack, page, entries, TOP), "seed {seed}");
                    if let Some(&last) = stack.get(entries - 1) {
                        capacity.left(0, Superpage::around(last, 0), false);
                    }
                    capacity.entered(0, unit);
                }
                at.map(|at| stack.remove(at));
                stack.insert(0, page);
            }
        }
    }
}
