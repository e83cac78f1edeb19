//! How long a thread has worked: what measurements take their seconds from.

use std::fs;
use std::io;

/// Seconds that this thread has had a processor for: what other programs take of it is not among them. Read from the
/// kernel's scheduler, as of this moment: also right where Valgrind runs the program.
///
/// # Errors
/// On kernels without `/proc/thread-self/schedstat`.
pub fn seconds_worked() -> io::Result<f64> {
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
}
