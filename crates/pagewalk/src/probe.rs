//! Timings of this host, and its prices for walks and pages: from a given probe, the last one, or a new one; with
//! assumed values for what could not be measured.
//!
//! Other users of the host can keep a probe from some figures. Such a probe is kept all the same, and the missing
//! figures are measured again later; it is never an error.

mod prices;
mod result;

pub use pagewalk_live::probe::ProbeOptions;
pub(crate) use prices::{AssumedPrice, Price, ProbePrices, WalkTimes, assumed_lines, assumed_values};

#[cfg(test)]
pub(crate) use prices::tests::probe as probe_of;

use crate::error::{Error, Fault};
use crate::folders;
use crate::listener::Listener;
use pagewalk_capture::HostDescription;
use pagewalk_live::probe::{self, Probe, machine_file};
use pagewalk_report::probe::ProbeResult;
use pagewalk_translate::MachineSpec;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The age at which an incomplete probe is repeated. A probe takes up to a minute, and what disturbed the last one
/// mostly lasts.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// The probe at `path`; without a path, the last one if it is of this host and kernel and is either whole or recent;
/// otherwise a new one, which is saved with the gaps filled from the last one. `is_whole` tests for all needed figures.
pub(crate) fn of_host(
    path: Option<&Path>,
    listener: &dyn Listener,
    is_whole: impl Fn(&ProbeResult) -> bool,
) -> Result<ProbeResult, Error> {
    if let Some(path) = path {
        return read(path);
    }
    let host = HostDescription::detect();
    let kept = saved_path();
    let last = kept.as_deref().and_then(|path| read(path).ok());
    let last = last.filter(|last| last.host.cpu == host.cpu && last.host.kernel == host.kernel);
    match last {
        Some(last) if is_whole(&last) || kept.as_deref().is_some_and(is_recent) => Ok(last),
        last => {
            let result = taken(&host, last, listener)?;
            if let Some(path) = kept
                && let Some(folder) = path.parent()
            {
                // A failure to save costs only the next run's time.
                let _ = fs::create_dir_all(folder)
                    .and_then(|()| fs::write(&path, pagewalk_report::probe::to_json(&result)));
            }
            Ok(result)
        }
    }
}

/// A probe of this host, and the machine file that stands for it.
pub struct HostProbe {
    /// The figures.
    pub result: ProbeResult,
    /// The machine file's text.
    pub machine: String,
}

/// Measures this host, and compares the result with `compared`.
///
/// # Errors
/// If the processor cannot be measured on, or the caller stops the probe, which then ends after its present part.
pub fn measure(
    options: ProbeOptions,
    compared: Option<&MachineSpec>,
    listener: &dyn Listener,
) -> Result<HostProbe, Error> {
    let measured = timed(options, "probe", listener)?;
    let host = HostDescription::detect();
    let machine = machine_file(&measured, &host.cpu, &host.kernel);
    Ok(HostProbe { result: result::build(&measured, &host, compared), machine })
}

fn timed(options: ProbeOptions, what: &str, listener: &dyn Listener) -> Result<Probe, Error> {
    let bar = listener.shares(what);
    let measured = probe::measure(options, |what, share| {
        bar.reach((share * 100.0) as u64, what);
        if bar.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let measured = measured.map_err(|error| {
        Error::new(Fault::HostCannot, error)
            .or("choose another with --cpu, or widen the mask (taskset, the control group's cpuset.cpus)")
    })?;
    measured.ok_or_else(|| Error::new(Fault::Failed, "the probe was stopped"))
}

/// A new probe; gaps are filled from `last`.
fn taken(
    host: &HostDescription,
    last: Option<ProbeResult>,
    listener: &dyn Listener,
) -> Result<ProbeResult, Error> {
    listener.note(&"measuring what walks and pages take on this host: up to a minute, kept for later runs");
    // On a thread of its own: measuring pins the thread to a processor, and whatever it starts.
    let measure = || timed(ProbeOptions::default(), "probing this host", listener);
    let measured = std::thread::scope(|scope| scope.spawn(measure).join());
    let measured = measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let result = result::build(&measured, host, None);
    Ok(match last {
        Some(last) => filled(result, last),
        None => result,
    })
}

/// A probe with its gaps filled from an earlier one.
fn filled(mut result: ProbeResult, last: ProbeResult) -> ProbeResult {
    for earlier in last.figures.into_iter().filter(|figure| figure.value.is_some()) {
        match result.figures.iter_mut().find(|figure| figure.name == earlier.name) {
            Some(figure) if figure.value.is_none() => *figure = earlier,
            Some(_) => {}
            None => result.figures.push(earlier),
        }
    }
    let has = |page: &str| result.tlbs.iter().any(|tlb| tlb.page == page);
    let missing: Vec<_> = last.tlbs.into_iter().filter(|tlb| !has(&tlb.page)).collect();
    result.tlbs.extend(missing);
    result
}

fn is_recent(path: &Path) -> bool {
    let age = fs::metadata(path).and_then(|file| file.modified()).ok().and_then(|when| when.elapsed().ok());
    age.is_some_and(|age| age < TRIED_AGAIN_AFTER)
}

fn read(path: &Path) -> Result<ProbeResult, Error> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::new(Fault::BadInput, format!("{}: {error}", path.display()))
            .or("a probe is made by `pagewalk probe -o FILE.json`")
    };
    let text = fs::read_to_string(path).map_err(|error| bad(&error))?;
    pagewalk_report::probe::from_json(&text).map_err(|error| bad(&error))
}

/// Where the last probe is saved.
fn saved_path() -> Option<PathBuf> {
    folders::cache().map(|folder| folder.join("probe.json"))
}

#[cfg(test)]
mod tests {
    use super::probe_of as probe;
    use super::*;

    #[test]
    fn what_was_measured_before_is_kept() {
        let last = probe(&[("collapse.2m", Some(4.0)), ("fault.anonymous_4k", Some(5.0))]);
        let busy = probe(&[("collapse.2m", None), ("fault.anonymous_4k", Some(6.0))]);
        let last = filled(busy, last);
        let value = |name| last.figure(name).and_then(|figure| figure.value);
        assert_eq!((value("collapse.2m"), value("fault.anonymous_4k")), (Some(4.0), Some(6.0)));
        let nothing = filled(probe(&[]), last);
        assert_eq!(nothing.figures.len(), 2, "also what a probe has no line for");
    }
}
