//! The result of `pagewalk contiguity`, as data. `--json` writes exactly this; the page embeds exactly this.
//!
//! Counts are *measured*: read from the process's page tables; entries of designs follow by arithmetic. Designs that
//! would need the memory to lie otherwise are a *bound*.

use crate::classes::{Class, Classes, classes};
use crate::schema::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const CONTIGUITY_SCHEMA: &str = "pagewalk.contiguity/1";

/// Shares of the memory that designs must map, in per cent.
pub const PERCENTS: [u32; 4] = [80, 90, 95, 99];

/// Names of designs.
pub mod name {
    /// Base pages alone.
    pub const BASE_PAGES: &str = "base_pages";
    /// Pages as they are mapped.
    pub const AS_MAPPED: &str = "as_mapped";
    /// Runs of consecutive frames in aligned groups of 4 pages.
    pub const COALESCED: &str = "coalesced_4";
    /// Groups of 8 pages in groups of 8 frames.
    pub const CLUSTERED: &str = "clustered_8";
    /// Blocks of 16 pages.
    pub const HINTED: &str = "contiguous_hint_16";
    /// Runs of pages with consecutive frames.
    pub const RANGES: &str = "ranges";
    /// Huge pages wherever there are pages.
    pub const HUGE_EVERYWHERE: &str = "huge_everywhere";
    /// Runs of pages.
    pub const VIRTUAL_RUNS: &str = "virtual_runs";
}

/// The contiguity of one process's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContiguityResult {
    /// [`CONTIGUITY_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// The host.
    pub host: Host,
    /// The process.
    pub process: ProcessReading,
    /// Bytes of a base page, the unit of all page counts.
    pub page_bytes: u64,
    /// Base pages of a huge page.
    pub huge_page_pages: u64,
    /// Resident pages; a page counts once, however often the page tables map it.
    pub present_pages: u64,
    /// Mapped pages; a page counts each time that the page tables map it. 0 in older results, which do not tell.
    #[serde(default)]
    pub mapped_pages: u64,
    /// Resident pages that the page tables map more than once.
    #[serde(default)]
    pub repeated_pages: u64,
    /// Mapped pages in huge pages.
    pub huge_mapped_pages: u64,
    /// Swapped-out pages; no figure below includes them.
    pub swapped_pages: u64,
    /// Peak resident bytes, as the kernel counts them; none if unknown.
    pub peak_resident_bytes: Option<u64>,
    /// Whether frame numbers could be read.
    pub frame_numbers: bool,
    /// Classes of figures, except designs, which carry their own: [`figures`]. Empty in older results.
    #[serde(default, skip_serializing_if = "Classes::is_empty")]
    pub classes: Classes,
    /// The entries that each design needs.
    pub designs: Vec<Design>,
    /// Longest run of pages with the same rights: what a direct segment could map if the run lay in consecutive frames.
    pub largest_virtual_run_pages: u64,
    /// Longest range: what a direct segment can map as the memory lies; none without frame numbers.
    pub largest_range_pages: Option<u64>,
    /// How the frames spread over the colors of a cache, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colors: Option<ColorSpread>,
    /// Mappings with resident pages, by address.
    pub mappings: Vec<MappingContiguity>,
    /// What to do about it.
    pub advice: String,
}

/// The classes of a result's figures.
pub fn figures() -> Classes {
    let measured = [
        "at_seconds",
        "reading_seconds",
        "present_pages",
        "mapped_pages",
        "repeated_pages",
        "huge_mapped_pages",
        "swapped_pages",
        "peak_resident_bytes",
        "largest_range_pages",
        "colors",
        "mappings",
    ];
    classes(&[(Class::Measured, &measured), (Class::Bound, &["largest_virtual_run_pages"])])
}

/// How a process's frames spread over the colors of a cache. Frames of one color compete for the same sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColorSpread {
    /// The cache.
    pub cache: ColoredCache,
    /// Its colors: the pages that fit into a way. The color of a frame is its number modulo these.
    pub colors: u64,
    /// For each color, the pages that no huge page maps.
    pub base_pages: Vec<u64>,
    /// For each color, the base pages of huge pages, which take all colors in turn.
    pub huge_pages: Vec<u64>,
    /// Pages of the color with fewest.
    pub least_pages: u64,
    /// The median of pages by color.
    pub median_pages: f64,
    /// Pages of the color with most.
    pub most_pages: u64,
    /// Pages of each color, if they were spread evenly.
    pub even_pages: f64,
    /// Squared deviations of base pages from their mean, over that mean: 0 for an even spread. None without base pages.
    pub chi_square: Option<f64>,
    /// Its mean if each page's color is random.
    pub chi_square_random: f64,
    /// Its standard deviation then.
    pub chi_square_deviation: f64,
    /// Colors with more pages than the cache has ways.
    pub colors_beyond_ways: u64,
    /// Pages beyond the ways, over all colors: they must conflict if all pages are in use.
    pub pages_beyond_ways: u64,
    /// The same, if pages were spread evenly.
    pub pages_beyond_ways_if_even: u64,
    /// Whether frames are those of a virtual machine; the host's may have other colors, and change.
    pub guest: bool,
}

/// A cache with colors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ColoredCache {
    /// Which it is, for people.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its ways.
    pub ways: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
}

/// A process, and when its page tables were read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessReading {
    /// Its number.
    pub pid: i32,
    /// Path of its program.
    pub program: String,
    /// Its command line.
    pub command_line: Vec<String>,
    /// When they were read.
    pub read: ReadingTime,
    /// Seconds from its start to the reading, for `while_running`.
    pub at_seconds: Option<f64>,
    /// Seconds that the reading took.
    pub reading_seconds: f64,
}

/// When a process's page tables were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadingTime {
    /// On the user's request, for a process that was already running.
    OnRequest,
    /// At its exit, while it still had all its memory.
    AtExit,
    /// While it ran, when it had more memory than at its exit.
    WhileRunning,
}

/// One design of a TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// Its name: one of [`name`].
    pub name: String,
    /// What an entry maps, in words.
    pub title: String,
    /// `measured`, or `bound` if the memory would have to lie otherwise.
    pub class: String,
    /// Why its figures are missing; none if they are present.
    pub missing: Option<MissingFigures>,
    /// Entries that map all memory.
    pub entries: Option<u64>,
    /// The fewest entries that map each of [`PERCENTS`] of it.
    pub covering: Vec<Coverage>,
    /// Entries by size.
    pub sizes: EntrySizes,
}

/// Why figures are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingFigures {
    /// What cannot be read.
    pub reason: String,
    /// How to allow it.
    pub enable: String,
}

/// The entries that a share of memory takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// The share.
    pub percent: u32,
    /// The fewest entries that map it.
    pub entries: u64,
}

/// Entries by size: two lists of the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntrySizes {
    /// Pages that an entry maps, ascending.
    pub pages: Vec<u64>,
    /// The number of such entries.
    pub entries: Vec<u64>,
}

impl EntrySizes {
    /// Pairs of size and number of entries, by ascending size.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.pages.iter().copied().zip(self.entries.iter().copied())
    }

    /// Pages that the `entries` largest entries map together.
    pub fn mapped_by(&self, mut entries: u64) -> u64 {
        let mut mapped = 0u64;
        for (pages, count) in self.iter().rev() {
            let taken = count.min(entries);
            mapped = mapped.saturating_add(pages.saturating_mul(taken));
            entries -= taken;
        }
        mapped
    }
}

/// A mapping with resident pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MappingContiguity {
    /// Its first address, hexadecimal.
    pub start: String,
    /// Its length.
    pub bytes: u64,
    /// Its rights, such as `rw-`.
    pub rights: String,
    /// Its file, or the kernel's name for it; empty for anonymous memory.
    pub name: String,
    /// Resident pages.
    pub present_pages: u64,
    /// Resident pages in huge pages; none if unknown.
    pub huge_mapped_pages: Option<u64>,
    /// Runs of pages that begin in it.
    pub virtual_runs: u64,
    /// Runs of pages with consecutive frames that begin in it; none without frame numbers.
    pub ranges: Option<u64>,
}

impl ContiguityResult {
    /// Mapped pages: what TLBs need entries for.
    pub fn all_mapped_pages(&self) -> u64 {
        self.mapped_pages.max(self.present_pages)
    }

    /// A design by its name, if its figures are present.
    pub fn design(&self, name: &str) -> Option<&Design> {
        self.designs.iter().find(|design| design.name == name && design.missing.is_none())
    }

    /// The entries of a design that map a share, if known.
    pub fn covering(&self, name: &str, percent: u32) -> Option<u64> {
        self.design(name)?.covering(percent)
    }

    /// Reasons for missing figures, each once.
    pub fn missing(&self) -> Vec<&MissingFigures> {
        let mut reasons: Vec<&MissingFigures> = Vec::new();
        for missing in self.designs.iter().filter_map(|design| design.missing.as_ref()) {
            if !reasons.contains(&missing) {
                reasons.push(missing);
            }
        }
        reasons
    }
}

impl Design {
    /// The entries that map a share.
    pub fn covering(&self, percent: u32) -> Option<u64> {
        let found = self.covering.iter().find(|covering| covering.percent == percent);
        found.map(|covering| covering.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_entries_map_first() {
        let sizes = EntrySizes { pages: vec![1, 8, 512], entries: vec![10, 2, 1] };
        assert_eq!([0, 1, 2, 3, 5, 99].map(|entries| sizes.mapped_by(entries)), [0, 512, 520, 528, 530, 538]);
    }
}
