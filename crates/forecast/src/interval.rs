//! Few runs on a host that others use too: how sure is what they say, and what lies between those that were measured.
//!
//! Two kinds of interval. Student's, of a mean, wants runs that differ by chance alone. That of a median wants nothing
//! of how they differ, and a run that met other work moves it little.

/// A figure with its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The best guess.
    pub value: f64,
    /// It is above this with 95 % confidence.
    pub low: f64,
    /// And below this.
    pub high: f64,
}

impl Interval {
    /// How wide it is.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Mean and squared standard error of repeats; of one repeat nothing is known of its error.
fn mean_and_error(repeats: &[f64]) -> (f64, Option<f64>) {
    let (count, mean) = (repeats.len() as f64, mean(repeats));
    let squares = repeats.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (repeats.len() > 1).then(|| squares / (count - 1.0) / count))
}

/// The 95 % quantile of Student's distribution: Abramowitz and Stegun, table 26.10, and beyond it their expansion
/// 26.7.5 of the normal quantile to the second term. Of no degree of freedom it is infinite.
pub fn student(degrees: usize) -> f64 {
    const TABLE: [f64; 20] = [
        6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761,
        1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
    ];
    const NORMAL: f64 = 1.6449;
    let expanded = || NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * degrees as f64);
    degrees.checked_sub(1).map_or(f64::INFINITY, |at| TABLE.get(at).copied().unwrap_or_else(expanded))
}

/// The mean of repeats, with Student's interval.
pub fn of_runs(repeats: &[f64]) -> Interval {
    let (value, variance) = mean_and_error(repeats);
    let half = variance.map_or(f64::INFINITY, |variance| student(repeats.len() - 1) * variance.sqrt());
    Interval { value, low: value - half, high: value + half }
}

/// The median of repeats, between two of them that it lies between with 90 % confidence whatever their distribution:
/// of fewer than five there are none. Each repeat is below the median as often as above it, so how many are is
/// binomial (Wilks, 1962, section 11.2).
pub fn of_median(repeats: &[f64]) -> Interval {
    const TAIL: f64 = 0.05;
    let mut sorted = repeats.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (count, middle) = (sorted.len(), sorted.len() / 2);
    let value = match count {
        0 => return Interval { value: f64::NAN, low: f64::NEG_INFINITY, high: f64::INFINITY },
        odd if odd % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    };
    // Chances that so many repeats or fewer are below: summed from none on.
    let (mut chance, mut below, mut outside) = (0.5f64.powi(count as i32), 0.0, 0);
    while below + chance <= TAIL {
        below += chance;
        outside += 1;
        chance *= (count + 1 - outside) as f64 / outside as f64;
    }
    match outside {
        0 => Interval { value, low: f64::NEG_INFINITY, high: f64::INFINITY },
        _ => Interval { value, low: sorted[outside - 1], high: sorted[count - outside] },
    }
}

/// What a run takes with all of a gain, to what it takes now, by runs that took turns: what changes slowly on the host
/// cancels out.
pub fn ratio(now: &[f64], trial: &[f64]) -> Interval {
    of_median(&now.iter().zip(trial).map(|(now, trial)| trial / now).collect::<Vec<f64>>())
}

/// What a run would take to what it takes now that has part of the gain of `whole`; `share` is that part, with its
/// bounds.
pub fn part(whole: Interval, share: Interval) -> Interval {
    let of = |share: f64, whole: f64| 1.0 - share * (1.0 - whole);
    let corners = [share.low, share.high].map(|share| [of(share, whole.low), of(share, whole.high)]);
    let low = corners.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let high = corners.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    Interval { value: of(share.value, whole.value), low, high }
}

/// A product of two figures that know nothing of each other: their errors add as squares.
pub fn product(a: Interval, b: Interval) -> Interval {
    let value = a.value * b.value;
    let half = |a_end: f64, b_end: f64| (b.value * (a_end - a.value)).hypot(a.value * (b_end - b.value));
    Interval { value, low: value - half(a.low, b.low), high: value + half(a.high, b.high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_have_students_interval() {
        let found = of_runs(&[10.0, 12.0, 11.0, 13.0, 14.0]);
        let half = 2.132 * (2.5f64 / 5.0).sqrt();
        assert!((found.value - 12.0).abs() < 1e-12);
        assert!((found.high - 12.0 - half).abs() < 1e-12 && (12.0 - found.low - half).abs() < 1e-12);
        assert_eq!(of_runs(&[1.0]).high, f64::INFINITY);
        assert!((found.width() - 2.0 * half).abs() < 1e-12);
        assert!((student(30) - 1.697).abs() < 0.003 && (student(120) - 1.658).abs() < 0.001);
    }

    #[test]
    fn medians_lie_between_two_of_the_repeats() {
        let of = |count: u32| of_median(&(0..count).map(|k| f64::from(k * 7 % count)).collect::<Vec<f64>>());
        // Outside are 0 of 4, 1 of 5, 2 of 8, 3 of 11, 4 of 13 on each side.
        assert_eq!(of(4), Interval { value: 1.5, low: f64::NEG_INFINITY, high: f64::INFINITY });
        for (count, outside) in [(5, 1), (8, 2), (10, 2), (11, 3), (13, 4)] {
            let (value, first) = (f64::from(count - 1) / 2.0, f64::from(outside - 1));
            let found = Interval { value, low: first, high: f64::from(count - 1) - first };
            assert_eq!(of(count), found, "{count}");
        }
        assert_eq!(of_median(&[5.0, 1.0, 2.0, 900.0, 3.0]).value, 3.0);
        assert!(of_median(&[]).value.is_nan());
    }

    #[test]
    fn a_host_that_gets_slower_changes_no_ratio() {
        let now = [10.0, 11.0, 12.0, 13.0, 14.0];
        let found = ratio(&now, &now.map(|now| 0.6 * now));
        assert!((found.value - 0.6).abs() < 1e-12 && found.width() < 1e-12);
    }

    #[test]
    fn part_of_a_gain_lies_between_the_runs() {
        let exact = |value| Interval { value, low: value, high: value };
        let whole = Interval { value: 0.6, low: 0.58, high: 0.62 };
        assert_eq!(part(whole, exact(0.0)), exact(1.0), "no gain is sure to be none");
        let all = part(whole, exact(1.0));
        assert!((all.value - 0.6).abs() < 1e-12 && (all.width() - 0.04).abs() < 1e-12);
        let half = part(whole, Interval { value: 0.5, low: 0.4, high: 0.7 });
        assert!((half.value - 0.8).abs() < 1e-12);
        assert!(
            (half.low - (1.0 - 0.7 * 0.42)).abs() < 1e-12 && (half.high - (1.0 - 0.4 * 0.38)).abs() < 1e-12
        );
    }

    #[test]
    fn errors_of_a_product_add_as_squares() {
        let found = product(
            Interval { value: 10.0, low: 9.7, high: 10.3 },
            Interval { value: 0.5, low: 0.48, high: 0.52 },
        );
        assert!((found.value - 5.0).abs() < 1e-12);
        assert!((found.low - 4.75).abs() < 1e-9 && (found.high - 5.25).abs() < 1e-9, "3 % and 4 %: 5 %");
        let unknown = Interval { value: 1.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
        assert_eq!(product(found, unknown).high, f64::INFINITY);
    }
}
