//! Alternatives to a machine under the host's kernel: other page sizes, larger TLBs and caches.

use crate::host::HostKernel;
use crate::spec::DesignSpec;
use pagewalk_cache::{CacheSpec, Requester};
use pagewalk_mm::{Everything, OneMapping, ProcessMapping, Small, Thp, ThpMode, UnrestrictedThp};
use pagewalk_translate::MachineSpec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What an alternative changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlternativeKind {
    /// Nothing.
    Baseline,
    /// Base pages everywhere.
    AllSmall,
    /// Transparent huge pages for all anonymous memory at faults, as on Linux, even if the process forbids them.
    ThpAlways,
    /// Huge pages everywhere.
    AllHuge,
    /// Every TLB twice as large.
    DoubleTlb,
    /// The caches of this level with twice the ways, and as many sets.
    DoubleWays(u8),
    /// One mapping on huge pages.
    Mapping(ProcessMapping),
    /// No walks: the bound.
    PerfectTlb,
}

/// The alternatives to a machine under a host's kernel in `mode`, the baseline, that are known before the run. Other
/// page sizes are alternatives only if the machine has huge pages. Designs that differ in caches alone share the
/// baseline's policy, so that a pass need not translate for them.
pub fn alternatives(baseline: &DesignSpec, mode: ThpMode) -> Vec<(AlternativeKind, DesignSpec)> {
    let machine = &baseline.machine;
    let mut all = Vec::new();
    if machine.has_huge_pages() {
        let always = UnrestrictedThp(Thp { mode: ThpMode::Always });
        all.push((AlternativeKind::AllSmall, DesignSpec::new(machine, Arc::new(Small))));
        all.push((AlternativeKind::ThpAlways, DesignSpec::new(machine, Arc::new(always))));
        all.push((AlternativeKind::AllHuge, DesignSpec::new(machine, Arc::new(Everything))));
    }
    all.push((AlternativeKind::DoubleTlb, HostKernel::new(mode).design(&machine.doubled())));
    all.extend(widened_levels(machine).filter_map(|level| {
        let wide = machine.widened(level)?;
        Some((AlternativeKind::DoubleWays(level), DesignSpec::new(&wide, Arc::clone(&baseline.policy))))
    }));
    all
}

/// The alternative with one mapping on huge pages.
pub fn one_mapping(
    machine: &MachineSpec,
    mode: ThpMode,
    mapping: ProcessMapping,
) -> (AlternativeKind, DesignSpec) {
    let policy = OneMapping { mapping, rest: Thp { mode } };
    (AlternativeKind::Mapping(mapping), DesignSpec::new(machine, Arc::new(policy)))
}

/// The cache over whose colors pages can be spread: the private one of level 2 that serves loads, if frames tell the
/// sets of its lines and pages have several colors there.
pub fn colored_second_level(machine: &MachineSpec) -> Option<&CacheSpec> {
    let is_it = |cache: &&CacheSpec| cache.level == 2 && cache.serves.has(Requester::Load);
    let cache = machine.caches.iter().find(is_it).filter(|cache| !cache.shared)?;
    cache.colors(machine.paging.base().bytes()).is_ok_and(|colors| colors > 1).then_some(cache)
}

/// The levels of caches that are tried with twice the ways: all below the first, or the first if it is alone.
fn widened_levels(machine: &MachineSpec) -> impl Iterator<Item = u8> + use<> {
    let levels: BTreeSet<u8> = machine.caches.iter().map(|cache| cache.level).collect();
    let is_alone = levels.len() == 1;
    levels.into_iter().filter(move |&level| level > 1 || is_alone)
}
