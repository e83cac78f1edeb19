//! Measures how long a thread has worked.

use std::fs;
use std::io;
use std::thread;

/// Seconds of processor time of this thread, without time that other programs took. Read from the kernel's scheduler,
/// which is also right under Valgrind.
///
/// # Errors
/// On kernels without `/proc/thread-self/schedstat`.
pub fn seconds_worked() -> io::Result<f64> {
    // The scheduler's count may be up to 10 ms old: yielding updates it.
    thread::yield_now();
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_whitespace().next().and_then(|number| number.parse::<f64>().ok());
    let nanoseconds = nanoseconds.ok_or_else(|| io::Error::other(format!("no time in schedstat: {text}")))?;
    Ok(nanoseconds / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn only_work_counts() {
        let before = seconds_worked().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let asleep = seconds_worked().unwrap() - before;
        assert!(asleep < 0.1, "{asleep} s of work in 0.2 s of sleep");
        let begun = Instant::now();
        while seconds_worked().unwrap() - before < asleep + 0.05 {
            assert!(begun.elapsed() < Duration::from_secs(60), "no work was counted");
        }
        let worked = seconds_worked().unwrap() - before - asleep;
        assert!(begun.elapsed().as_secs_f64() > worked - 0.01, "{worked} s of work in {:?}", begun.elapsed());
    }

    #[test]
    fn a_millisecond_shows() {
        let spin = || {
            let (before, begun) = (seconds_worked().unwrap(), Instant::now());
            while begun.elapsed() < Duration::from_millis(1) {}
            seconds_worked().unwrap() - before
        };
        let mut spins: Vec<f64> = (0..51).map(|_| spin()).collect();
        spins.sort_by(f64::total_cmp);
        // Some had to wait for a processor, or were preempted.
        assert!((0.0003..0.003).contains(&spins[25]), "{spins:?}");
    }
}
