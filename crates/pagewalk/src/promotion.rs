//! Huge pages for a running process where its TLB misses pay for them.

mod document;
pub(crate) mod prices;
mod ranges;
pub(crate) mod survey;
pub(crate) mod text;

use crate::error::{Error, Fault};
use crate::listener::Listener;
use pagewalk_live::pagemap::PagemapError;
use pagewalk_live::promote::{self, PromoteError};
use pagewalk_report::documents::process::PromoteResult;
use prices::PromotionPrices;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use survey::PromotionContext;

pub use pagewalk_live::promote::policy::{FACTOR, PolicyLimits};
pub use pagewalk_live::promote::{
    Decision, DecisionKind, PromoteOptions, PromotionStatus, PromotionSummary, SamplerKind, Watcher,
};

/// Most ranges in the live picture.
const RANGES_PICTURED: usize = 6;

/// A promotion that is ready to run.
pub struct Promotion {
    pid: i32,
    options: PromoteOptions,
    prices: promote::PromotionCosts,
    beside: PromotionContext,
}

impl Promotion {
    /// Examines the process, and the cost of walks and promotions on this host: from the probe at a path, else from the
    /// last one. The probe's TLB size replaces `entries` of the options.
    ///
    /// # Errors
    /// If the process cannot be read, or the host cannot be probed.
    pub fn prepare(
        pid: i32,
        probe: Option<&Path>,
        mut options: PromoteOptions,
        listener: &dyn Listener,
    ) -> Result<Promotion, Error> {
        let bytes = promote::anonymous_bytes(pid).map_err(failed)?;
        let survey = promote::survey(pid).map_err(failed)?;
        let PromotionPrices { prices, entries, assumed } = prices::of_host(probe, bytes, listener)?;
        options.limits.entries = entries;
        Ok(Promotion { pid, options, prices, beside: PromotionContext { survey, assumed } })
    }

    /// Promotes until the process ends, `stop` is set, or the time is over.
    ///
    /// # Errors
    /// If the process cannot be watched.
    pub fn run(self, stop: &AtomicBool, watcher: &mut dyn Watcher) -> Result<PromotionOutcome, Error> {
        let Promotion { pid, options, prices, beside } = self;
        let summary = promote::run(pid, &options, prices, stop, watcher).map_err(failed)?;
        Ok(PromotionOutcome { pid, options, summary, beside })
    }
}

/// The outcome of a promotion.
pub struct PromotionOutcome {
    pid: i32,
    options: PromoteOptions,
    /// All decisions.
    pub summary: PromotionSummary,
    beside: PromotionContext,
}

impl PromotionOutcome {
    /// As text.
    pub fn text(&self) -> String {
        text::render(self.pid, &self.options, &self.summary, &self.beside)
    }

    /// As data.
    pub fn document(&self) -> PromoteResult {
        document::build(self.pid, &self.options, &self.summary, &self.beside)
    }

    /// Checks that a promotion succeeded, if any was due.
    ///
    /// # Errors
    /// If all failed: the reason of one of the failures.
    pub fn check(&self) -> Result<(), Error> {
        let PromotionSummary { failures, policy, .. } = &self.summary;
        if *failures == 0 || policy.promotions > 0 {
            return Ok(());
        }
        let reason = policy.parts().find_map(|part| part.last_failure.clone()).unwrap_or_default();
        let message = format!("nothing could be promoted: {failures} promotions failed: {reason}");
        Err(Error::new(Fault::NotInEffect, message))
    }
}

/// The live picture of a promotion.
pub fn picture(pid: i32, standing: &PromotionStatus<'_>) -> String {
    let mut picture = text::heading(pid, standing);
    picture += &text::table(&ranges::join(standing.policy), RANGES_PICTURED);
    picture += &text::balance(standing.policy, standing.times);
    picture
}

/// A decision as a line of the log.
pub fn line(decision: &Decision) -> Value {
    let (word, nanoseconds, reason, again) = match &decision.what {
        DecisionKind::Promoted { nanoseconds } => ("promoted", Some(*nanoseconds), None, None),
        DecisionKind::WouldPromote => ("would_promote", None, None, None),
        DecisionKind::Failed { reason, again } => ("failed", None, Some(reason), Some(*again)),
        DecisionKind::Split => ("split", None, None, None),
    };
    json!({
        "seconds": decision.seconds,
        "processor_seconds": decision.processor_seconds,
        "decision": word,
        "start": format!("{:#x}", decision.start),
        "charges": decision.charges,
        "resident_pages": decision.resident_pages,
        "added_bytes": decision.added_bytes,
        "promotion_nanoseconds": nanoseconds,
        "reason": reason,
        "again": again,
    })
}

/// The error for a process that cannot be watched.
pub(crate) fn failed(error: PromoteError) -> Error {
    let fault = match &error {
        PromoteError::Process(PagemapError::NoProcess(_) | PagemapError::NoMemory(_)) => Fault::Usage,
        PromoteError::Process(PagemapError::Forbidden { .. } | PagemapError::NoPagemap)
        | PromoteError::Forbidden { .. }
        | PromoteError::Kernel { .. }
        | PromoteError::NoSampler { .. } => Fault::HostCannot,
        _ => Fault::Failed,
    };
    let enable = error.enable();
    Error::new(fault, error).or(enable)
}
