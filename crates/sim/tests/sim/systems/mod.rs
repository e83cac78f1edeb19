//! Runs the same designs in the system engine, which must give the same counts as the pass.

use pagewalk_mm::{MappingId, Scope};
use pagewalk_sim::{DesignCounts, DesignSpec, System};
use pagewalk_trace::{Analysis, Batch, Event};
use pagewalk_translate::Asid;
use pagewalk_units::RefIndex;

/// One system for each design, except policies for one mapping, which are the profile's.
pub struct Systems(pub Vec<Option<System>>);

fn has_system(spec: &DesignSpec) -> bool {
    spec.kernel.is_some()
        || !spec.policy.may_be_huge()
        || spec.policy.splits(MappingId::UNKNOWN)
        || spec.policy.scope() == Scope::Block
}

impl Systems {
    pub fn new(specs: &[DesignSpec], cores: usize) -> Systems {
        let system = |spec: &DesignSpec| System::new(spec.clone(), cores).unwrap_or_else(|e| panic!("{e}"));
        Systems(specs.iter().map(|spec| has_system(spec).then(|| system(spec))).collect())
    }

    fn all(&mut self) -> impl Iterator<Item = &mut System> {
        self.0.iter_mut().flatten()
    }

    pub fn with_global_files(self) -> Systems {
        Systems(self.0.into_iter().map(|system| Some(system?.with_global_files())).collect())
    }

    pub fn switch_to(&mut self, asid: Asid) {
        self.all().for_each(|system| system.switch_to(asid));
    }

    /// All counts against those of the pass.
    pub fn assert_equal(&self, pass: &[DesignCounts], seed: u64) {
        for (system, pass) in self.0.iter().zip(pass) {
            let Some(system) = system else { continue };
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
