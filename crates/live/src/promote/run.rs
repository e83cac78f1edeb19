//! The main loop: rounds with pauses, until the process ends or we stop.

use super::choice::{self, SamplerSelection};
use super::journal::{Ended, PromotionStatus, PromotionSummary, Times, Watcher};
use super::pace::Pace;
use super::policy::{PolicyLimits, PromotionCosts, PromotionPolicy};
use super::round::Rounds;
use super::sampler::{SampleError, SamplerKind, UnusableSampler};
use super::{PromoteError, processor_seconds};
use crate::pagemap::{self, PagemapError};
use crate::pages::{ProcessHandle, check_kernel};
use crate::tracing::sys::Pid;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest sleep before checking for work: each check costs processor time.
const TICK: Duration = Duration::from_secs(1);
/// Shortest sleep.
const TICK_LEAST: Duration = Duration::from_millis(20);

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct PromoteOptions {
    /// The sampler; none: the best that works.
    pub way: Option<SamplerKind>,
    /// The policy's limits.
    pub limits: PolicyLimits,
    /// The share of the process's processor time for sampling.
    pub own_share: f64,
    /// Stop after this many seconds.
    pub seconds: Option<f64>,
    /// Whether to do everything except the promotions.
    pub dry_run: bool,
}

/// Promotes regions of process `pid` until it ends, `stop` is set, or the time is over. Restores host settings before
/// it returns.
///
/// # Errors
/// If host, kernel or user cannot, there is no such process, or sampling fails.
pub fn run(
    pid: Pid,
    options: &PromoteOptions,
    prices: PromotionCosts,
    stop: &AtomicBool,
    watcher: &mut dyn Watcher,
) -> Result<PromotionSummary, PromoteError> {
    check_kernel()?;
    // This gives the best reason if a process cannot be read.
    pagemap::open(pid)?;
    pagemap::user_mappings(pid)?;
    let io = |error| PromoteError::Io { pid, error };
    let handle = ProcessHandle::open(pid).map_err(io)?;
    if !options.dry_run {
        handle.permits().map_err(|error| PromoteError::Forbidden { pid, error })?;
    }
    let program = pagemap::program(pid);
    let clocks = Clocks::begin(pid).map_err(|_| PagemapError::Ended(pid))?;
    let SamplerSelection { sampler, unable } =
        choice::open(options.way, pid).map_err(|unable| PromoteError::NoSampler { pid, unable })?;
    let pace = Pace::new(options.own_share, clocks.target);
    let policy = PromotionPolicy::new(prices, options.limits);
    let rounds = Rounds::new(pid, handle, sampler, policy, options.dry_run);
    let is_free = options.way.is_none();
    let processors = std::thread::available_parallelism().map_or(1.0, |number| usize::from(number) as f64);
    let (next, times) = (Duration::ZERO, Times::default());
    let mut running = PromotionLoop { clocks, pace, rounds, next, times, processors, unable, is_free };
    let ended = running.until_end(options.seconds, stop, watcher)?;
    let PromotionLoop { rounds, times, unable, .. } = running;
    Ok(PromotionSummary {
        program,
        way: rounds.sampler.way(),
        unable,
        notes: rounds.sampler.notes(),
        ended,
        times,
        rounds: rounds.count,
        failures: rounds.failures,
        policy: rounds.policy,
    })
}

/// The start: processor times in seconds, and the moment.
struct Clocks {
    pid: Pid,
    begun: Instant,
    target: f64,
    own: f64,
}

impl Clocks {
    fn begin(pid: Pid) -> std::io::Result<Clocks> {
        let (target, own) = (processor_seconds(pid)?, own_seconds()?);
        Ok(Clocks { pid, begun: Instant::now(), target, own })
    }

    /// The present times. Those of a process that is gone stay as they were.
    fn read(&self, before: Times, rounds: &Rounds) -> std::io::Result<Times> {
        let target = processor_seconds(self.pid).map_or(before.target, |now| now - self.target);
        Ok(Times {
            wall: self.begun.elapsed().as_secs_f64(),
            target,
            own: own_seconds()? - self.own - rounds.promotion_seconds,
            promotions: rounds.promotion_seconds,
            kernel: rounds.sampler.kernel_seconds(),
        })
    }
}

fn own_seconds() -> std::io::Result<f64> {
    processor_seconds(std::process::id() as Pid)
}

struct PromotionLoop {
    clocks: Clocks,
    pace: Pace,
    rounds: Rounds,
    /// When the next round may start.
    next: Duration,
    times: Times,
    /// Processors that the process may run on.
    processors: f64,
    /// Samplers that do not work, or no longer.
    unable: Vec<UnusableSampler>,
    /// Whether another sampler may replace one that fails.
    is_free: bool,
}

impl PromotionLoop {
    fn until_end(
        &mut self,
        seconds: Option<f64>,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Ended, PromoteError> {
        let pid = self.clocks.pid;
        let io = |error| PromoteError::Io { pid, error };
        let ended = loop {
            self.times = self.clocks.read(self.times, &self.rounds).map_err(io)?;
            let ended = if stop.load(Ordering::Relaxed) {
                Some(Ended::Interrupted)
            } else if seconds.is_some_and(|seconds| self.times.wall >= seconds) {
                Some(Ended::Time)
            } else if self.is_due() {
                self.round(stop, watcher)?
            } else {
                None
            };
            if let Some(ended) = ended {
                break ended;
            }
            watcher.passed(&PromotionStatus {
                policy: &self.rounds.policy,
                times: self.times,
                rounds: self.rounds.count,
                way: self.rounds.sampler.way(),
            });
            if self.rounds.handle.wait(self.sleep(seconds)).map_err(io)? {
                break Ended::Process;
            }
        };
        self.times = self.clocks.read(self.times, &self.rounds).map_err(io)?;
        self.rounds.policy.end(self.times.target);
        Ok(ended)
    }

    fn lack(&self) -> f64 {
        let Times { own, kernel, target, .. } = self.times;
        self.pace.lack(own + kernel, target)
    }

    fn is_due(&self) -> bool {
        self.clocks.begun.elapsed() >= self.next && self.lack() == 0.0
    }

    /// Sleeps at most until the next round, which must wait until the process can have used the lacking time, and at
    /// most until the end.
    fn sleep(&self, seconds: Option<f64>) -> Duration {
        let lack = Duration::from_secs_f64((self.lack() / self.processors).min(TICK.as_secs_f64()));
        let pause = self.next.saturating_sub(self.clocks.begun.elapsed());
        let left =
            seconds.map_or(TICK, |seconds| Duration::from_secs_f64((seconds - self.times.wall).max(0.0)));
        pause.max(lack).max(TICK_LEAST).min(TICK).min(left)
    }

    /// One round; returns why the run ends, if it does. Replaces a sampler that fails.
    fn round(&mut self, stop: &AtomicBool, watcher: &mut dyn Watcher) -> Result<Option<Ended>, PromoteError> {
        let before = self.times;
        let outcome = self.rounds.round(before, self.clocks.target, stop, watcher);
        let quiet = match outcome {
            Ok(quiet) => quiet,
            Err(
                PromoteError::Sample(SampleError::Ended)
                | PromoteError::Process(
                    PagemapError::NoProcess(_) | PagemapError::NoMemory(_) | PagemapError::Ended(_),
                ),
            ) => return Ok(Some(Ended::Process)),
            Err(PromoteError::Sample(SampleError::Io { way, error })) if self.is_free => {
                return Ok(self.next_way(way, &error));
            }
            Err(error) => return Err(error),
        };
        let pid = self.clocks.pid;
        self.times =
            self.clocks.read(before, &self.rounds).map_err(|error| PromoteError::Io { pid, error })?;
        let spent = |times: Times| times.own + times.kernel;
        self.pace.ended(spent(self.times) - spent(before), quiet);
        self.next = self.clocks.begun.elapsed() + self.pace.pause();
        Ok(None)
    }

    /// Switches to the best sampler left after this one failed; returns the end if there is none.
    fn next_way(&mut self, failed: SamplerKind, error: &std::io::Error) -> Option<Ended> {
        let enable = "end what else uses it, and try again";
        self.unable.push(UnusableSampler::new(
            failed,
            format!("it failed after {} rounds: {error}", self.rounds.count),
            enable,
        ));
        let left = SamplerKind::ALL.into_iter().skip_while(|&way| way != failed).skip(1);
        for way in left {
            match way.open(self.clocks.pid) {
                Ok(sampler) => {
                    self.rounds.sampler = sampler;
                    return None;
                }
                Err(unable) => self.unable.push(unable),
            }
        }
        Some(Ended::Unsampled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promote::journal::Decision;
    use crate::promote::policy::{FACTOR, RegionMisses, RegionView};
    use crate::promote::sampler::{Sampler, Target};
    use pagewalk_skip::{Need, skip};

    /// Fails as DAMON does if someone else takes it.
    struct Lost;

    impl Sampler for Lost {
        fn way(&self) -> SamplerKind {
            SamplerKind::Damon
        }

        fn parts_at_once(&self) -> usize {
            1
        }

        fn sample(&mut self, _: Target<'_>, _: &[RegionView]) -> Result<Vec<RegionMisses>, SampleError> {
            Err(SampleError::Io { way: SamplerKind::Damon, error: std::io::ErrorKind::ResourceBusy.into() })
        }

        fn kernel_seconds(&self) -> f64 {
            0.0
        }
    }

    struct Nobody;

    impl Watcher for Nobody {
        fn decided(&mut self, _: &Decision) {}

        fn passed(&mut self, _: &PromotionStatus<'_>) {}
    }

    #[test]
    fn a_way_that_fails_is_left_for_the_next() {
        let pid = std::process::id() as Pid;
        if pagemap::open(pid).is_err() || check_kernel().is_err() {
            return skip(Need::Sampling, "this kernel has no page map to scan");
        }
        let clocks = Clocks::begin(pid).unwrap();
        let prices = PromotionCosts { walk: 25.0, walk_alone: 100.0, collapse: 2e5, bounds: [25.0, 100.0] };
        let policy =
            PromotionPolicy::new(prices, PolicyLimits { factor: FACTOR, budget_bytes: 0, entries: 1536 });
        let rounds = Rounds::new(pid, ProcessHandle::open(pid).unwrap(), Box::new(Lost), policy, true);
        let (next, times, unable) = (Duration::ZERO, Times::default(), Vec::new());
        let pace = Pace::new(1.0, clocks.target);
        let mut running =
            PromotionLoop { clocks, pace, rounds, next, times, processors: 1.0, unable, is_free: true };
        let stop = AtomicBool::new(false);
        assert_eq!(running.round(&stop, &mut Nobody).unwrap(), None);
        assert_eq!(running.rounds.sampler.way(), SamplerKind::Referenced);
        assert!(running.unable[0].why.contains("failed after 1 rounds"), "{:?}", running.unable);
        assert_eq!(
            running.next_way(SamplerKind::Referenced, &std::io::ErrorKind::Other.into()),
            Some(Ended::Unsampled)
        );
        (running.rounds.sampler, running.is_free) = (Box::new(Lost), false);
        let outcome = running.round(&stop, &mut Nobody);
        assert!(matches!(outcome, Err(PromoteError::Sample(_))), "the one that was asked for: {outcome:?}");
    }
}
