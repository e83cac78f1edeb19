//! Pages, units and blocks, with the state that all designs share.
//!
//! - A *page* is one touched base page of the pass's paging format: 4 KiB on x86-64. `vpn` is its number.
//! - A *unit* is the part of one named mapping inside one block: the scope of a huge page under a policy that decides
//!   by mapping.
//! - A *block* is as large as a huge page, 2 MiB on x86-64, and aligned to its size: the scope of a huge page under a
//!   policy that ignores mappings.
//!
//! Residency bits: bit d of `resident[class]` says that design d's first-level array for the class holds the item.
//! Pages carry bits of designs that map them as base pages, units and blocks those of designs that map them as huge
//! pages.

pub(crate) mod entry;
mod execution;
pub(crate) mod front;
mod globals;
pub(crate) mod key;
mod last_pages;
mod lookahead;
pub(crate) mod supers;
mod tally;
mod unit;

pub(crate) use execution::ExecutingPage;
pub(crate) use globals::Globals;
pub(crate) use tally::Tally;
pub(crate) use unit::{Block, Unit};

use crate::bits::bits;
use crate::classes::CLASSES;
use crate::recent_ids::{NOBODY, RecentIds};
use crate::sizes::{HUGE, SMALL};
use crate::store::entry::EntryId;
use crate::store::front::{Front, SLOTS};
use crate::store::key::Key;
use crate::store::supers::KnownSuperpages;
use pagewalk_mm::MappingId;
use pagewalk_translate::Asid;
use pagewalk_units::{Paging, VirtAddr};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// A touched page; misses read it, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Page {
    pub vpn: u64,
    pub unit: u32,
    pub mapping: MappingId,
    pub resident: [u64; CLASSES],
    /// Time of the last reference of each class; stale for pages in the front: see [`PageStore::page_stamp`].
    pub stamps: [u64; CLASSES],
}

const _: () = assert!(size_of::<Page>() == 64);

/// All pages, units and blocks of one process, the shared clock and the front.
// Many fields: a list for each kind of record, its index, and sums for the hot loops.
pub(crate) struct PageStore {
    pub pages: Vec<Page>,
    pub units: Vec<Unit>,
    pub blocks: Vec<Block>,
    /// By page.
    pub tallies: Vec<Tally>,
    /// By page: whether it has had a store, if page tables are mapped.
    pub written: Vec<bool>,
    /// Stamps of units: see [`PageStore::unit_stamp`].
    pub unit_stamps: [Vec<u64>; CLASSES],
    pub now: u64,
    pub paging: Paging,
    /// The running address space.
    pub asid: Asid,
    pub front: Front,
    /// Pages under [`Asid::GLOBAL`], if the pass has some.
    pub globals: Option<Globals>,
    /// Designs that map every block as one huge page.
    pub block_designs: u64,
    /// Whether some design may hold adjacent pages as one entry, so that a reference to both needs one lookup.
    pub may_merge: bool,
    /// Whether units count their references and their front slots: needed if some may be huge, or for counts by
    /// mapping. It does not change after the first references.
    pub minds_units: bool,
    /// The executing page, if there are kernels.
    pub running: ExecutingPage,
    /// Superpages that kernels of designs have built.
    pub supers: KnownSuperpages,
    page_ids: FxHashMap<Key, u32>,
    /// Pages of the running address space that missed.
    recent: RecentIds<8192>,
    unit_ids: FxHashMap<(Key, MappingId), u32>,
    block_ids: FxHashMap<Key, u32>,
    free_pages: Vec<u32>,
    free_units: Vec<u32>,
    /// All references by class, without those that the front holds.
    pub totals: [u64; CLASSES],
    /// Per design: settled references to units that it maps as huge.
    pub huge_refs: Vec<[u64; CLASSES]>,
    /// Designs that references count for: those of the running core.
    pub credited: u64,
}

impl PageStore {
    pub fn new(paging: Paging) -> PageStore {
        PageStore {
            paging,
            asid: Asid::default(),
            pages: Vec::new(),
            units: Vec::new(),
            blocks: Vec::new(),
            tallies: Vec::new(),
            written: Vec::new(),
            unit_stamps: Default::default(),
            now: 0,
            front: Front::new(paging.base()),
            globals: None,
            block_designs: 0,
            may_merge: false,
            minds_units: false,
            running: ExecutingPage::default(),
            supers: KnownSuperpages::default(),
            page_ids: FxHashMap::default(),
            recent: RecentIds::default(),
            unit_ids: FxHashMap::default(),
            block_ids: FxHashMap::default(),
            free_pages: Vec::new(),
            free_units: Vec::new(),
            totals: [0; CLASSES],
            huge_refs: Vec::new(),
            credited: u64::MAX,
        }
    }

    /// The block that holds a page.
    pub fn block_number(&self, vpn: u64) -> u64 {
        vpn >> self.paging.huge_order()
    }

    /// First byte of a page.
    pub fn address(&self, vpn: u64) -> VirtAddr {
        VirtAddr(vpn << self.paging.base().shift())
    }

    /// The bytes of a page.
    pub fn bytes_of(&self, vpn: u64) -> Range<u64> {
        self.address(vpn).0..self.address(vpn + 1).0
    }

    /// The address space of a page: the running one, or in the kernel's half the common one.
    pub fn asid_at(&self, vpn: u64) -> Asid {
        if self.address(vpn).is_kernel() { Asid::GLOBAL } else { self.asid }
    }

    pub fn find(&self, vpn: u64) -> Option<u32> {
        self.page_ids.get(&Key::new(self.asid_at(vpn), vpn)).copied()
    }

    /// [`PageStore::find`] for pages that miss again and again. What it remembers holds: whatever changes a page of the
    /// running space, or the space, makes it forget.
    #[inline]
    pub fn find_missed(&mut self, vpn: u64) -> Option<u32> {
        let page = self.recent.candidate(vpn);
        if self.pages.get(page as usize).is_some_and(|page| page.vpn == vpn) {
            return Some(page);
        }
        let page = self.find(vpn)?;
        self.recent.set(vpn, page);
        Some(page)
    }

    /// Makes `asid` the running address space; returns the one before.
    pub fn enter(&mut self, asid: Asid) -> Asid {
        self.recent.clear();
        std::mem::replace(&mut self.asid, asid)
    }

    /// The address space of an entry.
    #[inline]
    pub fn asid_of(&self, held: EntryId) -> Asid {
        let unit = match held {
            EntryId::Page(id) => self.pages[id as usize].unit,
            EntryId::Unit(id) => id,
            // A resident block has a unit with pages.
            EntryId::Block(id) => self.blocks[id as usize].units[0],
            // Designs with a kernel have a single address space.
            EntryId::Super(_) => return self.asid,
        };
        self.units[unit as usize].asid
    }

    /// An entry's page number and the index of its size.
    pub fn numbered(&self, held: EntryId) -> (u64, usize) {
        let of_unit = |unit: u32| self.units[unit as usize].number;
        match held {
            EntryId::Page(id) => (self.pages[id as usize].vpn, SMALL),
            EntryId::Unit(id) => (of_unit(id), HUGE),
            EntryId::Block(id) => (of_unit(self.blocks[id as usize].units[0]), HUGE),
            EntryId::Super(id) => {
                let block = self.supers.get(id).block;
                (block.number(), block.order.into())
            }
        }
    }

    /// The id of a touched block.
    pub fn block_at(&self, number: u64) -> Option<u32> {
        let asid = self.asid_at(number << self.paging.huge_order());
        self.block_ids.get(&Key::new(asid, number)).copied()
    }

    /// The units of a block.
    pub fn units_in(&self, number: u64) -> impl Iterator<Item = &Unit> {
        let block = self.block_at(number).map(|block| &self.blocks[block as usize]);
        block.into_iter().flat_map(|block| &block.units).map(|&unit| &self.units[unit as usize])
    }

    /// Designs that map part of the unit's block, other units' parts included.
    pub fn populated(&self, unit: u32) -> u64 {
        let block = &self.blocks[self.units[unit as usize].block as usize];
        let live = block.units.iter().map(|&unit| &self.units[unit as usize]).filter(|unit| unit.pages > 0);
        live.fold(0, |set, unit| set | unit.small | unit.huge)
    }

    /// Ids of the running space's live pages inside `vpns`, by ascending page number.
    pub fn pages_in(&self, vpns: Range<u64>) -> Vec<u32> {
        let few = vpns.end.saturating_sub(vpns.start) <= self.page_ids.len() as u64;
        if few {
            return vpns.filter_map(|vpn| self.find(vpn)).collect();
        }
        let within = |(key, &page): (&Key, &u32)| {
            Some((key.number(self.asid).filter(|vpn| vpns.contains(vpn))?, page))
        };
        let mut found: Vec<(u64, u32)> = self.page_ids.iter().filter_map(within).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, page)| page).collect()
    }

    /// Ids of all live pages of the running space, by ascending page number.
    pub fn live(&self) -> Vec<u32> {
        self.pages_in(0..u64::MAX)
    }

    /// Designs whose first level holds the page for references of `class`.
    #[inline]
    pub fn held(&self, id: u32, class: usize) -> u64 {
        let page = &self.pages[id as usize];
        if !self.minds_units {
            return page.resident[class];
        }
        let unit = &self.units[page.unit as usize];
        let mut held = page.resident[class] | (unit.resident[class] & unit.huge);
        if self.block_designs != 0 {
            held |= self.blocks[unit.block as usize].resident[class] & self.block_designs;
        }
        if !self.supers.is_empty() {
            held |= self.supers.resident(id, class);
        }
        held
    }

    /// Sets the page's time for `class` to now.
    #[inline]
    pub fn stamp(&mut self, id: u32, class: usize) {
        let page = &mut self.pages[id as usize];
        page.stamps[class] = self.now;
        if self.minds_units {
            self.unit_stamps[class][page.unit as usize] = self.now;
        }
        if !self.supers.is_empty() {
            self.supers.stamp(id, class, self.now);
        }
    }

    /// Counts `n` references of `class` to the page.
    pub fn credit(&mut self, page: u32, class: usize, n: u64) {
        self.totals[class] = self.totals[class].wrapping_add(n);
        if self.minds_units {
            let of = &mut self.units[self.pages[page as usize].unit as usize].refs[class];
            *of = of.wrapping_add(n);
        }
        if !self.supers.is_empty() {
            self.supers.credit(page, class, n);
        }
    }

    /// Credits a unit's references to the designs that map it as huge; call it before these change.
    pub fn settle_unit(&mut self, unit: u32) {
        let unit = &mut self.units[unit as usize];
        for class in 0..CLASSES {
            let n = unit.refs[class] - std::mem::replace(&mut unit.settled[class], unit.refs[class]);
            for design in bits(if n > 0 { unit.huge & self.credited } else { 0 }) {
                self.huge_refs[design][class] += n;
            }
        }
    }

    /// Takes a reference back.
    pub fn take_back(&mut self, page: u32, class: usize) {
        // May wrap: the front may still hold the reference, and only the sum matters.
        self.totals[class] = self.totals[class].wrapping_sub(1);
        if self.minds_units {
            let of = &mut self.units[self.pages[page as usize].unit as usize].refs[class];
            *of = of.wrapping_sub(1);
        }
        self.supers.take_back(page, class);
    }

    /// Time of the last reference of any class in `classes` to a block.
    pub fn block_stamp(&self, block: u32, class: usize) -> u64 {
        let units = &self.blocks[block as usize].units;
        units.iter().map(|&unit| self.unit_stamp(unit, class)).max().unwrap_or(0)
    }

    /// Adds a page of `mapping` under `asid`, and its unit if needed.
    pub fn add_page(&mut self, asid: Asid, vpn: u64, mapping: MappingId, instructions: u64) -> u32 {
        let unit = self.unit_of(asid, self.block_number(vpn), mapping, instructions);
        let of = &mut self.units[unit as usize];
        of.pages += 1;
        of.pages_peak = of.pages_peak.max(of.pages);
        let block = &mut self.blocks[of.block as usize];
        if block.pages == 0 {
            (block.born, block.pages_peak) = (instructions, 0);
        }
        block.pages += 1;
        block.pages_peak = block.pages_peak.max(block.pages);
        let page = Page { vpn, unit, mapping, resident: [0; CLASSES], stamps: [0; CLASSES] };
        let id = place(&mut self.pages, &mut self.free_pages, page);
        self.tallies.resize(self.pages.len(), Tally::default());
        self.written.resize(self.pages.len(), false);
        self.tallies[id as usize] = Tally::default();
        self.name(asid, vpn, id);
        self.supers.add_page(id, vpn);
        id
    }

    /// Whether `asid` has a page at `vpn`.
    pub fn has(&self, asid: Asid, vpn: u64) -> bool {
        self.page_ids.contains_key(&Key::new(asid, vpn))
    }

    /// Makes `page` the page of `asid` at `vpn`.
    pub fn name(&mut self, asid: Asid, vpn: u64, page: u32) {
        self.recent.set(vpn, NOBODY);
        self.page_ids.insert(Key::new(asid, vpn), page);
    }

    /// Removes the page of `asid` at `vpn`.
    pub fn unname(&mut self, asid: Asid, vpn: u64) {
        self.recent.set(vpn, NOBODY);
        self.page_ids.remove(&Key::new(asid, vpn));
    }

    fn unit_of(&mut self, asid: Asid, number: u64, mapping: MappingId, born: u64) -> u32 {
        let key = (Key::new(asid, number), mapping);
        if let Some(&id) = self.unit_ids.get(&key) {
            return id;
        }
        let block = self.block_of(asid, number);
        let unit = Unit {
            number,
            asid,
            mapping,
            block,
            resident: [0; CLASSES],
            huge: 0,
            kernels: 0,
            small: 0,
            hugetlb: false,
            early: false,
            pages: 0,
            pages_peak: 0,
            extent: 0,
            born,
            refs: [0; CLASSES],
            settled: [0; CLASSES],
            slots: [[0; SLOTS / 64]; CLASSES],
        };
        let id = place(&mut self.units, &mut self.free_units, unit);
        resize_stamps(&mut self.unit_stamps, id);
        self.unit_ids.insert(key, id);
        self.blocks[block as usize].units.push(id);
        id
    }

    fn block_of(&mut self, asid: Asid, number: u64) -> u32 {
        let key = Key::new(asid, number);
        if let Some(&id) = self.block_ids.get(&key) {
            return id;
        }
        let id = id_of(self.blocks.len());
        self.blocks.push(Block {
            resident: [0; CLASSES],
            units: Vec::new(),
            pages: 0,
            pages_peak: 0,
            born: 0,
        });
        self.block_ids.insert(key, id);
        id
    }

    /// Removes a page that no array holds. The caller has taken its counts and cleared its residency, and removes the
    /// unit if that has no pages left.
    pub fn remove_page(&mut self, page: u32) {
        let (vpn, unit) = (self.pages[page as usize].vpn, self.pages[page as usize].unit);
        debug_assert_eq!(self.pages[page as usize].resident, [0; CLASSES]);
        self.unname(self.units[unit as usize].asid, vpn);
        self.free_pages.push(page);
        let unit = &mut self.units[unit as usize];
        unit.pages -= 1;
        self.blocks[unit.block as usize].pages -= 1;
    }

    /// Removes a unit without pages.
    pub fn remove_unit(&mut self, unit: u32) {
        let Unit { number, asid, mapping, block, pages, .. } = self.units[unit as usize];
        debug_assert_eq!(pages, 0);
        self.unit_ids.remove(&(Key::new(asid, number), mapping));
        self.blocks[block as usize].units.retain(|&u| u != unit);
        for stamps in &mut self.unit_stamps {
            stamps[unit as usize] = 0;
        }
        self.free_units.push(unit);
    }
}

fn id_of(len: usize) -> u32 {
    // Two bits of an id in a first-level array give its kind.
    assert!(len < 1 << 30, "more than 2^30 pages touched at one time");
    len as u32
}

fn place<T>(items: &mut Vec<T>, free: &mut Vec<u32>, item: T) -> u32 {
    if let Some(id) = free.pop() {
        items[id as usize] = item;
        return id;
    }
    let id = id_of(items.len());
    items.push(item);
    id
}

fn resize_stamps(stamps: &mut [Vec<u64>; CLASSES], id: u32) {
    for stamps in stamps {
        if stamps.len() <= id as usize {
            stamps.resize(id as usize + 1, 0);
        }
    }
}
