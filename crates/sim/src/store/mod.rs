//! Pages, units and blocks, with what all designs share about them.
//!
//! - A *page* is one touched base page of the pass's paging format: 4 KiB on x86-64. `vpn` is its number.
//! - A *unit* is the part of one named mapping inside one block: what one huge page stands for when a policy decides
//!   by mapping.
//! - A *block* is as large as a huge page, 2 MiB on x86-64, and aligned to its size: what one huge page stands for
//!   under a policy that pays no attention to mappings.
//!
//! Residency bits: bit d of `resident[class]` says that design d's first-level array for the class
//! holds it. Pages carry bits of designs that map them as base pages, units and blocks of those that map them as
//! huge ones.

pub(crate) mod entry;
mod execution;
pub(crate) mod front;
mod globals;
pub(crate) mod key;
mod last_pages;
mod lookahead;
pub(crate) mod supers;

pub(crate) use execution::ExecutingPage;
pub(crate) use globals::Globals;

use crate::bits::bits;
use crate::classes::CLASSES;
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

/// A touched page: what misses look at, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Page {
    pub vpn: u64,
    pub unit: u32,
    pub mapping: MappingId,
    pub resident: [u64; CLASSES],
    /// Time of the last reference of each class, but for pages in the front: see [`PageStore::page_stamp`].
    pub stamps: [u64; CLASSES],
}

const _: () = assert!(size_of::<Page>() == 64);

/// The walks of the first design that a page caused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// By fetches and by data.
    pub walks: [u64; 2],
    /// Page-table entries that those walks read.
    pub walk_references: u64,
    /// Modelled cycles of those walks.
    pub walk_cycles: u64,
}

/// The part of one mapping inside one block.
// Many fields: one record of a dense list, as misses find it.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub number: u64,
    pub asid: Asid,
    pub mapping: MappingId,
    pub block: u32,
    pub resident: [u64; CLASSES],
    /// Designs that map it as one huge page.
    pub huge: u64,
    /// Designs that have mapped some of it as small pages.
    pub small: u64,
    /// Whether it is a page of hugetlb, or a part of one, which no kernel takes apart.
    pub hugetlb: bool,
    /// Whether its first page was touched when its area did not hold all of the block, and still does not.
    pub early: bool,
    /// Live pages.
    pub pages: u32,
    /// Most pages that lived at one time.
    pub pages_peak: u32,
    /// Most pages of its mapping seen inside the block.
    pub extent: u32,
    /// Instruction count at its first touch.
    pub born: u64,
    /// References by class, but for those that the front still holds.
    pub refs: [u64; CLASSES],
    /// Those of them that are in `huge_refs` already.
    pub settled: [u64; CLASSES],
    /// Front slots that hold pages of this unit, by class: a bit per slot.
    pub slots: [[u64; SLOTS / 64]; CLASSES],
}

/// What a huge page would map.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub resident: [u64; CLASSES],
    pub units: Vec<u32>,
    /// Live pages.
    pub pages: u32,
    /// Most pages that lived at one time since it had none.
    pub pages_peak: u32,
    /// Instruction count at its first touch since it had none.
    pub born: u64,
}

/// All pages, units and blocks of one process, the shared clock and the front.
// Many fields: a list for each kind of record, what finds records in it, and sums that the hot loops add to.
pub(crate) struct PageStore {
    pub pages: Vec<Page>,
    pub units: Vec<Unit>,
    pub blocks: Vec<Block>,
    /// By page.
    pub tallies: Vec<Tally>,
    /// By page: whether a store has come to it, where page tables are mapped.
    pub written: Vec<bool>,
    /// The same of units: see [`PageStore::unit_stamp`].
    pub unit_stamps: [Vec<u64>; CLASSES],
    pub now: u64,
    pub paging: Paging,
    /// The address space that runs.
    pub asid: Asid,
    pub front: Front,
    /// Pages under [`Asid::GLOBAL`], where the pass has some.
    pub globals: Option<Globals>,
    /// Designs that map every block as one huge page.
    pub block_designs: u64,
    /// Some design may hold two neighbouring pages as one: then what lies on both is one lookup there.
    pub may_merge: bool,
    /// Whether units are to know of their references, and what the front holds of them: where some may be huge, or
    /// mappings are told apart. It stays as it is once references have come.
    pub minds_units: bool,
    /// Where there are kernels: the page that is being executed.
    pub running: ExecutingPage,
    /// What kernels of designs have built.
    pub supers: KnownSuperpages,
    page_ids: FxHashMap<Key, u32>,
    unit_ids: FxHashMap<(Key, MappingId), u32>,
    block_ids: FxHashMap<Key, u32>,
    free_pages: Vec<u32>,
    free_units: Vec<u32>,
    /// References by class in all, but for those that the front still holds.
    pub totals: [u64; CLASSES],
    /// Per design: those to units that it mapped as huge, but for what the units have not settled.
    pub huge_refs: Vec<[u64; CLASSES]>,
    /// Designs that references are credited to: those of the core that runs.
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

    /// The address space of a page: the one that runs, or, in the kernel's half, that of all.
    pub fn asid_at(&self, vpn: u64) -> Asid {
        if self.address(vpn).is_kernel() { Asid::GLOBAL } else { self.asid }
    }

    pub fn find(&self, vpn: u64) -> Option<u32> {
        self.page_ids.get(&Key::new(self.asid_at(vpn), vpn)).copied()
    }

    /// The address space of what an array holds.
    #[inline]
    pub fn asid_of(&self, held: EntryId) -> Asid {
        let unit = match held {
            EntryId::Page(id) => self.pages[id as usize].unit,
            EntryId::Unit(id) => id,
            // A block that is held has a unit with pages.
            EntryId::Block(id) => self.blocks[id as usize].units[0],
            // Designs with a kernel have one address space.
            EntryId::Super(_) => return self.asid,
        };
        self.units[unit as usize].asid
    }

    /// The page number of what an array holds, and its size's index.
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

    /// The id of a block that something was touched in.
    pub fn block_at(&self, number: u64) -> Option<u32> {
        let asid = self.asid_at(number << self.paging.huge_order());
        self.block_ids.get(&Key::new(asid, number)).copied()
    }

    /// The units of a block.
    pub fn units_in(&self, number: u64) -> impl Iterator<Item = &Unit> {
        let block = self.block_at(number).map(|block| &self.blocks[block as usize]);
        block.into_iter().flat_map(|block| &block.units).map(|&unit| &self.units[unit as usize])
    }

    /// Designs that map part of the unit's block with small pages, other units' parts included.
    pub fn populated(&self, unit: u32) -> u64 {
        let block = &self.blocks[self.units[unit as usize].block as usize];
        let small = block.units.iter().map(|&unit| &self.units[unit as usize]).filter(|unit| unit.pages > 0);
        small.fold(0, |set, unit| set | unit.small)
    }

    /// Ids of the live pages of the space that runs inside `vpns`, by ascending page number.
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

    /// Ids of all its live pages, by ascending page number.
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

    /// Makes this the latest reference of `class` to the page.
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

    /// Credits a unit's references to the designs that map it as huge: due before they change.
    pub fn settle_unit(&mut self, unit: u32) {
        let unit = &mut self.units[unit as usize];
        for class in 0..CLASSES {
            let n = unit.refs[class] - std::mem::replace(&mut unit.settled[class], unit.refs[class]);
            for design in bits(if n > 0 { unit.huge & self.credited } else { 0 }) {
                self.huge_refs[design][class] += n;
            }
        }
    }

    /// Counts a reference back.
    pub fn take_back(&mut self, page: u32, class: usize) {
        // The front may still hold what is taken back here: the sum counts.
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

    /// A new page of `mapping` under `asid`, in a unit that may be new too.
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

    /// From now on `page` is what `asid` has at `vpn`.
    pub fn name(&mut self, asid: Asid, vpn: u64, page: u32) {
        self.page_ids.insert(Key::new(asid, vpn), page);
    }

    /// From now on `asid` has nothing at `vpn`.
    pub fn unname(&mut self, asid: Asid, vpn: u64) {
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

    /// Forgets a page that no array holds any more. The caller has taken the page's counts and has
    /// cleared its residency; it removes the unit if this leaves it without pages.
    pub fn remove_page(&mut self, page: u32) {
        let (vpn, unit) = (self.pages[page as usize].vpn, self.pages[page as usize].unit);
        debug_assert_eq!(self.pages[page as usize].resident, [0; CLASSES]);
        self.unname(self.units[unit as usize].asid, vpn);
        self.free_pages.push(page);
        let unit = &mut self.units[unit as usize];
        unit.pages -= 1;
        self.blocks[unit.block as usize].pages -= 1;
    }

    /// Forgets a unit without pages.
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
    // Two bits of an id in a first-level array say what it names.
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
