//! What is told of a run: decisions and standings while it goes on, a summary at the end.

use super::policy::Policy;
use super::sampler::{SamplerKind, UnusableSampler};

/// Who is told what happens, while it happens.
pub trait Watcher {
    /// Something was decided.
    fn decided(&mut self, decision: &Decision);
    /// Some time passed.
    fn passed(&mut self, standing: &PromotionStatus<'_>);
}

/// What was decided of a part.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Since the beginning.
    pub seconds: f64,
    /// The process's processor time by then, since the beginning.
    pub processor_seconds: f64,
    /// The part's address.
    pub start: u64,
    /// What.
    pub what: DecisionKind,
    /// Its charges by then; none where it was split.
    pub charges: Option<f64>,
    /// Pages that it had.
    pub resident_pages: u32,
    /// Bytes that became resident.
    pub added_bytes: u64,
}

/// What may be decided.
#[derive(Clone, Debug, PartialEq)]
pub enum DecisionKind {
    /// It is on a huge page now.
    Promoted {
        /// Processor time that it took.
        nanoseconds: f64,
    },
    /// It would have been promoted.
    WouldPromote,
    /// It could not be promoted.
    Failed {
        /// Why.
        reason: String,
        /// Whether it will be tried again.
        again: bool,
    },
    /// It was promoted before, and is on small pages again, or has none.
    Split,
}

/// Processor times since the beginning, in seconds, and the time that passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// What passed.
    pub wall: f64,
    /// The process's.
    pub target: f64,
    /// Ours, promotions left out.
    pub own: f64,
    /// That of promotions.
    pub promotions: f64,
    /// That of the kernel's threads which sample for us.
    pub kernel: f64,
}

impl Times {
    /// What sampling takes of the process's time.
    pub fn sampling_share(&self) -> f64 {
        if self.target > 0.0 { (self.own + self.kernel) / self.target } else { 0.0 }
    }

    /// The same with promotions.
    pub fn share(&self) -> f64 {
        if self.target > 0.0 { (self.own + self.kernel + self.promotions) / self.target } else { 0.0 }
    }
}

/// How it stands.
#[derive(Clone, Copy, Debug)]
pub struct PromotionStatus<'a> {
    /// Parts, charges, promotions.
    pub policy: &'a Policy,
    /// Times.
    pub times: Times,
    /// Rounds so far.
    pub rounds: u64,
    /// By what is sampled.
    pub way: SamplerKind,
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The process ended.
    Process,
    /// Someone asked for it.
    Interrupted,
    /// The time was over.
    Time,
    /// No way to sample was left; what was found before is told.
    Unsampled,
}

/// All of it.
#[derive(Debug)]
pub struct Summary {
    /// The program that the process ran.
    pub program: String,
    /// By what was sampled.
    pub way: SamplerKind,
    /// Better ways that could not be used.
    pub unable: Vec<UnusableSampler>,
    /// What the sampler had to leave out.
    pub notes: Vec<String>,
    /// Why it is over.
    pub ended: Ended,
    /// Times.
    pub times: Times,
    /// Rounds.
    pub rounds: u64,
    /// Promotions that failed.
    pub failures: u64,
    /// Parts, as they were last.
    pub policy: Policy,
}
