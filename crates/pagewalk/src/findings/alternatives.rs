//! Rows of alternatives: what each would change.

use pagewalk_mm::ProcessMapping;
use pagewalk_report::page_name;
use pagewalk_report::schema::{CacheChange, WhatIf};
use pagewalk_sim::{Alternative, AlternativeKind, CacheCosts};
use pagewalk_translate::MachineSpec;

/// The row of an alternative to `machine`. `label` returns a mapping's name, plain and for display.
pub(super) fn what_if(
    alternative: &Alternative,
    label: impl Fn(ProcessMapping) -> (String, String),
    machine: &MachineSpec,
) -> WhatIf {
    let levels = machine.caches.iter().map(|cache| usize::from(cache.level)).max().unwrap_or_default();
    WhatIf {
        caches: cache_change(levels, alternative.caches, alternative.baseline_caches),
        from_instruction: alternative.from_instruction,
        to_instruction: alternative.to_instruction,
        walks: alternative.walks,
        walk_cycles: alternative.walk_cycles,
        baseline_walks: alternative.baseline_walks,
        baseline_walk_cycles: alternative.baseline_walk_cycles,
        memory_price_mib: alternative.untouched_bytes as f64 / f64::from(1 << 20),
        ..uncounted(alternative.kind, machine, label)
    }
}

/// What so many levels of caches cost, compared with a baseline, if both have caches.
pub fn cache_change(
    levels: usize,
    costs: Option<CacheCosts>,
    baseline: Option<CacheCosts>,
) -> Option<CacheChange> {
    let (costs, baseline) = costs.zip(baseline)?;
    Some(CacheChange {
        misses: costs.misses[..levels].to_vec(),
        stall_cycles: costs.stall_cycles,
        baseline_misses: baseline.misses[..levels].to_vec(),
        baseline_stall_cycles: baseline.stall_cycles,
    })
}

/// The row of an alternative to `machine`, before its counts. `label` returns a mapping's name, plain and for display.
pub fn uncounted(
    kind: AlternativeKind,
    machine: &MachineSpec,
    label: impl Fn(ProcessMapping) -> (String, String),
) -> WhatIf {
    let (base, huge) = (machine.paging.base().to_string(), machine.paging.huge().to_string());
    let everything = |size: &str| format!("everything on {} pages", page_name(size));
    let (id, title, mapping, page_size) = match kind {
        AlternativeKind::Baseline => ("baseline", "as it is".to_owned(), None, None),
        AlternativeKind::AllSmall => ("all_4k", everything(&base), None, Some(base)),
        AlternativeKind::ThpAlways => {
            ("thp", "huge pages wherever Linux gives them (THP always)".to_owned(), None, None)
        }
        AlternativeKind::AllHuge => ("all_2m", everything(&huge), None, Some(huge)),
        AlternativeKind::DoubleTlb => ("double_tlb", "TLBs twice as large".to_owned(), None, None),
        AlternativeKind::DoubleWays(level) => {
            ("double_ways", format!("level-{level} cache with twice the ways"), None, None)
        }
        AlternativeKind::Mapping(id) => {
            let (name, label) = label(id);
            let title = format!("{label} alone on {}", page_name(&huge));
            ("mapping_2m", title, Some(name), Some(huge))
        }
        AlternativeKind::PerfectTlb => ("perfect_tlb", "a perfect TLB".to_owned(), None, None),
    };
    let cache_level = if let AlternativeKind::DoubleWays(level) = kind { Some(level.into()) } else { None };
    let class = if kind == AlternativeKind::PerfectTlb { "bound" } else { "modelled" };
    let (id, class) = (id.to_owned(), class.to_owned());
    WhatIf { id, title, class, mapping, page_size, cache_level, ..WhatIf::default() }
}
