//! The loop: rounds, as far apart as they may be, until the process ends or we are to.

use super::pace::Pace;
use super::policy::{Limits, Policy, Prices};
use super::round::Rounds;
use super::sampler::{self, Opened, SampleError, Way};
use super::told::{Ended, Standing, Summary, Times, Watcher};
use super::{PromoteError, processor_seconds};
use crate::pagemap::{self, PagemapError};
use crate::pages::{Handle, check_kernel};
use crate::tracing::sys::Pid;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// So long we sleep at most before we look whether anything is to be done: each look costs processor time.
const TICK: Duration = Duration::from_secs(1);
/// So long at least.
const TICK_LEAST: Duration = Duration::from_millis(20);

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// By what misses are sampled; none for the best that can be used.
    pub way: Option<Way>,
    /// What the policy keeps to.
    pub limits: Limits,
    /// The share of the process's processor time that sampling may use.
    pub own_share: f64,
    /// It ends after so many seconds.
    pub seconds: Option<f64>,
    /// Whether all is done but the promotions.
    pub dry_run: bool,
}

/// Promotes parts of process `pid` until it ends, `stop` is set, or the time is over. What was set on the host is taken
/// back before this returns.
///
/// # Errors
/// If the host, the kernel or this user cannot, there is no such process, or sampling fails.
pub fn run(
    pid: Pid,
    options: &Options,
    prices: Prices,
    stop: &AtomicBool,
    watcher: &mut dyn Watcher,
) -> Result<Summary, PromoteError> {
    check_kernel()?;
    // Says best why a process cannot be read.
    pagemap::open(pid)?;
    pagemap::user_mappings(pid)?;
    let io = |error| PromoteError::Io { pid, error };
    let handle = Handle::open(pid).map_err(io)?;
    if !options.dry_run {
        handle.permits().map_err(|error| PromoteError::Forbidden { pid, error })?;
    }
    let program = pagemap::program(pid);
    let clocks = Clocks::begin(pid).map_err(|_| PagemapError::Ended(pid))?;
    let Opened { sampler, unable } =
        sampler::open(options.way, pid).map_err(|unable| PromoteError::NoSampler { pid, unable })?;
    let pace = Pace::new(options.own_share, clocks.target);
    let policy = Policy::new(prices, options.limits);
    let rounds = Rounds::new(pid, handle, sampler, policy, options.dry_run);
    let processors = std::thread::available_parallelism().map_or(1.0, |number| usize::from(number) as f64);
    let (next, times) = (Duration::ZERO, Times::default());
    let mut running = Running { clocks, pace, rounds, next, times, processors };
    let ended = running.until_end(options.seconds, stop, watcher)?;
    let Running { rounds, times, .. } = running;
    Ok(Summary {
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

/// Processor times when it began, in seconds, and when that was.
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

    /// The times by now. The process's stay where they were when it is gone.
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

struct Running {
    clocks: Clocks,
    pace: Pace,
    rounds: Rounds,
    /// When the next round may be.
    next: Duration,
    times: Times,
    /// On which the process may run.
    processors: f64,
}

impl Running {
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
            } else if self.is_due() && !self.round(stop, watcher)? {
                Some(Ended::Process)
            } else {
                None
            };
            if let Some(ended) = ended {
                break ended;
            }
            watcher.passed(&Standing {
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

    /// Not beyond the next round, which cannot be before the process could have used what lacks, nor beyond the end.
    fn sleep(&self, seconds: Option<f64>) -> Duration {
        let lack = Duration::from_secs_f64((self.lack() / self.processors).min(TICK.as_secs_f64()));
        let pause = self.next.saturating_sub(self.clocks.begun.elapsed());
        let left =
            seconds.map_or(TICK, |seconds| Duration::from_secs_f64((seconds - self.times.wall).max(0.0)));
        pause.max(lack).max(TICK_LEAST).min(TICK).min(left)
    }

    /// A round; whether the process is still there.
    fn round(&mut self, stop: &AtomicBool, watcher: &mut dyn Watcher) -> Result<bool, PromoteError> {
        let before = self.times;
        let outcome = self.rounds.round(before, self.clocks.target, stop, watcher);
        let quiet = match outcome {
            Ok(quiet) => quiet,
            Err(
                PromoteError::Sample(SampleError::Ended)
                | PromoteError::Process(
                    PagemapError::NoProcess(_) | PagemapError::NoMemory(_) | PagemapError::Ended(_),
                ),
            ) => return Ok(false),
            Err(error) => return Err(error),
        };
        let pid = self.clocks.pid;
        self.times =
            self.clocks.read(before, &self.rounds).map_err(|error| PromoteError::Io { pid, error })?;
        let spent = |times: Times| times.own + times.kernel;
        self.pace.ended(spent(self.times) - spent(before), quiet);
        self.next = self.clocks.begun.elapsed() + self.pace.pause();
        Ok(true)
    }
}
