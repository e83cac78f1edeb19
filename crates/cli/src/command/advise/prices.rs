//! What walks and faults take on this host: from a probe, the last one or a new one.

use crate::arguments::Advise;
use crate::error::{CliError, Code};
use crate::folders;
use crate::progress;
use pagewalk_capture::Host;
use pagewalk_forecast::Prices;
use pagewalk_forecast::prices::WalkPrice;
use pagewalk_live::probe::{self, Options};
use pagewalk_report::probe::ProbeResult;
use std::fs;
use std::path::{Path, PathBuf};

/// Footprints of the probe's walks: a random order of pages reads as many other lines of page tables, of 8 pages each,
/// before it comes to one again.
const FOOTPRINTS: [(&str, u64); 3] = [("32m", 1 << 10), ("256m", 1 << 13), ("1g", 1 << 15)];
/// Lines of the pages at which the probe finds a walk that hits its caches.
const NEAR_LINES: u64 = 1 << 8;

/// The prices of this host.
pub fn of_host(arguments: &Advise) -> Result<Prices, CliError> {
    let result = match &arguments.probe {
        Some(path) => read(path)?,
        None => last_or_new(arguments)?,
    };
    prices(&result).map_err(|missing| {
        CliError::new(Code::HostCannot, format!("the probe of this host has no {missing}"))
            .or("take one with nothing else running: pagewalk probe -o probe.json, then --probe probe.json")
    })
}

fn read(path: &Path) -> Result<ProbeResult, CliError> {
    let bad = |error: &dyn std::fmt::Display| {
        CliError::new(Code::BadInput, format!("{}: {error}", path.display()))
            .or("a probe is made by `pagewalk probe -o FILE.json`")
    };
    let text = fs::read_to_string(path).map_err(|error| bad(&error))?;
    pagewalk_report::probe::from_json(&text).map_err(|error| bad(&error))
}

/// Where the last probe is kept.
fn kept() -> Option<PathBuf> {
    folders::cache().map(|folder| folder.join("probe.json"))
}

/// The last probe if it is of this host and kernel, otherwise a new one, which is kept.
fn last_or_new(arguments: &Advise) -> Result<ProbeResult, CliError> {
    let host = Host::detect();
    let kept = kept();
    let last = kept.as_deref().and_then(|path| read(path).ok());
    if let Some(last) = last.filter(|last| last.host.cpu == host.cpu && last.host.kernel == host.kernel) {
        return Ok(last);
    }
    let bar = progress::shares("probing this host", arguments.style.quiet);
    let measured = probe::measure(Options::default(), |what, share| {
        bar.set_message(what.to_owned());
        bar.set_position((share * 100.0) as u64);
    });
    bar.finish_and_clear();
    let measured = measured.map_err(|error| CliError::new(Code::HostCannot, error))?;
    let result = crate::command::probe::result::of(&measured, &host, None);
    // One that misses something is taken anew the next time.
    if prices(&result).is_ok()
        && let Some(path) = kept
        && let Some(folder) = path.parent()
    {
        // Only the next run's time is lost if it cannot be kept.
        let _ = fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, pagewalk_report::probe::to_json(&result)));
    }
    Ok(result)
}

/// The prices of a probe; the name of the figure that it needs and has not.
fn prices(result: &ProbeResult) -> Result<Prices, String> {
    let value =
        |name: &str| result.figures.iter().find(|figure| figure.name == name).and_then(|figure| figure.value);
    let needed = |name: &str| value(name).ok_or_else(|| name.to_owned());
    let near = needed("tlb.4k.walk_extra")?;
    let mut walks = vec![WalkPrice { lines: NEAR_LINES, alone: near, together: near / 2.0 }];
    for (footprint, lines) in FOOTPRINTS {
        let of = |chains: u32| value(&format!("walk_extra.{footprint}.chains_{chains}"));
        // Footprints beyond the memory at hand are not measured: the largest that was stands for them.
        if let Some(alone) = of(1) {
            let together = [8, 4, 2].into_iter().find_map(of).unwrap_or(alone);
            walks.push(WalkPrice { lines, alone, together });
        }
    }
    if walks.len() == 1 {
        return Err("walk_extra.32m.chains_1".to_owned());
    }
    Ok(Prices {
        walks,
        huge_walk: value("tlb.2m.walk_extra").unwrap_or(near),
        fault: needed("fault.anonymous_4k")?,
        huge_fault: needed("fault.anonymous_2m")?,
    })
}
