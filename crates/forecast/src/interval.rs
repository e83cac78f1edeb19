//! Means of few runs, and what lies between those that were measured.

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

/// What a run would take that has part of the gain between the runs `now` and the runs `trial`, which has it all.
/// `share` is that part, with its bounds.
pub fn between(now: &[f64], trial: &[f64], share: Interval) -> Interval {
    let ((now_mean, now_error), (trial_mean, trial_error)) = (mean_and_error(now), mean_and_error(trial));
    let gain = now_mean - trial_mean;
    let value = now_mean - share.value * gain;
    let degrees = now.len().min(trial.len()).saturating_sub(1);
    let half = match (now_error, trial_error) {
        // (1 - share) of one mean and share of the other.
        (Some(now), Some(trial)) => {
            let variance = (1.0 - share.value).powi(2) * now + share.value.powi(2) * trial;
            student(degrees) * variance.sqrt()
        }
        _ => f64::INFINITY,
    };
    let ends = [now_mean - share.low * gain, now_mean - share.high * gain];
    Interval {
        value,
        low: ends[0].min(ends[1]).min(value) - half,
        high: ends[0].max(ends[1]).max(value) + half,
    }
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
    fn part_of_a_gain_lies_between_the_runs() {
        let exact = |value| Interval { value, low: value, high: value };
        let (now, trial) = ([10.0, 10.2, 9.8], [6.0, 6.1, 5.9]);
        assert!((between(&now, &trial, exact(0.0)).value - 10.0).abs() < 1e-12);
        assert!((between(&now, &trial, exact(1.0)).value - 6.0).abs() < 1e-12);
        let half = between(&now, &trial, Interval { value: 0.5, low: 0.4, high: 0.7 });
        assert!((half.value - 8.0).abs() < 1e-12);
        assert!(half.low < 7.2 && half.high > 8.4);
        let all = of_runs(&trial);
        let whole = between(&now, &trial, exact(1.0));
        assert!((whole.low - all.low).abs() < 1e-12 && (whole.high - all.high).abs() < 1e-12);
    }
}
