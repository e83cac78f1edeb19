//! What decides here: what walks and promotions cost on this host, and what its TLB holds.

use crate::arguments::Promote;
use crate::error::CliError;
use crate::probed;
use pagewalk_live::promote::Prices;
use pagewalk_report::probe::ProbeResult;

/// Footprints at which the probe measured walks, with their bytes.
const FOOTPRINTS: [(&str, u64); 3] = [("32m", 32 << 20), ("256m", 256 << 20), ("1g", 1 << 30)];
const COLLAPSE: &str = "collapse.2m";

/// The prices for a process with so many bytes, and the entries for base pages of the last level of TLBs.
pub fn of_host(arguments: &Promote, bytes: u64) -> Result<(Prices, u32), CliError> {
    let check = |result: &ProbeResult| prices(result, bytes).map(drop);
    let result = probed::of_host(arguments.probe.as_deref(), arguments.quiet, check)?;
    prices(&result, bytes).map_err(|missing| probed::lacks(&missing))
}

/// By the nearest footprint of which the probe has the price of walks that overlap; without any, of which it has the
/// other. The name of the figure that is missing, if one is.
fn prices(result: &ProbeResult, bytes: u64) -> Result<(Prices, u32), String> {
    let walk = |footprint: &str, chains: u32| {
        let value = probed::figure(result, &format!("walk_extra.{footprint}.chains_{chains}"));
        value.filter(|&nanoseconds| nanoseconds > 0.0)
    };
    let overlapping = |footprint: &str| [8, 4, 2].into_iter().find_map(|chains| walk(footprint, chains));
    let distance = |of: u64| (bytes.max(1) as f64 / of as f64).log2().abs();
    let known = FOOTPRINTS.iter().filter_map(|&(name, of)| Some((of, walk(name, 1)?, overlapping(name))));
    let nearest =
        known.min_by(|a, b| a.2.is_none().cmp(&b.2.is_none()).then(distance(a.0).total_cmp(&distance(b.0))));
    let (_, alone, overlapping) =
        nearest.ok_or_else(|| format!("walk_extra.{}.chains_1", FOOTPRINTS[0].0))?;
    let overlapping = overlapping.unwrap_or(alone);
    let collapse = probed::figure(result, COLLAPSE).ok_or(COLLAPSE)?;
    let base = result.tlbs.iter().filter(|tlb| tlb.page == "4K");
    let entries =
        base.map(|tlb| tlb.entries.unwrap_or(tlb.assumed.entries)).max().ok_or("TLB for 4 KB pages")?;
    let prices = Prices { walk: overlapping.min(alone), walk_alone: alone.max(overlapping), collapse };
    Ok((prices, entries as u32))
}
