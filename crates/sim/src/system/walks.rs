//! What is kept of walks.

use super::System;
use crate::attribution::{Observer, ReferenceWaits, Wait, WaitingPage, Walk, lost_code};
use crate::caches::WalkCost;
use crate::classes::FETCH;
use crate::moment::CodePosition;
use crate::pages::as_recorded;
use crate::pass::ReferencePlace;
use crate::profile::Programs;
use pagewalk_mm::MappingId;
use pagewalk_trace::{Batch, Event};
use pagewalk_units::VirtAddr;

/// A walk in the block that runs.
pub(super) struct PlacedWalk {
    pub class: usize,
    pub vpn: u64,
    pub cost: WalkCost,
    pub at: CodePosition,
}

/// A reference of the block that runs, and what it missed in caches of memory.
pub(super) struct PlacedWait {
    pub address: VirtAddr,
    pub waits: ReferenceWaits,
    pub at: CodePosition,
}

/// What is kept of walks and waits.
#[derive(Default)]
pub(super) struct Observed {
    programs: Programs,
    /// Walks of the block that runs, in order.
    walks: Vec<PlacedWalk>,
    /// Waits of the same.
    waits: Vec<PlacedWait>,
}

impl Observed {
    pub fn note(&mut self, walk: PlacedWalk) {
        self.walks.push(walk);
    }

    pub fn note_wait(&mut self, wait: PlacedWait) {
        self.waits.push(wait);
    }

    fn is_empty(&self) -> bool {
        self.walks.is_empty() && self.waits.is_empty()
    }
}

impl System {
    /// From now on keeps walks.
    pub(crate) fn keep_walks(&mut self) {
        self.observed.get_or_insert_default().programs.keep();
    }

    /// Those that are kept.
    pub(crate) fn walks(&mut self) -> Option<&mut Programs> {
        self.observed.as_mut().map(|observed| &mut observed.programs)
    }

    /// Tells the observer of the walks and waits of a block that has run, that of a span.
    #[inline]
    pub(super) fn observe(&mut self, batch: &Batch<'_>, span: usize) {
        if self.observed.as_ref().is_some_and(|observed| !observed.is_empty()) {
            self.observe_walks(batch, span);
        }
    }

    #[inline(never)]
    fn observe_walks(&mut self, batch: &Batch<'_>, span: usize) {
        let Some(mut observed) = self.observed.take() else { return };
        let (base, instructions) = (self.machine().paging.base(), self.clock.instructions);
        let process = self.runs;
        let space = &self.process_of(process).space;
        for PlacedWalk { class, vpn, cost, at } in observed.walks.drain(..) {
            let place = ReferencePlace { batch, span, at, ahead: &[] };
            let page = VirtAddr(vpn << base.shift());
            let walk = Walk {
                process,
                page,
                // The census knows it.
                mapping: MappingId::UNKNOWN,
                leaf: None,
                fetch: class == FETCH,
                references: cost.references,
                cycles: cost.cycles,
                instruction: place.instruction(),
                block: place.block(),
                instructions,
            };
            observed.programs.on_walk(&walk, space);
        }
        for PlacedWait { address, waits, at } in observed.waits.drain(..) {
            let place = ReferencePlace { batch, span, at, ahead: &[] };
            let wait = Wait {
                process,
                of: WaitingPage {
                    page: VirtAddr(base.number(as_recorded(address)) << base.shift()),
                    id: None,
                    // The census knows it.
                    mapping: MappingId::UNKNOWN,
                },
                instruction: place.instruction(),
                block: place.block(),
                waits,
            };
            observed.programs.on_wait(&wait, space);
        }
        self.observed = Some(observed);
    }

    /// Heeds an event before it changes the running process's space.
    pub(super) fn observe_event(&mut self, event: &Event) {
        let runs = self.runs;
        let Some(mut observed) = self.observed.take() else { return };
        if let Some(range) = lost_code(event, &self.process_of(runs).space) {
            observed.programs.on_lost_code(runs, range);
        }
        self.observed = Some(observed);
    }
}
