//! Reference model of a software-managed TLB whose page tables are themselves mapped.

/// The target of a TLB entry. Address spaces are numbers; pages of the kernel and their tables have a separate one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefillTarget {
    /// A page, by space and number.
    Page(u64, u64),
    /// A table page, which holds the entries of neighbouring pages.
    Table(u64, u64),
    /// A table page that holds the entries of neighbouring table pages.
    TableOfTables(u64, u64),
}

/// Class of a user page. The constants are indices of counts.
pub const L1U: usize = 0;
/// Class of a kernel page.
pub const L1K: usize = 1;
/// Class of a table page.
pub const L2: usize = 2;
/// Class of a table page with entries of table pages or of kernel pages.
pub const L3: usize = 3;
/// Class of first stores.
pub const MODIFY: usize = 4;
/// Class of first touches.
pub const INVALID: usize = 5;

/// Dynamic tuning of the partition.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Misses per window.
    pub period: u64,
    /// Slots per move.
    pub step: u64,
    /// The least relative change of cost that counts.
    pub threshold: f64,
    /// Minimum and maximum number of slots below the partition.
    pub bounds: (u64, u64),
    /// Whether the cost is per instruction; else per miss.
    pub by_instruction: bool,
    /// Number of windows without a move after which one is tried.
    pub probe_after: u64,
    /// Whether the next move goes up.
    pub up: bool,
    /// Misses and cycles of the current window, and the instruction count at its beginning.
    pub window: (u64, u64, u64),
    /// The cost of the previous window.
    pub before: Option<f64>,
    /// Number of windows since the last move.
    pub quiet: u64,
}

/// The model of the TLB and its handlers.
#[derive(Clone, Debug)]
pub struct Software {
    /// The content of each slot, and when it was filled.
    pub slots: Vec<Option<(RefillTarget, u64)>>,
    /// Number of slots below the partition.
    pub lower: usize,
    /// Slots per set.
    pub ways: usize,
    /// For the parts below and above the partition: the seed of random replacement; `None` for first in, first out.
    pub random: [Option<u64>; 2],
    /// Number of random draws in each part.
    pub draws: [u64; 2],
    /// Classes that are placed below the partition.
    pub below: Vec<usize>,
    /// Number of page-table entries per table page.
    pub entries: u64,
    /// Number of table levels.
    pub tables: u64,
    /// Cycles by class.
    pub cycles: [u64; 6],
    /// Misses by class.
    pub misses: [u64; 6],
    /// Number of fills.
    pub arrivals: u64,
    /// Dynamic tuning, if enabled.
    pub tuning: Option<Tuning>,
    /// Instructions so far.
    pub instructions: u64,
}

impl Software {
    /// Whether the TLB holds an entry for a target.
    pub fn holds(&self, thing: RefillTarget) -> bool {
        self.slots.iter().flatten().any(|&(held, _)| held == thing)
    }

    /// Translates a page; returns the number of handlers that ran and their cycles: 0 on a hit.
    pub fn translate(&mut self, space: u64, page: u64, kernel: bool) -> (u64, u64) {
        let thing = RefillTarget::Page(space, page);
        if self.holds(thing) {
            return (0, 0);
        }
        let before = self.misses;
        self.miss(thing, if kernel { L1K } else { L1U });
        let ran: [u64; 6] = std::array::from_fn(|class| self.misses[class] - before[class]);
        let cycles = (0..6).map(|class| ran[class] * self.cycles[class]).sum();
        self.tune(ran.iter().sum(), cycles);
        (ran.iter().sum(), cycles)
    }

    fn miss(&mut self, thing: RefillTarget, class: usize) {
        self.misses[class] += 1;
        let entries = self.entries;
        let (table, its_class) = match thing {
            RefillTarget::Page(space, page) if class == L1U => {
                (RefillTarget::Table(space, page / entries), L2)
            }
            RefillTarget::Page(space, page) => (RefillTarget::TableOfTables(space, page / entries), L3),
            RefillTarget::Table(space, number) => (RefillTarget::TableOfTables(space, number / entries), L3),
            RefillTarget::TableOfTables(..) => (thing, class),
        };
        let mapped = self.tables > if its_class == L2 { 1 } else { 2 };
        if table != thing && mapped && !self.holds(table) {
            self.miss(table, its_class);
        }
        self.put(thing, class);
    }

    fn put(&mut self, thing: RefillTarget, class: usize) {
        let (RefillTarget::Page(_, number)
        | RefillTarget::Table(_, number)
        | RefillTarget::TableOfTables(_, number)) = thing;
        let above = !self.below.contains(&class);
        let (start, end) = if above { (self.lower, self.slots.len()) } else { (0, self.lower) };
        let set: Vec<usize> = match self.ways {
            ways if ways >= self.slots.len() => (start..end).collect(),
            ways => {
                let sets = ((end - start) / ways) as u64;
                (0..ways).map(|way| start + (number % sets) as usize * ways + way).collect()
            }
        };
        let since = |&slot: &usize| self.slots[slot].map_or(0, |(_, since)| since);
        let slot = match (set.iter().find(|&&slot| self.slots[slot].is_none()), self.random[above as usize]) {
            (Some(&empty), _) => empty,
            (None, None) => *set.iter().min_by_key(|slot| since(slot)).unwrap(),
            (None, Some(seed)) => {
                self.draws[above as usize] += 1;
                set[below(seed, self.draws[above as usize], set.len() as u64) as usize]
            }
        };
        self.arrivals += 1;
        self.slots[slot] = Some((thing, self.arrivals));
    }

    fn tune(&mut self, misses: u64, cycles: u64) {
        let now = self.instructions;
        let Some(tuning) = &mut self.tuning else { return };
        tuning.window.0 += misses;
        tuning.window.1 += cycles;
        if tuning.window.0 < tuning.period {
            return;
        }
        let by = if tuning.by_instruction { (now - tuning.window.2).max(1) } else { tuning.window.0 };
        let cost = tuning.window.1 as f64 / by as f64;
        tuning.window = (0, 0, now);
        let change = tuning.before.map_or(-1.0, |before| {
            if cost > before * (1.0 + tuning.threshold) {
                1.0
            } else if cost < before * (1.0 - tuning.threshold) {
                -1.0
            } else {
                0.0
            }
        });
        tuning.before = Some(cost);
        let (least, most) = tuning.bounds;
        if change > 0.0 {
            tuning.up = !tuning.up;
        } else if change == 0.0 {
            tuning.quiet += 1;
            if tuning.quiet != tuning.probe_after {
                return;
            }
            let at_end = if tuning.up { most } else { least };
            if self.lower as u64 == at_end {
                tuning.up = !tuning.up;
            }
        }
        tuning.quiet = 0;
        let lower = self.lower as u64;
        let next = if tuning.up { lower + tuning.step } else { lower.saturating_sub(tuning.step) };
        self.lower = next.clamp(least, most) as usize;
    }

    /// Drops the entry of a page.
    pub fn drop_page(&mut self, space: u64, page: u64) {
        let gone = RefillTarget::Page(space, page);
        for slot in &mut self.slots {
            *slot = slot.filter(|&(held, _)| held != gone);
        }
    }

    /// Drops all entries of an address space.
    pub fn flush(&mut self, space: u64) {
        for slot in &mut self.slots {
            *slot = slot.filter(|&(held, _)| !matches!(held, RefillTarget::Page(of, _) if of == space));
        }
    }
}

/// A random number below `n`: SplitMix64's draw number `draw`, from 1, as a fraction of 2^64, times `n`.
fn below(seed: u64, draw: u64, n: u64) -> u64 {
    let mut z = u128::from(seed) + u128::from(draw) * 0x9e37_79b9_7f4a_7c15;
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb), (31, 1)] {
        z %= 1 << 64;
        z = (z ^ (z >> shift)) * factor;
    }
    (z * u128::from(n) / (1 << 64)) as u64
}
