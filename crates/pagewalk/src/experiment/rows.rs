//! Rows that the results of all arrangements have.

use crate::findings::{blank, cache_change};
use crate::stream::Ending;
use pagewalk_report::metrics::record_count;
use pagewalk_report::schema::{MachineResult, ProcessResult, WhatIf};
use pagewalk_sim::{DesignCounts, StructureCounts};
use pagewalk_sweep::{add_structure, metrics, partition};
use pagewalk_trace::StreamHeader;
use pagewalk_translate::MachineSpec;

/// A followed process, without figures.
pub fn followed(header: &StreamHeader, ending: &Ending) -> ProcessResult {
    ProcessResult { ended: ending.describe(), losses: ending.told_losses(), ..blank(header) }
}

/// The machines of an arrangement, with a structure's visits and further counts.
pub fn machines(
    machines: &[MachineSpec],
    counts: &[DesignCounts],
    structure: Option<&StructureCounts>,
    further: &[(&str, u64)],
) -> Vec<MachineResult> {
    let row = |(machine, counts): (&MachineSpec, &DesignCounts)| {
        let mut metrics = metrics(counts);
        further.iter().for_each(|&(name, count)| record_count(&mut metrics, name, count));
        if let Some(did) = structure {
            add_structure(&mut metrics, did);
        }
        MachineResult { name: machine.name.clone(), metrics, partition: partition(counts) }
    };
    machines.iter().zip(counts).map(row).collect()
}

/// A perfect TLB compared with `base`.
pub fn perfect(base: &DesignCounts) -> WhatIf {
    compared(base, "perfect_tlb", "a perfect TLB", "bound", 0, 0)
}

/// `counts` compared with `base`.
pub fn modelled(base: &DesignCounts, id: &str, title: &str, counts: &DesignCounts) -> WhatIf {
    let levels = base.caches.iter().map(|cache| usize::from(cache.level)).max().unwrap_or_default();
    let caches = cache_change(levels, counts.cache_costs(), base.cache_costs());
    WhatIf { caches, ..compared(base, id, title, "modelled", counts.walks(), counts.cycles.walk) }
}

/// Walks and their cycles compared with those of `base`, over the whole run.
pub fn compared(
    base: &DesignCounts,
    id: &str,
    title: &str,
    class: &str,
    walks: u64,
    walk_cycles: u64,
) -> WhatIf {
    beside((base.walks(), base.cycles.walk), id, title, class, (walks, walk_cycles))
}

/// Walks and their cycles compared with others, over the whole run.
pub fn beside(
    base: (u64, u64),
    id: &str,
    title: &str,
    class: &str,
    (walks, walk_cycles): (u64, u64),
) -> WhatIf {
    WhatIf {
        id: id.to_owned(),
        title: title.to_owned(),
        class: class.to_owned(),
        walks,
        walk_cycles,
        baseline_walks: base.0,
        baseline_walk_cycles: base.1,
        ..WhatIf::default()
    }
}
