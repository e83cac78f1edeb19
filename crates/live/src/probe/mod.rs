//! Measures this host's TLBs, walks, caches and kernel costs by timing alone: no counter, no privilege.
//!
//! [`measure`] runs everything and returns a [`Probe`]. The parts work alone too: [`tlb`] times cycles over pages;
//! [`steps`] finds the steps of their curves; [`arrays`] derives entries and ways; [`replacement`] finds the
//! replacement policy; [`walks`], [`caches`] and [`kernel`] measure costs. Every figure is a median of repeats with its
//! spread, or refused with a reason ([`figure`]).

pub mod arrays;
pub mod balloon;
pub mod caches;
pub mod chase;
pub mod clock;
mod counters;
pub mod figure;
pub mod host;
pub mod kernel;
mod levels;
mod machine;
pub mod memory;
mod parts;
pub mod replacement;
pub mod steps;
pub mod tlb;
pub mod usual_figures;
pub mod walks;

pub use figure::{Curve, Figure, Point};
pub use host::{PinError, ProbeConditions};
pub use levels::{AssumedArray, StrideConflict, Tlb};
pub use machine::machine_file;
pub use replacement::{NearestPolicy, ReplacementFinding};

use rustix::io::Errno;
use std::io;
use std::ops::ControlFlow;
use std::time::Instant;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel refused memory or addresses.
    #[error("mapping {bytes} bytes: {error}")]
    #[allow(missing_docs)]
    Map { bytes: usize, error: io::Error },
    /// No memory files.
    #[error("a file in memory (memfd_create): {0}")]
    NoSharedMemory(io::Error),
    /// No huge pages.
    #[error("no huge pages: {0}")]
    NoHugePages(String),
    /// No collapsing.
    #[error("madvise(MADV_COLLAPSE), of Linux 6.1 and later: {0}")]
    Collapse(io::Error),
    /// Our own file cannot be read.
    #[error("our own program: {0}")]
    File(io::Error),
}

impl ProbeError {
    fn map(bytes: usize, error: Errno) -> ProbeError {
        ProbeError::Map { bytes, error: error.into() }
    }
}

/// A measured page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbedSize {
    /// 4 KB.
    Base,
    /// 2 MB.
    Huge,
}

impl ProbedSize {
    /// `4k` or `2m`, as in figures' names.
    pub fn name(self) -> &'static str {
        match self {
            ProbedSize::Base => "4k",
            ProbedSize::Huge => "2m",
        }
    }

    /// `4 KB` or `2 MB`.
    pub fn title(self) -> &'static str {
        match self {
            ProbedSize::Base => "4 KB",
            ProbedSize::Huge => "2 MB",
        }
    }
}

/// What and where to measure.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProbeOptions {
    /// The processor to use; none: the current one.
    pub cpu: Option<usize>,
    /// Few repeats over small footprints: not reliable.
    pub quick: bool,
}

/// A probe's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The conditions.
    pub surroundings: ProbeConditions,
    /// Whether it was a quick probe.
    pub quick: bool,
    /// Its duration.
    pub seconds: f64,
    /// Levels of the data TLBs, those for 4 KB pages first.
    pub tlbs: Vec<Tlb>,
    /// All figures, by name.
    pub figures: Vec<Figure>,
    /// All curves, by name.
    pub curves: Vec<Curve>,
    /// What failed, and why.
    pub notes: Vec<String>,
}

impl Probe {
    /// A figure by name, even if refused.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// A level for pages of a size.
    pub fn tlb(&self, page: ProbedSize, level: u32) -> Option<&Tlb> {
        self.tlbs.iter().find(|tlb| tlb.page == page && tlb.level == level)
    }
}

/// Measures everything on one processor, to which it pins the calling thread. Tells `progress` what comes next and
/// which share, from 0 to 1, is done; `None` if that says to end.
///
/// # Errors
/// If the thread cannot be pinned. Failed measurements are refused in the result instead.
pub fn measure(
    options: ProbeOptions,
    mut progress: impl FnMut(&str, f64) -> ControlFlow<()>,
) -> Result<Option<Probe>, PinError> {
    let begun = Instant::now();
    let place = host::pin(options.cpu)?;
    let mut parts = parts::Parts::begin(options, place);
    if parts.all(&mut progress).is_break() {
        return Ok(None);
    }
    let mut probe = parts.finish();
    probe.seconds = begun.elapsed().as_secs_f64();
    Ok(Some(probe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_is_to_end_does_so_before_its_next_part() {
        let options = ProbeOptions { quick: true, cpu: None };
        let mut parts = 0;
        let probe = measure(options, |_, _| {
            parts += 1;
            ControlFlow::Break(())
        });
        assert!(matches!(probe, Ok(None)) && parts == 1, "{parts} parts");
    }

    /// This test does not depend on how long anything takes.
    #[test]
    fn a_quick_look_has_every_figure_or_says_why_not() {
        let mut shares = Vec::new();
        let options = ProbeOptions { quick: true, cpu: None };
        let probe = measure(options, |_, share| {
            shares.push(share);
            ControlFlow::Continue(())
        });
        let probe = probe.unwrap().unwrap();
        assert!(shares.windows(2).all(|pair| pair[0] <= pair[1]), "{shares:?}");
        for figure in &probe.figures {
            assert_eq!(figure.value.is_none(), figure.refused.is_some(), "{figure:?}");
            assert!(figure.low <= figure.high && figure.class == "measured", "{figure:?}");
        }
        let mut names: Vec<&str> = probe.figures.iter().map(|figure| figure.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), probe.figures.len(), "names are unique");
        for name in
            ["core.clock", "fault.anonymous_4k", "fault.anonymous_2m", "collapse.2m", "copy.cold_per_kib"]
        {
            assert!(probe.figure(name).is_some(), "{name}");
        }
        for curve in &probe.curves {
            assert!(curve.points.windows(2).all(|pair| pair[0].at < pair[1].at), "{}", curve.name);
        }
    }
}
