//! Runs the same designs in the system engine, which must give the same counts as the pass.

use crate::random::Random;
use pagewalk_mm::{MappingId, OneMapping, ProcessMapping, Thp, ThpMode};
use pagewalk_sim::{DesignCounts, DesignSpec, System};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::{Asid, MachineSpec};
use pagewalk_units::{RefIndex, SpaceId};
use std::sync::Arc;

/// One system for each design.
pub struct Systems(pub Vec<System>);

/// The machine under THP, and with one of the first mappings of one of so many processes on huge pages besides. A pass
/// takes names of pages in the kernel's huge pages from all its designs, so these two go together.
pub fn one_mapping(random: &mut Random, machine: &MachineSpec, processes: u64) -> [DesignSpec; 2] {
    let process = SpaceId(random.below(processes) as u32);
    let mapping = MappingId(1 + random.below(4) as u32);
    let rest = Thp { mode: ThpMode::Always };
    let policy = OneMapping { mapping: ProcessMapping { process, mapping }, rest };
    let name = format!("{} {policy:?}", machine.name);
    let alone = DesignSpec { name, ..DesignSpec::new(machine, Arc::new(policy)) };
    [DesignSpec::new(machine, Arc::new(rest)), alone]
}

impl Systems {
    pub fn new(specs: &[DesignSpec], cores: usize) -> Systems {
        let system = |spec: &DesignSpec| System::new(spec.clone(), cores).unwrap_or_else(|e| panic!("{e}"));
        Systems(specs.iter().map(system).collect())
    }

    fn all(&mut self) -> impl Iterator<Item = &mut System> {
        self.0.iter_mut()
    }

    pub fn with_global_files(self) -> Systems {
        Systems(self.0.into_iter().map(System::with_global_files).collect())
    }

    pub fn switch_to(&mut self, asid: Asid) {
        self.all().for_each(|system| system.switch_to(asid));
    }

    /// All counts against those of the pass.
    pub fn assert_equal(&self, pass: &[DesignCounts], seed: u64) {
        for (system, pass) in self.0.iter().zip(pass) {
            assert_eq!(
                &system.counts(),
                pass,
                "the system's counts, and the pass's, of {} (seed {seed})",
                pass.name
            );
        }
    }
}

impl Analysis for Systems {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.all().for_each(|system| system.on_batch(batch));
    }

    fn on_event(&mut self, at: RefIndex, event: &Event) {
        self.all().for_each(|system| system.on_event(at, event));
    }
}
