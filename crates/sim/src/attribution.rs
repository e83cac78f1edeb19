//! Who pays: walks and references of the first design by page and by mapping, and the observer told of each walk.

use crate::caches::WalkCost;
use crate::pass::growth::LateBlocks;
use crate::pass::{Pass, Place};
use crate::store::{Tally, Unit};
use pagewalk_mm::{AddressSpace, MappingId};
use pagewalk_trace::Block;
use pagewalk_units::VirtAddr;
use std::collections::BTreeMap;

/// A walk of the first design, as its observer sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Walk<'a> {
    /// The first byte of the base page walked for.
    pub page: VirtAddr,
    /// Its mapping.
    pub mapping: MappingId,
    /// Whether a fetch caused it (otherwise a data reference).
    pub fetch: bool,
    /// Page-table entries read.
    pub references: u32,
    /// Modelled cycles.
    pub cycles: u64,
    /// The instruction that caused it; 0 where the stream has no code.
    pub instruction: VirtAddr,
    /// The block that it is in.
    pub block: &'a Block,
    /// Instructions executed before it, those of its own block included.
    pub instructions: u64,
}

/// Told of every walk of the first design.
pub trait WalkObserver: Send {
    /// A walk happened. `space` is the address space at this moment.
    fn on_walk(&mut self, walk: &Walk<'_>, space: &AddressSpace);
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl WalkObserver for NoObserver {
    fn on_walk(&mut self, _walk: &Walk<'_>, _space: &AddressSpace) {}
}

/// What one named mapping received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingCounts {
    /// Pages touched.
    pub pages_touched: u64,
    /// Fetch references.
    pub references_fetch: u64,
    /// Data references.
    pub references_data: u64,
    /// Walks of the first design by fetches.
    pub walks_fetch: u64,
    /// Walks of the first design by data.
    pub walks_data: u64,
    /// Page-table entries that those walks read.
    pub walk_references: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
    /// Blocks that it grew over after their first touch.
    pub late_blocks: LateBlocks,
}

/// Walks of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageWalks {
    /// First byte of the base page.
    pub page: VirtAddr,
    /// Its mapping.
    pub mapping: MappingId,
    /// Walks by fetches.
    pub walks_fetch: u64,
    /// Walks by data references.
    pub walks_data: u64,
}

impl<O: WalkObserver> Pass<O> {
    /// Charges a walk of the first design and tells the observer.
    pub(crate) fn observe(&mut self, page: u32, fetch: bool, cost: WalkCost, place: Place<'_>) {
        let tally = &mut self.store.tallies[page as usize];
        tally.walks[usize::from(!fetch)] += 1;
        tally.walk_references += u64::from(cost.references);
        tally.walk_cycles = tally.walk_cycles.saturating_add(cost.cycles);
        let page = &self.store.pages[page as usize];
        let walk = Walk {
            page: self.store.address(page.vpn),
            mapping: page.mapping,
            fetch,
            references: cost.references,
            cycles: cost.cycles,
            instruction: place.instruction(),
            block: place.blocks.get(place.block),
            instructions: self.instructions,
        };
        self.observer.on_walk(&walk, &self.space);
    }

    pub(crate) fn counts_of(&mut self, mapping: MappingId) -> &mut MappingCounts {
        if self.mappings.len() <= mapping.index() {
            self.mappings.resize(mapping.index() + 1, MappingCounts::default());
        }
        &mut self.mappings[mapping.index()]
    }
}

/// Attribution by page and mapping, of the first design.
impl<O: WalkObserver> Pass<O> {
    /// Walks so far of each mapping that has some.
    pub(crate) fn walks_by_mapping(&self) -> BTreeMap<MappingId, u64> {
        let mut walks = BTreeMap::new();
        for page in self.store.live() {
            let walked = self.store.tallies[page as usize].walks;
            *walks.entry(self.store.pages[page as usize].mapping).or_default() += walked[0] + walked[1];
        }
        for (&(_, mapping), kept) in &self.retired_walks {
            *walks.entry(mapping).or_default() += kept[0] + kept[1];
        }
        walks
    }

    /// What each mapping received, all told.
    pub(crate) fn mapping_counts(&mut self) -> BTreeMap<MappingId, MappingCounts> {
        let mut all = self.mappings.clone();
        for page in self.store.live() {
            let index = self.store.pages[page as usize].mapping.index();
            add_tally(&mut all[index], &self.store.tallies[page as usize]);
        }
        for unit in self.store.units.iter().filter(|unit| unit.pages > 0) {
            add_references(&mut all[unit.mapping.index()], unit);
        }
        let rows = all.into_iter().enumerate().filter(|(_, counts)| counts.pages_touched > 0);
        rows.map(|(index, counts)| (MappingId(index as u32), counts)).collect()
    }

    /// Walks of each page that has some, costliest first.
    pub(crate) fn page_walks(&self) -> Vec<PageWalks> {
        let mut walks = self.retired_walks.clone();
        for page in self.store.live() {
            let walked = self.store.tallies[page as usize].walks;
            let page = &self.store.pages[page as usize];
            if walked != [0; 2] {
                let kept = walks.entry((page.vpn, page.mapping)).or_default();
                kept[0] += walked[0];
                kept[1] += walked[1];
            }
        }
        let mut rows: Vec<PageWalks> = walks
            .into_iter()
            .map(|((vpn, mapping), [walks_fetch, walks_data])| PageWalks {
                page: self.store.address(vpn),
                mapping,
                walks_fetch,
                walks_data,
            })
            .collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.walks_fetch + row.walks_data), row.page, row.mapping));
        rows
    }
}

/// Adds the walks of a page to its mapping's counts.
pub(crate) fn add_tally(counts: &mut MappingCounts, tally: &Tally) {
    counts.walks_fetch += tally.walks[0];
    counts.walks_data += tally.walks[1];
    counts.walk_references += tally.walk_references;
    counts.walk_cycles = counts.walk_cycles.saturating_add(tally.walk_cycles);
}

/// Adds the references of a unit to its mapping's counts.
pub(crate) fn add_references(counts: &mut MappingCounts, unit: &Unit) {
    let [fetches, loads, stores] = unit.refs;
    counts.references_fetch += fetches;
    counts.references_data += loads + stores;
}
