//! A first-level TLB array, as a list of entries per set.
//!
//! Pages know which designs hold them (see [`crate::store`]), so the array only makes room, and hears of hits only if
//! its replacement policy needs them.

use crate::bits::bits;
use crate::classes::CLASSES;
use crate::design::recency::{Recency, TREE_WAYS_MAX};
use crate::sizes::{HUGE, SIZES, SMALL};
use crate::store::PageStore;
use crate::store::entry::{EntryId, PackedEntry};
use pagewalk_setassoc::{Entry, RelevantHits, SetIndex, TlbArray, UseOrder};
use pagewalk_translate::{Refill, RefillRequest, SoftwareMmu, SoftwareSpec, TlbSpec};
use pagewalk_units::PageSize;

/// One first-level array of one design.
#[derive(Clone, Debug)]
pub(crate) struct FirstLevel {
    /// Index of the array in its machine.
    pub index: usize,
    /// Classes of references that it serves, one bit each.
    classes: u64,
    /// log2 of page sizes by their index.
    shifts: [u32; SIZES],
    entries: Entries,
    /// Whether hits change later evictions other than through the pages' times.
    minds_hits: bool,
}

#[derive(Clone, Debug)]
enum Entries {
    /// Replacement by the times that pages carry.
    Timed(Recency),
    /// Replacement by a policy with state of its own. Keys are [`PackedEntry`] words.
    Other(TlbArray),
    /// Refills by handlers that may miss themselves. Keys are [`PackedEntry`] words.
    Software(Box<SoftwareMmu>),
}

impl FirstLevel {
    /// An empty array. `software` refills it if page tables are mapped; `sizes`: page sizes by index.
    pub fn new(
        index: usize,
        spec: &TlbSpec,
        software: Option<&SoftwareSpec>,
        classes: [bool; CLASSES],
        sizes: &[PageSize; SIZES],
    ) -> FirstLevel {
        let timed = |how, index| Entries::Timed(Recency::new(spec.geometry, index, classes, how));
        let (entries, minds_hits) = match (software, spec.relevant_hits(), spec.index.sets()) {
            (Some(software), ..) => (Entries::Software(Box::new(SoftwareMmu::new(software))), false),
            (None, RelevantHits::Nothing, _) => (Entries::Other(spec.array()), false),
            (None, RelevantHits::LastUse(how), Some(index))
                if how == UseOrder::Oldest || spec.geometry.ways() <= TREE_WAYS_MAX =>
            {
                (timed(how, index), false)
            }
            (None, RelevantHits::LastUse(_) | RelevantHits::Changes, _) => {
                (Entries::Other(spec.array()), true)
            }
            (None, RelevantHits::Each, _) => unreachable!(
                "{} depends on repeated hits, which a first level does not see: refused when the machine was read",
                spec.replacement.name()
            ),
        };
        let classes = (0..CLASSES).fold(0, |all, class| all | u64::from(classes[class]) << class);
        FirstLevel { index, classes, shifts: sizes.map(PageSize::shift), entries, minds_hits }
    }

    /// The number of sets by which to filter repeated hits; `None` if the array needs no hits.
    pub fn sets_to_mind(&self) -> Option<usize> {
        match &self.entries {
            Entries::Other(array) if self.minds_hits => {
                let sets = array.as_sets().filter(|array| array.index() == SetIndex::Modulo);
                Some(sets.map_or(1, |array| array.geometry().sets()))
            }
            _ => None,
        }
    }

    /// Whether hits never change later evictions.
    pub fn passes_over_hits(&self) -> bool {
        !matches!(self.entries, Entries::Timed(_)) && !self.minds_hits
    }

    /// The software-managed TLB, if page tables are mapped.
    pub fn software(&mut self) -> Option<&mut SoftwareMmu> {
        if let Entries::Software(mmu) = &mut self.entries { Some(mmu) } else { None }
    }

    /// [`FirstLevel::software`] for reading.
    pub fn as_software(&self) -> Option<&SoftwareMmu> {
        if let Entries::Software(mmu) = &self.entries { Some(mmu) } else { None }
    }

    /// Refills after a miss if page tables are mapped; `None` if they are not.
    pub fn refill(
        &mut self,
        store: &mut PageStore,
        design: usize,
        page: u32,
        instructions: u64,
    ) -> Option<Refill> {
        let mmu = self.software()?;
        let held = EntryId::Page(page);
        let number = store.pages[page as usize].vpn;
        let wanted = RefillRequest {
            key: PackedEntry::new(held).key(),
            asid: store.asid_at(number),
            number,
            base: number,
            kernel: store.address(number).is_kernel(),
        };
        let refill = mmu.refill(wanted, instructions);
        for class in self.served() {
            *residency(store, held, class) |= 1 << design;
        }
        for key in refill.evicted() {
            self.clear_residency(store, design, PackedEntry::from_key(key).get());
        }
        Some(refill)
    }

    #[inline(always)]
    fn served(&self) -> impl Iterator<Item = usize> + use<> {
        bits(self.classes)
    }

    /// Puts `held`, page `number` of its size, in place of the replacement's victim, which is returned.
    pub fn fill(
        &mut self,
        store: &mut PageStore,
        design: usize,
        held: EntryId,
        number: u64,
    ) -> Option<EntryId> {
        let entry = || entry(&self.shifts, store, held, number);
        let victim = match &mut self.entries {
            Entries::Timed(recency) => recency.fill(store, PackedEntry::new(held), number),
            Entries::Other(array) => array.insert(entry()).map(PackedEntry::from_key),
            Entries::Software(_) => unreachable!("see `refill`"),
        };
        let victim = victim.map(PackedEntry::get);
        if let Some(victim) = victim {
            self.clear_residency(store, design, victim);
        }
        for class in self.served() {
            *residency(store, held, class) |= 1 << design;
        }
        victim
    }

    /// [`FirstLevel::fill`] for arrays of small pages alone.
    #[inline]
    pub fn fill_page(&mut self, store: &mut PageStore, design: usize, page: u32, number: u64) {
        let Entries::Timed(recency) = &mut self.entries else {
            self.fill(store, design, EntryId::Page(page), number);
            return;
        };
        let victim =
            recency.fill(store, PackedEntry::new(EntryId::Page(page)), number).and_then(PackedEntry::page);
        for class in self.served() {
            if let Some(victim) = victim {
                store.pages[victim as usize].resident[class] &= !(1 << design);
                store.front_remove_page(class, victim);
            }
            store.pages[page as usize].resident[class] |= 1 << design;
        }
    }

    /// Records a hit, if the replacement needs it.
    pub fn hit(&mut self, store: &PageStore, held: EntryId, number: u64) {
        if let (Entries::Other(array), true) = (&mut self.entries, self.minds_hits) {
            let found = array.touch(entry(&self.shifts, store, held, number));
            debug_assert!(found);
        }
    }

    /// Drops `held` if it is here.
    pub fn remove(&mut self, store: &mut PageStore, design: usize, held: EntryId, number: u64) {
        let was_here = match &mut self.entries {
            Entries::Timed(recency) => recency.remove(PackedEntry::new(held), number),
            Entries::Other(array) => array.remove(entry(&self.shifts, store, held, number)),
            Entries::Software(mmu) => mmu.remove(PackedEntry::new(held).key()),
        };
        if was_here {
            self.clear_residency(store, design, held);
        }
    }

    /// Marks all entries as resident in `design`, a copy of this design.
    pub fn mark_residency(&self, store: &mut PageStore, design: usize) {
        for held in self.held() {
            for class in self.served() {
                *residency(store, held, class) |= 1 << design;
            }
        }
    }

    /// All entries, set by set.
    pub fn held(&self) -> Vec<EntryId> {
        match &self.entries {
            Entries::Timed(recency) => recency.held().map(PackedEntry::get).collect(),
            Entries::Other(array) => {
                array.keys().into_iter().map(|key| PackedEntry::from_key(key).get()).collect()
            }
            Entries::Software(mmu) => mmu.pages().map(|key| PackedEntry::from_key(key).get()).collect(),
        }
    }

    fn clear_residency(&self, store: &mut PageStore, design: usize, held: EntryId) {
        for class in self.served() {
            *residency(store, held, class) &= !(1 << design);
            match held {
                EntryId::Page(id) => store.front_remove_page(class, id),
                EntryId::Unit(id) => store.front_remove_unit(class, id),
                EntryId::Block(id) => {
                    for at in 0..store.blocks[id as usize].units.len() {
                        let unit = store.blocks[id as usize].units[at];
                        store.front_remove_unit(class, unit);
                    }
                }
                EntryId::Super(id) => store.front_remove_super(class, id),
            }
        }
    }
}

/// `held` as an entry of `TlbArray`; `shifts`: log2 of page sizes by index.
#[inline]
fn entry(shifts: &[u32; SIZES], store: &PageStore, held: EntryId, number: u64) -> Entry {
    let size = match held {
        EntryId::Page(_) => SMALL,
        EntryId::Unit(_) | EntryId::Block(_) => HUGE,
        EntryId::Super(id) => store.supers.get(id).block.order.into(),
    };
    Entry { shift: shifts[size], number, key: PackedEntry::new(held).key() }
}

/// Designs whose first level holds `held` for references of `class`.
pub(crate) fn resident(store: &PageStore, held: EntryId, class: usize) -> u64 {
    match held {
        EntryId::Page(id) => store.pages[id as usize].resident[class],
        EntryId::Unit(id) => store.units[id as usize].resident[class],
        EntryId::Block(id) => store.blocks[id as usize].resident[class],
        EntryId::Super(id) => store.supers.get(id).resident[class],
    }
}

#[inline(always)]
fn residency(store: &mut PageStore, held: EntryId, class: usize) -> &mut u64 {
    match held {
        EntryId::Page(id) => &mut store.pages[id as usize].resident[class],
        EntryId::Unit(id) => &mut store.units[id as usize].resident[class],
        EntryId::Block(id) => &mut store.blocks[id as usize].resident[class],
        EntryId::Super(id) => &mut store.supers.get_mut(id).resident[class],
    }
}
