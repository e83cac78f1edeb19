//! The result of `samples`.

use crate::classes::{Class, Classes};
use schemars::JsonSchema;
use serde::Serialize;

/// Schema of `samples`.
pub const SAMPLES_SCHEMA: &str = "pagewalk.samples/1";

/// Samples of perf, attributed to memory and code.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SamplesResult {
    /// [`SAMPLES_SCHEMA`].
    pub schema: &'static str,
    /// The file.
    pub file: String,
    /// Its format: `perf.data` or `perf script`.
    pub format: &'static str,
    /// Seconds from the first sample to the last; null if samples have no times.
    pub seconds: Option<f64>,
    /// All samples with an address of data.
    pub samples: SampleCounts,
    /// Samples without such an address, which count nowhere else.
    pub without_address: u64,
    /// Events, in the order of the file.
    pub events: Vec<SampledEvent>,
    /// Processes, the one with most samples first.
    pub processes: Vec<SampledProcess>,
    /// Samples by what the translation met: `first_level`, `second_level`, `some_level`, `walk`, `fault`, `unknown`.
    pub outcomes: Vec<SampledPart>,
    /// Samples by the size of the page: `4K`, `2M`, `1G`, `unknown`.
    pub page_sizes: Vec<SampledPart>,
    /// Samples by mapping, most walks first, then most samples.
    pub mappings: Vec<SampledPart>,
    /// Samples by function, most walks first, then most samples.
    pub functions: Vec<SampledPart>,
    /// Samples by `FUNCTION FILE:LINE` of the source, where debug information tells it, in the same order.
    pub sites: Vec<SampledPart>,
    /// Regions of 2 MiB with walks, most walks first.
    pub regions: Vec<SampledRegion>,
    /// Samples next to a recorded stream; null if none was given.
    pub stream: Option<StreamComparison>,
    /// What the file lacks, and what was left out.
    pub notes: Vec<String>,
    /// Classes of figures.
    pub classes: Classes,
}

/// Counts of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SampleCounts {
    /// Samples.
    pub samples: u64,
    /// Their share of all.
    pub share: f64,
    /// Samples whose translation was a walk.
    pub walks: u64,
    /// Cycles that the sampled accesses took; null if samples have no weight.
    pub weight: Option<u64>,
    /// Different pages of 4 KiB that they touched.
    pub pages: u64,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SampledEvent {
    /// Its name.
    pub name: String,
    /// Its samples, with or without an address.
    pub samples: u64,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SampledProcess {
    /// Its number.
    pub process: i32,
    /// Its name.
    pub command: String,
    /// Its samples with an address.
    pub samples: u64,
    /// Those of them that walked.
    pub walks: u64,
}

/// Samples that have something in common.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SampledPart {
    /// What they have in common.
    pub name: String,
    /// The object file of a function or a site; null for other parts.
    pub file: Option<String>,
    /// Their counts.
    pub counts: SampleCounts,
}

/// An aligned region of 2 MiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SampledRegion {
    /// Its process.
    pub process: i32,
    /// Its address, in hexadecimal.
    pub start: String,
    /// The mapping of its first sample.
    pub mapping: String,
    /// Samples that walked.
    pub walks: u64,
    /// Different pages of 4 KiB that walked.
    pub pages: u64,
    /// Whether its samples were on huge pages.
    pub huge: bool,
}

/// Samples next to a recorded stream of the same program.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StreamComparison {
    /// The trace.
    pub trace: String,
    /// Its data references.
    pub references: u64,
    /// Mappings, the largest difference of shares first.
    pub mappings: Vec<ComparedMapping>,
    /// Spearman's rank correlation of samples and references over mappings; null if fewer than two have any.
    pub mapping_correlation: Option<f64>,
    /// The same over pages of files and of the heap that either has.
    pub page_correlation: Option<f64>,
    /// Such pages.
    pub pages: u64,
}

/// A mapping in both.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedMapping {
    /// Its name; all anonymous memory is one.
    pub name: String,
    /// Its share of samples.
    pub sampled_share: f64,
    /// Its share of the stream's references.
    pub referenced_share: f64,
}

/// The classes of figures of a result.
pub const FIGURES: [(Class, &[&str]); 1] = [(
    Class::Measured,
    &[
        "seconds",
        "samples",
        "without_address",
        "events",
        "processes",
        "outcomes",
        "page_sizes",
        "mappings",
        "functions",
        "sites",
        "regions",
        "stream",
    ],
)];
