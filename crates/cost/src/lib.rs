//! Cycles and energy from counts. Pure functions: nothing here can change a count.
//!
//! All cycles are modelled with fixed prices per event, so that they can be recomputed from a saved result. Walk cycles
//! are given by the caller: a fixed price per page-table entry, or the latency of the caches that held the entries.

mod energy;

pub use energy::{Energy, EnergyError, EnergyTable, Structure, StructureEnergy, Use};

/// Prices in cycles, from the machine file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CyclePrices {
    /// Cycles of a first-level miss that hits a lower level.
    pub lower_hit: u64,
    /// Cycles of an instruction, without address translation.
    pub instruction: f64,
}

/// Modelled cycles of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cycles {
    /// Cycles of instructions, without address translation and waits for memory.
    pub instructions: f64,
    /// Cycles of page walks.
    pub walk: u64,
    /// Cycles of first-level misses that hit a lower level.
    pub lower_hit: u64,
    /// Cycles of page faults and first stores, if the handlers of a software-managed TLB have prices.
    pub traps: u64,
    /// Cycles that references wait for caches and memory, on machines with caches.
    pub memory: u64,
}

impl Cycles {
    /// The cycles of instructions and of first-level misses that hit a lower level; the rest is the caller's.
    pub fn new(prices: &CyclePrices, instructions: u64, lower_hits: u64) -> Cycles {
        Cycles {
            instructions: instructions as f64 * prices.instruction,
            lower_hit: lower_hits.saturating_mul(prices.lower_hit),
            ..Cycles::default()
        }
    }

    /// All cycles.
    pub fn total(&self) -> f64 {
        let of_memory = [self.lower_hit, self.walk, self.traps, self.memory];
        self.instructions + of_memory.iter().map(|&cycles| cycles as f64).sum::<f64>()
    }

    /// Adds another core's. Prices in machine files may drive each core's sum to the maximum.
    pub fn add_core(&mut self, core: &Cycles) {
        let Cycles { instructions: _, walk, lower_hit, traps, memory } = core;
        self.walk = self.walk.saturating_add(*walk);
        self.lower_hit = self.lower_hit.saturating_add(*lower_hit);
        self.traps = self.traps.saturating_add(*traps);
        self.memory = self.memory.saturating_add(*memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cycles_are_instructions_hits_walks_traps_and_waits() {
        let prices = CyclePrices { lower_hit: 7, instruction: 0.5 };
        let cycles = Cycles { walk: 60, traps: 40, memory: 5, ..Cycles::new(&prices, 1000, 10) };
        assert_eq!((cycles.lower_hit, cycles.total()), (70, 675.0));
    }

    #[test]
    fn cores_share_their_instructions() {
        let core = Cycles { instructions: 9.0, walk: 1, lower_hit: 2, traps: 3, memory: u64::MAX };
        let mut sum = core;
        sum.add_core(&core);
        assert_eq!(sum, Cycles { instructions: 9.0, walk: 2, lower_hit: 4, traps: 6, memory: u64::MAX });
    }
}
