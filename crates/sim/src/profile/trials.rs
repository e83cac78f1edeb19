//! What the alternatives cost, beside the baseline over the same stretch.

use super::ProfileResult;
use super::attribution::Attribution;
use crate::alternatives::AlternativeKind;
use crate::counts::{CacheCosts, MissCounts};
use crate::pass::Pass;

/// One alternative beside the baseline over the same stretch of the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// What it changes.
    pub kind: AlternativeKind,
    /// Instructions executed before it was counted.
    pub from_instruction: u64,
    /// The instruction at which it was abandoned because its mapping cost too little; `None`: it ran to the end.
    pub to_instruction: Option<u64>,
    /// Walks.
    pub walks: u64,
    /// Page-table entries read.
    pub walk_references: u64,
    /// Modelled cycles of the walks.
    pub walk_cycles: u64,
    /// Walks of the baseline over the same stretch.
    pub baseline_walks: u64,
    /// Page-table entries that the baseline read over the same stretch.
    pub baseline_walk_references: u64,
    /// Modelled cycles of the baseline's walks over the same stretch.
    pub baseline_walk_cycles: u64,
    /// What caches of memory cost it; none without caches, and for the bound.
    pub caches: Option<CacheCosts>,
    /// What they cost the baseline over the same stretch.
    pub baseline_caches: Option<CacheCosts>,
    /// Peak bytes backed and never touched, beyond the baseline's.
    pub untouched_bytes: u64,
}

/// The design of an alternative.
#[derive(Clone, Copy)]
pub(super) enum DesignRef {
    Own(usize),
    Follower(usize),
}

/// An alternative, counted from `start`, or from the beginning.
pub(super) struct Trial {
    pub kind: AlternativeKind,
    pub design: DesignRef,
    pub from_instruction: u64,
    pub start: Option<CountsAt>,
    pub end: Option<AbandonedAt>,
}

impl Trial {
    /// An alternative counted over the whole run.
    pub fn whole(kind: AlternativeKind, design: DesignRef) -> Trial {
        Trial { kind, design, from_instruction: 0, start: None, end: None }
    }
}

/// The counts of a design at one time.
#[derive(Clone, Default)]
pub(super) struct CountsAt {
    pub misses: MissCounts,
    pub caches: Option<CacheCosts>,
}

impl CountsAt {
    pub fn of(pass: &Pass<Attribution>, design: usize) -> CountsAt {
        CountsAt { misses: pass.misses(design), caches: pass.cache_costs(design) }
    }

    pub fn walks(&self) -> u64 {
        self.misses.walks.iter().sum()
    }

    /// What caches have cost since an earlier time.
    fn caches_since(&self, earlier: &CountsAt) -> Option<CacheCosts> {
        Some(self.caches?.since(&earlier.caches.unwrap_or_default()))
    }
}

/// Where an alternative was abandoned, with its and the baseline's counts at that time.
#[derive(Clone)]
pub(super) struct AbandonedAt {
    pub instruction: u64,
    pub counts: CountsAt,
    pub baseline: CountsAt,
}

/// An alternative from `start`, which it shares with the baseline, to the end of the run.
fn compared(kind: AlternativeKind, start: &CountsAt, counts: &CountsAt, baseline: &CountsAt) -> Alternative {
    Alternative {
        kind,
        from_instruction: 0,
        to_instruction: None,
        walks: counts.walks() - start.walks(),
        walk_references: counts.misses.walk_references - start.misses.walk_references,
        walk_cycles: counts.misses.walk_cycles - start.misses.walk_cycles,
        baseline_walks: baseline.walks() - start.walks(),
        baseline_walk_references: baseline.misses.walk_references - start.misses.walk_references,
        baseline_walk_cycles: baseline.misses.walk_cycles - start.misses.walk_cycles,
        caches: counts.caches_since(start),
        baseline_caches: baseline.caches_since(start),
        untouched_bytes: 0,
    }
}

impl ProfileResult<'_> {
    /// The baseline and every alternative, the bound last. Empty without `what_if`.
    pub fn alternatives(&self) -> Vec<Alternative> {
        if !self.profile.what_if {
            return Vec::new();
        }
        let pass = &self.profile.pass;
        let (never, base) = (CountsAt::default(), CountsAt::of(pass, 0));
        let baseline = compared(AlternativeKind::Baseline, &never, &base, &base);
        let perfect = Alternative {
            kind: AlternativeKind::PerfectTlb,
            walks: 0,
            walk_references: 0,
            walk_cycles: 0,
            caches: None,
            baseline_caches: None,
            ..baseline.clone()
        };
        let untouched = |design: usize| self.counts[design].untouched_bytes;
        let of_trial = |tried: &Trial| {
            let design = self.profile.design(tried.design);
            let start = tried.start.as_ref().unwrap_or(&never);
            let row = match &tried.end {
                Some(end) => compared(tried.kind, start, &end.counts, &end.baseline),
                None => compared(tried.kind, start, &CountsAt::of(pass, design), &base),
            };
            Alternative {
                from_instruction: tried.from_instruction,
                to_instruction: tried.end.as_ref().map(|end| end.instruction),
                untouched_bytes: untouched(design).saturating_sub(untouched(0)),
                ..row
            }
        };
        let tried = self.profile.tried.iter().map(of_trial);
        std::iter::once(baseline.clone()).chain(tried).chain([perfect]).collect()
    }
}
