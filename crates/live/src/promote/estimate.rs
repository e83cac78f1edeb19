//! Estimates misses from accessed bits: a cleared bit that is set again means at least one walk.

use std::time::Duration;

/// A lower estimate of a page's walks per second, if its bit was set at `set` of `of` reads, `seconds` apart.
///
/// If walks come at random with rate r, a bit stays clear with probability exp(-r * seconds). Whatever deviates makes
/// the estimate too low: bursts of walks, differing pages, a process that pauses. If the bit was set at all reads, half
/// a read without it stands for what could not be seen.
pub fn rate(set: f64, of: f64, seconds: f64) -> f64 {
    if of <= 0.0 || seconds <= 0.0 {
        return 0.0;
    }
    let share = (set / of).min(1.0 - 0.5 / of.max(1.0));
    -(-share).ln_1p() / seconds
}

/// How long bits are left alone: long enough for rare misses, but not so long that all bits are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingInterval {
    now: Duration,
    least: Duration,
    most: Duration,
}

impl SamplingInterval {
    /// An interval that starts at `first`.
    pub fn new(first: Duration, least: Duration, most: Duration) -> SamplingInterval {
        SamplingInterval { now: first, least, most }
    }

    /// The present interval.
    pub fn get(self) -> Duration {
        self.now
    }

    /// Halves or doubles it for next time, if more than half of those with any miss were saturated, or hardly any.
    pub fn adapt(&mut self, saturated: usize, missing: usize) {
        if saturated * 2 > missing {
            self.now = (self.now / 2).max(self.least);
        } else if saturated * 10 < missing || missing == 0 {
            self.now = (self.now * 2).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_random_walks_is_found_again() {
        for rate_true in [1.0f64, 50.0, 200.0] {
            let share = 1.0 - (-rate_true * 0.005).exp();
            let found = rate(share * 1e6, 1e6, 0.005);
            assert!((found / rate_true - 1.0).abs() < 1e-6, "{found}");
        }
        assert_eq!(rate(0.0, 10.0, 0.005), 0.0);
        assert!(
            (rate(10.0, 10.0, 0.005) - 20f64.ln() / 0.005).abs() < 1e-6,
            "a bound where all bits were set"
        );
        assert_eq!((rate(0.0, 0.0, 1.0), rate(1.0, 1.0, 0.0)), (0.0, 0.0), "nothing was looked at");
    }

    #[test]
    fn walks_in_bursts_are_never_overestimated() {
        // A quarter of the time at 400 a second, else none: 100 a second.
        let share = 0.25 * (1.0 - (-400.0f64 * 0.005).exp());
        assert!(rate(share * 1e6, 1e6, 0.005) < 100.0);
    }

    #[test]
    fn intervals_follow_what_is_saturated() {
        let millis = Duration::from_millis;
        let mut interval = SamplingInterval::new(millis(4), millis(1), millis(10));
        interval.adapt(6, 10);
        assert_eq!(interval.get(), millis(2));
        interval.adapt(3, 10);
        assert_eq!(interval.get(), millis(2));
        (0..5).for_each(|_| interval.adapt(9, 10));
        assert_eq!(interval.get(), millis(1));
        (0..5).for_each(|_| interval.adapt(0, 0));
        assert_eq!(interval.get(), millis(10));
    }
}
