//! Classes of figures: measured, modelled or bound.
//!
//! The user guide explains each class. A result whose figures do not carry their class has a table that names each
//! figure once, wherever it occurs. The name of a list or object covers everything in it.

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

/// A result's table of classes.
pub fn classes(figures: &[(Class, &[&str])]) -> Classes {
    let mut table = Classes::new();
    for (class, names) in figures {
        table.extend(names.iter().map(|name| ((*name).to_owned(), *class)));
    }
    table
}
