//! What walks and faults take on this host, from a probe.

use crate::arguments::Advise;
use crate::error::CliError;
use crate::probed;
use pagewalk_forecast::Prices;
use pagewalk_forecast::prices::WalkPrice;
use pagewalk_report::probe::ProbeResult;

/// A random order of pages reads as many other lines of page tables, of 8 pages each, before it comes to one again.
const BYTES_OF_A_LINE: u64 = 8 * 4096;
/// Lines of the pages at which the probe finds a walk that hits its caches.
const NEAR_LINES: u64 = 1 << 8;

/// The prices of this host.
pub fn of_host(arguments: &Advise) -> Result<Prices, CliError> {
    let result = probed::of_host(arguments.probe.as_deref(), arguments.style.quiet, |result| {
        prices(result).map(drop)
    })?;
    prices(&result).map_err(|missing| probed::lacks(&missing))
}

/// The prices of a probe; the name of the figure that it needs and has not.
fn prices(result: &ProbeResult) -> Result<Prices, String> {
    let value = |name: &str| probed::figure(result, name);
    let needed = |name: &str| value(name).ok_or_else(|| name.to_owned());
    let near = needed("tlb.4k.walk_extra")?;
    let mut walks = vec![WalkPrice { lines: NEAR_LINES, alone: near, together: near / 2.0 }];
    // Footprints beyond the memory at hand are not measured: the largest that was stands for them.
    walks.extend(probed::walks(result)?.into_iter().map(|walk| WalkPrice {
        lines: walk.bytes / BYTES_OF_A_LINE,
        alone: walk.alone,
        together: walk.together.unwrap_or(walk.alone),
    }));
    Ok(Prices {
        walks,
        huge_walk: value("tlb.2m.walk_extra").unwrap_or(near),
        fault: needed("fault.anonymous_4k")?,
        huge_fault: needed("fault.anonymous_2m")?,
    })
}
