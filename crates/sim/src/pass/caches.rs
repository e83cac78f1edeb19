//! Caches of memory beside the pass.

use crate::attribution::WalkObserver;
use crate::bits::bits;
use crate::caches::logical;
use crate::pages::as_recorded;
use crate::pass::Pass;
use pagewalk_cache::CacheAddress;
use pagewalk_units::{Kind, VirtAddr};

impl<O: WalkObserver> Pass<O> {
    /// Tells the designs with caches of an instruction, before its references.
    pub(crate) fn executed_in_memory(&mut self) {
        for design in bits(self.sets.with_memory & self.sets.active) {
            if let Some(memory) = &mut self.designs[design].memory {
                memory.executed();
            }
        }
    }

    /// Gives a translated reference of the program to the designs with caches.
    pub(crate) fn access_memory(&mut self, kind: Kind, address: VirtAddr, bytes: u64) {
        let address = CacheAddress::same(logical(self.store.asid, as_recorded(address)));
        for design in bits(self.sets.with_memory & self.sets.active) {
            if let Some(memory) = &mut self.designs[design].memory {
                memory.access(kind, address, bytes);
            }
        }
    }
}
