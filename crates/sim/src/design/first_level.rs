//! A first-level TLB array, as the list of what each set holds.
//!
//! Hits are found from the pages' side (see [`crate::store`]), so this is asked to make room, and told of references
//! only where its replacement remembers them.

use crate::bits::bits;
use crate::classes::CLASSES;
use crate::design::recency::{Recency, TREE_WAYS_MAX};
use crate::sizes::{HUGE, SIZES, SMALL};
use crate::store::PageStore;
use crate::store::entry::{Held, Packed};
use pagewalk_setassoc::{Entry, Heeds, LastUse, SetIndex, TlbArray};
use pagewalk_translate::{Refill, SoftwareMmu, SoftwareSpec, TlbSpec, Wanted};
use pagewalk_units::PageSize;

/// One first-level array of one design.
#[derive(Clone, Debug)]
pub(crate) struct FirstLevel {
    /// Index of the array in its machine.
    pub index: usize,
    /// Classes of the references it serves: a bit each.
    classes: u64,
    /// log2 of page sizes by their index.
    shifts: [u32; SIZES],
    entries: Entries,
    /// Whether references that hit change what leaves later, other than through the pages' times.
    minds_hits: bool,
}

#[derive(Clone, Debug)]
enum Entries {
    /// Replaced by the times that pages carry.
    Timed(Recency),
    /// Replaced by a policy of their own. Keys are [`Packed`] words.
    Other(TlbArray),
    /// Refilled by handlers whose own misses take part. Keys are [`Packed`] words.
    Software(Box<SoftwareMmu>),
}

impl FirstLevel {
    /// An empty array; `software`: what refills it, where its tables are mapped; `sizes`: those of pages by index.
    pub fn new(
        index: usize,
        spec: &TlbSpec,
        software: Option<&SoftwareSpec>,
        classes: [bool; CLASSES],
        sizes: &[PageSize; SIZES],
    ) -> FirstLevel {
        let timed = |how, index| Entries::Timed(Recency::new(spec.geometry, index, classes, how));
        let (entries, minds_hits) = match (software, spec.heeds(), spec.index.sets()) {
            (Some(software), ..) => (Entries::Software(Box::new(SoftwareMmu::new(software))), false),
            (None, Heeds::Nothing, _) => (Entries::Other(spec.array()), false),
            (None, Heeds::LastUse(how), Some(index))
                if how == LastUse::Oldest || spec.geometry.ways() <= TREE_WAYS_MAX =>
            {
                (timed(how, index), false)
            }
            (None, Heeds::LastUse(_) | Heeds::Changes, _) => (Entries::Other(spec.array()), true),
            (None, Heeds::Each, _) => unreachable!(
                "{} heeds repetitions, which a first level is not told of: refused when the machine was read",
                spec.replacement.name()
            ),
        };
        let classes = (0..CLASSES).fold(0, |all, class| all | u64::from(classes[class]) << class);
        FirstLevel { index, classes, shifts: sizes.map(PageSize::shift), entries, minds_hits }
    }

    /// Page numbers that differ in the low bits of so many sets never meet in one set; `None`: hits need not be told.
    pub fn sets_to_mind(&self) -> Option<usize> {
        match &self.entries {
            Entries::Other(array) if self.minds_hits => {
                let sets = array.as_sets().filter(|array| array.index() == SetIndex::Modulo);
                Some(sets.map_or(1, |array| array.geometry().sets()))
            }
            _ => None,
        }
    }

    /// Whether references that hit change nothing of what leaves later.
    pub fn passes_over_hits(&self) -> bool {
        !matches!(self.entries, Entries::Timed(_)) && !self.minds_hits
    }

    /// What refills it, where its tables are mapped.
    pub fn software(&mut self) -> Option<&mut SoftwareMmu> {
        if let Entries::Software(mmu) = &mut self.entries { Some(mmu) } else { None }
    }

    /// The same, to look at.
    pub fn as_software(&self) -> Option<&SoftwareMmu> {
        if let Entries::Software(mmu) = &self.entries { Some(mmu) } else { None }
    }

    /// Serves the miss of a page where tables are mapped; `None` where they are not.
    pub fn refill(
        &mut self,
        store: &mut PageStore,
        design: usize,
        page: u32,
        instructions: u64,
    ) -> Option<Refill> {
        let mmu = self.software()?;
        let held = Held::Page(page);
        let number = store.pages[page as usize].vpn;
        let wanted = Wanted {
            key: Packed::new(held).key(),
            asid: store.asid_of(held),
            number,
            base: number,
            kernel: store.address(number).is_kernel(),
        };
        let refill = mmu.refill(wanted, instructions);
        for class in self.served() {
            *residency(store, held, class) |= 1 << design;
        }
        for key in refill.evicted() {
            self.clear_residency(store, design, Packed::from_key(key).get());
        }
        Some(refill)
    }

    #[inline(always)]
    fn served(&self) -> impl Iterator<Item = usize> + use<> {
        bits(self.classes)
    }

    /// Puts `held`, whose page number at its size is `number`, in the place of what its replacement chooses, which is
    /// returned.
    pub fn fill(&mut self, store: &mut PageStore, design: usize, held: Held, number: u64) -> Option<Held> {
        let entry = || entry(&self.shifts, store, held, number);
        let victim = match &mut self.entries {
            Entries::Timed(recency) => recency.fill(store, Packed::new(held), number),
            Entries::Other(array) => array.insert(entry()).map(Packed::from_key),
            Entries::Software(_) => unreachable!("see `refill`"),
        };
        let victim = victim.map(Packed::get);
        if let Some(victim) = victim {
            self.clear_residency(store, design, victim);
        }
        for class in self.served() {
            *residency(store, held, class) |= 1 << design;
        }
        victim
    }

    /// [`FirstLevel::fill`] where nothing but small pages is held.
    #[inline]
    pub fn fill_page(&mut self, store: &mut PageStore, design: usize, page: u32, number: u64) {
        let Entries::Timed(recency) = &mut self.entries else {
            self.fill(store, design, Held::Page(page), number);
            return;
        };
        let victim = recency.fill(store, Packed::new(Held::Page(page)), number).and_then(Packed::page);
        for class in self.served() {
            if let Some(victim) = victim {
                store.pages[victim as usize].resident[class] &= !(1 << design);
                store.front_remove_page(class, victim);
            }
            store.pages[page as usize].resident[class] |= 1 << design;
        }
    }

    /// Tells of a reference to what is held, where that matters.
    pub fn hit(&mut self, store: &PageStore, held: Held, number: u64) {
        if let (Entries::Other(array), true) = (&mut self.entries, self.minds_hits) {
            let found = array.touch(entry(&self.shifts, store, held, number));
            debug_assert!(found);
        }
    }

    /// Drops `held` if it is here.
    pub fn remove(&mut self, store: &mut PageStore, design: usize, held: Held, number: u64) {
        let was_here = match &mut self.entries {
            Entries::Timed(recency) => recency.remove(Packed::new(held), number),
            Entries::Other(array) => array.remove(entry(&self.shifts, store, held, number)),
            Entries::Software(mmu) => mmu.remove(Packed::new(held).key()),
        };
        if was_here {
            self.clear_residency(store, design, held);
        }
    }

    /// Says that another design, a copy of this one, holds the same.
    pub fn mark_residency(&self, store: &mut PageStore, design: usize) {
        for held in self.held() {
            for class in self.served() {
                *residency(store, held, class) |= 1 << design;
            }
        }
    }

    /// Everything held, set by set.
    pub fn held(&self) -> Vec<Held> {
        match &self.entries {
            Entries::Timed(recency) => recency.held().map(Packed::get).collect(),
            Entries::Other(array) => {
                array.keys().into_iter().map(|key| Packed::from_key(key).get()).collect()
            }
            Entries::Software(mmu) => mmu.pages().map(|key| Packed::from_key(key).get()).collect(),
        }
    }

    fn clear_residency(&self, store: &mut PageStore, design: usize, held: Held) {
        for class in self.served() {
            *residency(store, held, class) &= !(1 << design);
            match held {
                Held::Page(id) => store.front_remove_page(class, id),
                Held::Unit(id) => store.front_remove_unit(class, id),
                Held::Block(id) => {
                    for at in 0..store.blocks[id as usize].units.len() {
                        let unit = store.blocks[id as usize].units[at];
                        store.front_remove_unit(class, unit);
                    }
                }
                Held::Super(id) => store.front_remove_super(class, id),
            }
        }
    }
}

/// As an array with places of its own knows it; `shifts`: log2 of page sizes by their index.
#[inline]
fn entry(shifts: &[u32; SIZES], store: &PageStore, held: Held, number: u64) -> Entry {
    let size = match held {
        Held::Page(_) => SMALL,
        Held::Unit(_) | Held::Block(_) => HUGE,
        Held::Super(id) => store.supers.get(id).block.order.into(),
    };
    Entry { shift: shifts[size], number, key: Packed::new(held).key() }
}

/// Designs whose first level holds it for references of `class`.
pub(crate) fn resident(store: &PageStore, held: Held, class: usize) -> u64 {
    match held {
        Held::Page(id) => store.pages[id as usize].resident[class],
        Held::Unit(id) => store.units[id as usize].resident[class],
        Held::Block(id) => store.blocks[id as usize].resident[class],
        Held::Super(id) => store.supers.get(id).resident[class],
    }
}

#[inline(always)]
fn residency(store: &mut PageStore, held: Held, class: usize) -> &mut u64 {
    match held {
        Held::Page(id) => &mut store.pages[id as usize].resident[class],
        Held::Unit(id) => &mut store.units[id as usize].resident[class],
        Held::Block(id) => &mut store.blocks[id as usize].resident[class],
        Held::Super(id) => &mut store.supers.get_mut(id).resident[class],
    }
}
