//! A round: reads the memory, samples its misses, charges, and makes due promotions.

use super::journal::{Decision, DecisionKind, Times, Watcher};
use super::policy::{DuePromotion, PromotionPolicy, RegionState, RegionView};
use super::sampler::{SampleError, Sampler, Target};
use super::{PromoteError, parts, processor_seconds};
use crate::pagemap::{self, PagemapError};
use crate::pages::{HUGE_BYTES, HostConditions, ProcessHandle, Reason, is_disabled, measure};
use crate::timing::thread_time;
use crate::tracing::maps;
use crate::tracing::sys::Pid;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The state between rounds.
pub struct Rounds {
    pid: Pid,
    /// The process.
    pub handle: ProcessHandle,
    /// The source of samples.
    pub sampler: Box<dyn Sampler>,
    /// What decides.
    pub policy: PromotionPolicy,
    dry_run: bool,
    /// Address at which the next turn of regions begins.
    turn: u64,
    /// Rounds so far.
    pub count: u64,
    /// Failed promotions.
    pub failures: u64,
    /// Processor time of promotions.
    pub promotion_seconds: f64,
}

impl Rounds {
    /// Before the first round.
    pub fn new(
        pid: Pid,
        handle: ProcessHandle,
        sampler: Box<dyn Sampler>,
        policy: PromotionPolicy,
        dry_run: bool,
    ) -> Rounds {
        Rounds {
            pid,
            handle,
            sampler,
            policy,
            dry_run,
            turn: 0,
            count: 0,
            failures: 0,
            promotion_seconds: 0.0,
        }
    }

    /// Runs one round. `began` are the times now, `past` the process's processor time at the start of everything.
    /// Returns whether it was quiet: nothing missed, and all regions had their turn.
    pub fn round(
        &mut self,
        began: Times,
        past: f64,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<bool, PromoteError> {
        self.count += 1;
        let begun = Instant::now();
        // Opened each time: the process may have become another program.
        let pagemap = pagemap::open(self.pid)?;
        let mappings = pagemap::user_mappings(self.pid)?;
        let views = parts::views(&pagemap, &mappings).map_err(|error| self.failed(error))?;
        for start in self.policy.update(began.target, &views) {
            let view = views.iter().find(|view| view.start == start);
            watcher.decided(&Decision {
                seconds: began.wall,
                processor_seconds: began.target,
                start,
                what: DecisionKind::Split,
                charges: None,
                resident_pages: view.map_or(0, |view| view.resident_pages),
                added_bytes: 0,
            });
        }
        let (parts, all) = self.turn();
        let target = Target { pid: self.pid, pagemap: &pagemap };
        let found = self.sampler.sample(target, &parts)?;
        let now = processor_seconds(self.pid).map_err(|error| self.failed(error))? - past;
        self.policy.charge(now, &found);
        while !stop.load(Ordering::Relaxed)
            && let Some(due) = self.policy.due()
        {
            let times = Times { target: now, wall: began.wall + begun.elapsed().as_secs_f64(), ..began };
            watcher.decided(&self.promote(&pagemap, times, due)?);
        }
        Ok(all && found.iter().all(|found| found.misses_per_second == 0.0))
    }

    /// The regions to sample now: half are those with most charges, the others take turns. And whether all have had
    /// their turn with these.
    fn turn(&mut self) -> (Vec<RegionView>, bool) {
        let watched: Vec<&RegionState> = self.policy.watched().collect();
        let most = self.sampler.parts_at_once();
        if watched.len() <= most {
            return (watched.iter().map(|part| part.view).collect(), true);
        }
        let mut charged: Vec<&RegionState> =
            watched.iter().copied().filter(|part| part.charges > 0.0).collect();
        charged.sort_by(|a, b| b.charges.total_cmp(&a.charges));
        charged.truncate(most / 2);
        let mut chosen: Vec<RegionView> = charged.iter().map(|part| part.view).collect();
        let first = watched.partition_point(|part| part.view.start < self.turn);
        let rest = watched[first..].iter().filter(|part| !chosen.contains(&part.view));
        let rest: Vec<RegionView> = rest.map(|part| part.view).take(most - chosen.len()).collect();
        let last = rest.last().map_or(u64::MAX, |view| view.start);
        let all = watched.last().is_none_or(|part| part.view.start <= last);
        self.turn = if all { 0 } else { last + HUGE_BYTES };
        chosen.extend(rest);
        (chosen, all)
    }

    fn promote(&mut self, pagemap: &File, times: Times, due: DuePromotion) -> Result<Decision, PromoteError> {
        let what = if self.dry_run {
            self.policy.would_promote(times.target, due);
            DecisionKind::WouldPromote
        } else if is_forbidden(self.pid) {
            let reason = Reason::Disabled.to_string();
            self.failures += 1;
            let again = self.policy.failed(times.target, due.start, reason.clone(), false);
            DecisionKind::Failed { reason, again }
        } else {
            let before = thread_time().as_secs_f64();
            let outcome = self.handle.collapse(due.start, HUGE_BYTES);
            let seconds = thread_time().as_secs_f64() - before;
            self.promotion_seconds += seconds;
            match outcome {
                Ok(()) => {
                    self.policy.promoted(times.target, due, seconds * 1e9);
                    DecisionKind::Promoted { nanoseconds: seconds * 1e9 }
                }
                Err(error) => self.not_promoted(pagemap, times, due, error)?,
            }
        };
        let added_bytes =
            if what == DecisionKind::WouldPromote || matches!(what, DecisionKind::Promoted { .. }) {
                due.added_bytes
            } else {
                0
            };
        Ok(Decision {
            seconds: times.wall,
            processor_seconds: times.target,
            start: due.start,
            what,
            charges: Some(due.charges),
            resident_pages: due.resident_pages,
            added_bytes,
        })
    }

    fn not_promoted(
        &mut self,
        pagemap: &File,
        times: Times,
        due: DuePromotion,
        error: io::Error,
    ) -> Result<DecisionKind, PromoteError> {
        let may_pass = match Errno::from_io_error(&error) {
            Some(Errno::PERM) => return Err(PromoteError::Forbidden { pid: self.pid, error }),
            Some(Errno::SRCH) => return Err(self.failed(error)),
            errno => matches!(errno, Some(Errno::AGAIN | Errno::NOMEM | Errno::BUSY)),
        };
        let reason = reason(self.pid, pagemap, due.start, &error);
        self.failures += 1;
        let again = self.policy.failed(times.target, due.start, reason.clone(), may_pass);
        Ok(DecisionKind::Failed { reason, again })
    }

    /// The error of a file or call about the process.
    fn failed(&self, error: io::Error) -> PromoteError {
        match Errno::from_io_error(&error) {
            Some(Errno::SRCH) => PromoteError::Sample(SampleError::Ended),
            _ => PromoteError::Process(PagemapError::Read { pid: self.pid, error }),
        }
    }
}

/// Whether the process forbids huge pages for all its memory, so that trying is useless.
fn is_forbidden(pid: Pid) -> bool {
    maps::proc_text(pid, "status").is_ok_and(|status| is_disabled(&status))
}

/// Why a region cannot be on a huge page now.
fn reason(pid: Pid, pagemap: &File, start: u64, error: &io::Error) -> String {
    let around = HostConditions::of(pid);
    let seen = maps::detailed_mappings(pid)
        .and_then(|mappings| measure(pagemap, &mappings, &[(start, HUGE_BYTES)]))
        .unwrap_or_default();
    let no_memory = Errno::from_io_error(error) == Some(Errno::NOMEM);
    let known = if seen.refused > 0 {
        Some(Reason::Refused)
    } else if around.disabled {
        Some(Reason::Disabled)
    } else if around.mode.is_none() {
        Some(Reason::NoKernel)
    } else if no_memory && around.free_blocks == Some(0) {
        Some(Reason::NoFreeBlock)
    } else if no_memory && around.limited {
        Some(Reason::Limited)
    } else {
        None
    };
    known.map_or_else(|| format!("the kernel did not collapse it: {error}"), |reason| reason.to_string())
}
