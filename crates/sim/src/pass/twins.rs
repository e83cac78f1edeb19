//! Designs that differ from the observed one in their caches of memory alone.
//!
//! What caches hold changes no translation. So the observed design translates for its twins: they have its counts and
//! its walks, and only their caches are simulated. They must be of its first level, and their walks must wait.

use crate::attribution::Observer;
use crate::bits::bits;
use crate::counts::{DesignCounts, MissCounts};
use crate::design::Design;
use crate::pass::Pass;
use pagewalk_cost::Cycles;
use pagewalk_translate::MachineSpec;
use std::sync::Arc;

/// Whether two machines differ in their caches alone, apart from their names and the processors that they describe.
fn differ_in_caches(one: &MachineSpec, other: &MachineSpec) -> bool {
    let MachineSpec { name, title, caches, matches, .. } = one.clone();
    *one == MachineSpec { name, title, caches, matches, ..other.clone() }
}

impl<O: Observer> Pass<O> {
    /// Finds the twins among all designs, before the first reference.
    pub(crate) fn let_first_translate_for_twins(&mut self) {
        let Some(first) = self.course.caches.first.iter().find(|first| first.feeds & 1 != 0) else { return };
        let candidates =
            if self.sets.deferring & 1 == 0 { 0 } else { first.feeds & self.sets.deferring & !1 };
        let observed = &self.designs[0];
        let is_twin = |design: &usize| {
            let Design { policy, reach, machine, .. } = &self.designs[*design];
            // Those with kernels never defer walks.
            reach.is_none()
                && Arc::ptr_eq(policy, &observed.policy)
                && differ_in_caches(machine, &observed.machine)
        };
        self.sets.twins = bits(candidates).filter(is_twin).map(|design| self.designs[design].mask()).sum();
        self.sets.active &= !self.sets.twins;
    }

    pub(crate) fn is_twin(&self, design: usize) -> bool {
        self.sets.twins >> design & 1 != 0
    }

    /// What the TLBs of a design counted.
    pub(crate) fn misses(&self, design: usize) -> MissCounts {
        let own = &self.designs[design].counts;
        match self.is_twin(design) {
            true => MissCounts { walk_cycles: own.walk_cycles, ..self.designs[0].counts.clone() },
            false => own.clone(),
        }
    }

    /// All counts of a twin.
    pub(crate) fn twin_counts(&self, design: usize) -> DesignCounts {
        let twin = &self.designs[design];
        let memory = twin.memory.as_ref().map(|memory| memory.counts);
        let observed = self.design_counts(0, None);
        DesignCounts {
            name: twin.name.clone(),
            caches: self.caches_of(twin),
            memory,
            cycles: Cycles {
                walk: twin.counts.walk_cycles,
                memory: memory.map_or(0, |memory| memory.stall_cycles),
                ..observed.cycles
            },
            ..observed
        }
    }
}
