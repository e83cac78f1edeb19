//! Inspects planned ranges while programs run, and at their ends.

use super::collapse::ProcessHandle;
use super::host::{HUGE_BYTES, HostConditions, Mode};
use super::inspection::{self, RangeSnapshot};
use super::install::present;
use super::reason::{RangeFacts, Reason, reason};
use super::table::{PlanTable, TableContents};
use super::{PagesImage, RangeOutcome};
use crate::timing::thread_time;
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{Pid, map};
use pagewalk_plan::{Caller, Plan, What};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::park_timeout;
use std::time::Duration;

/// The first interval between inspections; each next one is half as long again, up to the last.
const PERIOD: Duration = Duration::from_millis(20);
const PERIOD_MAX: Duration = Duration::from_secs(1);
/// Inspecting much memory takes long, and delays the program's own mapping calls: the pause is this many times as long.
/// Counted in processor time, since an inspection that waits for a processor delays nobody.
const REST: u32 = 50;

/// All images of a run.
pub struct Watch<'a> {
    plan: &'a Plan,
    table: &'a PlanTable,
    watched: Mutex<Vec<WatchedImage>>,
    ended: AtomicBool,
}

/// An image with its table.
struct WatchedImage {
    /// Its index among the images.
    image: usize,
    process: Pid,
    address: u64,
    /// Opened for this image: after an exec it does not show the next program's memory.
    memory: File,
    pagemap: File,
    handle: Option<ProcessHandle>,
    ranges: Vec<WatchedRange>,
    /// None before the first inspection.
    contents: Option<TableContents>,
    around: Option<HostConditions>,
    gone: bool,
}

#[derive(Clone, Default)]
struct WatchedRange {
    start: Option<u64>,
    caller: Option<Caller>,
    collapsed_bytes: u64,
    best: Option<RangeSnapshot>,
    last: Option<RangeSnapshot>,
}

impl<'a> Watch<'a> {
    /// A watch without images.
    pub fn new(plan: &'a Plan, table: &'a PlanTable) -> Watch<'a> {
        Watch { plan, table, watched: Mutex::default(), ended: AtomicBool::new(false) }
    }

    fn watched(&self) -> MutexGuard<'_, Vec<WatchedImage>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts inspecting an image; its table lies at `address`.
    pub fn add(&self, image: usize, process: Pid, address: u64) -> io::Result<()> {
        let watched = WatchedImage {
            image,
            process,
            address,
            memory: maps::memory(process)?,
            pagemap: File::open(format!("/proc/{process}/pagemap"))?,
            handle: ProcessHandle::open(process).ok(),
            ranges: vec![WatchedRange::default(); self.plan.ranges.len()],
            contents: None,
            around: None,
            gone: false,
        };
        self.watched().push(watched);
        Ok(())
    }

    /// Inspects an image that is about to end, through one of its threads.
    pub fn at_end(&self, image: usize, thread: Pid) {
        if let Some(watched) = self.watched().iter_mut().find(|watched| watched.image == image) {
            // A forked copy has different memory.
            let own = Path::new(&format!("/proc/{}/task/{thread}", watched.process)).exists();
            if own && !watched.gone {
                let _ = watched.inspect(thread, self.plan, self.table, false);
                watched.gone = true;
            }
        }
    }

    /// Inspects all images repeatedly until [`Watch::end`].
    pub fn run(&self) {
        let mut period = PERIOD;
        loop {
            park_timeout(period);
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            let begun = thread_time();
            for watched in self.watched().iter_mut().filter(|watched| !watched.gone) {
                let process = watched.process;
                watched.gone = watched.inspect(process, self.plan, self.table, true).is_err();
            }
            period = (period + period / 2).min(PERIOD_MAX).max((thread_time() - begun) * REST);
        }
    }

    /// Ends the inspections.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Adds the findings to the images.
    pub fn finish(self, images: &mut [PagesImage]) {
        for watched in self.watched.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let image = watched.image;
            images[image].ranges = watched.outcomes(self.plan);
        }
    }
}

impl WatchedImage {
    fn inspect(&mut self, thread: Pid, plan: &Plan, table: &PlanTable, runs: bool) -> io::Result<()> {
        let contents = table.read(&self.memory, self.address)?;
        let mappings = maps::detailed_mappings(thread)?;
        let around = HostConditions::of(thread);
        for (position, range) in plan.ranges.iter().enumerate() {
            let entry = contents.entries[position];
            let found = &mut self.ranges[position];
            if entry.start != 0 {
                found.start = Some(entry.start);
                found.caller = caller(entry.caller, &mappings);
            }
            let spans = match &range.what {
                What::Anonymous { .. } if entry.start == 0 => continue,
                What::Anonymous { .. } => {
                    let part = range.what.part();
                    vec![(entry.start + part.from, part.bytes())]
                }
                what => present(thread, what, &mappings),
            };
            let mut seen = inspection::measure(&self.pagemap, &mappings, &spans)?;
            // Marks do not put these on huge pages.
            let by_us = around.mode == Some(Mode::Never) || matches!(range.what, What::File { .. });
            if by_us && runs && !seen.is_huge() {
                found.collapsed_bytes += self.handle.as_ref().map_or(0, |handle| collapse(handle, &spans));
                seen = inspection::measure(&self.pagemap, &mappings, &spans)?;
            }
            if seen.mapped > 0 {
                found.last = Some(seen);
                if found.best.is_none_or(|best| seen.is_more_than(&best)) {
                    found.best = Some(seen);
                }
            }
        }
        self.contents = Some(contents);
        let free = |around: HostConditions| around.free_blocks.unwrap_or(u64::MAX);
        // The moment with least free memory.
        if self.around.is_none_or(|before| free(around) <= free(before)) {
            self.around = Some(around);
        }
        Ok(())
    }

    fn outcomes(self, plan: &Plan) -> Vec<RangeOutcome> {
        let around = self.around.unwrap_or_else(|| HostConditions::of(self.process));
        let looked = self.contents.is_some();
        let contents = self.contents.unwrap_or_default();
        let outcome = |(position, found): (usize, WatchedRange)| {
            let entry = contents.entries.get(position).copied().unwrap_or_default();
            let facts = RangeFacts {
                what: &plan.ranges[position].what,
                entry,
                mappings: contents.seen.get(position).copied().unwrap_or(0),
                quiet: contents.quiet,
                best: found.best,
                last: found.last,
                around,
            };
            RangeOutcome {
                reason: if looked { reason(&facts) } else { Some(Reason::NotLookedAt) },
                start: found.start,
                caller: found.caller,
                marked_bytes: entry.marked_bytes,
                collapsed_bytes: found.collapsed_bytes,
                best: found.best,
                last: found.last,
            }
        };
        self.ranges.into_iter().enumerate().map(outcome).collect()
    }
}

/// Collapses what it can and returns the bytes. The reason for the rest is reported elsewhere.
fn collapse(handle: &ProcessHandle, spans: &[(u64, u64)]) -> u64 {
    let mut bytes = 0;
    for &(start, length) in spans {
        let mut at = start.next_multiple_of(HUGE_BYTES);
        while at + HUGE_BYTES <= start + length {
            bytes += handle.collapse(at, HUGE_BYTES).map_or(0, |()| HUGE_BYTES);
            at += HUGE_BYTES;
        }
    }
    bytes
}

/// The place in a code file of an address, if it is code.
fn caller(address: u64, mappings: &[Mapping]) -> Option<Caller> {
    let of = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
    if of.inode == 0 || of.protection & map::EXEC == 0 {
        return None;
    }
    let base =
        mappings.iter().filter(|mapping| mapping.name == of.name).map(|mapping| mapping.start).min()?;
    let file = of.name.rsplit('/').next()?.to_owned();
    Some(Caller { file, offset: address - base })
}
