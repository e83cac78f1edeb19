//! Prices of walks and faults on this host, from a probe.

use crate::error::Error;
use crate::listener::Listener;
use crate::probe::{self, AssumedPrice, Price, ProbePrices, WalkTimes};
use pagewalk_forecast::HostPrices;
use pagewalk_forecast::prices::{Spread, WalkPrice};
use pagewalk_report::probe::ProbeResult;
use std::path::Path;

/// In random order over a footprint, a page's line of page table (8 pages) is read again after about as many other
/// lines as the footprint has: one per this many bytes.
const BYTES_OF_A_LINE: u64 = 8 * 4096;
/// Page-table lines of the footprint at which the probe measures walks that hit its caches.
const NEAR_LINES: u64 = 1 << 8;

/// This host's prices, and which of them are assumed.
pub fn of_host(
    probe: Option<&Path>,
    listener: &dyn Listener,
) -> Result<(HostPrices, Vec<AssumedPrice>), Error> {
    let is_whole = |result: &ProbeResult| prices(result).1.is_empty();
    let result = probe::of_host(probe, listener, is_whole)?;
    Ok(prices(&result))
}

/// The prices of a probe.
fn prices(result: &ProbeResult) -> (HostPrices, Vec<AssumedPrice>) {
    let mut probed = ProbePrices::new(result);
    let near = probed.price("tlb.4k.walk_extra");
    // Footprints beyond free memory are not measured: the largest measured one stands for them.
    let far = probed.walks();
    let mut walks = vec![WalkPrice { lines: NEAR_LINES, alone: near.value, together: near.value / 2.0 }];
    walks.extend(far.iter().map(|walk| WalkPrice {
        lines: walk.bytes / BYTES_OF_A_LINE,
        alone: walk.alone.value,
        together: walk.together.value,
    }));
    let (fault, huge_fault) = (probed.price("fault.anonymous_4k"), probed.price("fault.anonymous_2m"));
    let spread = Spread {
        walks: widest(near, &far),
        fault: [fault.low, fault.high],
        huge_fault: [huge_fault.low, huge_fault.high],
    };
    let huge_walk = probed.value("tlb.2m.walk_extra").unwrap_or(near.value);
    let prices = HostPrices { walks, huge_walk, fault: fault.value, huge_fault: huge_fault.value, spread };
    (prices, probed.assumed)
}

/// By which factors the least certain walk price may be off, at least and at most.
fn widest(near: Price, far: &[WalkTimes]) -> [f64; 2] {
    let all = far.iter().flat_map(|walk| [walk.alone, walk.together]).chain([near]);
    all.fold([1.0, 1.0], |[least, most], Price { value, low, high }| {
        [f64::min(least, low / value), f64::max(most, high / value)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe_of;

    #[test]
    fn a_probe_without_figures_does() {
        let (usual, assumed) = prices(&probe_of(&[]));
        assert!(usual.fault > 0.0 && usual.huge_fault > usual.fault && usual.walks.len() == 4, "{usual:?}");
        assert!(usual.spread.walks[0] < 1.0 && usual.spread.walks[1] > 1.0, "{usual:?}");
        assert_eq!(assumed.len(), 9);
        let measured = probe_of(&[
            ("tlb.4k.walk_extra", Some(14.0)),
            ("walk_extra.32m.chains_1", Some(40.0)),
            ("walk_extra.32m.chains_8", Some(8.0)),
            ("fault.anonymous_4k", Some(500.0)),
            ("fault.anonymous_2m", Some(90_000.0)),
        ]);
        let (known, assumed) = prices(&measured);
        assert_eq!((known.spread.walks, assumed), ([1.0, 1.0], Vec::new()));
        assert_eq!(known.spread.fault, [500.0, 500.0]);
    }
}
