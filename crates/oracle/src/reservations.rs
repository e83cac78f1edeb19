//! Reference model of reservations with physical memory: a superpage is built when all pages of a reservation were
//! touched. All state is in lists.

use crate::ReservationList;
use crate::backing::Memory;
use crate::miss_policies::{Block, around};
use std::collections::BTreeMap;
use std::ops::Range;

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// First touches of pages that were not backed.
    pub faults: u64,
    /// Superpages built.
    pub promotions: u64,
    /// Superpages split.
    pub demotions: u64,
    /// Superpages refused because they would have crossed an area's end or included a file.
    pub refused_area: u64,
    /// Superpages refused because their pages are not contiguous in memory.
    pub refused_memory: u64,
    /// Reservations refused for want of a block.
    pub reservations_refused: u64,
    /// Reservations broken for want of frames.
    pub reservations_broken: u64,
}

/// The model of a process.
#[derive(Clone, Debug)]
pub struct ReservationModel {
    /// log2 of the number of pages of a reservation.
    pub order: u8,
    /// Whether freeing a page breaks its reservation.
    pub broken_by_gaps: bool,
    /// Mapped pages: the number of the area (neighbours with equal numbers are one area), and whether it may have
    /// superpages.
    pub areas: BTreeMap<u64, (u64, bool)>,
    /// Backed pages, with the order of the page that maps them and whether they were touched.
    pub table: BTreeMap<u64, (u8, bool)>,
    /// The reservations, by block.
    pub reservations: ReservationList,
    /// By block: the number of touched pages, and whether a superpage is ruled out.
    pub touched: BTreeMap<u64, (u64, bool)>,
    /// Physical memory.
    pub memory: Memory,
    /// Counts of events.
    pub events: Events,
}

fn pages((first, order): Block) -> Range<u64> {
    first..first + (1 << order)
}

impl ReservationModel {
    /// A model with nothing mapped.
    pub fn new(order: u8, broken_by_gaps: bool, memory: Memory) -> ReservationModel {
        ReservationModel {
            order,
            broken_by_gaps,
            areas: BTreeMap::new(),
            table: BTreeMap::new(),
            reservations: ReservationList::default(),
            touched: BTreeMap::new(),
            memory,
            events: Events::default(),
        }
    }

    fn block(&self, page: u64) -> Block {
        around(page, self.order)
    }

    fn key(&self, page: u64) -> u64 {
        page >> self.order
    }

    fn unit(&self, page: u64) -> Block {
        around(page, self.table[&page].0)
    }

    /// Whether a block lies in one area that may have superpages.
    fn fits(&self, block: Block) -> bool {
        let first = self.areas.get(&block.0);
        first.is_some_and(|area| area.1) && pages(block).all(|page| self.areas.get(&page) == first)
    }

    fn is_swapped(&self, block: Block) -> bool {
        pages(block).any(|page| self.memory.swapped.contains(&page))
    }

    fn refuse(&mut self, key: u64) {
        self.touched.entry(key).or_default().1 = true;
    }

    /// Touches a page.
    pub fn touch(&mut self, page: u64) {
        if !self.table.contains_key(&page) {
            self.events.faults += 1;
            self.find_frame(page);
            if self.memory.killed {
                return;
            }
            self.table.insert(page, (0, false));
            self.memory.swaps[1] += u64::from(self.memory.swapped.remove(&page));
        }
        if std::mem::replace(&mut self.table.get_mut(&page).unwrap().1, true) {
            return;
        }
        let (block, key) = (self.block(page), self.key(page));
        let of = self.touched.entry(key).or_default();
        of.0 += 1;
        if *of == (1 << self.order, false) {
            self.promote(block);
        }
    }

    fn find_frame(&mut self, page: u64) {
        let (block, key) = (self.block(page), self.key(page));
        let is_new = !pages(block).any(|page| self.table.contains_key(&page)) && !self.is_swapped(block);
        if self.fits(block) && self.reservations.position(key).is_none() && is_new {
            let order = self.order.into();
            if self.reservations.reserve(&mut self.memory.frames, key, order).is_none() {
                self.events.reservations_refused += 1;
                self.refuse(key);
            }
        }
        if let Some(frame) = self.reservations.populate(key, page - block.0) {
            return self.memory.own((page, 0), frame);
        }
        while !self.memory.take((page, 0)) {
            if let Some((key, ..)) = self.reservations.break_least_recent(&mut self.memory.frames) {
                self.events.reservations_broken += 1;
                self.refuse(key);
            } else if self.memory.kills {
                self.memory.killed = true;
                return;
            } else {
                let unit = self.memory.victim();
                self.take_away(unit, true);
            }
        }
    }

    /// Removes the backing of a unit, which is swapped out (`swaps`) or freed.
    fn take_away(&mut self, unit: Block, swaps: bool) {
        for page in pages(unit) {
            let (_, touched) = self.table.remove(&page).unwrap();
            if !touched {
                continue;
            }
            let (key, gaps) = (self.key(page), self.broken_by_gaps);
            let of = self.touched.get_mut(&key).unwrap();
            *of = (of.0 - 1, of.1 || gaps);
            if of.0 == 0 {
                self.touched.remove(&key);
            }
            if swaps {
                self.memory.swapped.insert(page);
                self.memory.swaps[0] += 1;
            }
        }
        let key = self.key(unit.0);
        let offset = unit.0 - self.block(unit.0).0;
        let its = self.reservations.position(key).map(|at| &self.reservations.list[at]);
        let is_reserved = its.is_some_and(|its| {
            its.handed_out[offset as usize] && its.block.0 + offset == self.memory.frame[&unit.0]
        });
        if !is_reserved {
            self.memory.release(unit);
        } else if self.broken_by_gaps {
            self.reservations.break_up(&mut self.memory.frames, key);
            self.memory.release(unit);
        } else {
            self.memory.forget(unit);
            self.reservations.depopulate(&mut self.memory.frames, key, offset);
        }
    }

    fn promote(&mut self, block: Block) {
        if !self.fits(block) {
            self.events.refused_area += 1;
            return;
        }
        if self.is_swapped(block) {
            self.events.refused_memory += 1;
            return;
        }
        let first = self.memory.frame.get(&block.0).copied().unwrap_or(1);
        let lies = |page: u64| self.memory.frame.get(&page) == Some(&(first + (page - block.0)));
        let in_place = first % (1 << block.1) == 0 && pages(block).all(lies);
        let key = self.key(block.0);
        let at = self.reservations.position(key);
        if !in_place || at.is_none() && !self.memory.frames.join((first, block.1.into())) {
            self.events.refused_memory += 1;
            self.refuse(key);
            return;
        }
        at.map(|at| self.reservations.list.remove(at));
        pages(block).for_each(|page| _ = self.memory.forget((page, 0)));
        self.memory.own(block, first);
        pages(block).for_each(|page| self.table.get_mut(&page).unwrap().0 = block.1);
        self.events.promotions += 1;
    }

    /// Splits superpages that cross the ends of a range.
    pub fn part(&mut self, range: &Range<u64>) {
        for end in [range.start, range.end - 1] {
            if !self.table.contains_key(&end) || pages(self.unit(end)).all(|page| range.contains(&page)) {
                continue;
            }
            let unit = self.unit(end);
            self.events.demotions += 1;
            let parts: Vec<Block> = pages(unit).map(|page| (page, 0)).collect();
            self.memory.split(unit, &parts);
            pages(unit).for_each(|page| self.table.get_mut(&page).unwrap().0 = 0);
        }
    }

    /// Removes the backing of a range.
    pub fn gone(&mut self, range: Range<u64>) {
        self.part(&range);
        let mut units: Vec<Block> =
            self.table.range(range.clone()).map(|(&page, _)| self.unit(page)).collect();
        units.dedup();
        units.into_iter().for_each(|unit| self.take_away(unit, false));
        self.memory.swapped.retain(|page| !range.contains(page));
    }

    /// Records a walk to a page.
    pub fn walk(&mut self, page: u64) {
        if self.table.contains_key(&page) {
            self.memory.accessed.insert(self.unit(page));
        }
    }
}
