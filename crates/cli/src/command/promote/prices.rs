//! What decides here: what walks and promotions cost on this host, and what its TLB holds.

use crate::error::CliError;
use crate::probed::{self, Walk};
use pagewalk_live::promote::Prices;
use pagewalk_report::probe::ProbeResult;
use std::path::Path;

const COLLAPSE: &str = "collapse.2m";

/// The prices for a process with so many bytes, and the entries for base pages of the last level of TLBs.
pub fn of_host(probe: Option<&Path>, quiet: bool, bytes: u64) -> Result<(Prices, u32), CliError> {
    let check = |result: &ProbeResult| prices(result, bytes).map(drop);
    let result = probed::of_host(probe, quiet, check)?;
    prices(&result, bytes).map_err(|missing| probed::lacks(&missing))
}

/// By the nearest footprint of which the probe has the price of walks that overlap; without any, of which it has the
/// other. The name of the figure that is missing, if one is.
fn prices(result: &ProbeResult, bytes: u64) -> Result<(Prices, u32), String> {
    let distance = |walk: &Walk| (bytes.max(1) as f64 / walk.bytes as f64).log2().abs();
    let order = |a: &Walk, b: &Walk| {
        a.together.is_none().cmp(&b.together.is_none()).then(distance(a).total_cmp(&distance(b)))
    };
    let nearest = probed::walks(result)?.into_iter().min_by(order);
    let Walk { alone, together, .. } = nearest.expect("there is one, or its name is told");
    let together = together.unwrap_or(alone);
    let collapse = probed::figure(result, COLLAPSE).ok_or(COLLAPSE)?;
    let base = result.tlbs.iter().filter(|tlb| tlb.page == "4K");
    let entries =
        base.map(|tlb| tlb.entries.unwrap_or(tlb.assumed.entries)).max().ok_or("TLB for 4 KB pages")?;
    let prices = Prices { walk: together.min(alone), walk_alone: alone.max(together), collapse };
    Ok((prices, entries as u32))
}
