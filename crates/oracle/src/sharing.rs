//! Reference model of a process that shares pages with files, a parent or children. Every page has its own entry in
//! maps that are searched.

use crate::backing::Memory;
use crate::miss_policies::{Block, around};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// First name of file pages in memory; above all addresses.
pub const CACHED: u64 = 1 << 40;
/// First name of pages that only children keep.
pub const LENT: u64 = 1 << 41;

/// The kind of memory of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Private anonymous memory.
    Anonymous,
    /// Shared anonymous memory.
    Shared,
    /// A private mapping of a file.
    File,
    /// A shared mapping of a file.
    SharedFile,
}

/// The area that a page belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Its kind of memory.
    pub kind: Kind,
    /// Neighbours with the same number are one area.
    pub number: u64,
    /// The file, and the page of the file.
    pub place: (u64, u64),
}

/// The page-table state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The order of the page that maps it.
    pub order: u8,
    /// Whether its frame belongs to this process.
    pub own: bool,
    /// Whether the next store faults.
    pub protected: bool,
    /// Whether it was touched.
    pub touched: bool,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// All faults.
    pub faults: u64,
    /// Faults for pages of files.
    pub file_faults: u64,
    /// Reads of files.
    pub file_reads: u64,
    /// Pages copied on a store.
    pub copies: u64,
    /// Stores to protected pages that no child shared any more.
    pub reused: u64,
    /// First stores to pages of shared file mappings.
    pub notices: u64,
    /// Superpages split.
    pub demotions: u64,
    /// Pages filled with zeros.
    pub cleared: u64,
}

/// The model of a process.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// The order of superpages for faults in private anonymous memory.
    pub order: u8,
    /// Whether the page cache starts cold, so that files must be read.
    pub cold: bool,
    /// Number of pages mapped around a load, and number of pages read together.
    pub windows: [u64; 2],
    /// Lifetime of children in instructions.
    pub child_instructions: u64,
    /// Instructions executed.
    pub now: u64,
    /// The area of each mapped page.
    pub areas: BTreeMap<u64, Area>,
    /// The page table.
    pub table: BTreeMap<u64, Slot>,
    /// Pages inherited from the parent that were not used yet.
    pub inherited: BTreeSet<u64>,
    /// Names of file pages in memory, by file and page.
    pub cache: BTreeMap<(u64, u64), u64>,
    /// For each page that maps a file page, its name.
    pub maps: BTreeMap<u64, u64>,
    /// Number of names given so far to file pages and to lent pages.
    pub names: [u64; 2],
    /// The end of the last child's life.
    pub child_until: u64,
    /// The number of the last child.
    pub child: u32,
    /// Pages that children keep, and until when.
    pub lent: Vec<(u64, u64)>,
    /// The child that keeps each of those pages.
    pub lent_to: BTreeMap<u64, u32>,
    /// Physical memory, if it is limited.
    pub memory: Option<Memory>,
    /// Counts of events.
    pub events: Events,
}

fn pages((first, order): Block) -> Range<u64> {
    first..first + (1 << order)
}

impl Sharing {
    /// A model with nothing mapped.
    pub fn new(order: u8, cold: bool, windows: [u64; 2], child_instructions: u64) -> Sharing {
        Sharing { order, cold, windows, child_instructions, ..Sharing::default() }
    }

    /// Whether the process was killed.
    pub fn is_killed(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.killed)
    }

    fn swapped(&self, page: u64) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.swapped.contains(&page))
    }

    fn kind(&self, page: u64) -> Option<Kind> {
        self.areas.get(&page).map(|area| area.kind)
    }

    fn is_private(&self, page: u64) -> bool {
        !matches!(self.kind(page), Some(Kind::Shared | Kind::SharedFile))
    }

    fn unit(&self, page: u64) -> Block {
        around(page, self.table[&page].order)
    }

    /// The block that a fault in private anonymous memory maps: all of it must be one area, and `all` must hold for its
    /// pages.
    fn block(&self, page: u64, all: impl Fn(&Sharing, u64) -> bool) -> Block {
        let block = around(page, self.order);
        let number = |page: u64| {
            self.areas.get(&page).filter(|area| area.kind == Kind::Anonymous).map(|area| area.number)
        };
        let fits = number(page).is_some() && pages(block).all(|other| number(other) == number(page));
        if fits && pages(block).all(|page| all(self, page)) { block } else { (page, 0) }
    }

    /// Starts as a child: memory mapped before its first instruction is inherited from the parent.
    pub fn start_as_child(&mut self) {
        let is_parents = |area: &Area| matches!(area.kind, Kind::Anonymous | Kind::File);
        self.inherited =
            self.areas.iter().filter(|(_, area)| is_parents(area)).map(|(&page, _)| page).collect();
    }

    /// Advances the time to `now`.
    pub fn reach(&mut self, now: u64) {
        self.now = now;
        for (until, name) in std::mem::take(&mut self.lent) {
            match &mut self.memory {
                Some(memory) if until <= now => memory.release((name, 0)),
                _ => self.lent.push((until, name)),
            }
        }
    }

    /// Performs a load, or a store if `stores`.
    pub fn touch(&mut self, page: u64, stores: bool) {
        if !self.table.contains_key(&page) {
            let is_file = matches!(self.kind(page), Some(Kind::File | Kind::SharedFile));
            if self.inherited.contains(&page) {
                let block = self.block(page, |of, page| of.inherited.contains(&page));
                pages(block).for_each(|page| _ = self.inherited.remove(&page));
                self.map(block, false, true);
            } else if is_file && !self.swapped(page) {
                self.file_fault(page, stores);
            } else {
                self.fault(page);
            }
        }
        if !self.is_killed() && stores && self.table[&page].protected {
            self.stored(page);
        }
        if !self.is_killed() {
            self.table.get_mut(&page).unwrap().touched = true;
        }
    }

    fn map(&mut self, block: Block, own: bool, protected: bool) {
        for page in pages(block) {
            let touched = self.table.get(&page).is_some_and(|slot| slot.touched);
            self.table.insert(page, Slot { order: block.1, own, protected, touched });
        }
    }

    fn fault(&mut self, page: u64) {
        self.events.faults += 1;
        let is_free = |of: &Sharing, page: u64| {
            !of.table.contains_key(&page) && !of.swapped(page) && !of.inherited.contains(&page)
        };
        let mut block = self.block(page, is_free);
        if let Some(memory) = &mut self.memory
            && (block.1 == 0 || !memory.take(block))
        {
            memory.fallen_back += u64::from(block.1 > 0);
            block = (page, 0);
            self.find_frame(page);
        }
        if self.is_killed() {
            return;
        }
        self.map(block, true, false);
        if let Some(memory) = &mut self.memory
            && memory.swapped.remove(&page)
        {
            memory.swaps[1] += 1;
        } else {
            self.events.cleared += 1 << block.1;
        }
    }

    /// Allocates a frame for a base page or a file page.
    fn find_frame(&mut self, name: u64) {
        while let Some(memory) = &mut self.memory
            && !memory.take((name, 0))
        {
            let unit = if memory.kills {
                let Some(name) = memory.cached_victim(CACHED) else {
                    memory.killed = true;
                    return;
                };
                (name, 0)
            } else {
                memory.victim()
            };
            memory.release(unit);
            if unit.0 >= CACHED {
                self.cache.retain(|_, &mut name| name != unit.0);
                let users: Vec<u64> =
                    self.maps.iter().filter(|&(_, &name)| name == unit.0).map(|(&page, _)| page).collect();
                for page in users {
                    self.maps.remove(&page);
                    self.table.remove(&page);
                }
                continue;
            }
            for page in pages(unit) {
                if self.table.remove(&page).is_some_and(|slot| slot.touched) {
                    memory.swapped.insert(page);
                    memory.swaps[0] += 1;
                }
            }
        }
    }

    /// Up to `count` pages from page `from` that lie in the area of `page`.
    fn window(&self, page: u64, from: u64, count: u64) -> Vec<u64> {
        let number = self.areas[&page].number;
        let inside = |other: &u64| {
            let between = if *other < page { *other..page } else { page..*other + 1 };
            between.clone().all(|page| self.areas.get(&page).is_some_and(|area| area.number == number))
        };
        let mut first = from;
        while !inside(&first) {
            first += 1;
        }
        (first..first + count).filter(inside).collect()
    }

    fn file_fault(&mut self, page: u64, stores: bool) {
        self.events.faults += 1;
        self.events.file_faults += 1;
        let place = self.areas[&page].place;
        if self.cold && !self.cache.contains_key(&place) {
            self.events.file_reads += 1;
            self.names[0] += 1;
            let name = CACHED + self.names[0];
            self.find_frame(name);
            if self.is_killed() {
                return;
            }
            self.cache.insert(place, name);
            for near in self.window(page, page.saturating_sub(self.windows[1] / 2), self.windows[1]) {
                let place = self.areas[&near].place;
                if self.cache.contains_key(&place) {
                    continue;
                }
                self.names[0] += 1;
                let name = CACHED + self.names[0];
                if self.memory.as_mut().is_none_or(|memory| memory.take((name, 0))) {
                    self.cache.insert(place, name);
                }
            }
        }
        if stores && self.is_private(page) {
            return self.copy(page);
        }
        // A lowest-level page table has 512 entries.
        let from = page / self.windows[0] * self.windows[0];
        let mut near = self.window(page, from, self.windows[0]);
        near.retain(|near| near / 512 == page / 512 && !stores);
        near.retain(|near| !self.table.contains_key(near) && !self.swapped(*near));
        near.retain(|near| !self.inherited.contains(near));
        near.retain(|near| !self.cold || self.cache.contains_key(&self.areas[near].place));
        if stores {
            near.push(page);
        }
        for page in near {
            self.map((page, 0), false, !stores);
            if let Some(&name) = self.cache.get(&self.areas[&page].place) {
                self.maps.insert(page, name);
            }
        }
    }

    fn copy(&mut self, page: u64) {
        self.maps.remove(&page);
        self.find_frame(page);
        if self.is_killed() {
            return;
        }
        self.map((page, 0), true, false);
        self.events.copies += 1;
    }

    fn stored(&mut self, page: u64) {
        self.events.faults += 1;
        let (unit, own) = (self.unit(page), self.table[&page].own);
        if !self.is_private(page) || own && self.now >= self.child_until {
            if self.is_private(page) {
                self.events.reused += 1;
            } else {
                self.events.notices += 1;
            }
            pages(unit).for_each(|page| self.table.get_mut(&page).unwrap().protected = false);
            return;
        }
        self.part(unit);
        if own && let Some(memory) = &mut self.memory {
            let name = LENT + self.names[1];
            self.names[1] += 1;
            memory.lend(page, name);
            self.lent.push((self.child_until, name));
            self.lent_to.insert(name, self.child);
        }
        self.copy(page);
    }

    /// Splits a superpage into base pages.
    fn part(&mut self, unit: Block) {
        if unit.1 == 0 {
            return;
        }
        self.events.demotions += 1;
        let parts: Vec<Block> = pages(unit).map(|page| (page, 0)).collect();
        pages(unit).for_each(|page| self.table.get_mut(&page).unwrap().order = 0);
        if let (Some(memory), true) = (&mut self.memory, self.table[&unit.0].own) {
            memory.split(unit, &parts);
        }
    }

    /// Forks a child. Returns the pages that are newly protected.
    pub fn fork(&mut self, child: u32) -> Vec<u64> {
        self.child = child;
        self.child_until = self.now + self.child_instructions;
        let unprotected = self.table.iter().filter(|(_, slot)| !slot.protected).map(|(&page, _)| page);
        let new: Vec<u64> = unprotected.filter(|&page| self.is_private(page)).collect();
        new.iter().for_each(|page| self.table.get_mut(page).unwrap().protected = true);
        new
    }

    /// Pages of private anonymous memory shared with the parent, or with the last child while it lives.
    pub fn shared(&self) -> Vec<u64> {
        let is_shared = |slot: &Slot| !slot.own || slot.protected && self.now < self.child_until;
        let is_anonymous = |page: &u64| self.areas.get(page).is_some_and(|area| area.kind == Kind::Anonymous);
        let shared = self.table.iter().filter(|(page, slot)| is_anonymous(page) && is_shared(slot));
        shared.map(|(&page, _)| page).collect()
    }

    /// Records that a child has ended.
    pub fn reap(&mut self, child: u32) {
        if self.child == child && self.child_until > self.now {
            self.child_until = self.now;
        }
        let lent_to = &self.lent_to;
        for (until, name) in self.lent.iter_mut().filter(|(_, name)| lent_to[name] == child) {
            assert!(*name >= LENT);
            *until = self.now.min(*until);
        }
        self.reach(self.now);
    }

    /// Removes the backing of a range.
    pub fn gone(&mut self, range: Range<u64>) {
        for end in [range.start, range.end - 1] {
            if self.table.contains_key(&end) && !pages(self.unit(end)).all(|page| range.contains(&page)) {
                self.part(self.unit(end));
            }
        }
        let mut units: Vec<Block> =
            self.table.range(range.clone()).map(|(&page, _)| self.unit(page)).collect();
        units.dedup();
        for unit in units {
            if let (Some(memory), true) = (&mut self.memory, self.table[&unit.0].own) {
                memory.release(unit);
            }
        }
        for page in range {
            self.table.remove(&page);
            self.maps.remove(&page);
            self.inherited.remove(&page);
            if let Some(memory) = &mut self.memory {
                memory.swapped.remove(&page);
            }
        }
    }

    /// Records a walk to a page.
    pub fn walk(&mut self, page: u64) {
        let Some(slot) = self.table.get(&page) else { return };
        let unit = match self.maps.get(&page) {
            Some(&name) => Some((name, 0)),
            None => slot.own.then(|| self.unit(page)),
        };
        if let (Some(memory), Some(unit)) = (&mut self.memory, unit) {
            memory.accessed.insert(unit);
        }
    }
}
