//! The reports of a run: decisions and status while it goes on, a summary at the end.

use super::policy::PromotionPolicy;
use super::sampler::{SamplerKind, UnusableSampler};

/// Receives reports during a run.
pub trait Watcher {
    /// A decision was made.
    fn decided(&mut self, decision: &Decision);
    /// Some time passed.
    fn passed(&mut self, standing: &PromotionStatus<'_>);
}

/// A decision about a region.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Seconds since the beginning.
    pub seconds: f64,
    /// The process's processor time by then, since the beginning.
    pub processor_seconds: f64,
    /// The region's address.
    pub start: u64,
    /// The decision.
    pub what: DecisionKind,
    /// Its charges by then; none for a split.
    pub charges: Option<f64>,
    /// Its resident pages.
    pub resident_pages: u32,
    /// Bytes that became resident.
    pub added_bytes: u64,
}

/// Kinds of decisions.
#[derive(Clone, Debug, PartialEq)]
pub enum DecisionKind {
    /// The region is on a huge page now.
    Promoted {
        /// Processor time of the promotion.
        nanoseconds: f64,
    },
    /// A dry run would have promoted it.
    WouldPromote,
    /// The promotion failed.
    Failed {
        /// Why.
        reason: String,
        /// Whether it will be tried again.
        again: bool,
    },
    /// The region was promoted before, and now is on small pages or gone.
    Split,
}

/// Seconds since the beginning: elapsed and processor times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Elapsed time.
    pub wall: f64,
    /// The process's.
    pub target: f64,
    /// Ours, without promotions.
    pub own: f64,
    /// Of promotions.
    pub promotions: f64,
    /// Of kernel threads that sample for us.
    pub kernel: f64,
}

impl Times {
    /// Sampling's share of the process's time.
    pub fn sampling_share(&self) -> f64 {
        if self.target > 0.0 { (self.own + self.kernel) / self.target } else { 0.0 }
    }

    /// The same including promotions.
    pub fn share(&self) -> f64 {
        if self.target > 0.0 { (self.own + self.kernel + self.promotions) / self.target } else { 0.0 }
    }
}

/// The state of a run.
#[derive(Clone, Copy, Debug)]
pub struct PromotionStatus<'a> {
    /// Regions, charges, promotions.
    pub policy: &'a PromotionPolicy,
    /// Times.
    pub times: Times,
    /// Rounds so far.
    pub rounds: u64,
    /// The sampler in use.
    pub way: SamplerKind,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The process ended.
    Process,
    /// Someone asked to stop.
    Interrupted,
    /// The time was over.
    Time,
    /// No sampler was left; earlier findings are in the summary.
    Unsampled,
}

/// The summary of a run.
#[derive(Debug)]
pub struct PromotionSummary {
    /// The program that the process ran.
    pub program: String,
    /// The last sampler in use.
    pub way: SamplerKind,
    /// Better samplers that did not work.
    pub unable: Vec<UnusableSampler>,
    /// What the sampler skipped.
    pub notes: Vec<String>,
    /// Why it ended.
    pub ended: Ended,
    /// Times.
    pub times: Times,
    /// Rounds.
    pub rounds: u64,
    /// Promotions that failed.
    pub failures: u64,
    /// Regions at the end.
    pub policy: PromotionPolicy,
}
