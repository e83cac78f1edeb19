//! Caches of memory beside the pass.

use crate::attribution::{Observer, Wait, Waits};
use crate::bits::bits;
use crate::caches::logical;
use crate::pages::as_recorded;
use crate::pass::Pass;
use crate::pass::place::ReferencePlace;
use pagewalk_cache::CacheAddress;
use pagewalk_mm::MappingId;
use pagewalk_units::{Kind, VirtAddr};

impl<O: Observer> Pass<O> {
    /// Tells the designs with caches of an instruction, before its references.
    pub(crate) fn executed_in_memory(&mut self) {
        for design in bits(self.sets.with_memory & self.sets.active) {
            if let Some(memory) = &mut self.designs[design].memory {
                memory.executed();
            }
        }
    }

    /// Gives a translated reference of the program to the designs with caches, and tells the observer what it misses
    /// in the first design's.
    pub(crate) fn access_memory(&mut self, kind: Kind, at: VirtAddr, bytes: u64, place: ReferencePlace<'_>) {
        let address = CacheAddress::same(logical(self.store.asid, as_recorded(at)));
        for design in bits(self.sets.with_memory & self.sets.active) {
            let Some(memory) = &mut self.designs[design].memory else { continue };
            if design > 0 {
                memory.access(kind, address, bytes);
                continue;
            }
            let waits = memory.access_telling(kind, address, bytes);
            if waits != Waits::default() {
                self.observe_wait(at, waits, place);
            }
        }
    }

    fn observe_wait(&mut self, at: VirtAddr, waits: Waits, place: ReferencePlace<'_>) {
        let vpn = self.store.paging.base().number(at);
        let mapping = self.store.find(vpn).map(|page| self.store.pages[page as usize].mapping);
        let wait = Wait {
            page: self.store.address(vpn),
            mapping: mapping.unwrap_or(MappingId::UNKNOWN),
            instruction: place.instruction(),
            block: place.blocks.get(place.block),
            waits,
        };
        self.observer.on_wait(&wait, &self.process.space);
    }
}
