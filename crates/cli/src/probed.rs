//! What this host takes for walks and pages: from a probe that is given, the last one, or a new one.

use crate::error::{CliError, Code};
use crate::output::say;
use crate::{folders, progress};
use pagewalk_capture::Host;
use pagewalk_live::probe::{self, Options};
use pagewalk_report::probe::ProbeResult;
use std::fs;
use std::path::{Path, PathBuf};

/// The probe at `path`; without, the last one if it is of this host and kernel and has what is needed, otherwise a new
/// one, which is kept. `check` names the figure that one lacks.
pub fn of_host(
    path: Option<&Path>,
    quiet: bool,
    check: impl Fn(&ProbeResult) -> Result<(), String>,
) -> Result<ProbeResult, CliError> {
    if let Some(path) = path {
        return read(path);
    }
    let host = Host::detect();
    let kept = kept();
    let last = kept.as_deref().and_then(|path| read(path).ok());
    let is_ours = |last: &ProbeResult| last.host.cpu == host.cpu && last.host.kernel == host.kernel;
    if let Some(last) = last.filter(|last| is_ours(last) && check(last).is_ok()) {
        return Ok(last);
    }
    if !quiet {
        say("measuring what walks and pages take on this host: up to a minute, kept for later runs");
    }
    let bar = progress::shares("probing this host", quiet);
    let measure = || {
        probe::measure(Options::default(), |what, share| {
            bar.set_message(what.to_owned());
            bar.set_position((share * 100.0) as u64);
        })
    };
    // On a thread of its own: that one stays on one processor, and with it all that it would begin.
    let measured = std::thread::scope(|scope| scope.spawn(measure).join());
    let measured = measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    bar.finish_and_clear();
    let measured = measured.map_err(|error| CliError::new(Code::HostCannot, error))?;
    let result = crate::command::probe::result::of(&measured, &host, None);
    // One that misses something is taken anew the next time.
    if check(&result).is_ok()
        && let Some(path) = kept
        && let Some(folder) = path.parent()
    {
        // Only the next run's time is lost if it cannot be kept.
        let _ = fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, pagewalk_report::probe::to_json(&result)));
    }
    Ok(result)
}

/// A probe has not what is needed.
pub fn lacks(figure: &str) -> CliError {
    CliError::new(Code::HostCannot, format!("the probe of this host has no {figure}"))
        .or("take one with nothing else running: pagewalk probe -o probe.json, then --probe probe.json")
}

/// The value of a figure; none if it is not there or was refused.
pub fn figure(result: &ProbeResult, name: &str) -> Option<f64> {
    result.figures.iter().find(|figure| figure.name == name).and_then(|figure| figure.value)
}

/// What a walk takes at each footprint of the probe that was measured.
pub struct Walk {
    /// Pages' bytes.
    pub bytes: u64,
    /// Nanoseconds if each waits for the one before.
    pub alone: f64,
    /// Nanoseconds of each of as many as were measured at once; none if that was refused.
    pub together: Option<f64>,
}

/// All of them, smallest footprint first; the name of the first figure if there is none.
pub fn walks(result: &ProbeResult) -> Result<Vec<Walk>, String> {
    const FOOTPRINTS: [(&str, u64); 3] = [("32m", 32 << 20), ("256m", 256 << 20), ("1g", 1 << 30)];
    let name = |footprint: &str, chains: u32| format!("walk_extra.{footprint}.chains_{chains}");
    let walk = |&(footprint, bytes): &(&str, u64)| {
        let of = |chains| figure(result, &name(footprint, chains)).filter(|&nanoseconds| nanoseconds > 0.0);
        Some(Walk { bytes, alone: of(1)?, together: [8, 4, 2].into_iter().find_map(of) })
    };
    let walks: Vec<Walk> = FOOTPRINTS.iter().filter_map(walk).collect();
    if walks.is_empty() { Err(name(FOOTPRINTS[0].0, 1)) } else { Ok(walks) }
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
