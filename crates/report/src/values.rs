//! Values of metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Values by metric name: counts are integers, shares are fractions of one.
pub type Metrics = BTreeMap<String, Number>;

/// A count or a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Number {
    /// An exact count.
    Count(u64),
    /// A ratio, or a modelled quantity that is not an integer.
    Real(f64),
}

impl Number {
    /// The value as a float, for drawing and printing.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Count(n) => n as f64,
            Number::Real(x) => x,
        }
    }
}
