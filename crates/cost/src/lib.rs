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
    /// Cycles of page walks.
    pub walk: u64,
    /// Cycles of first-level misses that hit a lower level.
    pub lower_hit: u64,
    /// Cycles of page faults and first stores, if the handlers of a software-managed TLB have prices.
    pub traps: u64,
    /// All cycles: instructions, lower-level hits, walks and traps.
    pub total: f64,
}

impl Cycles {
    /// Walk cycles as a share of all cycles, 0 to 1.
    pub fn walk_share(&self) -> f64 {
        if self.total > 0.0 { self.walk as f64 / self.total } else { 0.0 }
    }
}

/// The cycles of one design from its counts; its walks took `walk` cycles and its traps `traps` cycles.
pub fn price(prices: &CyclePrices, instructions: u64, lower_hits: u64, walk: u64, traps: u64) -> Cycles {
    let lower_hit = lower_hits.saturating_mul(prices.lower_hit);
    let translation = lower_hit as f64 + walk as f64 + traps as f64;
    let total = instructions as f64 * prices.instruction + translation;
    Cycles { walk, lower_hit, traps, total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cycles_are_instructions_hits_walks_and_traps() {
        let prices = CyclePrices { lower_hit: 7, instruction: 0.5 };
        let cycles = price(&prices, 1000, 10, 60, 40);
        assert_eq!(cycles, Cycles { walk: 60, lower_hit: 70, traps: 40, total: 670.0 });
        assert_eq!(cycles.walk_share(), 60.0 / 670.0);
        assert_eq!(Cycles::default().walk_share(), 0.0);
    }
}
