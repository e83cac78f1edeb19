//! Controls DAMON through sysfs: a kernel thread that watches the accessed bits of given frames for a while.
//!
//! Dropping a [`Control`] removes all settings: it refuses to start if there were any before.

use super::super::sampler::{SamplerKind, UnusableSampler};
use crate::tracing::sys;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// Bytes of a DAMON region: one page.
pub const REGION_BYTES: u64 = 4096;
/// More than our regions: above this number DAMON merges regions, and below half of it splits them, which regions of
/// one page cannot be.
const REGIONS_MAX: u32 = 100_000;

/// Exclusive use of DAMON.
#[derive(Debug)]
pub struct Control {
    regions: usize,
    /// Processor time of its kernel threads, in seconds.
    pub kernel_seconds: f64,
}

impl Control {
    /// Takes DAMON if nobody uses it. Starts nothing yet.
    ///
    /// # Errors
    /// If the kernel has none, it is in use, or this user may not.
    pub fn take() -> Result<Control, UnusableSampler> {
        check()?;
        write(Path::new(ADMIN), "nr_kdamonds", 1u32).map_err(failed)?;
        // From here on, dropping it restores everything.
        let control = Control { regions: 0, kernel_seconds: 0.0 };
        let operations = prepare().map_err(failed)?;
        if !operations.split_whitespace().any(|name| name == "paddr") {
            return Err(unable(
                format!("this kernel's DAMON knows no physical addresses, only: {}", operations.trim()),
                "a kernel with CONFIG_DAMON_PADDR",
            ));
        }
        write(&context(), "operations", "paddr").map_err(failed)?;
        Ok(control)
    }

    /// How many times, in `looks` looks that are `interval` apart, each frame's page was accessed since the look
    /// before. `frames` are addresses in order, no two of them neighbours. Frames that DAMON cannot watch, or that were
    /// never accessed, are left out.
    ///
    /// # Errors
    /// If DAMON is taken from us, or others have begun to use it.
    pub fn watch(&mut self, frames: &[u64], interval: Duration, looks: u32) -> io::Result<Vec<(u64, u32)>> {
        self.set_regions(frames)?;
        let intervals = context().join("monitoring_attrs/intervals");
        let micros = interval.as_micros() as u64;
        write(&intervals, "sample_us", micros)?;
        write(&intervals, "aggr_us", micros * u64::from(looks))?;
        // The period of region updates: longer than the run.
        write(&intervals, "update_us", micros * u64::from(looks) * 1000)?;
        write(&kdamond(), "state", "on")?;
        let found = write(&kdamond(), "state", "update_schemes_tried_regions").and_then(|()| tried(looks));
        self.count_time();
        let ended = write(&kdamond(), "state", "off");
        found.and_then(|found| ended.map(|()| found))
    }

    fn set_regions(&mut self, frames: &[u64]) -> io::Result<()> {
        let folder = context().join("targets/0/regions");
        if self.regions != frames.len() {
            write(&folder, "nr_regions", frames.len())?;
            self.regions = frames.len();
        }
        for (number, &frame) in frames.iter().enumerate() {
            let region = folder.join(number.to_string());
            write(&region, "start", frame)?;
            write(&region, "end", frame + REGION_BYTES)?;
        }
        Ok(())
    }

    /// Adds the present kernel thread's time, as the thread ends when switched off.
    fn count_time(&mut self) {
        let pid = fs::read_to_string(kdamond().join("pid")).ok().and_then(|text| text.trim().parse().ok());
        // The time of a thread that already ended is lost: too little to report.
        self.kernel_seconds += pid.and_then(|pid| sys::processor_seconds(pid).ok()).unwrap_or(0.0);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Fails if it is already off; a failure to give DAMON back cannot be reported.
        let _ = write(&kdamond(), "state", "off");
        let _ = write(Path::new(ADMIN), "nr_kdamonds", 0u32);
    }
}

/// Whether DAMON exists, is free, and this user may set it. Changes nothing.
///
/// # Errors
/// Why not.
pub fn check() -> Result<(), UnusableSampler> {
    let count = Path::new(ADMIN).join("nr_kdamonds");
    let text = fs::read_to_string(&count).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => unable(
            "this kernel has no DAMON, or none that is set by files in /sys",
            "a kernel with CONFIG_DAMON, CONFIG_DAMON_PADDR and CONFIG_DAMON_SYSFS, and /sys mounted",
        ),
        _ => failed(error),
    })?;
    if text.trim() != "0" {
        return Err(in_use(text.trim()));
    }
    fs::OpenOptions::new().write(true).open(&count).map(drop).map_err(failed)
}

fn kdamond() -> PathBuf {
    Path::new(ADMIN).join("0")
}

fn context() -> PathBuf {
    kdamond().join("contexts/0")
}

/// Sets everything except operations, regions and intervals. Returns the available operations.
fn prepare() -> io::Result<String> {
    write(&kdamond().join("contexts"), "nr_contexts", 1u32)?;
    let context = context();
    write(&context.join("monitoring_attrs/nr_regions"), "max", REGIONS_MAX)?;
    write(&context.join("targets"), "nr_targets", 1u32)?;
    // A scheme that only reports the regions it met: all.
    write(&context.join("schemes"), "nr_schemes", 1u32)?;
    let scheme = context.join("schemes/0");
    write(&scheme, "action", "stat")?;
    let pattern = scheme.join("access_pattern");
    for (what, most) in [("sz", u64::MAX), ("nr_accesses", u32::MAX.into()), ("age", u32::MAX.into())] {
        write(&pattern.join(what), "min", 0u32)?;
        write(&pattern.join(what), "max", most)?;
    }
    // Leaves out regions that were never accessed.
    write(&pattern.join("nr_accesses"), "min", 1u32)?;
    fs::read_to_string(context.join("avail_operations"))
}

/// The accessed regions, and how often.
fn tried(looks: u32) -> io::Result<Vec<(u64, u32)>> {
    let folder = context().join("schemes/0/tried_regions");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let (start, times) = (number(&entry.path(), "start")?, number(&entry.path(), "nr_accesses")?);
            found.push((start, (times as u32).min(looks)));
        }
    }
    Ok(found)
}

fn write(folder: &Path, name: &str, value: impl std::fmt::Display) -> io::Result<()> {
    let path = folder.join(name);
    fs::write(&path, value.to_string()).map_err(|error| at(&path, error))
}

fn number(folder: &Path, name: &str) -> io::Result<u64> {
    let path = folder.join(name);
    let text = fs::read_to_string(&path).map_err(|error| at(&path, error))?;
    text.trim().parse().map_err(|_| io::Error::other(format!("{}: {text:?}", path.display())))
}

/// Adds the file to an error.
fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn unable(why: impl Into<String>, enable: impl Into<String>) -> UnusableSampler {
    UnusableSampler::new(SamplerKind::Damon, why, enable)
}

fn in_use(count: &str) -> UnusableSampler {
    let state = fs::read_to_string(kdamond().join("state")).unwrap_or_default();
    unable(
        format!("DAMON is in use: {count} kdamonds are set up in {ADMIN}, the first is {}", state.trim()),
        "end whoever uses it; what a killed pagewalk left is taken away by `echo off > 0/state` and \
         `echo 0 > nr_kdamonds` in that folder",
    )
}

fn failed(error: io::Error) -> UnusableSampler {
    let enable = match error.kind() {
        io::ErrorKind::PermissionDenied => "run pagewalk as root (sudo), with /sys writable",
        io::ErrorKind::ReadOnlyFilesystem => "mount /sys writable; a container needs --privileged",
        io::ErrorKind::ResourceBusy => {
            "end whoever uses DAMON: DAMON_STAT, DAMON_RECLAIM and DAMON_LRU_SORT do"
        }
        _ => "another way to sample: --sampler",
    };
    unable(format!("DAMON cannot be set up: {error}"), enable)
}
