//! Data sides in a simulation with one process on one core.

use super::DataSides;
use crate::counts::{DesignCounts, SpaceCounts};
use crate::player::Engine;
use crate::profile::Programs;
use pagewalk_mm::Kernel;
use pagewalk_trace::{Analysis, Batch};
use pagewalk_translate::Asid;
use std::ops::Range;

impl Engine for DataSides {
    // The host's kernel copies no pages.
    fn begin_as_child(&mut self, _asid: Asid) {}

    fn switch_to(&mut self, asid: Asid) {
        assert_eq!(asid, Asid::default(), "one process is simulated");
    }

    fn run(&mut self, batch: &Batch<'_>, spans: Range<usize>) {
        assert_eq!(spans, 0..batch.spans.len(), "nothing comes between");
        self.on_batch(batch);
    }

    fn visited(&mut self, _asid: Asid, _batch: &Batch<'_>) {
        unreachable!("a lone process has no visitors");
    }

    fn counted(&mut self) -> SpaceCounts {
        DataSides::counted(self)
    }

    fn space_counts(&mut self) -> Vec<(Asid, SpaceCounts)> {
        let of = |counts: DesignCounts| SpaceCounts {
            instructions: counts.instructions,
            data_references: counts.data_references,
            walks_data: counts.walks_data,
            walk_cycles: counts.cycles.walk,
            ..SpaceCounts::default()
        };
        self.design_counts().into_iter().take(1).map(|counts| (Asid::default(), of(counts))).collect()
    }

    fn core_counts(&self, _core: usize) -> Vec<DesignCounts> {
        self.design_counts()
    }

    fn keep_walks(&mut self) {
        self.programs.keep();
    }

    fn walks(&mut self) -> Option<&mut Programs> {
        Some(&mut self.programs)
    }

    /// The host's kernel runs.
    fn kernels(&self) -> Vec<(Asid, &Kernel)> {
        Vec::new()
    }

    fn finish(&mut self) -> Vec<DesignCounts> {
        self.design_counts()
    }
}
