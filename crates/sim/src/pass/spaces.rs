//! Several address spaces on one processor: the effects of a switch on the TLBs and the pass.
//!
//! One store holds pages, units and blocks of all spaces, under keys of number and space, so first levels can hold
//! pages of several spaces and still find only the running space's. `global.rs` has the pages that spaces share.

use crate::attribution::Observer;
use crate::counts::{MissCounts, SpaceCounts};
use crate::design::Design;
use crate::pass::Pass;
use crate::pass::process::Process;
use crate::store::PageStore;
use crate::store::entry::EntryId;
use pagewalk_mm::AddressSpace;
use pagewalk_translate::Asid;

impl<O: Observer> Pass<O> {
    /// Switches to another address space, possibly a new one. Machines without identifiers flush their TLBs. Others
    /// assign their identifiers in turn, like Linux on x86-64 (`choose_new_asid`): a space without one gets the next,
    /// whose holder is flushed.
    ///
    /// # Panics
    ///
    /// If a design has its own kernel, which manages one address space.
    pub fn switch_to(&mut self, asid: Asid) {
        assert!(self.sets.kernels == 0, "a kernel that builds superpages manages one address space");
        if asid != self.store.asid {
            self.settle();
            self.charge();
            self.enter(asid);
            for design in &mut self.designs {
                design.switch_to(&mut self.store, asid);
            }
        }
    }

    /// Counts of each address space so far, in order.
    pub fn space_counts(&mut self) -> Vec<(Asid, SpaceCounts)> {
        self.charge();
        let of = |asid: Asid| (asid, self.spaces.counts.get(&asid).copied().unwrap_or_default());
        self.all_spaces().into_iter().map(of).collect()
    }

    /// Charges the counts since the last switch to the running space.
    pub(crate) fn charge(&mut self) {
        let now = self.counted();
        let before = std::mem::replace(&mut self.spaces.settled, now);
        *self.spaces.counts.entry(self.store.asid).or_default() += now.since(&before);
    }

    /// Restarts the charging from the present counters, which were set back.
    pub(crate) fn recount(&mut self) {
        self.spaces.settled = self.counted();
    }
}

impl<O: Observer> Pass<O> {
    /// Counts of all spaces so far, on all cores of the first machine.
    pub(crate) fn counted(&self) -> SpaceCounts {
        let cores = self.designs.iter().step_by(self.cores.designs).take(self.cores.all.len());
        let mut sum = SpaceCounts {
            instructions: self.executed.instructions,
            data_references: self.executed.data_references,
            pages_touched: self.executed.pages_touched,
            ..SpaceCounts::default()
        };
        for MissCounts { walks, walk_cycles, .. } in cores.map(|design| &design.counts) {
            sum.walks_fetch += walks[0];
            sum.walks_data += walks[1];
            sum.walk_cycles = sum.walk_cycles.saturating_add(*walk_cycles);
        }
        sum
    }

    /// Makes `asid` the running space.
    pub(crate) fn enter(&mut self, asid: Asid) {
        if asid == self.store.asid {
            return;
        }
        self.tell_near_waits();
        let before = self.store.enter(asid);
        self.store.forget_latest();
        let (base, in_place) = (self.store.paging.base(), self.process.fetches.in_place);
        let process = self.spaces.parked.remove(&asid).unwrap_or_else(|| Process::new(base, in_place));
        self.spaces.parked.insert(before, std::mem::replace(&mut self.process, process));
    }

    /// An address space that was seen, as it is now.
    pub(crate) fn space_of(&self, asid: Asid) -> &AddressSpace {
        &self.spaces.parked.get(&asid).unwrap_or(&self.process).space
    }

    /// Address spaces seen, in order.
    pub(crate) fn all_spaces(&self) -> Vec<Asid> {
        let mut all: Vec<Asid> = self.spaces.parked.keys().copied().chain([self.store.asid]).collect();
        all.sort_unstable();
        all
    }
}

impl Design {
    fn switch_to(&mut self, store: &mut PageStore, asid: Asid) {
        if let Some(loser) = self.identifiers.assign(asid) {
            self.flush(store, loser);
        }
        self.walker.enter(asid);
        self.siblings.enter(asid);
    }

    /// Drops an address space from the TLBs and walkers' caches.
    fn flush(&mut self, store: &mut PageStore, asid: Asid) {
        for array in &mut self.first {
            let of_space = |held: &EntryId| store.asid_of(*held) == asid;
            let gone: Vec<EntryId> = array.held().into_iter().filter(of_space).collect();
            for held in gone {
                let (number, _) = store.numbered(held);
                array.remove(store, self.bit, held, number);
            }
        }
        self.lower.flush(asid);
        self.walker.flush(asid);
        self.prefetchers.iter_mut().for_each(|prefetcher| prefetcher.flush(asid));
        if let Some(reach) = &mut self.reach {
            reach.flush(|held| store.asid_of(held) == asid);
        }
        self.siblings.flush(asid, |held| store.asid_of(held) == asid);
    }
}
