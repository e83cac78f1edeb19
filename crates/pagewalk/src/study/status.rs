//! How far a study is: told by the files in its folder, which any host that sees the folder can read.

use super::{CLAIMS, UNITS, study_error};
use crate::error::{Error, Fault};
use pagewalk_report::classes::{Class, classes};
use pagewalk_report::documents::study::{SWEEP_STATUS_SCHEMA, SweepJob, SweepStatusResult, SweepWorker};
use pagewalk_sweep::{Claims, write_whole};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file that lists a study's work. It is written when all recordings and plans are made.
pub(super) const WORK: &str = "work.json";

/// The work of a study.
#[derive(Serialize, Deserialize)]
struct Work {
    /// The study's name.
    name: String,
    /// Each job's title, and the file names of its units.
    jobs: Vec<(String, Vec<String>)>,
}

/// Writes the list of work for [`status`].
pub(super) fn write_work(folder: &Path, name: &str, jobs: Vec<(String, Vec<String>)>) -> Result<(), Error> {
    let work = Work { name: name.to_owned(), jobs };
    let text = serde_json::to_vec(&work).expect("a list of work is plain");
    write_whole(&folder.join(WORK), &text).map_err(study_error)
}

/// How far the study in `folder` is, and who works on it.
///
/// # Errors
/// If no study has begun there.
pub fn status(folder: &Path) -> Result<SweepStatusResult, Error> {
    let now = SystemTime::now();
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let workers = workers(folder, since_epoch);
    let path = folder.join(WORK);
    let read = std::fs::read(&path).map_err(|e| e.to_string());
    let work = read.and_then(|text| serde_json::from_slice::<Work>(&text).map_err(|e| e.to_string()));
    let Work { name, jobs } = work.or_else(|error| match workers.is_empty() {
        // It is not written yet.
        false => Ok(Work { name: folder.display().to_string(), jobs: Vec::new() }),
        true => Err(Error::new(Fault::BadInput, format!("{}: {error}", path.display())).or(
            "`pagewalk sweep` writes it when it has all recordings and plans; if it was given -o, name that folder",
        )),
    })?;
    let ages = |units: &[String]| -> Vec<Duration> {
        units.iter().filter_map(|unit| age(&folder.join(UNITS).join(unit), now)).collect()
    };
    let done: Vec<Vec<Duration>> = jobs.iter().map(|(_, units)| ages(units)).collect();
    let units = jobs.iter().map(|(_, units)| units.len() as u64).sum();
    let units_done = done.iter().map(|ages| ages.len() as u64).sum();
    let seconds = workers.iter().map(|worker| worker.seconds).max();
    let seconds_left = seconds.and_then(|seconds| seconds_left(seconds, &done, units - units_done));
    let unfinished = jobs.into_iter().zip(&done).filter(|((_, units), done)| units.len() > done.len());
    Ok(SweepStatusResult {
        schema: SWEEP_STATUS_SCHEMA,
        name,
        units,
        units_done,
        seconds_left,
        workers,
        jobs: unfinished.map(|((title, units), done)| job(title, &units, done)).collect(),
        classes: classes(&[
            (Class::Measured, &["units", "units_done", "seconds"]),
            (Class::Modelled, &["seconds_left"]),
        ]),
    })
}

/// The processes at work, with the jobs that they have claimed.
fn workers(folder: &Path, now: u64) -> Vec<SweepWorker> {
    let mut workers: Vec<SweepWorker> = Vec::new();
    for claim in Claims::workers(&folder.join(CLAIMS)) {
        let is_its = |worker: &&mut SweepWorker| (&worker.host, worker.pid) == (&claim.host, claim.pid);
        match workers.iter_mut().find(is_its) {
            Some(worker) => worker.jobs.push(claim.job),
            None => workers.push(SweepWorker {
                host: claim.host,
                pid: claim.pid,
                seconds: now.saturating_sub(claim.since),
                jobs: vec![claim.job],
            }),
        }
    }
    workers
}

fn job(title: String, units: &[String], done: &[Duration]) -> SweepJob {
    SweepJob { title, units: units.len() as u64, units_done: done.len() as u64 }
}

/// How long ago a file was written; `None` if it is missing. The clocks of hosts may differ.
fn age(path: &Path, now: SystemTime) -> Option<Duration> {
    let written = std::fs::metadata(path).and_then(|about| about.modified()).ok()?;
    Some(now.duration_since(written).unwrap_or_default())
}

/// Seconds for this many units, at the speed of the last `seconds`.
fn seconds_left(seconds: u64, done: &[Vec<Duration>], units: u64) -> Option<f64> {
    let window = Duration::from_secs(seconds.max(1));
    let recent = done.iter().flatten().filter(|age| **age <= window).count();
    (recent > 0).then(|| units as f64 * window.as_secs_f64() / recent as f64)
}
