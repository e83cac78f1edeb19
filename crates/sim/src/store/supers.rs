//! Superpages that kernels of designs have built.
//!
//! Designs whose kernels have built the same superpage share its record. The superpages around a page form a chain from
//! the smallest up: the page refers to the first, each to the next. Designs without a kernel pay nothing.

use crate::bits::bits;
use crate::classes::CLASSES;
use crate::store::PageStore;
use crate::store::entry::EntryId;
use crate::store::front::SLOTS;
use pagewalk_mm::Superpage;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The end of a chain.
pub(crate) const NONE: u32 = u32::MAX;

/// A superpage that some design maps.
#[derive(Clone, Debug)]
pub(crate) struct KnownSuperpage {
    pub block: Superpage,
    /// The next larger superpage around it.
    next: u32,
    /// Designs that map it.
    users: u64,
    /// Designs whose first level holds it, by class.
    pub resident: [u64; CLASSES],
    /// Time of the last reference of each class, without pages in the front.
    stamps: [u64; CLASSES],
    /// References by class since it was added, without those that the front holds.
    pub references: [u64; CLASSES],
    /// Front slots that hold pages of it, by class: a bit per slot.
    slots: [[u64; SLOTS / 64]; CLASSES],
}

/// All superpages, and the head of each page's chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownSuperpages {
    all: Vec<KnownSuperpage>,
    free: Vec<u32>,
    ids: FxHashMap<Superpage, u32>,
    /// The superpages by address.
    sorted: BTreeSet<Superpage>,
    /// Heads of chains by page. Unused until the first superpage.
    heads: Vec<u32>,
}

impl KnownSuperpages {
    pub fn get(&self, id: u32) -> &KnownSuperpage {
        &self.all[id as usize]
    }

    pub fn get_mut(&mut self, id: u32) -> &mut KnownSuperpage {
        &mut self.all[id as usize]
    }

    /// Whether no page is in a superpage.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The superpages around a page, from the smallest up.
    pub fn around(&self, page: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.heads.get(page as usize).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let id = at;
            at = self.all.get(id as usize)?.next;
            Some(id)
        })
    }

    /// Calls `each` with the superpages around a page.
    fn each_around(&mut self, page: u32, mut each: impl FnMut(&mut KnownSuperpage)) {
        let mut at = self.heads.get(page as usize).copied().unwrap_or(NONE);
        while let Some(of) = self.all.get_mut(at as usize) {
            each(of);
            at = of.next;
        }
    }

    /// Designs whose first level holds a superpage around the page.
    pub fn resident(&self, page: u32, class: usize) -> u64 {
        self.around(page).fold(0, |set, id| set | self.get(id).resident[class])
    }

    /// Designs that map both pages in one superpage.
    pub fn shared(&self, a: u32, b: u32) -> u64 {
        let around_b: Vec<u32> = self.around(b).collect();
        let both = self.around(a).filter(|id| around_b.contains(id));
        both.fold(0, |set, id| set | self.get(id).users)
    }

    /// Designs that map the page in some superpage.
    pub fn users(&self, page: u32) -> u64 {
        self.around(page).fold(0, |set, id| set | self.get(id).users)
    }

    /// The superpage, if some design maps it.
    pub fn find(&self, block: Superpage) -> Option<u32> {
        self.ids.get(&block).copied()
    }

    /// Sets the time of the superpages around a page to `now`.
    pub fn stamp(&mut self, page: u32, class: usize, now: u64) {
        self.each_around(page, |of| of.stamps[class] = of.stamps[class].max(now));
    }

    /// Counts `n` references.
    pub fn credit(&mut self, page: u32, class: usize, n: u64) {
        self.each_around(page, |of| of.references[class] = of.references[class].wrapping_add(n));
    }

    /// Takes a reference back.
    pub fn take_back(&mut self, page: u32, class: usize) {
        self.each_around(page, |of| of.references[class] = of.references[class].wrapping_sub(1));
    }

    /// Records whether a front slot holds a page of the superpages around it.
    pub fn note_slot(&mut self, page: u32, class: usize, slot: usize, holds: bool) {
        self.each_around(page, |of| {
            let word = &mut of.slots[class][slot / 64];
            *word = *word & !(1 << (slot % 64)) | u64::from(holds) << (slot % 64);
        });
    }

    /// The slots of the front that hold pages of it, word by word.
    pub fn slots(&self, id: u32, class: usize) -> &[u64; SLOTS / 64] {
        &self.get(id).slots[class]
    }

    /// Time of the last reference, without the front's.
    pub fn stamp_of(&self, id: u32, class: usize) -> u64 {
        self.get(id).stamps[class]
    }

    /// Sets up the chain of a new page.
    pub fn add_page(&mut self, page: u32, vpn: u64) {
        if self.is_empty() {
            return;
        }
        let around = Superpage::around(vpn, 0).ancestors(pagewalk_mm::ORDERS as u8 - 1);
        let first = around.filter_map(|block| self.find(block)).next();
        self.set_head(page, first.unwrap_or(NONE));
    }

    fn set_head(&mut self, page: u32, id: u32) {
        if self.heads.len() <= page as usize {
            self.heads.resize(page as usize + 1, NONE);
        }
        self.heads[page as usize] = id;
    }

    /// The smaller superpages inside a block, touched or not.
    fn inside(&self, block: Superpage) -> Vec<u32> {
        let end = Superpage { first: block.pages().end, order: 0 };
        let within = self.sorted.range(Superpage { first: block.first, order: 0 }..end);
        within.filter(|inside| inside.order < block.order).map(|inside| self.ids[inside]).collect()
    }

    fn head(&self, page: u32) -> u32 {
        self.heads.get(page as usize).copied().unwrap_or(NONE)
    }
}

impl PageStore {
    /// `design` maps a superpage from now on. Its arrays hold no page of it, so neither does the front.
    pub fn add_super(&mut self, block: Superpage, design: usize) -> u32 {
        if let Some(id) = self.supers.find(block) {
            self.supers.get_mut(id).users |= 1 << design;
            return id;
        }
        let larger = block.ancestors(pagewalk_mm::ORDERS as u8 - 1);
        let next = larger.filter_map(|around| self.supers.find(around)).next().unwrap_or(NONE);
        let of = KnownSuperpage {
            block,
            next,
            users: 1 << design,
            resident: [0; CLASSES],
            stamps: [0; CLASSES],
            references: [0; CLASSES],
            slots: [[0; SLOTS / 64]; CLASSES],
        };
        let id = match self.supers.free.pop() {
            Some(id) => {
                self.supers.all[id as usize] = of;
                id
            }
            None => {
                assert!(self.supers.all.len() < 1 << 30, "more than 2^30 superpages at one time");
                self.supers.all.push(of);
                self.supers.all.len() as u32 - 1
            }
        };
        self.supers.ids.insert(block, id);
        self.supers.sorted.insert(block);
        for inside in self.supers.inside(block) {
            let after = self.supers.get(inside).next;
            if after == NONE || self.supers.get(after).block.order > block.order {
                self.supers.get_mut(inside).next = id;
            }
        }
        for page in self.pages_in(block.pages()) {
            let head = self.supers.head(page);
            if head == NONE || self.supers.get(head).block.order > block.order {
                self.supers.set_head(page, id);
            }
            let stamps = self.pages[page as usize].stamps;
            for (of, stamp) in self.supers.get_mut(id).stamps.iter_mut().zip(stamps) {
                *of = stamp.max(*of);
            }
        }
        // The first superpage: chains are in use from now on.
        if self.supers.is_empty() {
            self.supers.heads.push(NONE);
        }
        id
    }

    /// `design` no longer maps a superpage, and none of its arrays holds it.
    pub fn drop_super(&mut self, block: Superpage, design: usize) {
        let Some(id) = self.supers.find(block) else { return };
        let of = self.supers.get_mut(id);
        of.users &= !(1 << design);
        if of.users != 0 {
            return;
        }
        debug_assert_eq!(of.resident, [0; CLASSES]);
        let next = of.next;
        for page in self.pages_in(block.pages()) {
            if self.supers.head(page) == id {
                self.supers.set_head(page, next);
            }
        }
        for inside in self.supers.inside(block) {
            if self.supers.get(inside).next == id {
                self.supers.get_mut(inside).next = next;
            }
        }
        self.supers.sorted.remove(&block);
        self.supers.ids.remove(&block);
        self.supers.free.push(id);
    }

    /// Takes all pages of a superpage out of the front.
    pub fn front_remove_super(&mut self, class: usize, id: u32) {
        for word in 0..SLOTS / 64 {
            for bit in bits(self.supers.slots(id, class)[word]) {
                self.front_clear_slot(class, word * 64 + bit);
            }
        }
    }

    /// Time of the last reference of `class` to a superpage.
    pub fn super_stamp(&self, id: u32, class: usize) -> u64 {
        let slots = self.supers.slots(id, class).iter().enumerate();
        let in_front = slots.flat_map(|(word, &slots)| bits(slots).map(move |bit| word * 64 + bit));
        in_front.fold(self.supers.stamp_of(id, class), |last, slot| last.max(self.front_stamp(class, slot)))
    }

    /// The superpage of this size around a page, as an array's entry.
    pub fn super_at(&self, block: Superpage) -> Option<EntryId> {
        self.supers.find(block).map(EntryId::Super)
    }
}
