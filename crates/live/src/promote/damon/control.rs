//! DAMON's files in sysfs: a kernel thread that looks at the accessed bits of given frames for a while.
//!
//! All that is set here is taken away again when a [`Control`] is dropped: there was nothing before, or it is refused.

use super::super::sampler::{SamplerKind, UnusableSampler};
use crate::tracing::sys;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// Bytes of a region: one page.
pub const REGION_BYTES: u64 = 4096;
/// More regions than ours: DAMON merges what touches when there are more than this, and splits up to half of it, which
/// regions of one page cannot be.
const REGIONS_MAX: u32 = 100_000;

/// DAMON, as long as it is ours.
#[derive(Debug)]
pub struct Control {
    regions: usize,
    /// Processor time that kernel threads have used for it, in seconds.
    pub kernel_seconds: f64,
}

impl Control {
    /// Takes DAMON, if nobody uses it. Nothing runs yet.
    ///
    /// # Errors
    /// If the kernel has none, it is in use, or this user may not.
    pub fn take() -> Result<Control, UnusableSampler> {
        check()?;
        write(Path::new(ADMIN), "nr_kdamonds", 1u32).map_err(failed)?;
        // From here on it is given back, whatever happens.
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

    /// How many times, of `looks` that are `interval` apart, the page of each frame was accessed since the look before.
    /// `frames` are addresses, in order, of which no two are neighbours. Frames that DAMON cannot look at are left out
    /// or were never accessed.
    ///
    /// # Errors
    /// If DAMON is taken away from us, or others have begun to use it.
    pub fn look(&mut self, frames: &[u64], interval: Duration, looks: u32) -> io::Result<Vec<(u64, u32)>> {
        self.set_regions(frames)?;
        let intervals = context().join("monitoring_attrs/intervals");
        let micros = interval.as_micros() as u64;
        write(&intervals, "sample_us", micros)?;
        write(&intervals, "aggr_us", micros * u64::from(looks))?;
        // How often it would ask for new regions: never while it runs.
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

    /// Adds the time of the thread that runs now, as it ends when it is switched off.
    fn count_time(&mut self) {
        let pid = fs::read_to_string(kdamond().join("pid")).ok().and_then(|text| text.trim().parse().ok());
        // If it has ended by itself its time is lost: so little that nothing is to be told.
        self.kernel_seconds += pid.and_then(|pid| sys::processor_seconds(pid).ok()).unwrap_or(0.0);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Fails where it is off already; and if DAMON cannot be given back there is nobody left to tell.
        let _ = write(&kdamond(), "state", "off");
        let _ = write(Path::new(ADMIN), "nr_kdamonds", 0u32);
    }
}

/// Whether DAMON is there, is nobody's, and may be set by this user. Changes nothing.
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

/// All but operations, regions and intervals. Returns the operations that there are.
fn prepare() -> io::Result<String> {
    write(&kdamond().join("contexts"), "nr_contexts", 1u32)?;
    let context = context();
    write(&context.join("monitoring_attrs/nr_regions"), "max", REGIONS_MAX)?;
    write(&context.join("targets"), "nr_targets", 1u32)?;
    // A scheme that does nothing but say which regions it met: all.
    write(&context.join("schemes"), "nr_schemes", 1u32)?;
    let scheme = context.join("schemes/0");
    write(&scheme, "action", "stat")?;
    let pattern = scheme.join("access_pattern");
    for (what, most) in [("sz", u64::MAX), ("nr_accesses", u32::MAX.into()), ("age", u32::MAX.into())] {
        write(&pattern.join(what), "min", 0u32)?;
        write(&pattern.join(what), "max", most)?;
    }
    // What was never accessed need not be told.
    write(&pattern.join("nr_accesses"), "min", 1u32)?;
    fs::read_to_string(context.join("avail_operations"))
}

/// The regions that were accessed, and how often.
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

/// The same error, with its file.
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
