//! How exactly a stream records data addresses.

use serde::{Deserialize, Serialize};

/// What is kept of a data reference's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grain {
    /// Every bit.
    #[default]
    Byte,
    /// Its 4 KiB page, as the page's first byte; but the whole address of a reference that crosses into another page.
    /// TLBs of any page size behave the same; caches do not.
    Page,
}

impl Grain {
    /// Whether addresses are exact.
    pub fn is_byte(&self) -> bool {
        *self == Grain::Byte
    }
}
