//! Number arguments: sizes, times and shares, with bounds.

use pagewalk::capture::engine::MAX_THREADS;

/// A thread count that the engine has room for.
pub fn threads(text: &str) -> Result<u32, String> {
    let threads = text.parse().ok().filter(|threads| (4..=MAX_THREADS).contains(threads));
    threads.ok_or_else(|| format!("a whole number from 4 to {MAX_THREADS}"))
}

/// A size such as 4096, 64K, 512M or 2G.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| "a number, with K, M or G behind it".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than 2^64 bytes".to_owned())
}

/// A time to wait, within a clock's range.
pub fn seconds(text: &str) -> Result<f64, String> {
    up_to(1e9, "1e9", text)
}

/// A percentage of a whole.
pub fn percent(text: &str) -> Result<f64, String> {
    up_to(100.0, "100", text)
}

/// A multiple of a whole; may exceed 1.
pub fn share(text: &str) -> Result<f64, String> {
    up_to(1000.0, "1000", text)
}

/// A fraction from 0 to 1, both included.
pub fn part(text: &str) -> Result<f64, String> {
    let given: Option<f64> = text.parse().ok();
    given.filter(|number| (0.0..=1.0).contains(number)).ok_or_else(|| "give a number from 0 to 1".to_owned())
}

/// A number above 0; `told` is the upper bound in words.
fn up_to(most: f64, told: &str, text: &str) -> Result<f64, String> {
    let given: f64 = text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or("give a number")?;
    if given > 0.0 && given <= most {
        Ok(given)
    } else {
        Err(format!("give more than 0, and {told} at most"))
    }
}
