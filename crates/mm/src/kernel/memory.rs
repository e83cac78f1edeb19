//! Which frames back which pages.
//!
//! Every superpage and every backed base page, a *unit*, owns a block of frames of its order. The pages of a
//! reservation own its frames at their own offsets, while all of it is one block to the allocator.
//!
//! Processes that take turns share a memory: it goes from the kernel of one to that of the next (see
//! [`Kernel::hand_memory`](super::Kernel::hand_memory)), and callers name pages of the process that has it. What it
//! takes from another one, that is told when it has it again.

use super::ORDERS;
use crate::Superpage;
use crate::frames::{BrokenReservation, Buddy, Compaction, Frame, Reservations};
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// What happens when a page needs a frame and none is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullMemoryAction {
    /// Something else is swapped out.
    #[default]
    Swap,
    /// There is no swap: the process is killed.
    Oom,
}

impl FullMemoryAction {
    /// `swap` or `oom`; an unknown name is `None`.
    pub fn from_name(name: &str) -> Option<FullMemoryAction> {
        match name {
            "swap" => Some(FullMemoryAction::Swap),
            "oom" => Some(FullMemoryAction::Oom),
            _ => None,
        }
    }
}

/// How a process ended for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomKill {
    /// Instructions executed.
    pub instructions: u64,
    /// Bytes of the page that there was no frame for: a base page, as larger ones give way first.
    pub bytes: u64,
}

/// How a kernel deals with its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRules {
    /// Whether promotions compact memory when they find no block.
    pub compact: bool,
    /// Cycles to move one frame for that.
    pub migration_cycles: u64,
    /// Cycles to write a base page to swap, or to read it back.
    pub swap_cycles: u64,
    /// What gives way when no frame is free.
    pub when_full: FullMemoryAction,
}

impl MemoryRules {
    /// Swap: 100 µs at 3 GHz for a page, a solid-state disk of today; chosen.
    pub const SWAP_CYCLES: u64 = 300_000;
}

/// Pages of the page cache own frames under names from here on, beyond all addresses.
pub(super) const CACHED: u64 = 1 << 62;
/// Pages that a child has kept while this process has got copies: the same.
pub(super) const LENT: u64 = 1 << 63;

/// What a process's kernel lost, or has to do anew, by the work of another one on the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The frames of a unit, or of a page of the page cache.
    Frames(Superpage),
    /// The place of a unit: it lies in other frames.
    Place(Superpage),
    /// The reservation of a region.
    Reservation(Superpage),
}

/// A process, and the first page of something of it.
type Name = (u32, u64);

#[derive(Clone, Copy, Debug)]
struct Owned {
    frame: Frame,
    /// Its number among all units ever backed.
    since: u64,
    /// Whether something walked to it since the hand of the clock came by.
    accessed: bool,
}

/// A physical memory, and whose its frames are.
#[derive(Clone)]
pub(super) struct Physical {
    buddy: Buddy,
    pub rules: MemoryRules,
    /// The process that has it.
    pub process: u32,
    /// By first page of a unit.
    owned: FxHashMap<Name, Owned>,
    /// Units by first frame, but for pages of reservations.
    owners: FxHashMap<Frame, (u32, Superpage)>,
    reservations: Reservations<(u32, Superpage)>,
    /// No block of this order can be cleared until frames are given back or blocks split.
    futile: Option<u32>,
    /// First pages of units and their numbers, in the order in which the hand comes by; some are no more.
    clock: VecDeque<(Name, u64)>,
    next: u64,
    swapped: BTreeSet<Name>,
    /// Pages lent so far.
    lent: u64,
    /// What other processes lost since they were last asked.
    losses: Vec<(u32, Loss)>,
}

impl Physical {
    pub fn new(buddy: Buddy, rules: MemoryRules) -> Physical {
        Physical {
            buddy,
            rules,
            process: 0,
            owned: FxHashMap::default(),
            owners: FxHashMap::default(),
            reservations: Reservations::default(),
            futile: None,
            clock: VecDeque::new(),
            next: 0,
            swapped: BTreeSet::new(),
            lent: 0,
            losses: Vec::new(),
        }
    }

    /// What other processes lost since this was asked last.
    pub fn take_losses(&mut self) -> Vec<(u32, Loss)> {
        std::mem::take(&mut self.losses)
    }

    /// Tells a process of a loss, unless it is the one that works.
    fn loses(&mut self, process: u32, loss: Loss) {
        if process != self.process {
            self.losses.push((process, loss));
        }
    }

    fn name(&self, page: u64) -> Name {
        (self.process, page)
    }

    /// The frame of a base page is a child's from now on. Returns the name that it goes by.
    pub fn lend(&mut self, page: u64, reserved_order: Option<u8>) -> Option<u64> {
        let Owned { frame, .. } = *self.owned.get(&self.name(page))?;
        if !self.owners.contains_key(&frame) {
            let region = Superpage::around(page, reserved_order.expect("a page of a reservation"));
            let key = (self.process, region);
            let broken = self.reservations.break_up(&mut self.buddy, key).expect("it is of one");
            self.futile = None;
            self.leave(&broken);
        }
        let owned = self.owned.remove(&(self.process, page))?;
        let name = LENT + self.lent;
        self.lent += 1;
        // Not in the clock: nobody but the child can give it up.
        self.owned.insert((self.process, name), owned);
        self.owners.insert(frame, (self.process, Superpage::around(name, 0)));
        Some(name)
    }

    /// The unit of the page cache that goes next, if there is one, and whose it is: what can be dropped where nothing
    /// can be swapped.
    pub fn cached_victim(&mut self) -> Option<(u32, u64)> {
        for spares_used in [true, false] {
            for at in 0..self.clock.len() {
                let (name, since) = self.clock[at];
                let owned = self.owned.get_mut(&name).filter(|owned| owned.since == since);
                let Some(owned) = owned.filter(|_| name.1 & CACHED != 0) else { continue };
                if !(std::mem::take(&mut owned.accessed) && spares_used) {
                    self.clock.remove(at);
                    return Some(name);
                }
            }
        }
        None
    }

    pub fn buddy(&self) -> &Buddy {
        &self.buddy
    }

    /// The first frame of what backs the unit that begins at a page.
    pub fn frame_of(&self, first: u64) -> Option<Frame> {
        self.owned.get(&self.name(first)).map(|owned| owned.frame)
    }

    fn insert(&mut self, unit: Superpage, frame: Frame) {
        self.owners.insert(frame, (self.process, unit));
        self.own(unit.first, frame);
    }

    fn own(&mut self, first: u64, frame: Frame) {
        self.next += 1;
        let name = self.name(first);
        self.owned.insert(name, Owned { frame, since: self.next, accessed: false });
        self.clock.push_back((name, self.next));
        // What is no more goes when it is more than the rest.
        if self.clock.len() > 64 + 2 * self.owned.len() {
            let owned = &self.owned;
            self.clock.retain(|(name, since)| owned.get(name).is_some_and(|of| of.since == *since));
        }
    }

    /// Backs a unit by a free block, if there is one.
    pub fn take(&mut self, unit: Superpage) -> bool {
        let frame = self.buddy.allocate(unit.order.into());
        frame.into_iter().for_each(|frame| self.insert(unit, frame));
        frame.is_some()
    }

    /// Backs a range of pages by the largest free blocks, if enough is free: units of `orders`, a bit each, as large as
    /// they lie aligned. Returns them, and how many runs of adjacent frames they take.
    pub fn take_eager(&mut self, pages: Range<u64>, orders: u32) -> Option<(Vec<Superpage>, u64)> {
        let blocks = self.buddy.allocate_eager(pages.end - pages.start)?;
        let (mut units, mut runs, mut next) = (Vec::new(), 0, None);
        let mut page = pages.start;
        for block in blocks {
            runs += u64::from(next != Some(block.first.0));
            next = Some(block.first.0 + block.frames());
            self.buddy.split(block.first, block.order, 0);
            let (mut frame, end) = (block.first.0, block.first.0 + block.frames());
            while frame < end {
                let fits = |order: &u8| {
                    orders >> order & 1 == 1
                        && (page | frame).is_multiple_of(1 << order)
                        && frame + (1 << order) <= end
                };
                let order = (0..ORDERS as u8).rev().find(fits).unwrap_or(0);
                let unit = Superpage { first: page, order };
                assert!(order == 0 || self.buddy.join(Frame(frame), order.into()), "it was one block");
                self.insert(unit, Frame(frame));
                units.push(unit);
                (page, frame) = (page + unit.len(), frame + unit.len());
            }
        }
        Some((units, runs))
    }

    /// Takes back the frames of a unit. `keeps_place`: a reservation that it is of stays.
    pub fn release(&mut self, unit: Superpage, reserved_order: Option<u8>, keeps_place: bool) {
        self.futile = None;
        let name = self.name(unit.first);
        let Some(Owned { frame, .. }) = self.owned.get(&name).copied() else { return };
        if !self.owners.contains_key(&frame) {
            let region = Superpage::around(unit.first, reserved_order.expect("a page of a reservation"));
            let key = (self.process, region);
            if keeps_place {
                self.owned.remove(&name);
                self.reservations.depopulate(&mut self.buddy, key, unit.first - region.first);
                return;
            }
            let broken = self.reservations.break_up(&mut self.buddy, key).expect("it is of one");
            self.leave(&broken);
        }
        self.owned.remove(&name);
        self.owners.remove(&frame);
        self.buddy.free(frame, unit.order.into());
    }

    /// Makes several units of one. They hold all of it.
    pub fn split(&mut self, unit: Superpage, parts: &[Superpage]) {
        self.futile = None;
        let name = self.name(unit.first);
        let Owned { frame, .. } = self.owned.remove(&name).expect("units own frames");
        self.owners.remove(&frame);
        self.buddy.split(frame, unit.order.into(), 0);
        for &part in parts {
            let its = Frame(frame.0 + (part.first - unit.first));
            assert!(part.order == 0 || self.buddy.join(its, part.order.into()), "parts are blocks");
            self.insert(part, its);
        }
    }

    /// Makes one unit of several where they lie, if they hold all of it and lie right: contiguous and aligned.
    pub fn join(&mut self, block: Superpage, parts: &[Superpage]) -> bool {
        let Some(frame) = self.frame_of(block.first).filter(|frame| frame.0 % block.len() == 0) else {
            return false;
        };
        let backed: u64 = parts.iter().map(|part| part.len()).sum();
        let in_place =
            |part: &Superpage| self.frame_of(part.first) == Some(Frame(frame.0 + (part.first - block.first)));
        if backed < block.len() || !parts.iter().all(in_place) {
            return false;
        }
        // Pages of a reservation are one block already.
        if self.owners.contains_key(&frame) {
            if !self.buddy.join(frame, block.order.into()) {
                return false;
            }
        } else {
            let key = (self.process, block);
            if self.reservations.get(key).is_none_or(|reservation| reservation.block().first != frame) {
                return false;
            }
            self.reservations.take(key);
        }
        for part in parts {
            self.owned.remove(&(self.process, part.first));
            self.owners.remove(&Frame(frame.0 + (part.first - block.first)));
        }
        self.insert(block, frame);
        true
    }

    /// Gives a block frames of its own, and takes back those of its parts.
    pub fn replace(&mut self, block: Superpage, parts: &[Superpage], reserved_order: Option<u8>) -> bool {
        let Some(frame) = self.buddy.allocate(block.order.into()) else { return false };
        parts.iter().for_each(|&part| self.release(part, reserved_order, false));
        self.insert(block, frame);
        true
    }

    /// Makes a free block of an order by moving what is in it. Returns what that took, and which units of the process
    /// moved.
    pub fn compact(&mut self, order: u8) -> Option<(Compaction, Vec<Superpage>)> {
        let order = u32::from(order);
        if self.futile.is_some_and(|futile| futile <= order) {
            return None;
        }
        let Some(compaction) = self.buddy.compact(order) else {
            // Nor can a larger one be: it would have one of this order in it.
            self.futile = Some(order);
            return None;
        };
        let mut moved: Vec<(u32, Superpage)> = Vec::new();
        for of in &compaction.moves {
            if let Some((process, unit)) = self.owners.remove(&of.from) {
                self.owners.insert(of.to, (process, unit));
                self.owned.get_mut(&(process, unit.first)).expect("both maps have the same units").frame =
                    of.to;
                moved.push((process, unit));
            } else if let Some(key) = self.reservations.moved(of.from, of.to) {
                let (process, region) = key;
                for page in region.pages() {
                    let reservation = self.reservations.get(key).expect("it has moved");
                    if reservation.is_populated(page - region.first) {
                        let its = self.owned.get_mut(&(process, page)).expect("a populated page is backed");
                        its.frame = Frame(of.to.0 + (page - region.first));
                        moved.push((process, Superpage::around(page, 0)));
                    }
                }
            }
        }
        moved.iter().for_each(|&(process, unit)| self.loses(process, Loss::Place(unit)));
        let own = moved.into_iter().filter(|&(process, _)| process == self.process);
        let moved = own.map(|(_, unit)| unit).collect();
        self.futile = None;
        Some((compaction, moved))
    }

    /// Whether a region has a reservation.
    pub fn is_reserved(&self, region: Superpage) -> bool {
        self.reservations.get((self.process, region)).is_some()
    }

    /// Reserves a block for a region, if there is one.
    pub fn reserve(&mut self, region: Superpage) -> bool {
        self.reservations.reserve(&mut self.buddy, (self.process, region), region.order.into()).is_some()
    }

    /// Backs a page by its place in the reservation of its region, if that has one.
    pub fn populate(&mut self, page: u64, region: Superpage) -> bool {
        let frame = self.reservations.populate((self.process, region), page - region.first);
        frame.into_iter().for_each(|frame| self.own(page, frame));
        frame.is_some()
    }

    /// Breaks the reservation that was used least recently. Returns its region, and whose that is.
    pub fn break_reservation(&mut self) -> Option<(u32, Superpage)> {
        let broken = self.reservations.break_least_recent(&mut self.buddy)?;
        self.futile = None;
        self.leave(&broken);
        let (process, region) = broken.key;
        self.loses(process, Loss::Reservation(region));
        Some(broken.key)
    }

    /// Takes the frames of a unit from the process that owns it, which is another one; for the rest see
    /// [`Physical::release`].
    pub fn take_from(&mut self, (process, first): (u32, u64), reserved_order: Option<u8>, keeps_place: bool) {
        let order = self.owned.get(&(process, first)).and_then(|owned| self.owners.get(&owned.frame));
        let unit = Superpage { first, order: order.map_or(0, |(_, unit)| unit.order) };
        self.loses(process, Loss::Frames(unit));
        let works = std::mem::replace(&mut self.process, process);
        self.release(unit, reserved_order, keeps_place);
        self.process = works;
    }

    /// The pages of a reservation that has ended own single frames.
    fn leave(&mut self, broken: &BrokenReservation<(u32, Superpage)>) {
        let (process, region) = broken.key;
        for page in region.pages() {
            let frame = Frame(broken.block.first.0 + (page - region.first));
            if self.owned.get(&(process, page)).is_some_and(|owned| owned.frame == frame) {
                self.owners.insert(frame, (process, Superpage::around(page, 0)));
            }
        }
    }

    /// Something walked to a unit.
    pub fn walked(&mut self, first: u64) {
        if let Some(owned) = self.owned.get_mut(&(self.process, first)) {
            owned.accessed = true;
        }
    }

    /// The unit that goes next, by its first page, and whose it is: the first that was not walked to since the hand
    /// came by, of all in the order in which they were backed. If all were, the hand comes round.
    pub fn victim(&mut self) -> Option<(u32, u64)> {
        while let Some((name, since)) = self.clock.pop_front() {
            let Some(owned) = self.owned.get_mut(&name).filter(|owned| owned.since == since) else {
                continue;
            };
            if !std::mem::take(&mut owned.accessed) {
                return Some(name);
            }
            self.clock.push_back((name, since));
        }
        None
    }

    /// Notes that a page is swapped out.
    pub fn swap_out(&mut self, page: u64) {
        self.swapped.insert((self.process, page));
    }

    /// Whether a page was swapped out. It no longer is.
    pub fn swap_in(&mut self, page: u64) -> bool {
        self.swapped.remove(&(self.process, page))
    }

    fn first_swapped(&self, pages: &Range<u64>) -> Option<Name> {
        self.swapped.range(self.name(pages.start)..self.name(pages.end)).next().copied()
    }

    /// Whether some page of a range is swapped out.
    pub fn any_swapped(&self, pages: Range<u64>) -> bool {
        self.first_swapped(&pages).is_some()
    }

    /// Swapped pages of a range are no longer needed.
    pub fn forget_swapped(&mut self, pages: Range<u64>) {
        while let Some(name) = self.first_swapped(&pages) {
            self.swapped.remove(&name);
        }
    }
}
