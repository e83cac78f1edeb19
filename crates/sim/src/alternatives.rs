//! Alternatives to a machine under the host's kernel: other page sizes, larger TLBs.

use crate::host::HostKernel;
use crate::spec::DesignSpec;
use pagewalk_mm::{Everything, MappingId, Small, Thp, ThpMode, UnrestrictedThp};
use pagewalk_translate::MachineSpec;
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
    /// One mapping on huge pages.
    Mapping(MappingId),
    /// No walks: the bound.
    PerfectTlb,
}

/// The alternatives to `machine` under a host's kernel in `mode` that are known before the run, as designs. Other page
/// sizes are alternatives only if the machine has huge pages.
pub fn alternatives(machine: &MachineSpec, mode: ThpMode) -> Vec<(AlternativeKind, DesignSpec)> {
    let mut all = Vec::new();
    if machine.has_huge_pages() {
        let always = UnrestrictedThp(Thp { mode: ThpMode::Always });
        all.push((AlternativeKind::AllSmall, DesignSpec::new(machine, Arc::new(Small))));
        all.push((AlternativeKind::ThpAlways, DesignSpec::new(machine, Arc::new(always))));
        all.push((AlternativeKind::AllHuge, DesignSpec::new(machine, Arc::new(Everything))));
    }
    all.push((AlternativeKind::DoubleTlb, HostKernel::new(mode).design(&machine.doubled())));
    all
}
