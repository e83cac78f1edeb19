//! The result of `pagewalk contiguity`, as data. `--json` writes exactly this; the page embeds exactly this.
//!
//! Counts are *measured*: read from the process's page tables, of which designs' entries are plain arithmetic. Designs
//! for which memory would have to lie otherwise are a *bound*.

use crate::classes::{Class, Classes, classes};
use crate::schema::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const CONTIGUITY_SCHEMA: &str = "pagewalk.contiguity/1";

/// Shares of the memory that designs are asked to map, in per cent.
pub const PERCENTS: [u32; 4] = [80, 90, 95, 99];

/// Names of designs that renderers look for.
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

/// What was found in one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContiguityResult {
    /// [`CONTIGUITY_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// Where it ran.
    pub host: Host,
    /// The process.
    pub process: Subject,
    /// Bytes of a base page, in which all pages are counted.
    pub page_bytes: u64,
    /// Base pages of a huge page.
    pub huge_page_pages: u64,
    /// Pages of memory that it has, each counted once, however often its page tables map it.
    pub present_pages: u64,
    /// Pages that its page tables map, each as often as they do; 0 in results before these were told apart.
    #[serde(default)]
    pub mapped_pages: u64,
    /// Pages of memory that they map more than once.
    #[serde(default)]
    pub repeated_pages: u64,
    /// Those among them that huge pages map.
    pub huge_mapped_pages: u64,
    /// Pages that are swapped out, which no figure below counts.
    pub swapped_pages: u64,
    /// Most bytes that it had at one time, as its kernel counted them; none where that is not known.
    pub peak_resident_bytes: Option<u64>,
    /// Whether frame numbers could be read.
    pub frame_numbers: bool,
    /// What figures are, but those of designs, which say it themselves: [`figures`]. Empty in results before they told
    /// it.
    #[serde(default, skip_serializing_if = "Classes::is_empty")]
    pub classes: Classes,
    /// What each design needs.
    pub designs: Vec<Design>,
    /// Longest run of pages with the same rights: what a direct segment could map if it lay in consecutive frames.
    pub largest_virtual_run_pages: u64,
    /// Longest range: what a direct segment could map as memory lies; none without frame numbers.
    pub largest_range_pages: Option<u64>,
    /// Mappings that have pages, in order of address.
    pub mappings: Vec<Mapping>,
    /// What to do about it.
    pub advice: String,
}

/// What the figures of a result are.
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
        "mappings",
    ];
    classes(&[(Class::Measured, &measured), (Class::Bound, &["largest_virtual_run_pages"])])
}

/// A process, and when it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// Its number.
    pub pid: i32,
    /// Path of its program.
    pub program: String,
    /// Its command line.
    pub command_line: Vec<String>,
    /// When its memory was read.
    pub read: Moment,
    /// Seconds from its start to the reading, of `while_running`.
    pub at_seconds: Option<f64>,
    /// Seconds that the reading took.
    pub reading_seconds: f64,
}

/// When a process's memory was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// When the user asked, of a process that was not ours.
    OnRequest,
    /// At its exit, when it was stopped and had all its memory.
    AtExit,
    /// While it ran, when it had more than at its exit.
    WhileRunning,
}

/// One design of a TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// Its name: one of [`name`].
    pub name: String,
    /// What an entry maps, in words.
    pub title: String,
    /// `measured`, or `bound` where memory would have to lie otherwise.
    pub class: String,
    /// Why its figures are missing; none if they are there.
    pub missing: Option<Missing>,
    /// Entries that map all memory.
    pub entries: Option<u64>,
    /// The fewest entries that map shares of it.
    pub covering: Vec<Covering>,
    /// All entries by size.
    pub sizes: Sizes,
}

/// Why figures are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// What could not be read.
    pub reason: String,
    /// What would allow it.
    pub enable: String,
}

/// How many entries a share of memory takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Covering {
    /// The share.
    pub percent: u32,
    /// The fewest entries that map as much.
    pub entries: u64,
}

/// Entries by size: two lists of the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// Pages that an entry maps, ascending.
    pub pages: Vec<u64>,
    /// How many such entries there are.
    pub entries: Vec<u64>,
}

impl Sizes {
    /// Sizes and their numbers of entries, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.pages.iter().copied().zip(self.entries.iter().copied())
    }

    /// Pages that the largest so many entries map together.
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

/// A mapping that has pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mapping {
    /// Its first address, hexadecimal.
    pub start: String,
    /// Its length.
    pub bytes: u64,
    /// What may be done with it, such as `rw-`.
    pub rights: String,
    /// The file, or the kernel's name for it; empty for plain memory.
    pub name: String,
    /// Pages that are present.
    pub present_pages: u64,
    /// Those among them that huge pages map; none where their places are not known.
    pub huge_mapped_pages: Option<u64>,
    /// Runs of pages that begin in it.
    pub virtual_runs: u64,
    /// Runs of pages with consecutive frames that begin in it; none without frame numbers.
    pub ranges: Option<u64>,
}

impl ContiguityResult {
    /// Pages that its page tables map: what TLBs hold entries for.
    pub fn all_mapped_pages(&self) -> u64 {
        self.mapped_pages.max(self.present_pages)
    }

    /// A design by its name, if its figures are there.
    pub fn design(&self, name: &str) -> Option<&Design> {
        self.designs.iter().find(|design| design.name == name && design.missing.is_none())
    }

    /// Entries of a design that map a share, if they are known.
    pub fn covering(&self, name: &str, percent: u32) -> Option<u64> {
        self.design(name)?.covering(percent)
    }

    /// Reasons for missing figures, each once.
    pub fn missing(&self) -> Vec<&Missing> {
        let mut reasons: Vec<&Missing> = Vec::new();
        for missing in self.designs.iter().filter_map(|design| design.missing.as_ref()) {
            if !reasons.contains(&missing) {
                reasons.push(missing);
            }
        }
        reasons
    }
}

impl Design {
    /// Entries that map a share.
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
        let sizes = Sizes { pages: vec![1, 8, 512], entries: vec![10, 2, 1] };
        assert_eq!([0, 1, 2, 3, 5, 99].map(|entries| sizes.mapped_by(entries)), [0, 512, 520, 528, 530, 538]);
    }
}
