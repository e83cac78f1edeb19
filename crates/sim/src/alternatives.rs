//! Alternatives to a machine under the host's kernel: other page sizes, larger TLBs.

use crate::host::HostKernel;
use crate::spec::DesignSpec;
use pagewalk_mm::{Allowed, Everything, MappingId, Small, Thp, ThpMode};
use pagewalk_translate::MachineSpec;
use std::sync::Arc;

/// What an alternative changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlternativeKind {
    /// Nothing.
    Baseline,
    /// Base pages everywhere.
    AllSmall,
    /// Transparent huge pages for all anonymous memory, as Linux gives them at fault time, whatever the process
    /// forbids.
    ThpAlways,
    /// Huge pages everywhere.
    AllHuge,
    /// Every TLB twice as large.
    DoubleTlb,
    /// One mapping on huge pages.
    Mapping(MappingId),
    /// No walk ever: the bound.
    PerfectTlb,
}

/// The alternatives to `machine` under a host's kernel in `mode` that need nothing found out first, as designs. Page
/// sizes are alternatives only where the machine has huge pages.
pub fn alternatives(machine: &MachineSpec, mode: ThpMode) -> Vec<(AlternativeKind, DesignSpec)> {
    let mut all = Vec::new();
    if machine.has_huge_pages() {
        let always = Allowed(Thp { mode: ThpMode::Always });
        all.push((AlternativeKind::AllSmall, DesignSpec::new(machine, Arc::new(Small))));
        all.push((AlternativeKind::ThpAlways, DesignSpec::new(machine, Arc::new(always))));
        all.push((AlternativeKind::AllHuge, DesignSpec::new(machine, Arc::new(Everything))));
    }
    all.push((AlternativeKind::DoubleTlb, HostKernel::new(mode).design(&machine.doubled())));
    all
}
