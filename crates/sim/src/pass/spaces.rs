//! Several address spaces on one processor: what a switch between them does to the TLBs and to the pass.
//!
//! Pages, units and blocks of all spaces lie in one store, each under its own page number with its space's identifier
//! added; so first levels hold pages of several spaces at once and still find only those of the space that runs.
//! Pages that all share are in `global.rs`.

use crate::attribution::{MappingCounts, NoObserver, WalkObserver};
use crate::design::{Design, MissCounts};
use crate::fetch::FetchTable;
use crate::pass::Pass;
use crate::store::PageStore;
use crate::store::held::Held;
use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_translate::Asid;
use rustc_hash::FxHashMap;
use std::ops::AddAssign;

/// What belongs to a space that does not run.
pub(crate) struct Parked {
    space: AddressSpace,
    fetches: FetchTable,
    mappings: Vec<MappingCounts>,
    retired_walks: FxHashMap<(u64, MappingId), [u64; 2]>,
}

/// What a part of a run, such as an address space, did and cost on the first machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceCounts {
    /// Instructions executed.
    pub instructions: u64,
    /// Data references.
    pub data_references: u64,
    /// Base pages touched.
    pub pages_touched: u64,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
}

impl Parked {
    pub fn space(&self) -> &AddressSpace {
        &self.space
    }
}

impl SpaceCounts {
    /// What came to be after `before`.
    pub(crate) fn since(&self, before: &SpaceCounts) -> SpaceCounts {
        SpaceCounts {
            instructions: self.instructions - before.instructions,
            data_references: self.data_references - before.data_references,
            pages_touched: self.pages_touched - before.pages_touched,
            walks_fetch: self.walks_fetch - before.walks_fetch,
            walks_data: self.walks_data - before.walks_data,
            walk_cycles: self.walk_cycles - before.walk_cycles,
        }
    }
}

impl AddAssign for SpaceCounts {
    fn add_assign(&mut self, other: SpaceCounts) {
        self.instructions += other.instructions;
        self.data_references += other.data_references;
        self.pages_touched += other.pages_touched;
        self.walks_fetch += other.walks_fetch;
        self.walks_data += other.walks_data;
        self.walk_cycles = self.walk_cycles.saturating_add(other.walk_cycles);
    }
}

/// Each space's counts up to its last switch, and the counts of all at that switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts {
    of_space: FxHashMap<Asid, SpaceCounts>,
    settled: SpaceCounts,
}

impl Pass<NoObserver> {
    /// From now on the stream is that of another address space, which need not have run before. Machines without
    /// identifiers flush their TLBs. The others assign the identifiers that they have in turn, as Linux does on x86-64
    /// (`choose_new_asid`): a space that has lost its own gets the next, whose holder is flushed.
    ///
    /// # Panics
    ///
    /// If a design has a kernel of its own: those manage one address space.
    pub fn switch_to(&mut self, asid: Asid) {
        assert!(self.kernels == 0, "a kernel that builds superpages manages one address space");
        if asid != self.store.asid {
            self.settle();
            self.charge();
            self.enter(asid);
            for design in &mut self.designs {
                design.switch_to(&mut self.store, asid);
            }
        }
    }

    /// What each address space has done and cost so far, in order.
    pub fn space_counts(&mut self) -> Vec<(Asid, SpaceCounts)> {
        self.charge();
        let of = |asid: Asid| (asid, self.accounts.of_space.get(&asid).copied().unwrap_or_default());
        self.all_spaces().into_iter().map(of).collect()
    }

    /// Charges what was counted since the last switch to the space that runs.
    pub(crate) fn charge(&mut self) {
        let now = self.counted();
        let before = std::mem::replace(&mut self.accounts.settled, now);
        *self.accounts.of_space.entry(self.store.asid).or_default() += now.since(&before);
    }

    /// Counts on from what counters say now, as somebody has set them back.
    pub(crate) fn recount(&mut self) {
        self.accounts.settled = self.counted();
    }
}

impl<O: WalkObserver> Pass<O> {
    /// Counts of all spaces so far, on all cores of the first machine.
    pub(crate) fn counted(&self) -> SpaceCounts {
        let cores = self.designs.iter().step_by(self.cores.designs).take(self.cores.all.len());
        let mut sum = SpaceCounts {
            instructions: self.instructions,
            data_references: self.data_references,
            pages_touched: self.pages_touched,
            ..SpaceCounts::default()
        };
        for MissCounts { walks, walk_cycles, .. } in cores.map(|design| &design.counts) {
            sum.walks_fetch += walks[0];
            sum.walks_data += walks[1];
            sum.walk_cycles = sum.walk_cycles.saturating_add(*walk_cycles);
        }
        sum
    }

    /// Makes `asid` the space whose events, pages and blocks are meant.
    pub(crate) fn enter(&mut self, asid: Asid) {
        if asid == self.store.asid {
            return;
        }
        let before = std::mem::replace(&mut self.store.asid, asid);
        self.store.forget_latest();
        let (base, in_place) = (self.store.paging.base(), self.fetches.in_place);
        let new = || Parked {
            space: AddressSpace::default(),
            fetches: FetchTable::new(base, in_place),
            mappings: Vec::new(),
            retired_walks: FxHashMap::default(),
        };
        let Parked { space, fetches, mappings, retired_walks } =
            self.parked.remove(&asid).unwrap_or_else(new);
        let parked = Parked {
            space: std::mem::replace(&mut self.space, space),
            fetches: std::mem::replace(&mut self.fetches, fetches),
            mappings: std::mem::replace(&mut self.mappings, mappings),
            retired_walks: std::mem::replace(&mut self.retired_walks, retired_walks),
        };
        self.parked.insert(before, parked);
    }

    /// Address spaces seen, in order.
    pub(crate) fn all_spaces(&self) -> Vec<Asid> {
        let mut all: Vec<Asid> = self.parked.keys().copied().chain([self.store.asid]).collect();
        all.sort_unstable();
        all
    }
}

/// Which spaces have one of a machine's identifiers.
#[derive(Clone, Debug)]
pub(crate) struct Identifiers {
    /// By identifier. A machine without any has room for the space that runs.
    holders: Vec<Option<Asid>>,
    next: usize,
}

impl Identifiers {
    /// `count` identifiers, the first of which the first space has.
    pub fn new(count: u32) -> Identifiers {
        let mut holders = vec![None; count.max(1) as usize];
        holders[0] = Some(Asid::default());
        Identifiers { next: 1 % holders.len(), holders }
    }

    /// Gives `asid` an identifier if it has none; returns the space that loses it.
    pub fn assign(&mut self, asid: Asid) -> Option<Asid> {
        if self.holders.contains(&Some(asid)) {
            return None;
        }
        let loser = self.holders[self.next].replace(asid);
        self.next = (self.next + 1) % self.holders.len();
        loser
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

    /// Drops everything of an address space from the TLBs and what walkers cache.
    fn flush(&mut self, store: &mut PageStore, asid: Asid) {
        for array in &mut self.first {
            let of_space = |held: &Held| store.asid_of(*held) == asid;
            let gone: Vec<Held> = array.held().into_iter().filter(of_space).collect();
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
