//! Attribution of the first design's walks and references to pages and mappings.

use crate::attribution::{MappingCounts, Observer, PageWalks, Walk};
use crate::caches::WalkCost;
use crate::pass::Pass;
use crate::pass::place::ReferencePlace;
use crate::store::Unit;
use pagewalk_mm::MappingId;
use pagewalk_units::VirtAddr;
use std::collections::BTreeMap;

impl<O: Observer> Pass<O> {
    /// Whether a design is observed: the first machine's, on any core.
    #[inline]
    pub(crate) fn observes(&self, design: usize) -> bool {
        design == 0 || self.cores.all.len() > 1 && design.is_multiple_of(self.cores.designs)
    }

    /// Charges a walk of the first machine and reports it to the observer; `instructions`: executed until then.
    pub(crate) fn observe(
        &mut self,
        page: u32,
        fetch: bool,
        cost: WalkCost,
        place: ReferencePlace<'_>,
        instructions: u64,
    ) {
        self.store.tallies[page as usize].add(fetch, cost.references, cost.cycles);
        let first = &self.designs[0];
        let leaf = Some(first.sizes[first.page_size(&self.store, page)]);
        let page = &self.store.pages[page as usize];
        let walk = Walk {
            process: self.store.asid,
            page: self.store.address(page.vpn),
            mapping: page.mapping,
            leaf,
            fetch,
            references: cost.references,
            cycles: cost.cycles,
            instruction: place.instruction(),
            block: place.block(),
            instructions,
        };
        self.observer.on_walk(&walk, &self.process.space);
    }
}

/// Attribution by page and mapping, of the first design.
impl<O: Observer> Pass<O> {
    /// Walks so far of each mapping that has some.
    pub(crate) fn walks_by_mapping(&self) -> BTreeMap<MappingId, u64> {
        let mut walks = BTreeMap::new();
        for page in self.store.live() {
            let walked = self.store.tallies[page as usize].walks;
            *walks.entry(self.store.pages[page as usize].mapping).or_default() += walked[0] + walked[1];
        }
        for (&(_, mapping), kept) in &self.process.retired_walks {
            *walks.entry(mapping).or_default() += kept[0] + kept[1];
        }
        walks
    }

    /// The mapping of a page of the running space, as it was at the page's first touch.
    pub(crate) fn mapping_of(&self, page: VirtAddr) -> MappingId {
        let vpn = self.store.paging.base().number(page);
        let page = self.store.find(vpn).map(|page| &self.store.pages[page as usize]);
        // A page that spaces share has a mapping of the first to touch it.
        match page.filter(|page| self.store.units[page.unit as usize].asid == self.store.asid) {
            Some(page) => page.mapping,
            None => self.process.space.mapping_of(self.store.bytes_of(vpn)),
        }
    }

    /// Counts of each mapping of the running space.
    pub(crate) fn mapping_counts(&mut self) -> BTreeMap<MappingId, MappingCounts> {
        let mut all = self.process.mappings.clone();
        for page in self.store.live() {
            let index = self.store.pages[page as usize].mapping.index();
            self.store.tallies[page as usize].add_to(&mut all[index]);
        }
        let is_alone = self.spaces.parked.is_empty();
        let is_own = |unit: &&Unit| unit.pages > 0 && (is_alone || unit.asid == self.store.asid);
        for unit in self.store.units.iter().filter(is_own) {
            add_references(&mut all[unit.mapping.index()], unit);
        }
        let rows = all.into_iter().enumerate().filter(|(_, counts)| counts.pages_touched > 0);
        rows.map(|(index, counts)| (MappingId(index as u32), counts)).collect()
    }

    /// Walks of each page that has some, costliest first.
    pub(crate) fn page_walks(&self) -> Vec<PageWalks> {
        let mut walks = self.process.retired_walks.clone();
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

/// Adds the references of a unit to its mapping's counts.
pub(crate) fn add_references(counts: &mut MappingCounts, unit: &Unit) {
    let [fetches, loads, stores] = unit.refs;
    counts.references_fetch += fetches;
    counts.references_data += loads + stores;
}
