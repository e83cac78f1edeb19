//! Figures: a median of repeats with its spread, or a refusal with its reason.

/// Repeats below which nothing is said.
const FEWEST_REPEATS: usize = 5;

/// One value for each repeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// No repeats yet.
    pub fn new() -> Samples {
        Samples::default()
    }

    /// Adds a repeat.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Number of repeats.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The quantile at `part`, interpolated between the nearest two repeats; NaN without repeats.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
        let at = part.clamp(0.0, 1.0) * last as f64;
        let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        low + (high - low) * at.fract()
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The lower quartile, on which decisions rest. Other work on the machine only ever adds time, so low values are
    /// the truest; the very lowest is luck.
    pub fn low(&self) -> f64 {
        self.quantile(0.25)
    }

    /// Differences from the same repeats of `other`, which were made right after each other.
    pub fn less(&self, other: &Samples) -> Samples {
        self.0.iter().zip(&other.0).map(|(a, b)| a - b).collect()
    }

    /// These repeats followed by others.
    pub fn joined(mut self, other: Samples) -> Samples {
        self.0.extend(other.0);
        self
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Samples {
        Samples(values.into_iter().collect())
    }
}

/// A measured figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name, such as `fault.anonymous_4k`.
    pub name: String,
    /// A description for people.
    pub title: String,
    /// Its unit, such as `ns`.
    pub unit: String,
    /// Always `measured`.
    pub class: String,
    /// Number of repeats.
    pub repeats: usize,
    /// The median of the repeats; none if refused.
    pub value: Option<f64>,
    /// The 10th percentile of the repeats.
    pub low: Option<f64>,
    /// The 90th percentile.
    pub high: Option<f64>,
    /// The value in core cycles; none for units other than `ns`, or if the core's clock changed.
    pub cycles: Option<f64>,
    /// Why there is no value.
    pub refused: Option<String>,
}

impl Figure {
    /// The median of the repeats; refused if they are too few, it is not above 0, or their spread (10th to 90th
    /// percentile) is wider than the figure itself.
    pub fn of(name: &str, title: &str, unit: &str, samples: &Samples) -> Figure {
        let (value, low, high) = (samples.median(), samples.quantile(0.1), samples.quantile(0.9));
        let refused = if samples.len() < FEWEST_REPEATS {
            Some(format!("measured {} times; {FEWEST_REPEATS} are needed", samples.len()))
        } else if value <= 0.0 {
            Some(format!("the noise hides it: the median is {value:.3} {unit}"))
        } else if high - low > value {
            Some(format!("the noise hides it: from {low:.3} to {high:.3} {unit} around {value:.3}"))
        } else {
            None
        };
        let known = samples.len() >= FEWEST_REPEATS;
        Figure {
            value: refused.is_none().then_some(value),
            low: known.then_some(low),
            high: known.then_some(high),
            refused,
            repeats: samples.len(),
            ..Figure::refused(name, title, unit, "")
        }
    }

    /// A figure that could not be measured.
    pub fn refused(name: &str, title: &str, unit: &str, reason: impl ToString) -> Figure {
        Figure {
            name: name.to_owned(),
            title: title.to_owned(),
            unit: unit.to_owned(),
            class: "measured".to_owned(),
            repeats: 0,
            value: None,
            low: None,
            high: None,
            cycles: None,
            refused: Some(reason.to_string()),
        }
    }
}

/// A figure over a parameter, such as cost over footprint.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name, such as `tlb.4k`.
    pub name: String,
    /// A description for people.
    pub title: String,
    /// What [`Point::at`] counts: `pages` or `bytes`.
    pub at_unit: String,
    /// Unit of the values.
    pub unit: String,
    /// Ascending.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The parameter's value.
    pub at: u64,
    /// The median of the repeats.
    pub value: f64,
    /// The 10th percentile of the repeats.
    pub low: f64,
    /// The 90th percentile.
    pub high: f64,
}

impl Curve {
    /// A curve from the repeats at each parameter value.
    pub fn of<'a>(
        [name, title]: [&str; 2],
        [at_unit, unit]: [&str; 2],
        points: impl IntoIterator<Item = (u64, &'a Samples)>,
    ) -> Curve {
        let point = |(at, samples): (u64, &Samples)| Point {
            at,
            value: samples.median(),
            low: samples.quantile(0.1),
            high: samples.quantile(0.9),
        };
        Curve {
            name: name.to_owned(),
            title: title.to_owned(),
            at_unit: at_unit.to_owned(),
            unit: unit.to_owned(),
            points: points.into_iter().map(point).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_nearest_two() {
        let samples: Samples = [4.0, 1.0, 3.0, 2.0, 5.0].into_iter().collect();
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|part| samples.quantile(part)), [1.0, 2.0, 3.0, 5.0]);
        assert_eq!(samples.quantile(0.1), 1.4);
        assert!(Samples::new().median().is_nan());
    }

    #[test]
    fn noise_is_refused() {
        let of = |values: &[f64]| Figure::of("x", "x", "ns", &values.iter().copied().collect());
        assert_eq!(of(&[9.0, 10.0, 10.0, 10.0, 30.0]).value, None, "one of five is wide of the mark");
        let few = of(&[10.0; 4]);
        assert_eq!((few.value, few.low), (None, None));
        let steady = of(&[9.0, 10.0, 10.0, 10.0, 11.0]);
        assert_eq!((steady.value, steady.refused), (Some(10.0), None));
        let nothing = of(&[-1.0, 0.0, -1.0, 1.0, 0.0]);
        assert!(nothing.refused.is_some_and(|why| why.contains("noise")));
    }
}
