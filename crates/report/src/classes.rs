//! What figures are: measured, modelled or a bound.
//!
//! The user guide says what each class means. A result whose figures do not carry their class themselves has a table of
//! them, which names a figure once, wherever it occurs; a name of a list or of an object stands for all in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// From the program, the process or the host.
    Measured,
    /// From a model of the machine, or of what was not tried.
    Modelled,
    /// What nothing can beat.
    Bound,
}

impl Class {
    /// Its name in results and documents.
    pub fn name(self) -> &'static str {
        match self {
            Class::Measured => "measured",
            Class::Modelled => "modelled",
            Class::Bound => "bound",
        }
    }
}

/// Classes by the name of the figure.
pub type Classes = BTreeMap<String, Class>;

/// The table of a result.
pub fn classes(figures: &[(Class, &[&str])]) -> Classes {
    let mut table = Classes::new();
    for (class, names) in figures {
        table.extend(names.iter().map(|name| ((*name).to_owned(), *class)));
    }
    table
}
