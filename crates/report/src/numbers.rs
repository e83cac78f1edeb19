//! Numbers for people: three significant digits, an SI suffix, a true minus sign.

use std::ops::RangeInclusive;

/// A count: `987`, `1.23 M`.
pub fn count(n: u64) -> String {
    if n < 1000 { n.to_string() } else { scaled(n as f64, 1000.0, &[" k", " M", " G", " T", " P", " E"]) }
}

/// A count of things: `1 walk`, `1.23 M walks`.
pub(crate) fn counted(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Every digit of a count, in groups of three: `1,536`.
pub(crate) fn exact(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A page size such as `16K` as people read it: `16 KB`.
pub fn page_name(size: &str) -> String {
    match size.strip_suffix(['K', 'M', 'G']) {
        Some(number) => format!("{number} {}B", &size[number.len()..]),
        None => size.to_owned(),
    }
}

/// A size in memory: `512 B`, `6 MiB`, `48.2 MiB`.
pub fn bytes(n: u64) -> String {
    if n < 1024 {
        format!("{n} B")
    } else {
        let text = scaled(n as f64, 1024.0, &[" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"]);
        // Sizes are mostly powers of two: "6.00 MiB" claims digits that nobody measured.
        without_zeros(&text)
    }
}

/// A round count, for a tick of an axis.
pub(crate) fn round(n: u64) -> String {
    without_zeros(&count(n))
}

/// Drops the fraction's trailing zeros.
fn without_zeros(text: &str) -> String {
    text.replace(".00 ", " ").replace(".0 ", " ")
}

/// Mebibytes: `0 MiB`, `3.2 MiB`, `1,536 MiB`.
pub(crate) fn mebibytes(mib: f64) -> String {
    if mib == 0.0 {
        "0 MiB".to_owned()
    } else if mib < 0.05 {
        "<0.1 MiB".to_owned()
    } else if mib < 99.95 {
        format!("{mib:.1} MiB")
    } else {
        format!("{} MiB", exact(mib.round() as u64))
    }
}

/// A fraction of one as a percentage: `0 %`, `<0.01 %`, `7.81 %`, `86.3 %`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent == 0.0 {
        "0 %".to_owned()
    } else if percent < 0.005 {
        "<0.01 %".to_owned()
    } else {
        format!("{} %", three_digits(percent))
    }
}

/// A relative change from `before` to `after`: `−93.1 %`, `+12.0 %`, `0 %`.
pub(crate) fn change(before: u64, after: u64) -> String {
    if before == after {
        return "0 %".to_owned();
    }
    if before == 0 {
        return format!("+{}", count(after));
    }
    let sign = if after < before { '−' } else { '+' };
    format!("{sign}{}", percent(after.abs_diff(before) as f64 / before as f64))
}

/// A relative change that is a fraction of one: `−93.1 %`, `+12.0 %`, `0 %`.
pub(crate) fn signed(fraction: f64) -> String {
    let sign = if fraction < 0.0 { "−" } else { "+" };
    if fraction == 0.0 { "0 %".to_owned() } else { format!("{sign}{}", percent(fraction.abs())) }
}

/// A ratio: `0`, `0.004`, `1.94`, `12.3`, `512`.
pub(crate) fn ratio(x: f64) -> String {
    if x == 0.0 {
        "0".to_owned()
    } else if x < 0.0005 {
        "<0.001".to_owned()
    } else if x < 0.0995 {
        format!("{x:.3}")
    } else {
        three_digits(x)
    }
}

/// Cycles per instruction: `0`, `<0.0001`, `0.4146`, `6.5415`.
pub(crate) fn cycles(x: f64) -> String {
    if x == 0.0 {
        "0".to_owned()
    } else if x < 0.000_05 {
        "<0.0001".to_owned()
    } else {
        format!("{x:.4}")
    }
}

/// The unit of times that stand together: milliseconds if the longest lasts less than a tenth of a second.
#[derive(Clone, Copy, Debug)]
pub struct TimeUnit {
    per_second: f64,
    /// `s` or `ms`.
    pub symbol: &'static str,
    /// `seconds` or `milliseconds`.
    pub name: &'static str,
}

impl TimeUnit {
    const SECONDS: TimeUnit = TimeUnit { per_second: 1.0, symbol: "s", name: "seconds" };
    const MILLISECONDS: TimeUnit = TimeUnit { per_second: 1e3, symbol: "ms", name: "milliseconds" };

    /// The unit for times up to `longest` seconds.
    pub fn up_to(longest: f64) -> TimeUnit {
        if longest < 0.1 { TimeUnit::MILLISECONDS } else { TimeUnit::SECONDS }
    }

    /// Seconds as a number in this unit.
    pub fn of(self, seconds: f64) -> f64 {
        seconds * self.per_second
    }

    /// The number, without the unit: `0.713`.
    pub fn number(self, seconds: f64) -> String {
        format!("{:.3}", self.of(seconds))
    }

    /// The number and the unit: `0.713 ms`.
    pub fn time(self, seconds: f64) -> String {
        format!("{} {}", self.number(seconds), self.symbol)
    }
}

/// A saturating sum, for counts from untrusted files.
pub(crate) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// The multiples of a step in a range; none if the step is 0, and at most as many as can be drawn.
pub(crate) fn multiples(step: f64, range: RangeInclusive<f64>) -> impl Iterator<Item = f64> {
    const DRAWN: usize = 100;
    let first = (range.start() / step).ceil();
    let all = (0..DRAWN).map(move |index| (first + index as f64) * step);
    all.take_while(move |&at| step > 0.0 && at <= *range.end())
}

/// A round step that divides a range into about `wanted` parts, and the decimals that its multiples need.
pub(crate) fn nice_step(range: f64, wanted: f64) -> (f64, usize) {
    let raw = range / wanted;
    let exponent = raw.log10().floor();
    let scale = [1.0, 2.0, 5.0].into_iter().find(|scale| scale * 10f64.powf(exponent) >= raw);
    let (scale, exponent) = scale.map_or((1.0, exponent + 1.0), |scale| (scale, exponent));
    (scale * 10f64.powf(exponent), (-exponent).max(0.0) as usize)
}

fn scaled(n: f64, step: f64, suffixes: &[&str]) -> String {
    let mut value = n;
    let mut suffix = "";
    for next in suffixes {
        // 999.5 would print as "1000", so the next suffix starts there.
        if value < step.min(999.5) {
            break;
        }
        value /= step;
        suffix = next;
    }
    format!("{}{suffix}", three_digits(value))
}

fn three_digits(x: f64) -> String {
    if x < 9.995 {
        format!("{x:.2}")
    } else if x < 99.95 {
        format!("{x:.1}")
    } else {
        format!("{x:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_three_digits_and_never_print_a_thousand_of_a_unit() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1.00 k"),
            (9_994, "9.99 k"),
            (9_996, "10.0 k"),
            (999_499, "999 k"),
            (999_500, "1.00 M"),
            (1_234_567, "1.23 M"),
            (u64::MAX, "18.4 E"),
        ];
        for (n, text) in cases {
            assert_eq!(count(n), text, "{n}");
        }
    }

    #[test]
    fn short_times_are_in_milliseconds() {
        assert_eq!(TimeUnit::up_to(0.000_7).time(0.000_71), "0.710 ms");
        assert_eq!(TimeUnit::up_to(0.1).time(0.000_71), "0.001 s");
    }

    #[test]
    fn sizes_drop_digits_nobody_measured() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(6 << 20), "6 MiB");
        assert_eq!(bytes(1 << 20), "1 MiB");
        assert_eq!(bytes(1000 << 10), "0.98 MiB");
        assert_eq!(bytes(50_541_363), "48.2 MiB");
    }

    #[test]
    fn shares_and_changes_say_when_they_are_tiny() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.00001), "<0.01 %");
        assert_eq!(percent(0.0781), "7.81 %");
        assert_eq!(percent(0.8634), "86.3 %");
        assert_eq!(change(100, 7), "−93.0 %");
        assert_eq!(change(100, 112), "+12.0 %");
        assert_eq!(change(5, 5), "0 %");
        assert_eq!(change(0, 1500), "+1.50 k");
    }

    #[test]
    fn other_units() {
        assert_eq!(exact(1_536), "1,536");
        assert_eq!(exact(123), "123");
        assert_eq!(mebibytes(3.21), "3.2 MiB");
        assert_eq!(mebibytes(1536.4), "1,536 MiB");
        assert_eq!(ratio(0.0041), "0.004");
        assert_eq!(ratio(1.944), "1.94");
        assert_eq!([0.0, 0.00004, 0.41459, 6.5].map(cycles), ["0", "<0.0001", "0.4146", "6.5000"]);
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(nice_step(1.66, 4.0), (0.5, 1));
        assert_eq!(nice_step(0.0412, 4.0), (0.02, 2));
        assert_eq!(nice_step(38.0, 4.0), (10.0, 0));
    }
}
