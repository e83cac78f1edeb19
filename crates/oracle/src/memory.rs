//! Reference model of memory caches, one line at a time.

use crate::{Column, ReplacementModel};
use std::collections::{BTreeMap, BTreeSet};

/// One cache.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Level, 1 first.
    pub level: u8,
    /// Whether it serves fetches, loads, stores and walks.
    pub serves: [bool; 4],
    /// The lines held.
    pub held: ReplacementModel,
    /// Bytes of a line.
    pub bytes: u64,
    /// Cycles of a hit.
    pub latency: u64,
    /// Lookups by requester.
    pub lookups: [u64; 4],
    /// Hits by requester.
    pub hits: [u64; 4],
    /// Whether every store goes on to the next level, and allocates nothing here.
    pub writes_through: bool,
    /// Whether virtual addresses find its lines.
    pub is_virtual: bool,
    /// Whether it holds what the caches of the level above evict.
    pub holds_victims: bool,
    /// The lines of a column-associative cache, instead of `held`.
    pub column: Option<Column>,
    /// Cycles of a hit in the other place of two, if that is slower.
    pub slow_latency: Option<u64>,
    /// Slow hits, by requester.
    pub slow_hits: [u64; 4],
    /// By set, the line hit or filled last.
    last: BTreeMap<usize, u64>,
    /// How many slices it has.
    pub slices: u64,
    /// Whether what it evicts leaves the caches above, too.
    pub inclusive: bool,
    /// Entries of its write buffer, and the cycles in which one drains.
    pub write_buffer: Option<(usize, u64)>,
    /// Cycles that stores waited for it.
    pub write_stall_cycles: u64,
    /// When the stores in it will have left.
    leaving: Vec<u64>,
    /// Dirty lines that left it, by requester.
    pub writebacks: [u64; 4],
    /// The dirty lines.
    dirty: BTreeSet<u64>,
    /// The physical addresses of lines.
    homes: BTreeMap<u64, u64>,
}

impl Memory {
    /// An empty cache that is filled by misses, served by physical addresses, and written back.
    pub fn new(level: u8, serves: [bool; 4], latency: u64, held: ReplacementModel) -> Memory {
        Memory {
            level,
            serves,
            held,
            bytes: 64,
            latency,
            lookups: [0; 4],
            hits: [0; 4],
            writebacks: [0; 4],
            writes_through: false,
            is_virtual: false,
            holds_victims: false,
            column: None,
            slow_latency: None,
            slow_hits: [0; 4],
            last: BTreeMap::new(),
            slices: 1,
            inclusive: false,
            write_buffer: None,
            write_stall_cycles: 0,
            leaving: Vec::new(),
            dirty: BTreeSet::new(),
            homes: BTreeMap::new(),
        }
    }

    /// What chooses the set of a line: all slices' sets stand in a row, with empty slices up to a power of two.
    fn number(&self, line: u64) -> u64 {
        if self.slices == 1 {
            return line;
        }
        let sets = self.held.sets() / self.slices.next_power_of_two();
        let mut mixed = u128::from(line);
        for (shift, factor) in [(30, 0xbf58476d1ce4e5b9), (27, 0x94d049bb133111eb), (31, 1)] {
            mixed = (mixed ^ (mixed >> shift)) * factor % (1 << 64);
        }
        let slice = mixed * u128::from(self.slices) / (1 << 64);
        slice as u64 * sets + line % sets
    }

    /// Looks a line up; returns whether the hit is slow.
    fn touch(&mut self, line: u64) -> Option<bool> {
        if let Some(column) = &mut self.column {
            return column.touch(line);
        }
        let number = self.number(line);
        if !self.held.touch(number, line) {
            return None;
        }
        let is_last = self.last.insert(self.held.set_of(number), line) == Some(line);
        Some(self.slow_latency.is_some() && !is_last)
    }

    fn holds(&self, line: u64) -> bool {
        let held = || self.held.contains(self.number(line), line);
        self.column.as_ref().map_or_else(held, |column| column.contains(line))
    }

    fn fill(&mut self, line: u64) -> Option<u64> {
        if self.touch(line).is_some() {
            return None;
        }
        match &mut self.column {
            Some(column) => column.fill(line),
            None => {
                let number = self.number(line);
                self.last.insert(self.held.set_of(number), line);
                self.held.fill(number, line)
            }
        }
    }

    fn remove(&mut self, line: u64) {
        match &mut self.column {
            Some(column) => column.remove(line),
            None => {
                self.held.remove(self.number(line), line);
            }
        }
        self.last.retain(|_, &mut last| last != line);
    }

    /// Drops the lines of a range; returns whether some was dirty.
    fn drop_all(&mut self, start: u64, bytes: u64, requester: usize) -> bool {
        let mut any = false;
        for line in start / self.bytes..(start + bytes).div_ceil(self.bytes) {
            if self.holds(line) {
                self.remove(line);
                self.homes.remove(&line);
                let dirty = self.dirty.remove(&line);
                self.writebacks[requester] += u64::from(dirty);
                any |= dirty;
            }
        }
        any
    }

    /// A store enters the write buffer; returns the cycles until there is a place.
    fn store(&mut self, now: u64) -> u64 {
        let Some((entries, drain)) = self.write_buffer else { return 0 };
        self.leaving.retain(|&time| time > now);
        let mut waited = 0;
        if self.leaving.len() == entries {
            let first = self.leaving.remove(0);
            waited = first - now;
        }
        let begin = self.leaving.iter().copied().max().unwrap_or(0).max(now + waited);
        self.leaving.push(begin + drain);
        self.write_stall_cycles += waited;
        waited
    }

    fn takes_stores(&self) -> bool {
        self.serves[STORE] && !self.writes_through
    }

    fn line(&self, [physical, logical]: [u64; 2]) -> u64 {
        if self.is_virtual { logical / self.bytes } else { physical / self.bytes }
    }
}

/// The requester that stores.
const STORE: usize = 2;

/// The caches, and the memory behind them.
#[derive(Clone, Debug)]
pub struct Memories {
    /// The caches, in the order of the machine file.
    pub caches: Vec<Memory>,
    /// Cycles of an access that misses all caches.
    pub latency: u64,
    /// Cycles that the program's references waited; its driver adds them.
    pub stall_cycles: u64,
    /// The time in cycles.
    pub now: u64,
    /// Instructions so far; the driver adds them.
    pub instructions: u64,
    /// The requester of the current access.
    requester: usize,
}

impl Memories {
    /// Empty caches before a memory of this latency.
    pub fn new(caches: Vec<Memory>, latency: u64) -> Memories {
        Memories { caches, latency, stall_cycles: 0, now: 0, instructions: 0, requester: 0 }
    }

    /// An access by a requester (0 to 3) to a physical address, which is also a virtual one; returns its cycles.
    pub fn access(&mut self, requester: usize, address: u64) -> u64 {
        self.access_mapped(requester, [address; 2])
    }

    /// An access by a requester to a physical and virtual address; returns its cycles.
    pub fn access_mapped(&mut self, requester: usize, address: [u64; 2]) -> u64 {
        self.requester = requester;
        let path = self.path(requester);
        let takes = |cache: &Memory| !(cache.holds_victims || requester == STORE && cache.writes_through);
        let (mut hit, mut slowly) = (None, false);
        for &at in &path {
            let cache = &mut self.caches[at];
            let line = cache.line(address);
            cache.lookups[requester] += 1;
            let looked = cache.touch(line);
            let holds = looked.is_some();
            cache.slow_hits[requester] += u64::from(looked == Some(true));
            cache.hits[requester] += u64::from(holds);
            if requester == STORE && cache.writes_through {
                self.now += cache.store(self.now);
            }
            if holds && !(requester == STORE && cache.writes_through) {
                hit = Some(at);
                slowly = looked == Some(true);
                break;
            }
        }
        let above: Vec<usize> = path.iter().copied().take_while(|&at| Some(at) != hit).collect();
        let mut fills: Vec<usize> = above.iter().copied().filter(|&at| takes(&self.caches[at])).collect();
        let mut dirty = false;
        if let Some(at) = hit.filter(|&at| self.moves_up(at, &fills)) {
            let line = self.caches[at].line(address);
            self.caches[at].remove(line);
            self.caches[at].homes.remove(&line);
            dirty = self.caches[at].dirty.remove(&line);
        }
        fills.reverse();
        for (nth, &at) in fills.iter().enumerate() {
            let line = self.caches[at].line(address);
            let evicted = self.caches[at].fill(line);
            let bytes = self.caches[at].bytes;
            self.caches[at].homes.insert(line, address[0] / bytes * bytes);
            if nth == 0 && dirty && self.caches[at].takes_stores() {
                self.caches[at].dirty.insert(line);
            } else if nth == 0 && dirty {
                self.write_back(hit.unwrap(), address);
            }
            if let Some(evicted) = evicted {
                self.evict(at, evicted);
            }
        }
        // A store is in the nearest cache that has the line by now.
        let holds = |&&at: &&usize| {
            let line = self.caches[at].line(address);
            self.caches[at].takes_stores() && self.caches[at].holds(line)
        };
        if requester == STORE
            && let Some(&at) = path.iter().find(holds)
        {
            let line = self.caches[at].line(address);
            self.caches[at].dirty.insert(line);
        }
        match hit.map(|at| &self.caches[at]) {
            None => self.latency,
            Some(cache) if slowly => cache.slow_latency.unwrap(),
            Some(cache) => cache.latency,
        }
    }

    /// The caches that serve a requester, nearest first.
    fn path(&self, requester: usize) -> Vec<usize> {
        let serving = |level: u8| {
            move |&at: &usize| self.caches[at].level == level && self.caches[at].serves[requester]
        };
        (1..=9).filter_map(|level| (0..self.caches.len()).find(serving(level))).collect()
    }

    /// Whether a line that hits moves up: the cache holds victims, of a cache that is filled or of other victims.
    fn moves_up(&self, at: usize, fills: &[usize]) -> bool {
        if !self.caches[at].holds_victims {
            return false;
        }
        let level = self.caches[at].level - 1;
        if fills.iter().any(|&fill| self.caches[fill].level == level) {
            return true;
        }
        let path = self.path(self.requester);
        path.into_iter().any(|above| self.caches[above].level == level && self.moves_up(above, fills))
    }

    /// A line leaves a cache.
    fn evict(&mut self, at: usize, line: u64) {
        let home = self.caches[at].homes.remove(&line).unwrap();
        let address =
            if self.caches[at].is_virtual { [home, line * self.caches[at].bytes] } else { [home; 2] };
        let dirty = self.caches[at].dirty.remove(&line);
        let (level, serves) = (self.caches[at].level, self.caches[at].serves);
        let dirty = dirty | self.drop_above(at, address);
        let victims = self.caches.iter().position(|cache| {
            cache.holds_victims
                && cache.level == level + 1
                && (0..4).any(|requester| cache.serves[requester] && serves[requester])
        });
        let Some(victims) = victims else {
            if dirty {
                self.write_back(at, address);
            }
            return;
        };
        self.caches[at].writebacks[self.requester] += u64::from(dirty);
        let cache = &mut self.caches[victims];
        let line = cache.line(address);
        let evicted = cache.fill(line);
        cache.homes.entry(line).or_insert(home);
        if dirty {
            cache.dirty.insert(line);
        }
        if let Some(evicted) = evicted {
            self.evict(victims, evicted);
        }
    }

    /// What an inclusive cache evicts leaves the caches above. Returns whether it leaves this one dirty.
    fn drop_above(&mut self, at: usize, address: [u64; 2]) -> bool {
        if !self.caches[at].inclusive {
            return false;
        }
        let (level, serves, bytes) = (self.caches[at].level, self.caches[at].serves, self.caches[at].bytes);
        let mut dirty = false;
        for cache in &mut self.caches {
            let shares = (0..4).any(|requester| cache.serves[requester] && serves[requester]);
            if cache.level < level && shares {
                dirty |= cache.drop_all(address[usize::from(cache.is_virtual)], bytes, self.requester);
            }
        }
        if dirty && !self.caches[at].takes_stores() {
            self.pass_down(level, address);
            return false;
        }
        dirty
    }

    /// Another core with the same caches gave an inclusive one this state: what it does not hold leaves the caches
    /// above.
    pub fn drop_uncovered(&mut self, inclusive: &Memory) {
        for cache in self.caches.iter_mut().filter(|cache| cache.level < inclusive.level) {
            let ratio = inclusive.bytes / cache.bytes;
            let lines: Vec<u64> = cache.homes.keys().copied().collect();
            for line in lines.into_iter().filter(|line| !inclusive.holds(line / ratio)) {
                cache.drop_all(line * cache.bytes, cache.bytes, STORE);
            }
        }
    }

    /// A cache writes a line back: to the next one that has it, or to memory.
    fn write_back(&mut self, from: usize, address: [u64; 2]) {
        self.caches[from].writebacks[self.requester] += 1;
        self.pass_down(self.caches[from].level, address);
    }

    fn pass_down(&mut self, level: u8, address: [u64; 2]) {
        for at in self.path(STORE) {
            let line = self.caches[at].line(address);
            let cache = &mut self.caches[at];
            if cache.level > level && cache.takes_stores() && cache.holds(line) {
                cache.dirty.insert(line);
                return;
            }
        }
    }

    /// Accesses every line of a range of bytes; returns the cycles beyond what each line costs at least.
    pub fn access_bytes(&mut self, requester: usize, address: [u64; 2], bytes: u64) -> u64 {
        let ends = |cache: &&Memory| cache.serves[requester] && !(requester == STORE && cache.writes_through);
        let nearest = self.caches.iter().filter(ends).min_by_key(|cache| cache.level);
        let least = nearest.map_or(self.latency, |cache| cache.latency);
        let before = self.now;
        let first = self.path(requester).first().map(|&at| self.caches[at].bytes);
        let size = first.or(self.caches.iter().map(|cache| cache.bytes).min()).unwrap();
        let mut line = address[1] / size;
        while line * size < address[1] + bytes {
            let offset = line * size;
            let physical = (address[0] + offset).wrapping_sub(address[1]);
            self.now += self.access_mapped(requester, [physical, offset]).saturating_sub(least);
            line += 1;
        }
        self.now - before
    }
}
