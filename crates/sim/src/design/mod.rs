//! One design: a machine under a page-size policy.

pub(crate) mod first_level;
pub(crate) mod identifiers;
pub(crate) mod os;
mod prefetch;
pub(crate) mod reach;
mod recency;
pub(crate) mod siblings;
mod tournament;

pub(crate) use identifiers::Identifiers;

use crate::caches::{MemoryCaches, WalkCost};
use crate::classes::{CLASSES, FETCH, KINDS, LOAD, STORE};
use crate::counts::MissCounts;
use crate::design::first_level::FirstLevel;
use crate::design::os::Os;
use crate::design::reach::ReachFamily;
use crate::design::siblings::{Miss, Siblings};
use crate::fit::KernelError;
use crate::sizes::{HUGE, SIZES, SMALL, in_pieces};
use crate::spec::DesignSpec;
use crate::store::entry::EntryId;
use crate::store::{Page, PageStore};
use pagewalk_mm::{AddressSpace, MappingId, PageSizePolicy, Scope};
use pagewalk_translate::{Asid, Fills, LowerLevels, MachineSpec, Prefetcher, TranslationSource, Walker};
use pagewalk_units::{Kind, PageSize, VirtAddr};
use rustc_hash::FxHashSet;
use std::sync::Arc;

// Many fields: the parts of a machine, in the order of a miss.
#[derive(Clone)]
pub(crate) struct Design {
    pub name: String,
    pub machine: MachineSpec,
    /// Page sizes by index.
    pub sizes: [PageSize; SIZES],
    pub policy: Arc<dyn PageSizePolicy>,
    pub bit: usize,
    pub first: Vec<FirstLevel>,
    /// First-level array by class and page size.
    pub array: [[Option<usize>; SIZES]; CLASSES],
    pub lower: LowerLevels,
    pub walker: Walker,
    pub memory: Option<MemoryCaches>,
    pub prefetchers: Vec<Prefetcher>,
    pub reach: Option<ReachFamily>,
    /// Designs with the same first level.
    pub siblings: Siblings,
    /// Whether its own lower levels are unused, because it is one of its own siblings, whose lower levels are simulated
    /// together.
    pub hollow: bool,
    pub identifiers: Identifiers,
    pub last_level: u8,
    pub os: Option<Os>,
    /// Whether TLBs hold huge pages in pieces of base pages.
    pub in_pieces: bool,
    /// Whether some lower level receives victims of the first.
    pub gives_victims: bool,
    /// Whether hugetlb memory is on huge pages: not if TLBs do not hold them or handlers' tables map base pages.
    pub maps_hugetlb: bool,
    pub counts: MissCounts,
}

impl Design {
    pub fn new(spec: DesignSpec, bit: usize, split: bool) -> Result<Design, KernelError> {
        let used = |class: usize| class != STORE || split;
        let base = spec.machine.paging.base();
        let mut sizes = [base; SIZES];
        match &spec.kernel {
            // Orders above the largest page size are unused.
            Some(_) => sizes.iter_mut().zip(base.shift()..).for_each(|(size, shift)| {
                *size = PageSize::from_shift(shift).unwrap_or(*size);
            }),
            None => sizes[HUGE] = spec.machine.paging.huge(),
        }
        let os = spec.kernel.map(|kernel| Os::new(kernel, &spec.machine)).transpose()?;
        let used_sizes: Vec<usize> = match &os {
            Some(os) => os.held_orders(true).collect(),
            None => vec![SMALL, HUGE],
        };
        let mut first = Vec::new();
        let mut array = [[None; SIZES]; CLASSES];
        for (index, tlb) in spec.machine.level(1) {
            let serves = std::array::from_fn(|class| used(class) && tlb.serves.has(KINDS[class]));
            for class in (0..CLASSES).filter(|&class| serves[class]) {
                for size in used_sizes.iter().copied().filter(|&size| tlb.holds(sizes[size])) {
                    array[class][size] = Some(first.len());
                }
            }
            first.push(FirstLevel::new(index, tlb, spec.machine.software(), serves, &sizes));
        }
        let last = spec.machine.last_level();
        let in_pieces = in_pieces(&spec.machine);
        let family = |(doublings, size): (&[i32], PageSize)| {
            let (_, tlb) = spec.machine.level(last).find(|(_, tlb)| tlb.holds(size))?;
            let own_size = !in_pieces || size == sizes[SMALL];
            let family = || ReachFamily::new(doublings.iter().map(|&n| tlb.geometry.scaled(n)));
            (own_size && ReachFamily::compares_with(tlb)).then(family)
        };
        let mut lower = LowerLevels::new(&spec.machine);
        if os.as_ref().is_some_and(|os| os.kernel.watches_tlbs()) {
            lower.watch(&spec.machine.level(last).map(|(index, _)| index).collect::<Vec<_>>());
        }
        Ok(Design {
            reach: spec.reach.and_then(family),
            siblings: Siblings::default(),
            hollow: false,
            identifiers: Identifiers::new(spec.machine.asids),
            last_level: last,
            in_pieces,
            maps_hugetlb: spec.machine.has_huge_pages() && spec.machine.software().is_none(),
            gives_victims: spec.machine.tlbs.iter().any(|tlb| tlb.fills == Fills::Victims),
            lower,
            walker: Walker::new(&spec.machine.walker),
            memory: MemoryCaches::of(&spec.machine),
            prefetchers: Prefetcher::of(&spec.machine),
            name: spec.name,
            machine: spec.machine,
            sizes,
            policy: spec.policy,
            bit,
            first,
            array,
            counts: MissCounts::default(),
            os,
        })
    }

    pub fn mask(&self) -> u64 {
        1 << self.bit
    }

    /// The least number of sets of the first-level arrays of small pages that need hits; `None` if no array does.
    /// `hugetlb`: the program has hugetlb memory.
    pub fn sets_to_mind(&self, hugetlb: bool) -> Option<usize> {
        let holds = |array: usize, size: usize| self.array.iter().any(|sizes| sizes[size] == Some(array));
        let minding =
            || (0..self.first.len()).filter_map(|array| Some((array, self.first[array].sets_to_mind()?)));
        // Sets of an array of larger pages do not follow from small pages' numbers.
        let has_larger = self.os.is_some() || self.policy.may_be_huge() || hugetlb;
        let mixed = |array: usize| has_larger && (SMALL + 1..SIZES).any(|size| holds(array, size));
        let sets = |(array, sets)| if mixed(array) { 1 } else { sets };
        let of_small_pages = minding().filter(|&(array, _)| holds(array, SMALL)).map(sets).min();
        of_small_pages.or_else(|| minding().next().map(|_| 1))
    }

    /// Records a first-level hit of a page.
    pub fn hit(&mut self, store: &PageStore, class: usize, page: u32) {
        let (held, number, size) = self.mapped(store, page);
        if let Some(array) = self.array[class][size] {
            self.first[array].hit(store, held, number);
        }
    }

    /// Whether some first-level array serves fetches and data.
    pub fn is_unified(&self) -> bool {
        self.unified().next().is_some()
    }

    /// The first-level arrays that serve fetches and data.
    fn unified(&self) -> impl Iterator<Item = &FirstLevel> {
        let data = |fetch: &usize| {
            [LOAD, STORE].iter().any(|&class| self.array[class].iter().flatten().any(|data| data == fetch))
        };
        self.array[FETCH].iter().flatten().filter(move |array| data(array)).map(|&array| &self.first[array])
    }

    /// Whether fetches must not be folded, because each has its own place in the order: if fetches can bypass the first
    /// level, or if one array's replacement depends on the order of hits by fetches and data. `hugetlb`: the program
    /// has hugetlb memory.
    pub fn needs_every_fetch(&self, policy: &dyn PageSizePolicy, hugetlb: bool) -> bool {
        let may_be_huge = policy.may_be_huge() || hugetlb && self.maps_hugetlb;
        let huge = may_be_huge && !self.in_pieces;
        let sizes: Vec<usize> = match &self.os {
            Some(os) => os.held_orders(hugetlb).collect(),
            None if huge => vec![SMALL, HUGE],
            None => vec![SMALL],
        };
        let bypass = sizes.iter().any(|&size| self.array[FETCH][size].is_none());
        let ordered = self.unified().any(|array| self.os.is_some() || !array.passes_over_hits());
        bypass || ordered
    }

    /// Serves a first-level miss; returns the cost of the walk, if it walks.
    pub fn miss(
        &mut self,
        store: &mut PageStore,
        space: &AddressSpace,
        class: usize,
        kind: Kind,
        page: u32,
        instructions: u64,
    ) -> Option<WalkCost> {
        if let Some(refill) = self.first[0].refill(store, self.bit, page, instructions) {
            self.counts.first_level[class][SMALL] += 1;
            let cost = WalkCost { references: refill.references, cycles: refill.cycles };
            self.counts.charge(class, cost);
            return Some(cost);
        }
        let (held, number, size) = self.mapped(store, page);
        let asid = store.asid_of(held);
        let mapped = if self.os.is_some() { leaf_size(store, size) } else { self.page_size(store, page) };
        let address = store.address(store.pages[page as usize].vpn);
        self.counts.first_level[class][size] += 1;
        let served = self.served_below(kind, asid, address, self.sizes[size]);
        let reached_last =
            served == TranslationSource::Walk || served == TranslationSource::Level(self.last_level);
        if let (Some(reach), true) = (&mut self.reach, reached_last) {
            reach.touch(held, number);
        }
        let prefetched =
            served == TranslationSource::Walk && self.claim_prefetched(kind, asid, number, self.sizes[size]);
        let read = match served {
            TranslationSource::Walk if !prefetched => {
                self.os_missed(store, class, page, instructions);
                let cost = self.walk(address, self.sizes[mapped]);
                self.counts.charge(class, cost);
                Some(cost)
            }
            _ => {
                self.counts.lower_hits += 1;
                None
            }
        };
        if self.os.is_some() && served == TranslationSource::Walk {
            self.os_fill(store, (class, kind), (held, number, size));
            return read;
        }
        if let Some(array) = self.array[class][size] {
            let victim = self.first[array].fill(store, self.bit, held, number);
            if let (Some(victim), true) = (victim, self.gives_victims) {
                let (number, size) = store.numbered(victim);
                let asid = store.asid_of(victim);
                self.lower.receive(self.first[array].index, asid, number, self.sizes[size]);
            }
        }
        self.lower.fill(kind, asid, address, self.sizes[size], served);
        if served == TranslationSource::Walk && !self.prefetchers.is_empty() {
            self.prefetch_next(store, space, kind, number, self.sizes[size]);
        }
        let (size, mapped) = (self.sizes[size], self.sizes[mapped]);
        self.siblings.miss(Miss { class, kind, held, asid, number, size, mapped, address });
        read
    }

    /// The lower level that serves a first-level miss.
    #[inline(always)]
    pub(crate) fn served_below(
        &mut self,
        kind: Kind,
        asid: Asid,
        address: VirtAddr,
        size: PageSize,
    ) -> TranslationSource {
        // As if the second level hit, so that nothing is left to do.
        if self.hollow { TranslationSource::Level(2) } else { self.lower.look_up(kind, asid, address, size) }
    }

    /// Walks to the leaf of `address`, mapped at `size`.
    pub(crate) fn walk(&mut self, address: VirtAddr, size: PageSize) -> WalkCost {
        match &mut self.memory {
            Some(memory) => memory.walk(&mut self.walker, address, size),
            None => WalkCost::flat(self.walker.walk(address, size), self.machine.cost.walk_reference),
        }
    }

    /// Counts the second half of a reference that lies in the same page as the first.
    pub fn note_inside(&mut self, store: &PageStore, class: usize, page: u32) {
        self.counts.inside_huge[class] += 1;
        let size = self.mapped(store, page).2;
        if let Some(os) = &mut self.os {
            os.inside[class][size] += 1;
        }
    }

    /// Index of the size at which the page is mapped.
    pub(crate) fn page_size(&self, store: &PageStore, page: u32) -> usize {
        if self.os.is_some() {
            return leaf_size(store, self.mapped(store, page).2);
        }
        if !store.minds_units {
            return SMALL;
        }
        let unit = &store.units[store.pages[page as usize].unit as usize];
        if (unit.huge | store.block_designs) & self.mask() != 0 { HUGE } else { SMALL }
    }

    /// The TLB entry for a page, its number, and the index of its size.
    pub(crate) fn mapped(&self, store: &PageStore, page: u32) -> (EntryId, u64, usize) {
        if !store.minds_units {
            // All designs of the pass have small pages only.
            return (EntryId::Page(page), store.pages[page as usize].vpn, SMALL);
        }
        if let Some(os) = &self.os {
            return os.held(store, page);
        }
        let unit_id = store.pages[page as usize].unit;
        let unit = &store.units[unit_id as usize];
        if self.in_pieces {
            (EntryId::Page(page), store.pages[page as usize].vpn, SMALL)
        } else if unit.huge & self.mask() != 0 {
            (EntryId::Unit(unit_id), unit.number, HUGE)
        } else if store.block_designs & self.mask() != 0 {
            (EntryId::Block(unit.block), unit.number, HUGE)
        } else {
            (EntryId::Page(page), store.pages[page as usize].vpn, SMALL)
        }
    }

    /// Drops the translations of pages, or of the huge pages around them, from all TLBs.
    pub fn invalidate(&mut self, store: &mut PageStore, pages: &[u32]) {
        let mut in_pieces = FxHashSet::default();
        for &page in pages {
            if self.in_pieces && self.page_size(store, page) == HUGE {
                // By block where the policy decides by block, else by unit.
                let Page { vpn, unit, .. } = store.pages[page as usize];
                let by_block = store.block_designs & self.mask() != 0;
                if in_pieces.insert(if by_block { store.units[unit as usize].block } else { unit }) {
                    let order = store.paging.huge_order();
                    let start = vpn >> order << order;
                    for piece in store.pages_in(start..start + (1 << order)) {
                        if by_block || store.pages[piece as usize].unit == unit {
                            self.invalidate_entry(store, piece);
                        }
                    }
                }
            } else {
                self.invalidate_entry(store, page);
            }
        }
    }

    fn invalidate_entry(&mut self, store: &mut PageStore, page: u32) {
        let (held, number, size) = self.mapped(store, page);
        self.drop_entry(store, held, number, size);
    }

    /// Drops a translation from all TLBs.
    pub(crate) fn drop_entry(&mut self, store: &mut PageStore, held: EntryId, number: u64, size: usize) {
        let asid = store.asid_of(held);
        let mut arrays: Vec<usize> = self.array.iter().filter_map(|sizes| sizes[size]).collect();
        arrays.dedup();
        for array in arrays {
            self.first[array].remove(store, self.bit, held, number);
        }
        self.lower.invalidate(asid, number, self.sizes[size]);
        self.walker.invalidate_page(asid, number, self.sizes[size]);
        for prefetcher in &mut self.prefetchers {
            prefetcher.invalidate(asid, number, self.sizes[size]);
        }
        if let Some(reach) = &mut self.reach {
            reach.invalidate(held, number);
        }
        self.siblings.invalidate(held, asid, number, self.sizes[size]);
    }

    /// A copy of this design as design `bit` under another policy, with the same TLB contents.
    pub fn fork(&self, store: &mut PageStore, bit: usize, policy: Arc<dyn PageSizePolicy>) -> Design {
        let copy = Design { bit, reach: None, siblings: Siblings::default(), policy, ..self.clone() };
        for array in &copy.first {
            array.mark_residency(store, bit);
        }
        for unit in &mut store.units {
            for mask in [&mut unit.huge, &mut unit.kernels, &mut unit.small] {
                *mask |= (*mask >> self.bit & 1) << bit;
            }
        }
        store.huge_refs.push(store.huge_refs[self.bit]);
        copy
    }

    /// Moves all of `mapping` to huge pages.
    pub fn make_huge(&mut self, store: &mut PageStore, mapping: MappingId) {
        for page in store.live() {
            if store.pages[page as usize].mapping == mapping {
                self.invalidate(store, &[page]);
            }
        }
        for id in 0..store.units.len() {
            if store.units[id].pages == 0 || store.units[id].mapping != mapping {
                continue;
            }
            store.settle_unit(id as u32);
            let unit = &mut store.units[id];
            unit.huge |= self.mask();
            unit.small &= !self.mask();
        }
    }

    /// Whether its policy decides by unit. A simulated kernel maps all pages itself, hugetlb's too.
    pub fn decides(&self) -> bool {
        self.os.is_none() && self.policy.scope() == Scope::Mapping
    }
}

/// Designs for which two pages lie in the same huge page.
pub(crate) fn share_huge(store: &PageStore, a: u32, b: u32) -> u64 {
    let unit = |page: u32| store.pages[page as usize].unit;
    let block = |page: u32| store.units[unit(page) as usize].block;
    let by_unit = if unit(a) == unit(b) { store.units[unit(a) as usize].huge } else { 0 };
    let by_block = if block(a) == block(b) { store.block_designs } else { 0 };
    by_unit | by_block
}

/// The size of a leaf under a kernel: for sizes between the two that tables have, each base page repeats the entry.
fn leaf_size(store: &PageStore, size: usize) -> usize {
    let huge = store.paging.huge_order() as usize;
    if size >= huge { huge } else { SMALL }
}
