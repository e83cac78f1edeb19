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
}

/// The caches, and the memory behind them.
#[derive(Clone, Debug)]
pub struct Memories {
    /// The caches, in the order of the machine file.
    pub caches: Vec<Memory>,
    /// Line size in bytes.
    pub line: u64,
    /// Cycles of an access that misses all caches.
    pub latency: u64,
}

impl Memories {
    /// An access by a requester (0 to 3); returns its cycles.
    pub fn access(&mut self, requester: usize, address: u64) -> u64 {
        let line = address / self.line;
        let mut missed = Vec::new();
        let mut cycles = self.latency;
        for level in 1..=9 {
            let mut here = (0..self.caches.len())
                .filter(|&at| self.caches[at].level == level && self.caches[at].serves[requester]);
            let Some(at) = here.next() else { continue };
            let cache = &mut self.caches[at];
            cache.lookups[requester] += 1;
            if cache.held.touch(line, line) {
                cache.hits[requester] += 1;
                cycles = cache.latency;
                break;
            }
            missed.push(at);
        }
        for at in missed {
            self.caches[at].held.fill(line, line);
        }
        cycles
    }

    /// Accesses every line of a range of bytes.
    pub fn access_bytes(&mut self, requester: usize, address: u64, bytes: u64) {
        let mut line = address / self.line;
        while line * self.line < address + bytes {
            self.access(requester, line * self.line);
            line += 1;
        }
    }
}
