//! Reference model of memory caches, one line at a time.

use crate::ReplacementModel;

/// One cache.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Level, 1 first.
    pub level: u8,
    /// Whether it serves fetches, loads, stores and walks.
    pub serves: [bool; 4],
    /// The lines held.
    pub held: ReplacementModel,
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
    /// Whether it holds what the cache of the level above evicts.
    pub holds_victims: bool,
}

impl Memory {
    fn line(&self, [physical, logical]: [u64; 2], bytes: u64) -> u64 {
        if self.is_virtual { logical / bytes } else { physical / bytes }
    }
}

/// The requester that stores.
const STORE: usize = 2;

/// The caches, and the memory behind them.
#[derive(Clone, Debug)]
pub struct Memories {
    /// The caches, in the order of the machine file.
    pub caches: Vec<Memory>,
    /// Line size in bytes.
    pub line: u64,
    /// Cycles of an access that misses all caches.
    pub latency: u64,
    /// Cycles that the program's references waited; its driver adds them.
    pub stall_cycles: u64,
}

impl Memories {
    /// An access by a requester (0 to 3) to a physical address, which is also a virtual one; returns its cycles.
    pub fn access(&mut self, requester: usize, address: u64) -> u64 {
        self.access_mapped(requester, [address; 2])
    }

    /// An access by a requester to a physical and virtual address; returns its cycles.
    pub fn access_mapped(&mut self, requester: usize, address: [u64; 2]) -> u64 {
        let mut missed = Vec::new();
        let mut cycles = self.latency;
        for level in 1..=9 {
            let mut here = (0..self.caches.len())
                .filter(|&at| self.caches[at].level == level && self.caches[at].serves[requester]);
            let Some(at) = here.next() else { continue };
            let cache = &mut self.caches[at];
            let line = cache.line(address, self.line);
            cache.lookups[requester] += 1;
            let hit = cache.held.touch(line, line);
            cache.hits[requester] += u64::from(hit);
            if requester == STORE && cache.writes_through {
                continue;
            }
            if hit {
                cycles = cache.latency;
                if cache.holds_victims {
                    cache.held.remove(line, line);
                }
                break;
            }
            missed.push(at);
        }
        for at in missed.into_iter().filter(|&at| !self.caches[at].holds_victims).collect::<Vec<_>>() {
            let line = self.caches[at].line(address, self.line);
            let evicted = self.caches[at].held.fill(line, line);
            let (level, serves) = (self.caches[at].level, self.caches[at].serves);
            let mut victims = self
                .caches
                .iter_mut()
                .filter(|cache| cache.holds_victims && cache.level == level + 1 && cache.serves == serves);
            if let (Some(evicted), Some(victims)) = (evicted, victims.next()) {
                victims.held.fill(evicted, evicted);
            }
        }
        cycles
    }

    /// Accesses every line of a range of bytes; returns the cycles beyond what each line costs at least.
    pub fn access_bytes(&mut self, requester: usize, address: [u64; 2], bytes: u64) -> u64 {
        let ends = |cache: &&Memory| cache.serves[requester] && !(requester == STORE && cache.writes_through);
        let nearest = self.caches.iter().filter(ends).min_by_key(|cache| cache.level);
        let least = nearest.map_or(self.latency, |cache| cache.latency);
        let mut stalled = 0;
        let mut line = address[1] / self.line;
        while line * self.line < address[1] + bytes {
            let offset = line * self.line;
            let physical = (address[0] + offset).wrapping_sub(address[1]);
            stalled += self.access_mapped(requester, [physical, offset]).saturating_sub(least);
            line += 1;
        }
        stalled
    }
}
