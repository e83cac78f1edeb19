//! Which mappings of traces to try alone on huge pages. A profile finds them as it runs and copies a design then; where
//! engines run in order, traces are read once before the rest.

use super::groups::programs;
use super::readings::MappingToTry;
use super::replays::ReplayableTraces;
use super::rivals::Rivals;
use crate::error::Error;
use pagewalk_mm::{MappingInfo, ThpMode};
use pagewalk_sim::CostlyMapping;
use pagewalk_trace::MappingKind;

/// What a survey found, and the instructions that it covers.
pub struct Survey {
    pub mappings: Vec<MappingToTry>,
    pub instructions: u64,
}

impl ReplayableTraces<'_> {
    /// Which mappings to try under the host's kernel in mode `thp`; `None` if none is tried.
    ///
    /// # Errors
    /// If a trace cannot be read.
    pub fn survey(&self, thp: ThpMode) -> Result<Option<Survey>, Error> {
        let machine = &self.experiment.machines[0];
        if !self.experiment.has_alternatives_in_order() || !machine.has_huge_pages() || machine.has_segment()
        {
            return Ok(None);
        }
        if let Some(trace) = self.no_file() {
            let trace = trace.display();
            self.listener.note(&format!(
                "no mapping is tried alone on huge pages: that reads a trace twice, and {trace} is no file"
            ));
            return Ok(None);
        }
        let arrangement = self.experiment.arrangement();
        let first =
            Rivals::default().arranged(self.experiment, &self.experiment.machines[..1], thp, &arrangement);
        let mut simulation = first?.keeping_walks();
        let headers = self.play("its costly mappings", &mut simulation)?;
        let instructions = simulation.finish()[0].instructions;
        let owners = if self.experiment.sharing.is_some() { programs(&headers) } else { Vec::new() };
        // A huge page has no global part.
        let fits = |of: &MappingInfo| {
            !arrangement.global_files || !matches!(of.kind, Some(MappingKind::File | MappingKind::SharedFile))
        };
        let to_try = |of: CostlyMapping| MappingToTry {
            program: owners.get(of.mapping.process.0 as usize).cloned(),
            mapping: of.mapping,
            name: of.name,
        };
        let mappings = simulation.costly_mappings(fits).into_iter().map(to_try).collect();
        Ok(Some(Survey { mappings, instructions }))
    }
}
