//! Finds a key's way in a set of many ways.
//!
//! Comparing a key with the 4,096 of a fully associative array takes a microsecond, so large sets have a hash
//! table from key to way: open addressing with linear probing, and removal that moves later entries back so
//! that no search meets a tombstone (Knuth, TAOCP vol. 3, section 6.4, algorithm R). Only the array holds the
//! keys themselves.
//!
//! At most a quarter of a table is in use: at one half, more searches go beyond their first slot, and the
//! mispredicted branches cost a third of the speed. Slots are bytes if they can be: a miss waits for them.

use crate::Geometry;
use crate::way::{Way, are_bytes};

/// A hash table of ways for each set.
#[derive(Clone, Debug)]
pub(crate) enum Directory {
    Narrow(Tables<u8>),
    Wide(Tables<u32>),
}

impl Directory {
    /// Empty tables.
    pub fn new(geometry: Geometry) -> Directory {
        match are_bytes(geometry.ways()) {
            true => Directory::Narrow(Tables::new(geometry)),
            false => Directory::Wide(Tables::new(geometry)),
        }
    }

    /// The way of `key` in this set, whose ways hold `keys`.
    #[inline]
    pub fn find(&self, set: usize, key: u64, keys: &[u64]) -> Option<usize> {
        match self {
            Directory::Narrow(tables) => tables.find(set, key, keys),
            Directory::Wide(tables) => tables.find(set, key, keys),
        }
    }

    /// Records that `key`, not held before, goes into `way`.
    pub fn insert(&mut self, set: usize, key: u64, way: usize) {
        match self {
            Directory::Narrow(tables) => tables.insert(set, key, way),
            Directory::Wide(tables) => tables.insert(set, key, way),
        }
    }

    /// Removes `key`, which is still among `keys`.
    pub fn remove(&mut self, set: usize, key: u64, keys: &[u64]) {
        match self {
            Directory::Narrow(tables) => tables.remove(set, key, keys),
            Directory::Wide(tables) => tables.remove(set, key, keys),
        }
    }
}

/// See [`Directory`].
#[derive(Clone, Debug)]
pub(crate) struct Tables<W> {
    slots: Vec<W>,
    /// log2 of the slots per set; at least 1.
    bits: u32,
}

impl<W: Way> Tables<W> {
    fn new(geometry: Geometry) -> Tables<W> {
        let capacity = (4 * geometry.ways()).next_power_of_two();
        Tables { slots: vec![W::NONE; geometry.sets() * capacity], bits: capacity.trailing_zeros() }
    }

    /// The first slot of a key's search: the top bits of its product with 2^64 / golden ratio.
    #[inline(always)]
    fn home(key: u64, bits: u32) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }

    #[inline]
    fn find(&self, set: usize, key: u64, keys: &[u64]) -> Option<usize> {
        let slots = &self.slots[set << self.bits..(set + 1) << self.bits];
        let mut slot = Self::home(key, self.bits);
        while slots[slot] != W::NONE {
            let way = slots[slot].number();
            if keys[way] == key {
                return Some(way);
            }
            slot = (slot + 1) & (slots.len() - 1);
        }
        None
    }

    #[inline]
    fn insert(&mut self, set: usize, key: u64, way: usize) {
        let slots = &mut self.slots[set << self.bits..(set + 1) << self.bits];
        let mut slot = Self::home(key, self.bits);
        while slots[slot] != W::NONE {
            slot = (slot + 1) & (slots.len() - 1);
        }
        slots[slot] = W::of(way);
    }

    #[inline]
    fn remove(&mut self, set: usize, key: u64, keys: &[u64]) {
        let slots = &mut self.slots[set << self.bits..(set + 1) << self.bits];
        let mask = slots.len() - 1;
        let mut hole = Self::home(key, self.bits);
        while keys[slots[hole].number()] != key {
            hole = (hole + 1) & mask;
        }
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            if slots[slot] == W::NONE {
                break;
            }
            // An entry moves back into the hole unless its search begins after it.
            let home = Self::home(keys[slots[slot].number()], self.bits);
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                slots[hole] = slots[slot];
                hole = slot;
            }
        }
        slots[hole] = W::NONE;
    }
}
