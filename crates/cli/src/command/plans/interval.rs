//! The mean of a few measurements and its 90 % interval, after Student.

/// A mean and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Of at least two values; none of fewer.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let freedom = values.len().checked_sub(1).filter(|&freedom| freedom > 0)?;
        let mean = mean(values);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / freedom as f64 / values.len() as f64).sqrt();
        let half = quantile(freedom) * error;
        Some(Interval { mean, low: mean - half, high: mean + half })
    }

    /// How wide it is.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The 95 % quantile of Student's distribution: Abramowitz and Stegun, table 26.10, and beyond it their expansion
/// 26.7.5 of the normal quantile to the second term.
fn quantile(freedom: usize) -> f64 {
    const TABLE: [f64; 20] = [
        6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761,
        1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
    ];
    const NORMAL: f64 = 1.6449;
    let expanded = || NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom as f64);
    TABLE.get(freedom - 1).copied().unwrap_or_else(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let found = Interval::of(&[1.0, 2.0, 3.0]).unwrap();
        let half = 2.920 / 3f64.sqrt();
        assert!((found.mean - 2.0).abs() < 1e-12 && (found.low - (2.0 - half)).abs() < 1e-9);
        assert!((found.width() - 2.0 * half).abs() < 1e-9);
        assert_eq!(Interval::of(&[1.0]), None);
        assert!((quantile(30) - 1.697).abs() < 0.003 && (quantile(120) - 1.658).abs() < 0.001);
    }
}
