//! Where images run: on one processor with their agents, or wherever they may.
//!
//! A thread that misses waits for the agent, and the agent for the next miss. On one processor that is a switch of
//! tasks; on two, each wakes the other from sleep by an interrupt, which in a virtual machine costs several times as
//! much. Linux puts them apart by itself, so a program of one thread is kept on one processor with its agent. A program
//! of several threads runs where it likes, for its own parallelism, as long as it has more work than one processor does
//! or seldom misses: that is looked at as it runs.

use super::agent::Control;
use super::processors::{Balance, Processors};
use crate::tracing::sys::{self, Pid};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often threads are looked at.
const PERIOD: Duration = Duration::from_millis(100);
/// Misses in a second from which on several threads are put together, if one processor is enough for them.
const TOGETHER_FROM: f64 = 9_000.0;
/// Misses in a second below which they are let go again. More than those above, as they are more where a miss takes
/// less: a miss that costs 40 us apart and 10 us together makes 9,000 a second into 12,000.
const APART_BELOW: f64 = 10_000.0;

/// Where all images run.
pub struct Placement {
    balance: Balance,
    images: HashMap<u32, ImagePlacement>,
}

/// Where one runs.
struct ImagePlacement {
    process: Pid,
    /// Its threads, with their own processors.
    threads: HashMap<Pid, Processors>,
    agent: Option<Pid>,
    /// The processor that they share.
    shared: Option<usize>,
    /// What several threads did up to the last look.
    watched: Option<ImageWatch>,
}

struct ImageWatch {
    control: Control,
    at: Instant,
    misses: u64,
    seconds: f64,
}

/// What an image's threads and its agent did in a second.
#[derive(Clone, Copy, Debug)]
struct Pace {
    misses: f64,
    /// Seconds of processors.
    busy: f64,
}

/// Whether threads should share a processor from now on.
fn should_share(shares: bool, pace: Pace) -> bool {
    if shares { pace.misses >= APART_BELOW } else { pace.misses >= TOGETHER_FROM && pace.busy < 1.0 }
}

impl Placement {
    /// Of no image yet.
    pub fn new() -> Placement {
        Placement { balance: Balance::new(), images: HashMap::new() }
    }

    /// A new image's only thread; `own`: the processors that it had, if it has been put on one of them.
    pub fn begin(&mut self, image: u32, process: Pid, own: Option<Processors>) {
        let Some(own) = own.or_else(|| Processors::of(process).ok()) else { return };
        let threads = HashMap::from([(process, own)]);
        let mut place = ImagePlacement { process, threads, agent: None, shared: None, watched: None };
        place.gather(&mut self.balance);
        self.images.insert(image, place);
    }

    /// The image has an agent, which its thread started where it stands.
    pub fn has_agent(&mut self, image: u32, agent: Pid) {
        if let Some(place) = self.images.get_mut(&image) {
            place.agent = Some(agent);
        }
    }

    /// A task of an image, started by `parent`, whose processors it has.
    pub fn join(&mut self, image: u32, pid: Pid, parent: Pid) {
        if let Some(place) = self.images.get_mut(&image)
            && let Some(own) = place.threads.get(&parent).cloned()
        {
            // It began where its parent was, which may be elsewhere by now.
            let _ = place.shared.map(Processors::one).as_ref().unwrap_or(&own).set(pid);
            place.threads.insert(pid, own);
        }
    }

    /// The image has several threads from now on.
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

    /// The image is left alone: it has no agent, or chooses its processors.
    pub fn leave_alone(&mut self, image: u32) {
        if let Some(mut place) = self.images.remove(&image) {
            place.let_go(&mut self.balance);
        }
    }

    /// The processors of a thread as it knows them.
    pub fn own(&self, image: u32, pid: Pid) -> Option<&Processors> {
        self.images.get(&image)?.threads.get(&pid)
    }

    /// Puts a thread back to where its image is, after it was given its own processors.
    pub fn put_back(&self, image: u32, pid: Pid) {
        if let Some(processor) = self.images.get(&image).and_then(|place| place.shared) {
            // One that was killed needs none.
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

    fn look(&mut self) {
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
    /// Puts all on one processor that all may use. Who cannot be put there has ended.
    fn gather(&mut self, balance: &mut Balance) {
        // Those of a program that has not chosen are the same for all of its threads.
        let Some(processor) = self.threads.values().next().and_then(|own| balance.take(own)) else { return };
        let one = Processors::one(processor);
        for &pid in self.threads.keys().chain(&self.agent) {
            let _ = one.set(pid);
        }
        self.shared = Some(processor);
    }

    /// Lets threads run where they may, and the agent anywhere.
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

    /// Processor time of the threads and of the agent, in seconds.
    fn seconds(&self) -> f64 {
        [Some(self.process), self.agent]
            .into_iter()
            .flatten()
            .filter_map(|pid| sys::processor_seconds(pid).ok())
            .sum()
    }

    /// What was done since the last look.
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

/// Looks at images of several threads until nobody can end it any more.
pub fn watch(placement: &Mutex<Placement>, ended: &Receiver<()>) {
    while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        placement.lock().unwrap_or_else(PoisonError::into_inner).look();
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
        let (mut placement, here) = (Placement::new(), 0);
        let own = Processors::of(here).unwrap();
        placement.begin(3, here, None);
        assert_eq!(Processors::of(here).unwrap().iter().count(), 1);
        assert!(placement.own(3, here).is_some_and(|told| *told == own));
        placement.leave_alone(3);
        assert!(Processors::of(here).unwrap() == own);
        assert!(placement.own(3, here).is_none());
    }
}
