//! Reservations: a block set aside for an aligned region at its first touch, handed out frame by frame.
//!
//! The frame of each page of the region lies at the page's own offset in the block, so a region that becomes full is a
//! superpage without a copy. A reservation costs nothing but the chance of others: when memory runs short, the
//! one that was populated least recently is broken, which frees what it never handed out.
//!
//! Sources: Talluri and Hill, "Surpassing the TLB Performance of Superpages with Less Operating System Support",
//! ASPLOS 1994 (page reservation); Navarro, Iyer, Druschel, Cox, "Practical, Transparent Operating System
//! Support for Superpages", OSDI 2002, section 4 (preemption: least recently populated first; full
//! reservations have nothing to give); FreeBSD `sys/vm/vm_reserv.c`. As in FreeBSD a broken reservation is gone, its
//! populated frames remaining single frames; Navarro et al. keep smaller reservations of what is left.
//!
//! Which regions to reserve for, of what order, and when to break are policies and left to the caller.
//!
//! State: per reservation one bit per frame. Cost: a logarithm of the number of reservations per operation; breaking
//! one, its frames.

use super::bitmap::Bitmap;
use super::{Block, Buddy, Frame};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::Hash;

/// One reservation.
#[derive(Clone, Debug)]
pub struct Reservation {
    block: Block,
    handed_out: Bitmap,
    populated: u64,
    /// When it was made or populated last, as a number that only grows.
    stamp: u64,
}

impl Reservation {
    /// The block set aside.
    pub fn block(&self) -> Block {
        self.block
    }

    /// Frames handed out.
    pub fn populated(&self) -> u64 {
        self.populated
    }

    /// Whether all frames are handed out.
    pub fn is_full(&self) -> bool {
        self.populated == self.block.frames()
    }

    /// Whether the frame at this offset was handed out.
    pub fn is_populated(&self, offset: u64) -> bool {
        self.handed_out.contains(offset)
    }

    fn frame(&self, offset: u64) -> Frame {
        assert!(
            offset < self.block.frames(),
            "offset {offset} in a reservation of {} frames",
            self.block.frames()
        );
        Frame(self.block.first.0 + offset)
    }
}

/// A reservation that ended before it was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenReservation<K> {
    /// Whose it was.
    pub key: K,
    /// The block it was; the frames that had been handed out are given out one by one now.
    pub block: Block,
    /// Frames freed.
    pub freed: u64,
}

/// The reservations of all regions; `K` names a region, for example by address space and number.
///
/// The block of a reservation is one block given out by the [`Buddy`], until the reservation ends in one of four ways:
/// [`take`](Reservations::take), [`break_up`](Reservations::break_up),
/// [`break_least_recent`](Reservations::break_least_recent), or the last frame coming back
/// ([`depopulate`](Reservations::depopulate)).
#[derive(Clone, Debug)]
pub struct Reservations<K> {
    held: FxHashMap<K, Reservation>,
    /// The region of each block, by its first frame.
    regions: FxHashMap<Frame, K>,
    /// Reservations that are not full, least recently populated first.
    partial: BTreeMap<u64, K>,
    clock: u64,
}

impl<K> Default for Reservations<K> {
    fn default() -> Self {
        let (held, regions) = (FxHashMap::default(), FxHashMap::default());
        Reservations { held, regions, partial: BTreeMap::new(), clock: 0 }
    }
}

impl<K: Copy + Eq + Hash> Reservations<K> {
    /// How many reservations there are.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The reservation of a region.
    pub fn get(&self, key: K) -> Option<&Reservation> {
        self.held.get(&key)
    }

    /// Sets a block of `order` aside for a region; nothing of it is handed out yet. `None` when no free block is large
    /// enough.
    ///
    /// # Panics
    /// If the region has a reservation.
    pub fn reserve(&mut self, memory: &mut Buddy, key: K, order: u32) -> Option<Block> {
        assert!(!self.held.contains_key(&key), "the region has a reservation already");
        let block = Block { first: memory.allocate(order)?, order };
        let handed_out = Bitmap::new(block.frames());
        let stamp = self.next_stamp();
        self.held.insert(key, Reservation { block, handed_out, populated: 0, stamp });
        self.regions.insert(block.first, key);
        self.partial.insert(stamp, key);
        Some(block)
    }

    /// Hands out the frame at `offset` of a region's block; handing out one again changes nothing but gives the same
    /// frame. `None` when the region has no reservation.
    ///
    /// # Panics
    /// If the offset is not inside the block.
    pub fn populate(&mut self, key: K, offset: u64) -> Option<Frame> {
        let reservation = self.held.get_mut(&key)?;
        let frame = reservation.frame(offset);
        if reservation.is_populated(offset) {
            return Some(frame);
        }
        reservation.handed_out.insert(offset);
        reservation.populated += 1;
        self.clock += 1;
        self.partial.remove(&reservation.stamp);
        reservation.stamp = self.clock;
        if !reservation.is_full() {
            self.partial.insert(reservation.stamp, key);
        }
        Some(frame)
    }

    /// Takes back the frame at `offset`; the last one to come back ends the reservation and frees its block. Whether
    /// the frame had been handed out. Taking back makes no reservation more recent.
    pub fn depopulate(&mut self, memory: &mut Buddy, key: K, offset: u64) -> bool {
        let Some(reservation) = self.held.get_mut(&key) else { return false };
        if !reservation.is_populated(offset) {
            return false;
        }
        reservation.handed_out.remove(offset);
        reservation.populated -= 1;
        self.partial.insert(reservation.stamp, key);
        if reservation.populated == 0 {
            let block = self.take(key).expect("found above");
            memory.free(block.first, block.order);
        }
        true
    }

    /// Ends a reservation and leaves its whole block, one block given out, to the caller: promotion. `None` when the
    /// region has no reservation.
    pub fn take(&mut self, key: K) -> Option<Block> {
        self.remove(key).map(|reservation| reservation.block)
    }

    /// Breaks the reservation that was populated least recently among those that are not full. `None` when there is
    /// none.
    pub fn break_least_recent(&mut self, memory: &mut Buddy) -> Option<BrokenReservation<K>> {
        let (_, &key) = self.partial.first_key_value()?;
        self.break_up(memory, key)
    }

    /// Ends a reservation: frees what was not handed out, and makes single frames given out of the rest. `None` when
    /// the region has no reservation.
    pub fn break_up(&mut self, memory: &mut Buddy, key: K) -> Option<BrokenReservation<K>> {
        let reservation = self.remove(key)?;
        let block = reservation.block;
        memory.split(block.first, block.order, 0);
        for offset in (0..block.frames()).filter(|&offset| !reservation.is_populated(offset)) {
            memory.free(Frame(block.first.0 + offset), 0);
        }
        Some(BrokenReservation { key, block, freed: block.frames() - reservation.populated })
    }

    /// Follows a block that compaction moved; blocks that are no reservation's are none of its business. The region
    /// whose reservation moved.
    pub fn moved(&mut self, from: Frame, to: Frame) -> Option<K> {
        let key = self.regions.remove(&from)?;
        self.regions.insert(to, key);
        self.held.get_mut(&key).expect("both maps have the same regions").block.first = to;
        Some(key)
    }

    fn remove(&mut self, key: K) -> Option<Reservation> {
        let reservation = self.held.remove(&key)?;
        self.regions.remove(&reservation.block.first);
        self.partial.remove(&reservation.stamp);
        Some(reservation)
    }

    fn next_stamp(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}
