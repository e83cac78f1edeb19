//! Which pagewalk this is.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A build of pagewalk. Only equal ones share a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The version.
    pub version: String,
    /// Hash of the program's file.
    pub tool: String,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pagewalk {} (build {})", self.version, self.tool.get(..8).unwrap_or(&self.tool))
    }
}
