//! Reservations: a block reserved for an aligned region at its first touch, and populated frame by frame.
//!
//! Each page's frame lies at the page's offset in the block, so a full region becomes a superpage without a copy. A
//! reservation only competes with others: when memory runs short, the least recently populated one breaks, which frees
//! its unpopulated frames.
//!
//! Sources: Talluri and Hill, "Surpassing the TLB Performance of Superpages with Less Operating System Support", ASPLOS
//! 1994 (page reservation); Navarro, Iyer, Druschel, Cox, "Practical, Transparent Operating System Support for
//! Superpages", OSDI 2002, section 4 (preemption: least recently populated first; full reservations have nothing to
//! give); FreeBSD `sys/vm/vm_reserv.c`. As in FreeBSD, a broken reservation is gone and its populated frames become
//! single frames; Navarro et al. keep smaller reservations of the rest.
//!
//! Which regions to reserve, their order, and when to break reservations are policies, left to the caller.
//!
//! State: one bit per frame of a reservation. Cost: logarithmic in the number of reservations per operation; breaking
//! is linear in frames.

use super::bitmap::Bitmap;
use super::{Buddy, Frame, FrameBlock};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::Hash;

/// One reservation.
#[derive(Clone, Debug)]
pub struct Reservation {
    block: FrameBlock,
    handed_out: Bitmap,
    populated: u64,
    /// When it was made or last populated, as a growing number.
    stamp: u64,
}

impl Reservation {
    /// The reserved block.
    pub fn block(&self) -> FrameBlock {
        self.block
    }

    /// Populated frames.
    pub fn populated(&self) -> u64 {
        self.populated
    }

    /// Whether all frames are populated.
    pub fn is_full(&self) -> bool {
        self.populated == self.block.frames()
    }

    /// Whether the frame at this offset is populated.
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
    /// The key of its region.
    pub key: K,
    /// Its block; populated frames are now allocated singly.
    pub block: FrameBlock,
    /// Frames freed.
    pub freed: u64,
}

/// The reservations of all regions; `K` names a region, for example by address space and number.
///
/// The block of a reservation is one allocated block of the [`Buddy`], until the reservation ends in one of four ways:
/// [`take`](Reservations::take), [`break_up`](Reservations::break_up),
/// [`break_least_recent`](Reservations::break_least_recent), or the return of the last frame
/// ([`depopulate`](Reservations::depopulate)).
#[derive(Clone, Debug)]
pub struct Reservations<K> {
    held: FxHashMap<K, Reservation>,
    /// The region of each block, by its first frame.
    regions: FxHashMap<Frame, K>,
    /// Partial reservations, least recently populated first.
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
    /// The number of reservations.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there are no reservations.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The reservation of a region.
    pub fn get(&self, key: K) -> Option<&Reservation> {
        self.held.get(&key)
    }

    /// Reserves a block of `order` for a region, with nothing populated. `None` if no free block is large enough.
    ///
    /// # Panics
    /// If the region has a reservation.
    pub fn reserve(&mut self, memory: &mut Buddy, key: K, order: u32) -> Option<FrameBlock> {
        assert!(!self.held.contains_key(&key), "the region has a reservation already");
        let block = FrameBlock { first: memory.allocate(order)?, order };
        let handed_out = Bitmap::new(block.frames());
        let stamp = self.next_stamp();
        self.held.insert(key, Reservation { block, handed_out, populated: 0, stamp });
        self.regions.insert(block.first, key);
        self.partial.insert(stamp, key);
        Some(block)
    }

    /// Populates the frame at `offset` of a region's block and returns it; populated frames are returned unchanged.
    /// `None` if the region has no reservation.
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

    /// Takes back the frame at `offset`; false if it is not populated. The return of the last frame ends the
    /// reservation and frees its block. Taking back does not count as use.
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

    /// Ends a reservation and leaves its allocated block to the caller, for promotion. `None` if the region has no
    /// reservation.
    pub fn take(&mut self, key: K) -> Option<FrameBlock> {
        self.remove(key).map(|reservation| reservation.block)
    }

    /// Breaks the least recently populated partial reservation. `None` if there is none.
    pub fn break_least_recent(&mut self, memory: &mut Buddy) -> Option<BrokenReservation<K>> {
        let (_, &key) = self.partial.first_key_value()?;
        self.break_up(memory, key)
    }

    /// Breaks a reservation: frees unpopulated frames, and allocates the others singly. `None` if the region has no
    /// reservation.
    pub fn break_up(&mut self, memory: &mut Buddy, key: K) -> Option<BrokenReservation<K>> {
        let reservation = self.remove(key)?;
        let block = reservation.block;
        memory.split(block.first, block.order, 0);
        for offset in (0..block.frames()).filter(|&offset| !reservation.is_populated(offset)) {
            memory.free(Frame(block.first.0 + offset), 0);
        }
        Some(BrokenReservation { key, block, freed: block.frames() - reservation.populated })
    }

    /// Follows a block that compaction moved. Returns the region, if the block is a reservation's.
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
