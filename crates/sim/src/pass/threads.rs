//! The running core: that of the current thread.

use crate::attribution::{NoObserver, Observer};
use crate::bits::bits;
use crate::classes::CLASSES;
use crate::counts::DesignCounts;
use crate::design::Design;
use crate::design::first_level::FirstLevel;
use crate::error::PassError;
use crate::pass::Pass;
use crate::spec::DesignSpec;
use pagewalk_trace::Batch;
use pagewalk_translate::{MachineSpec, WalkerSpec};
use pagewalk_units::ThreadId;

impl Pass<NoObserver> {
    /// A pass over machines of `cores` cores each; threads get cores round robin, in order of appearance. Cores share
    /// what lies in memory, so machines that simulate memory (hashed tables, nested walks, `[[cache]]`) can have one
    /// core only.
    pub fn with_cores(specs: Vec<DesignSpec>, cores: usize) -> Result<Pass, PassError> {
        Pass::on_cores(specs, cores, NoObserver)
    }
}

impl<O: Observer> Pass<O> {
    /// [`Pass::with_cores`], observed.
    pub(crate) fn on_cores(specs: Vec<DesignSpec>, cores: usize, observer: O) -> Result<Pass<O>, PassError> {
        let alone = |machine: &MachineSpec| {
            let registers_only = matches!(machine.walker, WalkerSpec::Radix(_) | WalkerSpec::Software);
            !registers_only || !machine.caches.is_empty()
        };
        match specs.iter().find(|spec| cores > 1 && alone(&spec.machine)) {
            Some(spec) => Err(PassError::OneCore(spec.machine.name.clone())),
            None => Pass::build(specs, cores.max(1), observer),
        }
    }

    /// Counts of one core for every specification, in order. A shared array counts for the core that used it last, so
    /// misses cover the first level only.
    pub fn core_counts(&self, core: usize) -> Vec<DesignCounts> {
        let first = core * self.cores.designs;
        self.results
            .order
            .iter()
            .map(|&(design, sibling)| self.design_counts(first + design, sibling))
            .collect()
    }

    /// Runs the spans `spans` of a batch, on the core of its thread.
    pub(crate) fn run_on_core(&mut self, batch: &Batch<'_>, spans: std::ops::Range<usize>) {
        if self.cores.all.len() > 1 {
            self.run_thread(batch.thread);
        }
        self.run(batch, spans);
    }

    /// Switches to `thread`.
    pub(crate) fn run_thread(&mut self, thread: ThreadId) {
        let core = self.cores.of(thread);
        if core == self.cores.runs {
            return;
        }
        self.settle();
        for unit in 0..self.store.units.len() {
            self.store.settle_unit(unit as u32);
        }
        let before = std::mem::replace(&mut self.cores.runs, core);
        let held = bits(self.cores.mask(before)).flat_map(|design| &self.designs[design].first);
        self.store.park(&mut self.cores.all[before], held.flat_map(FirstLevel::held));
        self.sets.active = self.cores.mask(core);
        self.store.resume(&self.cores.all[core], self.sets.active);
        self.store.credited = self.sets.active;
        self.store.forget_latest();
        for design in 0..self.cores.designs {
            let [from, to] = [before, core].map(|core| core * self.cores.designs + design);
            let [from, to] =
                self.designs.get_disjoint_mut([from, to]).expect("two cores have no design in common");
            from.give_shared(to);
        }
    }

    /// A core's references by class.
    pub(crate) fn totals_of(&self, core: usize) -> [u64; CLASSES] {
        if core == self.cores.runs { self.store.totals } else { self.cores.all[core].totals }
    }
}

impl Design {
    /// Hands the arrays that all cores share to the same machine's design for another core.
    fn give_shared(&mut self, to: &mut Design) {
        self.lower.swap_shared(&mut to.lower);
        for (own, other) in self.prefetchers.iter_mut().zip(&mut to.prefetchers) {
            if self.machine.tlbs[own.array].shared {
                std::mem::swap(own, other);
            }
        }
        self.siblings.give_shared(&mut to.siblings);
    }
}
