//! The result of `pagewalk probe`, as data. `--json` writes exactly this; the page embeds exactly this.
//!
//! Timing alone *measures* every figure: a median of repeats with its 10th and 90th percentile, or null with the
//! reason. Times are in nanoseconds; cycles are the core's.

use crate::schema::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema name that every result carries.
pub const PROBE_SCHEMA: &str = "pagewalk.probe/1";

/// Measurements on one processor of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// [`PROBE_SCHEMA`].
    pub schema: String,
    /// Version of pagewalk.
    pub version: String,
    /// The host.
    pub host: Host,
    /// Conditions on the host that affect the figures.
    pub surroundings: ProbeConditions,
    /// Whether it was a quick probe, whose figures are unreliable.
    pub quick: bool,
    /// Seconds that the probe took.
    pub seconds: f64,
    /// Levels of the data TLBs, those for 4 KB pages first.
    pub tlbs: Vec<TlbLevel>,
    /// All figures, by name.
    pub figures: Vec<Figure>,
    /// All curves, by name.
    pub curves: Vec<Curve>,
    /// What the probe could not do, and why.
    pub notes: Vec<String>,
}

/// Conditions on a host that affect the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeConditions {
    /// The processor that the probe ran on.
    pub cpu: usize,
    /// Processors that it may run on.
    pub cpus_allowed: Vec<usize>,
    /// Whether there is a hypervisor; every walk then goes through its tables too.
    pub hypervisor: bool,
    /// Whether the kernel returns free memory to the hypervisor, so that first touches may wait; false in older probes.
    #[serde(default)]
    pub reports_free_pages: bool,
    /// Ticks of the time-stamp counter per nanosecond.
    pub tsc_ghz: f64,
    /// Whether, by the kernel, the counter's rate is constant and it never stops.
    pub tsc_constant: bool,
    /// Bytes of available memory before the probe.
    pub available_bytes: u64,
    /// The load average of the minute before the probe; null if unknown.
    pub load: Option<f64>,
}

/// A level of the data TLBs for pages of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlbLevel {
    /// `4K` or `2M`.
    pub page: String,
    /// 1 or 2.
    pub level: u32,
    /// Its entries; null if uncertain.
    pub entries: Option<u64>,
    /// Its ways, equal to the entries if fully associative; null if uncertain.
    pub ways: Option<u64>,
    /// The most pages that all hit, and the fewest pages of which most miss.
    pub between: [u64; 2],
    /// Why `entries` and `ways` are uncertain.
    pub refused: Option<String>,
    /// For each stride at which pages conflict, the most pages that all hit.
    pub conflicts: Vec<StrideConflict>,
    /// Its replacement policy; null in older probes.
    #[serde(default)]
    pub replacement: Option<ReplacementFinding>,
    /// The array for a machine file: as measured, or assumed if `entries` and `ways` are uncertain.
    pub assumed: AssumedArray,
    /// Entries of the machine given for comparison; null if there is none or it has no such array.
    pub machine_entries: Option<u64>,
}

/// The most pages at a stride that all hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StrideConflict {
    /// The stride in pages.
    pub stride: u64,
    /// The most pages in a cycle that all hit.
    pub hits: u64,
}

/// The policy whose simulation best fits the measured cost of patterns over few sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplacementFinding {
    /// Its name in machine files; null if undecided.
    pub policy: Option<String>,
    /// Ways of the simulated array; null if undecided.
    pub ways: Option<u64>,
    /// Its distance from the measurement, from 0 to 1, where 1 is the step from all hits to all misses; null if
    /// undecided.
    pub off: Option<f64>,
    /// The second best policy; null if there is none or if undecided.
    pub next: Option<String>,
    /// The distance of the second best policy.
    pub next_off: Option<f64>,
    /// Why the policy is undecided; null if it is decided.
    pub undecided: Option<String>,
}

/// An array for a machine file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssumedArray {
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
    /// Its title for people.
    pub title: String,
    /// Its unit: `ns` or `GHz`.
    pub unit: String,
    /// Always `measured`.
    pub class: String,
    /// The number of repeats.
    pub repeats: usize,
    /// The median of the repeats; null if there is no value.
    pub value: Option<f64>,
    /// The 10th percentile of the repeats.
    pub low: Option<f64>,
    /// The 90th percentile.
    pub high: Option<f64>,
    /// The value in core cycles; null for other units, and if the core's clock changed.
    pub cycles: Option<f64>,
    /// Why there is no value.
    pub refused: Option<String>,
}

/// A figure as a function of pages or bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// Its name, such as `tlb.4k`.
    pub name: String,
    /// Its title for people.
    pub title: String,
    /// What `at` counts: `pages` or `bytes`.
    pub at_unit: String,
    /// Unit of the values.
    pub unit: String,
    /// By ascending `at`.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Its pages or bytes.
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

    /// The reasons for missing values, each once, with the figures it applies to.
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
