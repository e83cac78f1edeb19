//! Counts to cycles. Pure functions: nothing here can change a count.
//!
//! All cycles are modelled: flat prices per event, so that they can be recomputed from a saved result.

/// Prices, in cycles, from the machine file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A first-level miss that hits a lower level.
    pub lower_hit: u64,
    /// One page-table entry read by a walk.
    pub walk_reference: u64,
    /// An instruction, translation apart.
    pub instruction: f64,
}

/// Modelled cycles of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cycles {
    /// In page walks.
    pub walk: u64,
    /// In first-level misses that hit a lower level.
    pub lower_hit: u64,
    /// In all: instructions, lower-level hits and walks.
    pub total: f64,
}

impl Cycles {
    /// Walk cycles as a share of all cycles, 0 to 1.
    pub fn walk_share(&self) -> f64 {
        if self.total > 0.0 { self.walk as f64 / self.total } else { 0.0 }
    }
}

/// Prices the counts of one design.
pub fn price(prices: &Prices, instructions: u64, lower_hits: u64, walk_references: u64) -> Cycles {
    let walk = walk_references.saturating_mul(prices.walk_reference);
    let lower_hit = lower_hits.saturating_mul(prices.lower_hit);
    let total = instructions as f64 * prices.instruction + lower_hit as f64 + walk as f64;
    Cycles { walk, lower_hit, total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_costs_its_references() {
        let prices = Prices { lower_hit: 7, walk_reference: 20, instruction: 0.5 };
        let cycles = price(&prices, 1000, 10, 3);
        assert_eq!(cycles, Cycles { walk: 60, lower_hit: 70, total: 630.0 });
        assert_eq!(cycles.walk_share(), 60.0 / 630.0);
        assert_eq!(Cycles::default().walk_share(), 0.0);
    }
}
