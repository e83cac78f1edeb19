//! OFFLINE in studies: the policy that knows the future and replays a stream several times.

use crate::error::SweepError;
use crate::metrics::metrics;
use pagewalk_mm::promotion::OfflineSettings;
use pagewalk_mm::{AreaRules, InferredAreas};
use pagewalk_report::schema::Metrics;
use pagewalk_sim::offline;
use pagewalk_trace::pwt::Reader;
use pagewalk_translate::MachineSpec;
use std::fs::File;
use std::path::Path;

/// A machine's counters over a trace with OFFLINE's superpages.
pub fn run(
    path: &Path,
    areas: AreaRules,
    machine: &MachineSpec,
    settings: &OfflineSettings,
) -> Result<Metrics, SweepError> {
    let wrong = |why: String| SweepError::Trace { path: path.to_owned(), why };
    let open = || {
        let file = File::open(path).map_err(|e| e.to_string())?;
        Reader::new(file).map(|reader| InferredAreas::new(reader, areas)).map_err(|e| e.to_string())
    };
    let found = offline(open, machine, settings, |_| {}).map_err(|e| wrong(e.to_string()))?;
    Ok(metrics(&found.counts))
}
