//! How exactly a stream tells where data lie.

use serde::{Deserialize, Serialize};

/// What is kept of the address of a data reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grain {
    /// All of it.
    #[default]
    Byte,
    /// Its 4 KiB page, as the page's first byte; all of it where the reference goes on into another page, which is then
    /// still told. TLBs of any page size see the same, caches of lines do not.
    Page,
}

impl Grain {
    /// Whether addresses are whole.
    pub fn is_byte(&self) -> bool {
        *self == Grain::Byte
    }

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Grain::Byte => "byte",
            Grain::Page => "page",
        }
    }
}
