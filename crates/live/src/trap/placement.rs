//! Decides where images run: on one processor with their agents, or anywhere.
//!
//! A missing thread waits for the agent, and the agent for the next miss. On one processor that is a task switch; on
//! two, each wakes the other by an interrupt, which in a virtual machine costs several times as much. Linux would
//! separate them, so a single-threaded program is pinned to one processor with its agent. A multithreaded program runs
//! anywhere, for its parallelism, while it has more work than one processor can do or misses rarely; this is checked as
//! it runs.

use super::agent::Control;
use super::processors::{Balance, Processors};
use crate::tracing::sys::{self, Pid};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often to check threads.
const PERIOD: Duration = Duration::from_millis(100);
/// Misses per second from which to put threads together, if one processor suffices.
const TOGETHER_FROM: f64 = 9_000.0;
/// Misses per second below which to separate them again. Higher than the other bound, since cheaper misses come more
/// often: with a miss costing 40 us apart and 10 us together, 9,000 a second become 12,000.
const APART_BELOW: f64 = 10_000.0;

/// Where all images run.
pub struct ProcessorPlacement {
    balance: Balance,
    images: HashMap<u32, ImagePlacement>,
}

/// Where one image runs.
struct ImagePlacement {
    process: Pid,
    /// Its threads, with the processors that they asked for.
    threads: HashMap<Pid, Processors>,
    agent: Option<Pid>,
    /// The shared processor.
    shared: Option<usize>,
    /// The last check, if it has several threads.
    watched: Option<ImageWatch>,
}

struct ImageWatch {
    control: Control,
    at: Instant,
    misses: u64,
    seconds: f64,
}

/// The work of an image's threads and agent per second.
#[derive(Clone, Copy, Debug)]
struct Pace {
    misses: f64,
    /// Processor seconds.
    busy: f64,
}

/// Whether threads should share a processor.
fn should_share(shares: bool, pace: Pace) -> bool {
    if shares { pace.misses >= APART_BELOW } else { pace.misses >= TOGETHER_FROM && pace.busy < 1.0 }
}

impl ProcessorPlacement {
    /// Without images.
    pub fn new() -> ProcessorPlacement {
        ProcessorPlacement { balance: Balance::new(), images: HashMap::new() }
    }

    /// Adds a new image's only thread; `own`: its own processors, if it has been pinned already.
    pub fn begin(&mut self, image: u32, process: Pid, own: Option<Processors>) {
        let Some(own) = own.or_else(|| Processors::of(process).ok()) else { return };
        let threads = HashMap::from([(process, own)]);
        let mut place = ImagePlacement { process, threads, agent: None, shared: None, watched: None };
        place.gather(&mut self.balance);
        self.images.insert(image, place);
    }

    /// Notes the image's agent, which its thread started where it runs.
    pub fn has_agent(&mut self, image: u32, agent: Pid) {
        if let Some(place) = self.images.get_mut(&image) {
            place.agent = Some(agent);
        }
    }

    /// Adds a task of an image, started by `parent`, whose processors it inherits.
    pub fn join(&mut self, image: u32, pid: Pid, parent: Pid) {
        if let Some(place) = self.images.get_mut(&image)
            && let Some(own) = place.threads.get(&parent).cloned()
        {
            // It started where its parent was, which may have moved.
            let _ = place.shared.map(Processors::one).as_ref().unwrap_or(&own).set(pid);
            place.threads.insert(pid, own);
        }
    }

    /// Notes that the image has several threads.
    pub fn watch(&mut self, image: u32, control: Control) {
        let Some(place) = self.images.get_mut(&image) else { return };
        place.let_go(&mut self.balance);
        let (misses, seconds) = (control.counters().misses, place.seconds());
        place.watched = Some(ImageWatch { control, at: Instant::now(), misses, seconds });
    }

    /// Whether the image has several threads.
    pub fn watches(&self, image: u32) -> bool {
        self.images.get(&image).is_some_and(|place| place.watched.is_some())
    }

    /// Leaves the image alone: it has no agent, or sets its processors.
    pub fn leave_alone(&mut self, image: u32) {
        if let Some(mut place) = self.images.remove(&image) {
            place.let_go(&mut self.balance);
        }
    }

    /// The processors of a thread from its own view.
    pub fn own(&self, image: u32, pid: Pid) -> Option<&Processors> {
        self.images.get(&image)?.threads.get(&pid)
    }

    /// Returns a thread to its image's processor, after it was given its own.
    pub fn put_back(&self, image: u32, pid: Pid) {
        if let Some(processor) = self.images.get(&image).and_then(|place| place.shared) {
            // It may have been killed.
            let _ = Processors::one(processor).set(pid);
        }
    }

    /// A thread has ended.
    pub fn thread_ended(&mut self, image: u32, pid: Pid) {
        if let Some(place) = self.images.get_mut(&image) {
            place.threads.remove(&pid);
        }
    }

    /// The image has ended.
    pub fn image_ended(&mut self, image: u32) {
        if let Some(processor) = self.images.remove(&image).and_then(|place| place.shared) {
            self.balance.leave(processor);
        }
    }

    fn check_images(&mut self) {
        for place in self.images.values_mut() {
            let Some(pace) = place.pace() else { continue };
            let shares = place.shared.is_some();
            match should_share(shares, pace) {
                now if now == shares => {}
                true => place.gather(&mut self.balance),
                false => place.let_go(&mut self.balance),
            }
        }
    }
}

impl ImagePlacement {
    /// Moves everything to one processor that all may use. Tasks that cannot be moved have ended.
    fn gather(&mut self, balance: &mut Balance) {
        // Threads of a program that has not chosen processors all have the same.
        let Some(processor) = self.threads.values().next().and_then(|own| balance.take(own)) else { return };
        let one = Processors::one(processor);
        for &pid in self.threads.keys().chain(&self.agent) {
            let _ = one.set(pid);
        }
        self.shared = Some(processor);
    }

    /// Lets threads run on their own processors, and the agent anywhere.
    fn let_go(&mut self, balance: &mut Balance) {
        let Some(processor) = self.shared.take() else { return };
        for (&pid, own) in &self.threads {
            let _ = own.set(pid);
        }
        if let Some(agent) = self.agent {
            let _ = balance.all().set(agent);
        }
        balance.leave(processor);
    }

    /// Processor seconds of the threads and the agent.
    fn seconds(&self) -> f64 {
        [Some(self.process), self.agent]
            .into_iter()
            .flatten()
            .filter_map(|pid| sys::processor_seconds(pid).ok())
            .sum()
    }

    /// The work since the last check.
    fn pace(&mut self) -> Option<Pace> {
        let seconds = self.seconds();
        let watched = self.watched.as_mut()?;
        let (now, misses) = (Instant::now(), watched.control.counters().misses);
        let past = now.duration_since(watched.at).as_secs_f64();
        let pace = Pace {
            misses: misses.saturating_sub(watched.misses) as f64 / past,
            busy: (seconds - watched.seconds) / past,
        };
        (watched.at, watched.misses, watched.seconds) = (now, misses, seconds);
        Some(pace)
    }
}

/// Checks multithreaded images until the sender is dropped.
pub fn watch(placement: &Mutex<ProcessorPlacement>, ended: &Receiver<()>) {
    while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        placement.lock().unwrap_or_else(PoisonError::into_inner).check_images();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_processor_while_they_miss_and_it_is_enough() {
        let pace = |misses, busy| Pace { misses, busy };
        assert!(should_share(false, pace(26_000.0, 0.8)));
        assert!(!should_share(false, pace(26_000.0, 1.6)), "two processors do more");
        assert!(!should_share(false, pace(500.0, 0.2)), "seldom");
        assert!(should_share(true, pace(90_000.0, 1.0)));
        assert!(!should_share(true, pace(500.0, 1.0)));
        // Misses of one thread, apart and then together: it stays where it is.
        for apart in 0..26 {
            let apart = f64::from(apart) * 1_000.0;
            let together = apart / (1.0 - apart * 30e-6);
            let shares = should_share(false, pace(apart, 0.8));
            assert!(!shares || should_share(true, pace(together, 1.0)), "{apart}");
        }
    }

    #[test]
    fn a_thread_is_put_on_one_processor_and_back() {
        let (mut placement, here) = (ProcessorPlacement::new(), 0);
        let own = Processors::of(here).unwrap();
        placement.begin(3, here, None);
        assert_eq!(Processors::of(here).unwrap().iter().count(), 1);
        assert!(placement.own(3, here).is_some_and(|told| *told == own));
        placement.leave_alone(3);
        assert!(Processors::of(here).unwrap() == own);
        assert!(placement.own(3, here).is_none());
    }
}
