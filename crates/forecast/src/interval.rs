//! Intervals from a few runs on a shared host.
//!
//! There are four kinds. Student's interval of a mean assumes that runs differ by chance alone. That of a median
//! assumes nothing about the distribution, and a disturbed run moves it little. That of [`ratio`] needs alternating
//! runs, and is then almost as narrow as Student's. [`joined`] combines independent estimates.

/// A 90 % interval leaves this much outside on each side,
const TAIL: f64 = 0.05;
/// beyond this quantile of the normal distribution.
const NORMAL: f64 = 1.6449;

/// A figure with its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The best estimate.
    pub value: f64,
    /// The value is above this with 95 % confidence,
    pub low: f64,
    /// and below this.
    pub high: f64,
}

impl Interval {
    /// The width.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }

    /// The standard deviation of a normal error with this interval.
    fn deviation(&self) -> f64 {
        self.width() / (2.0 * NORMAL)
    }

    /// Widens the interval for a further error with this standard deviation.
    pub fn widened(&self, deviation: f64) -> Interval {
        let more = NORMAL * deviation;
        let Interval { value, low, high } = *self;
        Interval { value, low: value - (value - low).hypot(more), high: value + (high - value).hypot(more) }
    }
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// A figure with normal errors of this standard deviation.
pub fn normal(value: f64, deviation: f64) -> Interval {
    Interval { value, low: value - NORMAL * deviation, high: value + NORMAL * deviation }
}

/// Mean and squared standard error of repeats; one repeat says nothing about its error.
fn mean_and_error(repeats: &[f64]) -> (f64, Option<f64>) {
    let (count, mean) = (repeats.len() as f64, mean(repeats));
    let squares = repeats.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (repeats.len() > 1).then(|| squares / (count - 1.0) / count))
}

/// The 95 % quantile of Student's distribution: Abramowitz and Stegun, table 26.10, and beyond it their expansion
/// 26.7.5 of the normal quantile to the second term. Infinite for no degree of freedom.
pub fn student(degrees: usize) -> f64 {
    const TABLE: [f64; 20] = [
        6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761,
        1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
    ];
    let expanded = || NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * degrees as f64);
    degrees.checked_sub(1).map_or(f64::INFINITY, |at| TABLE.get(at).copied().unwrap_or_else(expanded))
}

/// The mean of repeats, with Student's interval.
pub fn of_runs(repeats: &[f64]) -> Interval {
    let (value, variance) = mean_and_error(repeats);
    let half = variance.map_or(f64::INFINITY, |variance| student(repeats.len() - 1) * variance.sqrt());
    Interval { value, low: value - half, high: value + half }
}

/// The median of repeats, with the two repeats that enclose it with 90 % confidence under any distribution; fewer than
/// five have no such interval. The number of repeats below the median is binomial (Wilks, 1962, section 11.2).
pub fn of_median(repeats: &[f64]) -> Interval {
    let mut sorted = repeats.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (count, value) = (sorted.len(), middle(&sorted));
    // The probability that this many repeats or fewer are below the median.
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

/// The ratio of a run's time with a change to its time now, from alternating runs: slow drifts of the host cancel out,
/// and a pair with one disturbed run moves it little.
///
/// A disturbance may hit either run of a pair, so the logarithms of ratios are symmetric about that of the change: the
/// estimate is the median of all pairwise means (Hodges and Lehmann, "Estimates of Location Based on Rank Tests",
/// 1963), with the interval of Wilcoxon's signed ranks (Hollander and Wolfe, "Nonparametric Statistical Methods", 1999,
/// section 3.3). Unknown for fewer than five pairs.
pub fn ratio(now: &[f64], trial: &[f64]) -> Interval {
    let ratios: Vec<f64> = now.iter().zip(trial).map(|(now, trial)| (trial / now).ln()).collect();
    let mut means: Vec<f64> = Vec::with_capacity(ratios.len() * (ratios.len() + 1) / 2);
    for (at, one) in ratios.iter().enumerate() {
        means.extend(ratios[at..].iter().map(|other| f64::midpoint(*one, *other)));
    }
    means.sort_by(f64::total_cmp);
    let ends = signed_ranks_outside(ratios.len()).map(|outside| [outside, means.len() - 1 - outside]);
    let [low, high] =
        ends.map_or([f64::NEG_INFINITY, f64::INFINITY], |ends| ends.map(|end| means[end].exp()));
    Interval { value: middle(&means).exp(), low, high }
}

/// The same ratio, combining [`ratio`] with the ratio of medians. Pairs are better if the host changes slowly; medians
/// if runs of one kind fall into groups, which pairs mix. Each is weighted by its precision. Both use the same runs, so
/// combining them does not narrow the interval; how their errors correlate is unknown.
pub fn of_turns(now: &[f64], trial: &[f64]) -> Interval {
    let (pairs, [above, below]) = (ratio(now, trial), [trial, now].map(of_median));
    let share = |of: Interval| of.deviation() / of.value;
    let value = above.value / below.value;
    let medians = normal(value, value * share(above).hypot(share(below)));
    let both: Vec<Interval> = [pairs, medians].into_iter().filter(|one| one.width().is_finite()).collect();
    if both.len() < 2 {
        return both.first().copied().unwrap_or(pairs);
    }
    let weights = weights(&both);
    let mean = |of: &dyn Fn(&Interval) -> f64| -> f64 {
        both.iter().zip(&weights).map(|(one, weight)| weight * of(one)).sum()
    };
    let value = mean(&|one| one.value);
    let apart = mean(&|one| (one.value - value).powi(2)).sqrt();
    normal(value, mean(&Interval::deviation).hypot(apart))
}

/// Combines independent estimates of a figure, weighted by precision, the inverse of the squared error (Cochran, "The
/// Combination of Estimates from Different Experiments", Biometrics 10, 1954). If they differ by more than their errors
/// make likely, the errors were too small, and the interval is widened by the ratio (Birge, "The Calculation of Errors
/// by the Method of Least Squares", Physical Review 40, 1932). Unbounded estimates count only if there are no others.
pub fn joined(estimates: &[Interval]) -> Interval {
    let known: Vec<Interval> = estimates.iter().copied().filter(|one| one.width().is_finite()).collect();
    if known.len() < 2 {
        return known.first().or(estimates.first()).copied().unwrap_or(normal(f64::NAN, f64::INFINITY));
    }
    let weights = weights(&known);
    let value: f64 = known.iter().zip(&weights).map(|(one, weight)| weight * one.value).sum();
    let all: f64 = known.iter().map(precision).sum();
    let squares: f64 = known.iter().map(|one| precision(one) * (one.value - value).powi(2)).sum();
    let birge = (squares / (known.len() - 1) as f64).max(1.0);
    normal(value, (birge / all).sqrt())
}

/// The inverse of the squared error, bounded for errors of zero.
fn precision(of: &Interval) -> f64 {
    of.deviation().max(1e-9).powi(-2)
}

/// Each estimate's share of the total precision.
fn weights(estimates: &[Interval]) -> Vec<f64> {
    let all: f64 = estimates.iter().map(precision).sum();
    estimates.iter().map(|one| precision(one) / all).collect()
}

/// How many of the pairwise means of `count` values lie outside the 90 % interval on each side: the largest sum of
/// positive ranks whose probability stays within 5 %.
fn signed_ranks_outside(count: usize) -> Option<usize> {
    /// Above this many values the distribution is close to normal.
    const MANY: usize = 60;
    let all = count * (count + 1) / 2;
    if count > MANY {
        let deviation = (all as f64 * (2 * count + 1) as f64 / 12.0).sqrt();
        return Some((all as f64 / 2.0 - NORMAL * deviation) as usize);
    }
    // By sum: the probability that the positive ranks have this sum, each being positive with probability 1/2.
    let mut chances = vec![0.0; all + 1];
    chances[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..=all).rev() {
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    let below = chances.iter().scan(0.0, |below, chance| {
        *below += chance;
        Some(*below)
    });
    below.take_while(|&below| below <= TAIL).count().checked_sub(1)
}

/// The median of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// The ratio of times with `share` of the gain of `whole`.
pub fn part(whole: Interval, share: Interval) -> Interval {
    let of = |share: f64, whole: f64| 1.0 - share * (1.0 - whole);
    let corners = [share.low, share.high].map(|share| [of(share, whole.low), of(share, whole.high)]);
    let low = corners.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let high = corners.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    Interval { value: of(share.value, whole.value), low, high }
}

/// The product of two independent figures: their errors add as squares.
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
    fn ratios_of_pairs_have_wilcoxons_interval() {
        let of = |ratios: &[f64]| ratio(&vec![1.0; ratios.len()], ratios);
        // Of five, the ends are those of the ratios; a disturbed one moves the middle little.
        let found = of(&[0.5, 0.52, 0.51, 0.49, 2.0]);
        assert!((found.low - 0.49).abs() < 1e-12 && (found.high - 2.0).abs() < 1e-12);
        assert!((0.5..0.53).contains(&found.value), "{found:?}");
        assert_eq!(of(&[0.5, 0.52, 0.51, 0.49]).high, f64::INFINITY, "of four it is unknown");
        assert!(of(&[]).value.is_nan());
        // It does not matter which run of a pair was disturbed.
        let found = of(&[0.5, 2.0, 0.8, 1.25, 1.0]);
        assert!((found.value - 1.0).abs() < 1e-12 && (found.low * found.high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn estimates_are_joined_by_their_precision() {
        let found = joined(&[normal(0.6, 0.02), normal(0.63, 0.04)]);
        assert!((found.value - (0.6 * 4.0 + 0.63) / 5.0).abs() < 1e-12, "a fourth of the precision");
        assert!((found.deviation() - 0.02 * 0.8f64.sqrt()).abs() < 1e-12);
        assert!(found.width() < normal(0.6, 0.02).width(), "both know more than one");
        // Two that contradict each other are less certain than either claims.
        let (one, other) = (normal(0.5, 0.01), normal(0.7, 0.01));
        let apart = joined(&[one, other]);
        assert!((apart.value - 0.6).abs() < 1e-12 && (apart.deviation() - 0.1).abs() < 1e-12, "{apart:?}");
        let unknown = Interval { value: 1.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
        assert_eq!(joined(&[unknown, one]), one);
        assert_eq!(joined(&[unknown]).high, f64::INFINITY);
        assert!(joined(&[]).value.is_nan());
        let exact = Interval { value: 0.8, low: 0.8, high: 0.8 };
        assert!((joined(&[exact, one]).value - 0.8).abs() < 1e-9, "what is known needs no other");
    }

    /// As measured for a hash table of 8 million entries on a busy host: half of its runs on huge pages were disturbed.
    #[test]
    fn runs_in_groups_are_between_their_pairs_and_their_medians() {
        let now = [0.94, 0.96, 0.93, 0.95, 0.92, 0.94, 0.97, 0.93, 0.95, 0.94, 0.96];
        let trial = [0.57, 1.1, 0.56, 0.58, 1.2, 0.55, 1.15, 0.57, 1.1, 0.56, 0.59];
        let (found, pairs) = (of_turns(&now, &trial), ratio(&now, &trial));
        let medians = of_median(&trial).value / of_median(&now).value;
        assert!(medians < found.value && found.value < pairs.value, "{medians} {found:?} {pairs:?}");
        assert!(found.low < medians && pairs.value < found.high, "{found:?}");
        // If both agree, the result is the same.
        let steady = of_turns(&[1.0; 8], &[0.5; 8]);
        assert!((steady.value - 0.5).abs() < 1e-9 && steady.width() < 1e-6, "{steady:?}");
        assert_eq!(of_turns(&[1.0; 4], &[0.5; 4]).high, f64::INFINITY, "of four nothing is known");
    }

    #[test]
    fn what_else_may_be_wrong_adds_as_squares() {
        let found = Interval { value: 1.0, low: 1.0 - 0.3, high: 1.0 }.widened(0.4 / NORMAL);
        assert!((found.low - 0.5).abs() < 1e-12 && (found.high - 1.4).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn signed_ranks_are_those_of_the_tables() {
        // Hollander and Wolfe, table A.4: with probability at most 5 %, the sum of positive ranks does not exceed this.
        for (count, outside) in
            [(5, 0), (6, 2), (7, 3), (8, 5), (9, 8), (10, 10), (15, 30), (20, 60), (25, 100)]
        {
            assert_eq!(signed_ranks_outside(count), Some(outside), "{count}");
        }
        assert_eq!(signed_ranks_outside(4), None);
        // The normal distribution continues where the exact one ends.
        let (exact, normal) = (signed_ranks_outside(60).unwrap(), signed_ranks_outside(61).unwrap());
        assert!((20..60).contains(&(normal - exact)), "{exact} {normal}");
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
        let wider = product(found, normal(1.0, 0.1));
        let half = 0.05f64.hypot(1.645 * 0.1) * 5.0;
        assert!((wider.high - 5.0 - half).abs() < 1e-3 && (5.0 - half - wider.low).abs() < 1e-3);
        let unknown = Interval { value: 1.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
        assert_eq!(product(found, unknown).high, f64::INFINITY);
    }
}
