//! Reference model of a kernel that builds superpages after TLB misses. All state is in lists that are searched,
//! above all the contents of the TLBs.

use crate::backing::Memory;
use std::collections::{BTreeMap, BTreeSet};

/// A block: its first base page, and log2 of its number of base pages.
pub type Block = (u64, u8);

/// An entry of a TLB: the block that it maps, and the order of its pages.
pub type Held = (Block, u8);

/// The policy: which superpages are built, and when.
#[derive(Clone, Debug)]
pub enum Policy {
    /// All pages have one order.
    Fixed(u8),
    /// Builds blocks of up to this order when all their pages have been touched.
    Asap(u8),
    /// Builds blocks of this order when this number of pages has been touched.
    Share(u8, u64),
    /// Backs areas when they are mapped.
    Eager {
        /// The orders of superpages: a bit each.
        orders: u32,
        /// The order of the blocks by which fragmentation is measured.
        huge: u8,
        /// Least number of base pages of a request.
        least: u64,
        /// The largest allowed share of free memory in smaller blocks.
        limit: f64,
    },
    /// Builds blocks whose charges reach a threshold; there is a second kind of charge if `capacity` is given.
    Charged {
        /// The largest order.
        top: u8,
        /// By order: the threshold for charges of the first kind, inclusive.
        prefetch: Vec<u64>,
        /// By order: the threshold for charges of the second kind, exclusive.
        capacity: Option<Vec<u64>>,
        /// Cycles of bookkeeping per miss.
        bookkeeping: u64,
    },
}

/// The throttle, which switches a policy off and on: window, trip level, target.
#[derive(Clone, Debug)]
pub struct Throttle {
    /// Instructions per window.
    pub window: u64,
    /// Trip level in misses per instruction.
    pub trip: f64,
    /// Target in cycles per instruction.
    pub target: f64,
    /// Whether the policy is on.
    pub on: bool,
    /// Start and misses of the current window.
    pub seen: (u64, u64),
    /// Instructions and overhead when it was switched on.
    pub since: (u64, u64),
}

/// A page table with the state of a policy.
#[derive(Clone, Debug)]
pub struct MissPolicyModel {
    /// The policy.
    pub policy: Policy,
    /// The throttle, if there is one.
    pub throttle: Option<Throttle>,
    /// Number of 4 KiB pieces in a base page.
    pub pieces: u64,
    /// Mapped pieces: the number of the area and the rights. Neighbours with equal values are one area.
    pub areas: BTreeMap<u64, (u64, u8)>,
    /// Base pages of hugetlb memory, with the order of the hugetlb page.
    pub hugetlb: BTreeMap<u64, u8>,
    /// The order of the pages that map hugetlb memory; 0 if the machine has none.
    pub hugetlb_order: u8,
    /// Backed base pages, with the order of the page that maps them.
    pub backed: BTreeMap<u64, u8>,
    /// The touched base pages.
    pub touched: BTreeSet<u64>,
    /// The charges of both kinds.
    pub charges: BTreeMap<Block, [u64; 2]>,
    /// For each TLB, the units that left it, the latest last: at most the number of its entries plus the pages of the
    /// largest block.
    pub stacks: Vec<Vec<Block>>,
    /// Number of entries of each TLB.
    pub entries: Vec<u64>,
    /// The unit of the last miss.
    pub missed: Block,
    /// Blocks that were charged at that miss but do not contain the unit, the next to check first.
    pub elsewhere: Vec<Block>,
    /// Superpages built, by order.
    pub promotions: BTreeMap<u8, u64>,
    /// Number of superpages split.
    pub demotions: u64,
    /// Number of superpages refused for their position.
    pub refused: u64,
    /// Number of first touches of pages that were not backed.
    pub faults: u64,
    /// Cycles per base page to build superpages.
    pub copy: u64,
    /// Cycles spent on building superpages, and on misses.
    pub spent: [u64; 2],
    /// Physical memory, if it is limited.
    pub memory: Option<Memory>,
    /// Units that were swapped out or moved and that TLBs still hold.
    pub dropped: Vec<Block>,
    /// Units and unbacked pages that became parts of superpages: their translations are no longer valid.
    pub replaced: Vec<Block>,
}

/// The block of an order around a page.
pub fn around(page: u64, order: u8) -> Block {
    (page >> order << order, order)
}

/// Whether a block contains another.
pub fn holds(block: Block, unit: Block) -> bool {
    unit.1 <= block.1 && around(unit.0, block.1) == block
}

fn pages((first, order): Block) -> std::ops::Range<u64> {
    first..first + (1 << order)
}

impl MissPolicyModel {
    /// A model with nothing mapped.
    pub fn new(
        policy: Policy,
        throttle: Option<Throttle>,
        pieces: u64,
        entries: Vec<u64>,
        copy: u64,
    ) -> MissPolicyModel {
        MissPolicyModel {
            policy,
            throttle,
            pieces,
            areas: BTreeMap::new(),
            hugetlb: BTreeMap::new(),
            hugetlb_order: 0,
            backed: BTreeMap::new(),
            touched: BTreeSet::new(),
            charges: BTreeMap::new(),
            stacks: vec![Vec::new(); entries.len()],
            entries,
            missed: (0, 0),
            elsewhere: Vec::new(),
            promotions: BTreeMap::new(),
            demotions: 0,
            refused: 0,
            faults: 0,
            copy,
            spent: [0; 2],
            memory: None,
            dropped: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// The unit that maps a page.
    pub fn unit(&self, page: u64) -> Block {
        self.backed.get(&page).map_or((page, 0), |&order| around(page, order))
    }

    fn fits(&self, block: Block) -> bool {
        let all = pages(block).start * self.pieces..pages(block).end * self.pieces;
        let areas: Vec<Option<&(u64, u8)>> = all.map(|piece| self.areas.get(&piece)).collect();
        let is_hugetlb = pages(block).any(|page| self.hugetlb.contains_key(&page));
        !is_hugetlb && areas[0].is_some() && areas.iter().all(|area| *area == areas[0])
    }

    /// References a page; returns the superpages that are built at once.
    pub fn touch(&mut self, page: u64) -> Vec<Block> {
        let hugetlb = around(page, self.hugetlb_order);
        let is_hugetlb = hugetlb.1 > 0
            && pages(hugetlb).all(|page| self.hugetlb.get(&page).is_some_and(|&order| order >= hugetlb.1));
        // Pages that were touched before anything was mapped there stay unchanged.
        if is_hugetlb && pages(hugetlb).all(|page| !self.backed.contains_key(&page)) {
            self.faults += 1;
            pages(hugetlb).for_each(|page| _ = self.backed.insert(page, hugetlb.1));
        }
        if !self.backed.contains_key(&page) {
            self.faults += 1;
            let order = if let Policy::Fixed(order) = self.policy { order } else { 0 };
            let block = around(page, order);
            let swapped = |page| self.memory.as_ref().is_some_and(|memory| memory.swapped.contains(&page));
            let free = pages(block).all(|page| !self.backed.contains_key(&page) && !swapped(page));
            let block = self.frames_for(if free { block } else { (page, 0) }, page);
            if self.is_killed() {
                return Vec::new();
            }
            pages(block).for_each(|page| _ = self.backed.insert(page, block.1));
        }
        if !self.touched.insert(page) {
            return Vec::new();
        }
        let touched = |block: Block| self.touched.range(pages(block)).count() as u64;
        let wish = match self.policy {
            Policy::Asap(top) => {
                (1..=top).rev().map(|order| around(page, order)).find(|&b| touched(b) == 1 << b.1)
            }
            Policy::Share(order, least) => Some(around(page, order)).filter(|&block| touched(block) >= least),
            _ => None,
        };
        let wish = wish.filter(|_| self.throttle.as_ref().is_none_or(|throttle| throttle.on));
        wish.and_then(|block| self.promote(block)).into_iter().collect()
    }

    /// Allocates frames for a block, or else for a page.
    fn frames_for(&mut self, block: Block, page: u64) -> Block {
        let Some(memory) = &mut self.memory else { return block };
        if block.1 > 0 && memory.take(block) {
            return block;
        }
        memory.fallen_back += u64::from(block.1 > 0);
        while let Some(memory) = &mut self.memory {
            if memory.take((page, 0)) {
                memory.swaps[1] += u64::from(memory.swapped.remove(&page));
                break;
            }
            memory.killed = memory.kills;
            if memory.kills {
                break;
            }
            let unit = memory.victim();
            memory.release(unit);
            for page in pages(unit) {
                if self.touched.remove(&page) {
                    memory.swapped.insert(page);
                    memory.swaps[0] += 1;
                }
                self.backed.remove(&page);
            }
            if unit.1 > 0 {
                self.forget(unit);
            }
            self.dropped.push(unit);
        }
        (page, 0)
    }

    /// Whether the process was killed for want of memory.
    pub fn is_killed(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.killed)
    }

    /// Maps private memory.
    pub fn map(&mut self, range: std::ops::Range<u64>) {
        let (&Policy::Eager { orders, huge, least, limit }, Some(memory)) = (&self.policy, &mut self.memory)
        else {
            return;
        };
        let wanted = range.end - range.start;
        if wanted < least {
            return;
        }
        let mut all = range.clone();
        let is_new = all.all(|page| !self.backed.contains_key(&page) && !memory.swapped.contains(&page));
        let taken = if is_new { memory.take_eager(range, orders, huge, limit) } else { None };
        match taken {
            None => memory.eager[3] += 1,
            Some((units, runs)) => {
                memory.eager[0] += 1;
                memory.eager[1] += wanted;
                memory.eager[2] += runs;
                for unit in units {
                    pages(unit).for_each(|page| _ = self.backed.insert(page, unit.1));
                }
            }
        }
    }

    /// Records a walk to a page.
    pub fn walked(&mut self, page: u64) {
        let unit = self.unit(page);
        if let Some(memory) = &mut self.memory {
            memory.accessed.insert(unit);
        }
    }

    /// The distinct units in a range.
    fn units_in(&self, range: std::ops::Range<u64>) -> Vec<Block> {
        let mut units: Vec<Block> =
            self.backed.range(range).map(|(&page, &order)| around(page, order)).collect();
        units.dedup();
        units
    }

    /// Charges blocks for a walk for a page, when the TLB held `held`; the page's own entry maps `entry`.
    pub fn charge(&mut self, tlb: usize, page: u64, entry: Block, held: &[Block], instructions: u64) {
        if !self.is_on(instructions) {
            return;
        }
        let Policy::Charged { top, ref capacity, bookkeeping, .. } = self.policy else { return };
        self.spent[1] += bookkeeping;
        let unit = self.unit(page);
        self.missed = unit;
        let stack = &self.stacks[tlb];
        let above: Option<Vec<Block>> =
            stack.iter().position(|&other| other == entry).map(|at| stack[at + 1..].to_vec());
        for block in (unit.1 + 1..=top).map(|order| around(page, order)) {
            let charges = self.charges.entry(block).or_default();
            charges[0] += u64::from(held.iter().any(|&other| holds(block, other)));
        }
        self.elsewhere.clear();
        let (Some(_), Some(above)) = (capacity, above) else { return };
        let (depth, entries) = ((held.len() + above.len() + 1) as u64, self.entries[tlb]);
        // It would have hit anyway.
        if depth <= entries {
            return;
        }
        // The number of entries that each block would have merged.
        let mut merged: BTreeMap<(u8, u64), u64> = BTreeMap::new();
        for &(first, order) in held.iter().chain(&above) {
            for order in order..=top {
                *merged.entry((order, around(first, order).0)).or_default() += 1;
            }
        }
        for ((order, first), merged) in merged {
            if depth - (merged - 1) <= entries {
                self.charges.entry((first, order)).or_default()[1] += 1;
                self.elsewhere.extend((!holds((first, order), unit)).then_some((first, order)));
            }
        }
    }

    fn is_on(&mut self, now: u64) -> bool {
        let spent = self.spent[0] + self.spent[1];
        let Some(throttle) = &mut self.throttle else { return true };
        if throttle.on && now - throttle.seen.0 >= throttle.window {
            throttle.on = throttle.seen.1 as f64 / (now - throttle.seen.0) as f64 <= throttle.trip;
            throttle.seen = (now, 0);
        }
        if !throttle.on
            && ((spent - throttle.since.1) as f64) < throttle.target * (now - throttle.since.0) as f64
        {
            throttle.on = true;
            throttle.seen = (now, 0);
            throttle.since = (now, spent);
        }
        throttle.seen.1 += u64::from(throttle.on);
        throttle.on
    }

    /// Builds the next superpage that is due after a walk, where `from` was built last or maps the page. Returns the
    /// block, and whether it was built.
    pub fn due(&mut self, from: Block) -> Option<(Block, bool)> {
        let Policy::Charged { top, prefetch, capacity, .. } = &self.policy else { return None };
        if self.throttle.as_ref().is_some_and(|throttle| !throttle.on) {
            return None;
        }
        let charges = |block: &Block| self.charges.get(block).copied().unwrap_or_default();
        let exceeds = |block: &Block| {
            capacity.as_ref().is_some_and(|limits| charges(block)[1] > limits[usize::from(block.1)])
        };
        let is_due = |block: &Block| charges(block)[0] >= prefetch[usize::from(block.1)] || exceeds(block);
        let mut around = (from.1 + 1..=*top).map(|order| around(from.0, order));
        if let Some(block) = around.find(is_due).filter(|_| holds(from, self.missed)) {
            return Some((block, self.promote(block).is_some()));
        }
        let mut rest = self.elsewhere.iter().copied();
        let block = rest.find(exceeds)?;
        self.elsewhere = rest.collect();
        Some((block, self.promote(block).is_some()))
    }

    fn promote(&mut self, block: Block) -> Option<Block> {
        if self.backed.get(&block.0).is_some_and(|&order| holds(around(block.0, order), block)) {
            return None;
        }
        if !self.fits(block) {
            self.refused += 1;
            return None;
        }
        let parts = self.units_in(pages(block));
        if let Some(memory) = &mut self.memory {
            self.dropped.extend(memory.replace(block, &parts)?);
        }
        let unbacked = pages(block).filter(|page| !self.backed.contains_key(page));
        self.replaced.extend(unbacked.map(|page| (page, 0)).chain(parts));
        pages(block).for_each(|page| _ = self.backed.insert(page, block.1));
        *self.promotions.entry(block.1).or_default() += 1;
        self.spent[0] += self.copy << block.1;
        let gained = self.charges.get(&block).copied().unwrap_or_default()[0];
        for (&other, charges) in &mut self.charges {
            if other != block && holds(other, block) {
                charges[0] -= gained;
                charges[1] = 0;
            } else if holds(block, other) {
                *charges = [0; 2];
            }
        }
        self.stacks.iter_mut().for_each(|stack| stack.retain(|&unit| !holds(block, unit)));
        Some(block)
    }

    /// An entry left a TLB, not because of a promotion; `order`: that of its pages.
    pub fn left(&mut self, tlb: usize, (entry, order): Held) {
        self.stacks[tlb].retain(|&other| other != entry);
        self.stacks[tlb].push(entry);
        if let Policy::Charged { top, .. } = self.policy
            && self.stacks[tlb].len() as u64 > (2 << top) + self.entries[tlb]
        {
            self.stacks[tlb].remove(0);
        }
        // Superpages that were swapped out are no longer superpages.
        if order > 0 && !pages(entry).step_by(1 << order).any(|page| self.backed.contains_key(&page)) {
            self.forget(entry);
        }
    }

    /// Forgets entries that held a superpage.
    fn forget(&mut self, unit: Block) {
        self.stacks.iter_mut().for_each(|stack| stack.retain(|&other| !holds(other, unit)));
    }

    /// An entry entered a TLB.
    pub fn entered(&mut self, tlb: usize, (entry, _): Held) {
        self.stacks[tlb].retain(|&other| other != entry);
    }

    /// Splits superpages that cross the ends of a range.
    pub fn part(&mut self, range: std::ops::Range<u64>) {
        for end in [range.start, range.end - 1] {
            let unit = self.unit(end);
            if unit.1 == 0 || pages(unit).all(|page| range.contains(&page)) {
                continue;
            }
            self.demotions += 1;
            self.forget(unit);
            let allowed = |order: u8| {
                order == 0
                    || match self.policy {
                        Policy::Fixed(only) | Policy::Share(only, _) => order == only,
                        Policy::Eager { orders, .. } => orders >> order & 1 == 1,
                        _ => true,
                    }
            };
            let mut parts = Vec::new();
            let mut at = unit.0;
            while at < pages(unit).end {
                let one_sided = |&order: &u8| {
                    let block = around(at, order);
                    let inside = pages(block).filter(|page| range.contains(page)).count() as u64;
                    block.0 == at && (inside == 0 || inside == 1 << order)
                };
                let order =
                    (0..unit.1).rev().filter(|&order| allowed(order)).find(one_sided).expect("a base page");
                pages((at, order)).for_each(|page| _ = self.backed.insert(page, order));
                parts.push((at, order));
                at += 1 << order;
            }
            if let Some(memory) = self.memory.as_mut().filter(|memory| memory.backs(unit)) {
                memory.split(unit, &parts);
            }
        }
    }

    /// Pages lose their backing.
    pub fn gone(&mut self, range: std::ops::Range<u64>) {
        let units = self.units_in(range.clone());
        if let Some(memory) = &mut self.memory {
            // Hugetlb pages use no frames of the memory.
            for unit in units {
                if memory.backs(unit) {
                    memory.release(unit);
                }
            }
            memory.swapped.retain(|page| !range.contains(page));
        }
        for page in range {
            let unit = self.unit(page);
            if unit.1 > 0 {
                self.forget(unit);
            }
            self.backed.remove(&page);
            self.touched.remove(&page);
        }
    }
}
