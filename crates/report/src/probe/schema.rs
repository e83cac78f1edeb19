//! The result of `pagewalk probe`, as data. `--json` writes exactly this; the page embeds exactly this.
//!
//! Every figure is *measured*, by timing alone: a median of repeats with its 10th and 90th percentile, or null with
//! the reason. Times are in nanoseconds; cycles are those of the core.

use crate::schema::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const PROBE_SCHEMA: &str = "pagewalk.probe/1";

/// What was measured on one processor of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// [`PROBE_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// Where it ran.
    pub host: Host,
    /// What else of the host matters.
    pub surroundings: Surroundings,
    /// Whether it was a quick look, not to be relied on.
    pub quick: bool,
    /// Seconds that it took.
    pub seconds: f64,
    /// Levels of the data TLBs, those for 4 KB pages first.
    pub tlbs: Vec<Tlb>,
    /// All figures, by name.
    pub figures: Vec<Figure>,
    /// All curves, by name.
    pub curves: Vec<Curve>,
    /// What could not be done, and why.
    pub notes: Vec<String>,
}

/// What of a host matters to the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Surroundings {
    /// The processor that everything ran on.
    pub cpu: usize,
    /// Processors that it could have been.
    pub cpus_allowed: Vec<usize>,
    /// Whether a hypervisor is present, whose tables every walk goes through too.
    pub hypervisor: bool,
    /// Whether free memory goes back to it, so that first touches may wait; false of probes before this was looked at.
    #[serde(default)]
    pub reports_free_pages: bool,
    /// Ticks of the time-stamp counter in a nanosecond.
    pub tsc_ghz: f64,
    /// Whether the counter's rate is constant and it never stops, as the kernel says.
    pub tsc_constant: bool,
    /// Bytes of memory that could be had before.
    pub available_bytes: u64,
    /// Load of the last minute before; null where it is not known.
    pub load: Option<f64>,
}

/// A level of the data TLBs for pages of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tlb {
    /// `4K` or `2M`.
    pub page: String,
    /// 1 or 2.
    pub level: u32,
    /// Its entries; null if refused.
    pub entries: Option<u64>,
    /// Its ways, as many as entries if fully associative; null if refused.
    pub ways: Option<u64>,
    /// Pages up to which it hits, and pages from which on most miss.
    pub between: [u64; 2],
    /// Why `entries` and `ways` are refused.
    pub refused: Option<String>,
    /// At each stride at which pages conflict: the most that all hit.
    pub conflicts: Vec<StrideConflict>,
    /// What leaves a full set; null of probes before this was asked.
    #[serde(default)]
    pub replacement: Option<Replaced>,
    /// What a machine file takes where `entries` and `ways` are refused; as found where they are not.
    pub assumed: Assumed,
    /// Entries of the machine compared with; null where none was given or it has no such array.
    pub machine_entries: Option<u64>,
}

/// Most pages at a stride that all hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StrideConflict {
    /// Pages that one lies after the other.
    pub stride: u64,
    /// Most pages in a cycle that all hit.
    pub hits: u64,
}

/// The policy that comes nearest to what patterns over few sets cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replaced {
    /// Its name in machine files; null if undecided.
    pub policy: Option<String>,
    /// Ways with which it was simulated; null if undecided.
    pub ways: Option<u64>,
    /// How far off it is, from 0 to 1, the step from all hits to all misses; null if undecided.
    pub off: Option<f64>,
    /// The next nearest policy; null where there is none, and if undecided.
    pub next: Option<String>,
    /// How far off that is.
    pub next_off: Option<f64>,
    /// Why nothing can be said; null where something is.
    pub undecided: Option<String>,
}

/// An array to calculate with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Assumed {
    /// Its entries.
    pub entries: u64,
    /// Its ways.
    pub ways: u64,
}

/// A measured figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Its name, such as `fault.anonymous_4k`.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// Its unit: `ns` or `GHz`.
    pub unit: String,
    /// Always `measured`.
    pub class: String,
    /// How often it was measured.
    pub repeats: usize,
    /// The median of the repeats; null if refused.
    pub value: Option<f64>,
    /// The 10th percentile of the repeats.
    pub low: Option<f64>,
    /// The 90th percentile.
    pub high: Option<f64>,
    /// The value in cycles of the core; null of other units, and where the core's clock did not stay the same.
    pub cycles: Option<f64>,
    /// Why there is no value.
    pub refused: Option<String>,
}

/// A figure over something else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// Its name, such as `tlb.4k`.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// What `at` counts: `pages` or `bytes`.
    pub at_unit: String,
    /// Unit of the values.
    pub unit: String,
    /// Ascending.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Where it is.
    pub at: u64,
    /// The median of the repeats.
    pub value: f64,
    /// The 10th percentile.
    pub low: f64,
    /// The 90th percentile.
    pub high: f64,
}

impl ProbeResult {
    /// A curve by its name, if it has points.
    pub fn curve(&self, name: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.name == name && !curve.points.is_empty())
    }

    /// A figure by its name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Reasons of refused figures, each once, with the names that it holds for.
    pub fn refused(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for figure in &self.figures {
            let Some(why) = figure.refused.as_deref() else { continue };
            match reasons.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, names)) => names.push(&figure.name),
                None => reasons.push((why, vec![&figure.name])),
            }
        }
        reasons
    }
}
