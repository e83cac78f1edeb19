//! Prefetching in a design: the translation of the next page, and whether the TLB holds it.

use crate::classes::CLASSES;
use crate::design::Design;
use crate::sizes::HUGE;
use crate::store::PageStore;
use crate::store::entry::EntryId;
use pagewalk_mm::AddressSpace;
use pagewalk_translate::Asid;
use pagewalk_units::{Kind, PageSize, VirtAddr};

impl Design {
    /// Takes a page that missed every level out of a prefetch buffer; false if it is not there.
    pub(crate) fn claim_prefetched(&mut self, kind: Kind, asid: Asid, number: u64, size: PageSize) -> bool {
        let mut prefetchers = self.prefetchers.iter_mut();
        prefetchers
            .find(|p| p.takes(kind, size))
            .is_some_and(|prefetcher| prefetcher.claim(asid, number, size))
    }

    /// Prefetches the next page after a walk or a hit in a buffer, if due.
    pub(crate) fn prefetch_next(
        &mut self,
        store: &PageStore,
        space: &AddressSpace,
        kind: Kind,
        number: u64,
        size: PageSize,
    ) {
        let Some(at) = self.prefetchers.iter().position(|p| p.takes(kind, size)) else { return };
        let vpn = (number + 1) << (size.shift() - store.paging.base().shift());
        let Some((held, number, size)) = self.mapped_at(store, space, vpn) else { return };
        let asid = store.asid_of(held);
        let array = self.prefetchers[at].array;
        if self.prefetchers[at].wants(asid, number, self.sizes[size])
            && !self.holds(store, array, held, number, size)
        {
            let address = VirtAddr(number << self.sizes[size].shift());
            let mapped = match held {
                EntryId::Page(page) => self.page_size(store, page),
                EntryId::Unit(_) | EntryId::Block(_) | EntryId::Super(_) => HUGE,
            };
            let read = self.walk(address, self.sizes[mapped]).references;
            self.prefetchers[at].put(asid, number, self.sizes[size], read);
        }
    }

    /// The translation of page `vpn`, touched or not, in this design's page tables.
    fn mapped_at(&self, store: &PageStore, space: &AddressSpace, vpn: u64) -> Option<(EntryId, u64, usize)> {
        // An untouched piece has no page.
        if self.in_pieces {
            return store.find(vpn).map(|page| self.mapped(store, page));
        }
        let number = store.block_number(vpn);
        if store.block_designs & self.mask() != 0 {
            let block = store.block_at(number).filter(|&block| store.blocks[block as usize].pages > 0)?;
            return Some((EntryId::Block(block), number, HUGE));
        }
        if let Some(page) = store.find(vpn) {
            return Some(self.mapped(store, page));
        }
        // An untouched part of a huge page. The kernel's huge pages fill their block; those of a policy for one mapping
        // end with the mapping.
        let block = &store.blocks[store.block_at(number)? as usize];
        let covers = |&&id: &&u32| {
            let unit = &store.units[id as usize];
            let huge = unit.pages > 0 && unit.huge & self.mask() != 0;
            huge && (self.policy.splits(unit.owner())
                || space.mapping_of(store.bytes_of(vpn)) == unit.mapping)
        };
        block.units.iter().find(covers).map(|&unit| (EntryId::Unit(unit), number, HUGE))
    }

    /// Whether the machine's array `array` holds a page.
    fn holds(&self, store: &PageStore, array: usize, held: EntryId, number: u64, size: usize) -> bool {
        let Some(first) = self.first.iter().position(|first| first.index == array) else {
            return self.lower.holds(array, store.asid_of(held), number, self.sizes[size]);
        };
        let served = (0..CLASSES).find(|&class| self.array[class][size] == Some(first));
        served
            .is_some_and(|class| crate::design::first_level::resident(store, held, class) & self.mask() != 0)
    }
}
