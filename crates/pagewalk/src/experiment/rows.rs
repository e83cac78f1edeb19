//! Rows of results that all arrangements have.

use crate::findings::blank;
use crate::stream::Ending;
use pagewalk_report::schema::{ProcessResult, WhatIf};
use pagewalk_sim::DesignCounts;
use pagewalk_trace::StreamHeader;

/// A process whose stream was followed, without figures.
pub fn followed(header: &StreamHeader, origin: &str, ending: &Ending) -> ProcessResult {
    ProcessResult { ended: ending.describe(), losses: ending.losses.clone(), ..blank(header, origin) }
}

/// Walks and their cycles beside those of `base`, over the whole run.
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

/// Walks and their cycles beside others, over the whole run.
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
        mapping: None,
        page_size: None,
        from_instruction: 0,
        to_instruction: None,
        walks,
        walk_cycles,
        baseline_walks: base.0,
        baseline_walk_cycles: base.1,
        memory_price_mib: 0.0,
    }
}
