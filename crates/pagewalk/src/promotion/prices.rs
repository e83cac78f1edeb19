//! The costs of walks and promotions on this host, and its TLB's size.

use crate::error::Error;
use crate::listener::Listener;
use crate::probe::{self, AssumedPrice, ProbePrices, WalkTimes};
use pagewalk_live::promote::PromotionCosts;
use pagewalk_report::probe::ProbeResult;
use std::path::Path;

/// The prices of a promotion policy, and which of them are assumed.
pub struct PromotionPrices {
    /// For a process of this size.
    pub prices: PromotionCosts,
    /// Entries for base pages in the last TLB level.
    pub entries: u32,
    /// Values assumed for missing figures.
    pub assumed: Vec<AssumedPrice>,
}

/// The prices for a process with this many bytes.
pub fn of_host(probe: Option<&Path>, bytes: u64, listener: &dyn Listener) -> Result<PromotionPrices, Error> {
    let is_whole = |result: &ProbeResult| priced(result, bytes).assumed.is_empty();
    Ok(priced(&probe::of_host(probe, listener, is_whole)?, bytes))
}

fn priced(result: &ProbeResult, bytes: u64) -> PromotionPrices {
    let mut probed = ProbePrices::new(result);
    let WalkTimes { alone, together, .. } = probed.nearest_walk(bytes);
    let collapse = probed.price("collapse.2m").value;
    let entries = probed.entries();
    let (walk, walk_alone) = (together.value, alone.value);
    let bounds = [together.low.min(alone.low), alone.high.max(together.high)];
    PromotionPrices {
        prices: PromotionCosts { walk, walk_alone, collapse, bounds },
        entries,
        assumed: probed.assumed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe_of;

    #[test]
    fn a_probe_without_figures_does() {
        let PromotionPrices { prices, entries, assumed } = priced(&probe_of(&[]), 256 << 20);
        let PromotionCosts { walk, walk_alone, collapse, bounds: [low, high] } = prices;
        assert!(
            0.0 < low && low < walk && walk < walk_alone && walk_alone < high && high < collapse,
            "{prices:?}"
        );
        assert_eq!((entries, assumed.len()), (1536, 4), "two of walks, a collapse, entries");
        let known = probe_of(&[
            ("walk_extra.256m.chains_1", Some(60.0)),
            ("walk_extra.256m.chains_8", Some(8.0)),
            ("collapse.2m", None),
        ]);
        let PromotionPrices { prices, assumed, .. } = priced(&known, 256 << 20);
        assert_eq!((prices.walk, prices.walk_alone, prices.bounds), (8.0, 60.0, [8.0, 60.0]));
        assert_eq!(assumed[0].figure, "collapse.2m");
    }
}
