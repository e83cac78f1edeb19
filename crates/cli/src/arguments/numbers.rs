//! Number arguments: counts, sizes, times and shares, with bounds.

use pagewalk::capture::engine::MAX_THREADS;
use pagewalk::units::quantities;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

/// The parser of a count in a range: 2000000, 2e6 and 2M are one.
pub fn count<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let most = (*range.end()).min(u64::MAX >> (64 - 8 * size_of::<T>()));
        let count = quantities::count(text).filter(|count| range.contains(count));
        count.and_then(|count| T::try_from(count).ok()).ok_or_else(|| match (range.start(), most) {
            (least, u64::MAX) => format!("give a whole number from {least} up, such as 2000000, 2e6 or 2M"),
            (least, most) => format!("give a whole number from {least} to {most}"),
        })
    }
}

/// The parser of any count.
pub fn any<T: TryFrom<u64>>() -> impl Fn(&str) -> Result<T, String> + Clone {
    count(0..=u64::MAX)
}

/// A thread count that the engine has room for.
pub fn threads(text: &str) -> Result<u32, String> {
    count(4..=MAX_THREADS.into())(text)
}

/// The threads that work.
pub fn workers(text: &str) -> Result<NonZeroUsize, String> {
    let workers: usize = count(1..=u64::MAX)(text)?;
    Ok(NonZeroUsize::MIN.saturating_add(workers - 1))
}

/// The number of a process.
pub fn process(text: &str) -> Result<i32, String> {
    let process = text.parse().ok().filter(|&process| process > 0);
    process.ok_or_else(|| "give the number of a process, as `ps` lists it".to_owned())
}

/// A size such as 4096, 64K, 512M or 2G.
pub fn bytes(text: &str) -> Result<u64, String> {
    quantities::bytes(text).ok_or_else(|| "give bytes, such as 4096, 64K, 512M or 2G".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_out_of_range_is_told_the_range() {
        let many = count::<u64>(1..=u64::MAX);
        assert_eq!(many("0"), Err("give a whole number from 1 up, such as 2000000, 2e6 or 2M".to_owned()));
        let few = count::<u8>(1..=16);
        assert_eq!((few("16"), few("17")), (Ok(16), Err("give a whole number from 1 to 16".to_owned())));
        assert!(any::<u8>()("256").is_err());
        assert_eq!(workers("1"), Ok(NonZeroUsize::MIN));
        assert!(workers("0").is_err());
    }
}
