//! A first-level TLB array, as the list of what each set holds.
//!
//! Hits are found from the pages' side (see [`crate::store`]), so this is only asked to make room: the
//! entry least recently referenced by the kinds it serves leaves the set.

use crate::store::{CLASSES, PageStore};
use pagewalk_setassoc::Geometry;
use pagewalk_translate::TlbSpec;

/// What an array can hold: a small page, a unit, or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Page(u32),
    Unit(u32),
    Block(u32),
}

/// [`Held`] in 32 bits: the kind in the two top bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packed(u32);

impl Packed {
    const EMPTY: Packed = Packed(u32::MAX);

    fn new(held: Held) -> Packed {
        match held {
            Held::Page(id) => Packed(id),
            Held::Unit(id) => Packed(1 << 30 | id),
            Held::Block(id) => Packed(2 << 30 | id),
        }
    }

    fn get(self) -> Held {
        let id = self.0 & !(3 << 30);
        match self.0 >> 30 {
            0 => Held::Page(id),
            1 => Held::Unit(id),
            _ => Held::Block(id),
        }
    }
}

/// One first-level array of one design.
#[derive(Clone, Debug)]
pub(crate) struct FirstLevel {
    /// Index of the array in its machine.
    pub index: usize,
    geometry: Geometry,
    /// Classes of the references it serves.
    classes: [bool; CLASSES],
    /// The class, where it is one.
    only_class: Option<usize>,
    slots: Vec<Packed>,
}

impl FirstLevel {
    pub fn new(index: usize, spec: &TlbSpec, classes: [bool; CLASSES]) -> FirstLevel {
        let slots = vec![Packed::EMPTY; spec.geometry.entries()];
        let mut served = (0..CLASSES).filter(|&class| classes[class]);
        let only_class = served.next().filter(|_| served.next().is_none());
        FirstLevel { index, geometry: spec.geometry, classes, only_class, slots }
    }

    fn served(&self) -> impl Iterator<Item = usize> + use<> {
        let classes = self.classes;
        (0..CLASSES).filter(move |&class| classes[class])
    }

    /// Puts `held`, whose page number at its size is `number`, in the place of the oldest entry.
    pub fn fill(&mut self, store: &mut PageStore, design: usize, held: Held, number: u64) {
        let oldest = self.oldest(store, self.ways_of(number));
        let victim = std::mem::replace(&mut self.slots[oldest], Packed::new(held));
        if victim != Packed::EMPTY {
            self.clear_residency(store, design, victim.get());
        }
        for class in self.served() {
            *residency(store, held, class) |= 1 << design;
        }
    }

    /// Drops `held` if it is here.
    pub fn remove(&mut self, store: &mut PageStore, design: usize, held: Held, number: u64) {
        let packed = Packed::new(held);
        if let Some(way) = self.ways_of(number).find(|&way| self.slots[way] == packed) {
            self.slots[way] = Packed::EMPTY;
            self.clear_residency(store, design, held);
        }
    }

    /// Everything held.
    pub fn held(&self) -> impl Iterator<Item = Held> + '_ {
        self.slots.iter().filter(|&&slot| slot != Packed::EMPTY).map(|slot| slot.get())
    }

    /// Says that another design, a copy of this one, holds the same.
    pub fn mark_residency(&self, store: &mut PageStore, design: usize) {
        for held in self.held() {
            for class in self.served() {
                *residency(store, held, class) |= 1 << design;
            }
        }
    }

    fn ways_of(&self, number: u64) -> std::ops::Range<usize> {
        let first = self.geometry.set_of(number) * self.geometry.ways();
        first..first + self.geometry.ways()
    }

    fn oldest(&self, store: &PageStore, ways: std::ops::Range<usize>) -> usize {
        let mut oldest = (u64::MAX, ways.start);
        for (way, &slot) in ways.clone().zip(&self.slots[ways]) {
            let age = match (slot.0, self.only_class) {
                (id, Some(class)) if id < 1 << 30 => store.pages[id as usize].stamps[class],
                _ if slot.0 >= 1 << 30 && self.age_at_least(store, slot) >= oldest.0 => continue,
                _ => self.age(store, slot),
            };
            if age < oldest.0 {
                oldest = (age, way);
            }
        }
        oldest.1
    }

    /// A lower bound of a huge page's age that is cheap to have: what the front has not told yet is younger.
    fn age_at_least(&self, store: &PageStore, slot: Packed) -> u64 {
        let stamp = |class: usize| match slot.get() {
            _ if slot == Packed::EMPTY => 0,
            Held::Page(id) => store.pages[id as usize].stamps[class],
            Held::Unit(id) => store.unit_stamps[class][id as usize],
            Held::Block(id) => {
                let units = store.blocks[id as usize].units.iter();
                units.map(|&unit| store.unit_stamps[class][unit as usize]).max().unwrap_or(0)
            }
        };
        self.served().map(stamp).max().unwrap_or(0)
    }

    /// Time of the last reference that touched the entry here; empty ways are oldest.
    #[inline(always)]
    fn age(&self, store: &PageStore, slot: Packed) -> u64 {
        if slot.0 < 1 << 30 {
            let stamp = |class: usize| {
                if self.classes[class] { store.pages[slot.0 as usize].stamps[class] } else { 0 }
            };
            return stamp(0).max(stamp(1)).max(stamp(2));
        }
        if slot == Packed::EMPTY {
            return 0;
        }
        let stamp = |class: usize| match slot.get() {
            Held::Page(id) => store.pages[id as usize].stamps[class],
            Held::Unit(id) => store.unit_stamp(id, class),
            Held::Block(id) => store.block_stamp(id, class),
        };
        self.served().map(stamp).max().unwrap_or(0)
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
            }
        }
    }
}

fn residency(store: &mut PageStore, held: Held, class: usize) -> &mut u64 {
    match held {
        Held::Page(id) => &mut store.pages[id as usize].resident[class],
        Held::Unit(id) => &mut store.units[id as usize].resident[class],
        Held::Block(id) => &mut store.blocks[id as usize].resident[class],
    }
}
