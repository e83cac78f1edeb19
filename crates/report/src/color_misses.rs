//! Misses of a cache by the color of the page, in results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Misses of a physically indexed cache by color. Pages of one color compete for the same sets. A reference that
/// crosses into the next page counts for the page in which it begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColorMisses {
    /// The cache's name.
    pub cache: String,
    /// Colors of base pages.
    pub colors: u64,
    /// Neighbouring colors in each column: more than one if there are very many.
    pub colors_per_column: u64,
    /// Pages of a color that the cache holds at once.
    pub ways: u64,
    /// The mappings with most misses, then all others together.
    pub parts: Vec<ColorPart>,
    /// The columns of colors, in order.
    pub columns: Vec<ColorColumn>,
}

/// The misses of a mapping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColorPart {
    /// The mapping's name.
    pub mapping: String,
    /// Lines of its pages that the program's references did not find in the cache, by column.
    pub misses: Vec<u64>,
}

/// A column of colors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColorColumn {
    /// Base pages that missed.
    pub pages: u64,
    /// Those that missed most.
    pub worst: Vec<ColorPage>,
}

/// A base page that missed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColorPage {
    /// Its first byte.
    pub address: u64,
    /// Its mapping's name.
    pub mapping: String,
    /// Its misses.
    pub misses: u64,
}
