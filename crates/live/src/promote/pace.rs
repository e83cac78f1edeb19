//! Limits how often to sample, so that our processor time stays below a share of the process's. Romer's THROTTLE (1998,
//! section 6.5) limits bookkeeping the same way.

use std::time::Duration;

/// A process is assumed to run on for as long as it has run, up to this many seconds of processor time, so that the
/// first rounds need not wait.
const CREDIT_SECONDS_MAX: f64 = 5.0;
/// Between rounds while there are misses.
const PAUSE: Duration = Duration::from_millis(100);
/// Between rounds after a long time without misses.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// When rounds may start.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    share: f64,
    credit: f64,
    pause: Duration,
    /// Processor time of the last round.
    last: f64,
}

impl Pace {
    /// For at most `share` of the processor time of a process, which has used `past` seconds already.
    pub fn new(share: f64, past: f64) -> Pace {
        Pace { share, credit: past.min(CREDIT_SECONDS_MAX) * share, pause: PAUSE, last: 0.0 }
    }

    /// Seconds of processor time that the process must still use before another round like the last stays within the
    /// share; 0 if it may start. We have used `own` seconds, the process `target`.
    pub fn lack(&self, own: f64, target: f64) -> f64 {
        ((own + self.last - self.credit) / self.share - target).max(0.0)
    }

    /// The least time to the next round.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// A round took this many seconds of processor time. `quiet`: nothing missed, and all regions have had their turn.
    pub fn ended(&mut self, seconds: f64, quiet: bool) {
        self.last = seconds;
        self.pause = if quiet { (self.pause * 2).min(PAUSE_MAX) } else { PAUSE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_kept() {
        let mut pace = Pace::new(0.01, 0.0);
        let (mut own, mut rounds) = (0.0, 0);
        for tick in 0..1000 {
            let target = f64::from(tick) * 0.01;
            if pace.lack(own, target) == 0.0 {
                own += 0.008;
                rounds += 1;
                pace.ended(0.008, false);
            }
        }
        assert!((10..=13).contains(&rounds), "{rounds} rounds of 8 ms in 10 s");
    }

    #[test]
    fn a_process_that_ran_long_gives_credit_once() {
        let mut pace = Pace::new(0.01, 3600.0);
        pace.ended(0.02, false);
        assert_eq!((pace.lack(0.0, 0.0), pace.lack(0.029, 0.0)), (0.0, 0.0));
        assert!((pace.lack(0.04, 0.0) - 1.0).abs() < 1e-9, "10 ms more than the credit");
    }

    #[test]
    fn pauses_grow_while_nothing_misses() {
        let mut pace = Pace::new(0.01, 0.0);
        (0..10).for_each(|_| pace.ended(0.001, true));
        assert_eq!(pace.pause(), PAUSE_MAX);
        pace.ended(0.001, false);
        assert_eq!(pace.pause(), PAUSE);
    }
}
