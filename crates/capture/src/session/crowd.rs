//! Room for streams that are consumed at once.
//!
//! A host that stalls lets hundreds of short processes pile up, and each stream takes one or two megabytes. Most have
//! ended by then, so they can wait for each other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Streams that are consumed at once without a wait.
const AT_ONCE: usize = 32;
/// How long one more waits while none of them ends. No longer: they may be of processes that wait for its process.
const PATIENCE: Duration = Duration::from_millis(300);

/// The streams that are consumed.
#[derive(Default)]
pub struct Crowd {
    count: Mutex<Count>,
    ended: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Count {
    inside: usize,
    ended: u64,
}

/// A stream's place among them, until it is dropped.
pub struct Place<'a>(&'a Crowd);

impl Crowd {
    /// Takes a place, maybe after a wait.
    pub fn enter(&self) -> Place<'_> {
        let mut count = self.count();
        while count.inside >= AT_ONCE {
            let before = count.ended;
            let (next, wait) =
                self.ended.wait_timeout(count, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            count = next;
            if wait.timed_out() && count.ended == before {
                break;
            }
        }
        count.inside += 1;
        Place(self)
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut count = self.0.count();
        (count.inside, count.ended) = (count.inside - 1, count.ended + 1);
        self.0.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn one_more_waits_but_not_for_ever() {
        let crowd = Crowd::default();
        let mut inside: Vec<Place<'_>> = (0..AT_ONCE).map(|_| crowd.enter()).collect();
        let begun = Instant::now();
        drop(crowd.enter());
        assert!(begun.elapsed() >= PATIENCE);
        std::thread::scope(|scope| {
            let one_more = scope.spawn(|| drop(crowd.enter()));
            inside.pop();
            one_more.join().unwrap();
        });
        drop(inside);
        assert_eq!(crowd.count().inside, 0);
    }
}
