//! The frames that back pages.
//!
//! Every superpage and every backed base page, a *unit*, owns a block of frames of its order. Pages of a reservation
//! own its frames at their offsets, while the allocator sees one block.
//!
//! Processes in turns share a memory: it moves from one kernel to the next (see
//! [`Kernel::hand_memory`](super::Kernel::hand_memory)), and callers name pages of the process that has it. A process
//! learns what others took from it when it has the memory again.

use super::ORDERS;
use super::colors::WantedColor;
use crate::Superpage;
use crate::frames::{BrokenReservation, Buddy, Compaction, Frame, Reservations};
use crate::placement::Colors;
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// What happens if a page needs a frame and none is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullMemoryAction {
    /// Another unit is swapped out.
    #[default]
    Swap,
    /// The process is killed: there is no swap.
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

/// The kill of a process for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomKill {
    /// Instructions executed.
    pub instructions: u64,
    /// Bytes of the page without a frame: a base page, since larger ones fall back first.
    pub bytes: u64,
}

/// A kernel's rules for its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRules {
    /// Whether promotions compact memory if they find no block.
    pub compact: bool,
    /// Cycles to move one frame in compaction.
    pub migration_cycles: u64,
    /// Cycles to write a base page to swap or read it back.
    pub swap_cycles: u64,
    /// What happens if no frame is free.
    pub when_full: FullMemoryAction,
}

impl MemoryRules {
    /// Swap: 100 µs at 3 GHz per page, for a current solid-state disk; chosen.
    pub const SWAP_CYCLES: u64 = 300_000;
}

/// The first name of the page cache's pages, beyond all addresses.
pub(super) const CACHED: u64 = 1 << 62;
/// The first name of pages that a child keeps while this process has copies.
pub(super) const LENT: u64 = 1 << 63;

/// What a process's kernel loses through another kernel's work on the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The frames of a unit, or of a page of the page cache.
    Frames(Superpage),
    /// The place of a unit, which moved to other frames.
    Place(Superpage),
    /// The reservation of a region.
    Reservation(Superpage),
}

/// A process and the first page, or name, of something that owns frames.
type Name = (u32, u64);

#[derive(Clone, Copy, Debug)]
struct Owned {
    frame: Frame,
    /// Its number among all units ever backed.
    since: u64,
    /// Whether it had a walk since the clock's hand came by.
    accessed: bool,
}

/// A physical memory and the owners of its frames.
#[derive(Clone)]
pub(super) struct Physical {
    buddy: Buddy,
    pub rules: MemoryRules,
    /// The process that has it.
    pub process: u32,
    /// Blocks of units, by first page.
    owned: FxHashMap<Name, Owned>,
    /// Units by first frame, without pages of reservations.
    owners: FxHashMap<Frame, (u32, Superpage)>,
    reservations: Reservations<(u32, Superpage)>,
    /// An order of which no block can be cleared, until frames are freed or blocks split.
    futile: Option<u32>,
    /// First pages of units and their numbers, in the order of the clock's hand; some are stale.
    clock: VecDeque<(Name, u64)>,
    next: u64,
    swapped: BTreeSet<Name>,
    /// Pages lent so far.
    lent: u64,
    /// Losses of other processes since the last call of `take_losses`.
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

    /// Whether other processes have not heard of some losses.
    pub fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }

    /// Takes the losses of other processes since the last call.
    pub fn take_losses(&mut self) -> Vec<(u32, Loss)> {
        std::mem::take(&mut self.losses)
    }

    /// Records a process's loss, unless it is the one that works.
    fn loses(&mut self, process: u32, loss: Loss) {
        if process != self.process {
            self.losses.push((process, loss));
        }
    }

    fn name(&self, page: u64) -> Name {
        (self.process, page)
    }

    /// Gives the frame of a base page to a child. Returns its name.
    pub fn lend(&mut self, page: u64, reserved_order: Option<u8>) -> Option<u64> {
        let Owned { frame, .. } = *self.owned.get(&self.name(page))?;
        if !self.owners.contains_key(&frame) {
            let region = Superpage::around(page, reserved_order.expect("a page of a reservation"));
            let key = (self.process, region);
            let broken = self.reservations.break_up(&mut self.buddy, key).expect("the page is in one");
            self.futile = None;
            self.leave(&broken);
        }
        let owned = self.owned.remove(&(self.process, page))?;
        let name = LENT + self.lent;
        self.lent += 1;
        // Not in the clock: only the child can free it.
        self.owned.insert((self.process, name), owned);
        self.owners.insert(frame, (self.process, Superpage::around(name, 0)));
        Some(name)
    }

    /// The next victim of the page cache and its process, if any: it can be dropped even without swap.
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

    /// The first frame of the unit that begins at a page.
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
        // Remove stale entries when they outnumber the others.
        if self.clock.len() > 64 + 2 * self.owned.len() {
            let owned = &self.owned;
            self.clock.retain(|(name, since)| owned.get(name).is_some_and(|of| of.since == *since));
        }
    }

    /// Backs a unit with a free block, if there is one.
    pub fn take(&mut self, unit: Superpage) -> bool {
        let frame = self.buddy.allocate(unit.order.into());
        frame.into_iter().for_each(|frame| self.insert(unit, frame));
        frame.is_some()
    }

    /// Backs a unit with the frames from `first` on, if all are free.
    pub fn take_at(&mut self, unit: Superpage, first: Frame) -> bool {
        let is_free = self.buddy.allocate_at(first, unit.order.into());
        if is_free {
            self.insert(unit, first);
        }
        is_free
    }

    /// Backs a base page with a free frame, of the wanted color if there is one.
    pub fn take_page(&mut self, page: u64, wanted: Option<WantedColor>) -> bool {
        let colored = wanted.and_then(|wanted| self.allocate_color(wanted.color, wanted.colors));
        match colored {
            Some(frame) => {
                self.insert(Superpage::around(page, 0), frame);
                true
            }
            None if wanted.is_some_and(|wanted| wanted.is_strict) => false,
            None => self.take(Superpage::around(page, 0)),
        }
    }

    /// Allocates a free frame of a color, if there is one, for [`Physical::move_to`].
    pub fn allocate_color(&mut self, color: u64, colors: Colors) -> Option<Frame> {
        self.buddy.allocate_color(color, colors.count)
    }

    /// Moves a base page to an allocated frame, and frees its own.
    pub fn move_to(&mut self, page: u64, to: Frame, reserved_order: Option<u8>) {
        let unit = Superpage::around(page, 0);
        self.release(unit, reserved_order, false);
        self.insert(unit, to);
    }

    /// Backs a range of pages with the largest free blocks, if enough is free, as units of `orders` (one bit each) as
    /// large as alignment allows. Returns the units and their number of runs of adjacent frames.
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

    /// Frees the frames of a unit. `keeps_place`: its reservation stays.
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
            let broken = self.reservations.break_up(&mut self.buddy, key).expect("the page is in one");
            self.leave(&broken);
        }
        self.owned.remove(&name);
        self.owners.remove(&frame);
        self.buddy.free(frame, unit.order.into());
    }

    /// Splits a unit into `parts`, which cover it.
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

    /// Joins `parts` in place, if they cover the block and are contiguous and aligned in memory.
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

    /// Gives a block new frames, and frees those of its parts.
    pub fn replace(&mut self, block: Superpage, parts: &[Superpage], reserved_order: Option<u8>) -> bool {
        let Some(frame) = self.buddy.allocate(block.order.into()) else { return false };
        parts.iter().for_each(|&part| self.release(part, reserved_order, false));
        self.insert(block, frame);
        true
    }

    /// Compacts memory for a free block of an order. Returns the compaction and the moved units of the process.
    pub fn compact(&mut self, order: u8) -> Option<(Compaction, Vec<Superpage>)> {
        let order = u32::from(order);
        if self.futile.is_some_and(|futile| futile <= order) {
            return None;
        }
        let Some(compaction) = self.buddy.compact(order) else {
            // Larger blocks contain blocks of this order, so they cannot be cleared either.
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
                    let reservation = self.reservations.get(key).expect("its block moved");
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

    /// Backs a page with its frame in its region's reservation, if there is one.
    pub fn populate(&mut self, page: u64, region: Superpage) -> bool {
        let frame = self.reservations.populate((self.process, region), page - region.first);
        frame.into_iter().for_each(|frame| self.own(page, frame));
        frame.is_some()
    }

    /// Breaks the least recently used reservation. Returns its region and process.
    pub fn break_reservation(&mut self) -> Option<(u32, Superpage)> {
        let broken = self.reservations.break_least_recent(&mut self.buddy)?;
        self.futile = None;
        self.leave(&broken);
        let (process, region) = broken.key;
        self.loses(process, Loss::Reservation(region));
        Some(broken.key)
    }

    /// [`Physical::release`] for a unit of another process.
    pub fn take_from(&mut self, (process, first): (u32, u64), reserved_order: Option<u8>, keeps_place: bool) {
        let order = self.owned.get(&(process, first)).and_then(|owned| self.owners.get(&owned.frame));
        let unit = Superpage { first, order: order.map_or(0, |(_, unit)| unit.order) };
        self.loses(process, Loss::Frames(unit));
        let works = std::mem::replace(&mut self.process, process);
        self.release(unit, reserved_order, keeps_place);
        self.process = works;
    }

    /// Makes the populated pages of a broken reservation own single frames.
    fn leave(&mut self, broken: &BrokenReservation<(u32, Superpage)>) {
        let (process, region) = broken.key;
        for page in region.pages() {
            let frame = Frame(broken.block.first.0 + (page - region.first));
            if self.owned.get(&(process, page)).is_some_and(|owned| owned.frame == frame) {
                self.owners.insert(frame, (process, Superpage::around(page, 0)));
            }
        }
    }

    /// A walk to a unit.
    pub fn walked(&mut self, first: u64) {
        if let Some(owned) = self.owned.get_mut(&(self.process, first)) {
            owned.accessed = true;
        }
    }

    /// The next victim's process and first page: in the order of backing, the first unit without a walk since the
    /// clock's hand came by. If a color is wanted strictly, a unit with a frame of it.
    pub fn victim(&mut self, wanted: Option<WantedColor>) -> Option<(u32, u64)> {
        let strict = wanted.filter(|wanted| wanted.is_strict);
        // Once round forgets all walks.
        for _ in 0..2 * self.clock.len() {
            let (name, since) = self.clock.pop_front()?;
            let Some(owned) = self.owned.get_mut(&name).filter(|owned| owned.since == since) else {
                continue;
            };
            let frames = self.owners.get(&owned.frame).map_or(1, |(_, unit)| unit.len());
            let has_color = strict.is_none_or(|wanted| wanted.is_in(owned.frame, frames));
            if has_color && !std::mem::take(&mut owned.accessed) {
                return Some(name);
            }
            self.clock.push_back((name, since));
        }
        None
    }

    /// Records a swapped-out page.
    pub fn swap_out(&mut self, page: u64) {
        self.swapped.insert((self.process, page));
    }

    /// Removes a page from swap; false if it is not swapped out.
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

    /// Drops swapped pages of a range.
    pub fn forget_swapped(&mut self, pages: Range<u64>) {
        while let Some(name) = self.first_swapped(&pages) {
            self.swapped.remove(&name);
        }
    }
}
