//! The skewed-associative array, which holds pages of several sizes at once.
//!
//! Each way is a bank with its own hash, so pages that conflict in one way seldom conflict in another. A lookup does
//! not know the page's size: it searches each bank for one size, chosen by address bits that are part of the page
//! number at every size. So each page may lie in the ways of its size, and all sizes share all entries.
//!
//! With S sizes from the smallest on, way w of W serves, for an address in region r, size (⌊w·S/W⌋ + r) mod S; a region
//! is as large as the largest page. In way w the page with number n at its size lies in place a₀ ⊕ Hʷ(a₁ ⊕ Hʷ(a₂ ⊕ …)),
//! where aₖ are the pieces of n as wide as a bank's index, the lowest first. H shifts a piece down by one bit and sets
//! the highest bit to the xor of the old highest and lowest bits. Way 0 is [`crate::SetIndex::XorFold`], and each
//! aligned run of as many pages as a bank has places uses every place once.
//!
//! A page goes into the lowest of its ways with an empty place, or else replaces the least recently used of its places.
//!
//! Sources: Seznec, "Concurrent Support of Multiple Page Sizes on a Skewed Associative TLB", IEEE Transactions on
//! Computers 53 (7), 2004, for ways whose size address bits choose, so that each size of four has two of eight ways.
//! Seznec and Bodin, "Skewed-Associative Caches", PARLE 1993, for H. Where they are silent, the rules above are chosen.
//!
//! State: a key and a 64-bit time per entry, and 8 KiB of tables per way. Cost: one hash and one comparison per way of
//! a size.

use crate::organisation::{Entry, OrganisationError, Shape, SizeIndexedArray};
use crate::{RelevantHits, Replacement};
use std::sync::Arc;

/// Marks an empty place; never a key.
const EMPTY: u64 = u64::MAX;

/// Keys in banks, replaced by times of last use.
#[derive(Clone, Debug)]
pub struct Skewed {
    /// log2 of the places of a bank.
    bits: u32,
    ways: usize,
    /// log2 of the sizes, from the smallest on.
    shifts: Vec<u32>,
    /// The contribution to the place, by way, byte of a number and its value.
    hashes: Arc<[Bytes]>,
    /// The places of all banks in order.
    places: Vec<Place>,
    clock: u64,
}

/// Contributions by byte of a number and its value.
type Bytes = [[u32; 256]; 8];

#[derive(Clone, Copy, Debug)]
struct Place {
    key: u64,
    /// The time of last use.
    time: u64,
}

const VACANT: Place = Place { key: EMPTY, time: 0 };

/// Seznec and Bodin's H on the low `bits` bits, at least one.
fn step(piece: u64, bits: u32) -> u64 {
    // With one bit, the highest is the lowest, and H would lose it.
    if bits == 1 { piece } else { piece >> 1 | ((piece ^ piece >> (bits - 1)) & 1) << (bits - 1) }
}

/// [`place_in`] by byte. The place of a number is the xor of the places of its bits.
fn bytes(way: usize, bits: u32) -> Bytes {
    let of_bits: [u32; 64] = std::array::from_fn(|bit| place_in(way, 1 << bit, bits) as u32);
    let of_value = |byte: usize, value: usize| {
        let set = (0..8).filter(|bit| value >> bit & 1 == 1);
        set.fold(0, |place, bit| place ^ of_bits[8 * byte + bit])
    };
    std::array::from_fn(|byte| std::array::from_fn(|value| of_value(byte, value)))
}

/// The place of a number in a way.
fn place_in(way: usize, number: u64, bits: u32) -> usize {
    if bits == 0 {
        return 0;
    }
    let pieces = (u64::BITS - number.leading_zeros()).div_ceil(bits);
    let mut place = 0;
    for piece in (0..pieces).rev() {
        place = (0..way).fold(place, |place, _| step(place, bits));
        place ^= number >> (piece * bits) & ((1 << bits) - 1);
    }
    place as usize
}

impl Skewed {
    /// The ways of an entry.
    fn ways_of(&self, entry: Entry) -> std::ops::Range<usize> {
        let sizes = self.shifts.len();
        let size = self.shifts.iter().position(|&shift| shift == entry.shift).expect("a size that it holds");
        let region = entry.number >> (self.shifts[sizes - 1] - entry.shift);
        let group = (size + sizes - (region % sizes as u64) as usize) % sizes;
        let each = self.ways / sizes;
        group * each..(group + 1) * each
    }

    /// The places of an entry, the lowest way first.
    #[inline]
    fn places_of(&self, entry: Entry) -> impl Iterator<Item = usize> + '_ {
        self.ways_of(entry).map(move |way| {
            let (mut place, mut rest) = (0, entry.number);
            for byte in &self.hashes[way] {
                if rest == 0 {
                    break;
                }
                place ^= byte[(rest & 255) as usize];
                rest >>= 8;
            }
            (way << self.bits) + place as usize
        })
    }

    fn find(&self, entry: Entry) -> Option<usize> {
        self.places_of(entry).find(|&place| self.places[place].key == entry.key)
    }

    fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

impl SizeIndexedArray for Skewed {
    const NAME: &'static str = "skewed";
    const RELEVANT_HITS: RelevantHits = RelevantHits::Changes;

    fn of(shape: Shape<'_>) -> Result<Skewed, OrganisationError> {
        let Shape { geometry, replacement, .. } = shape;
        let (ways, sizes) = (geometry.ways(), shape.shifts.len());
        let name = Skewed::NAME;
        if sizes == 0 || !ways.is_multiple_of(sizes) {
            return Err(OrganisationError(format!(
                "index = \"{name}\" with {ways} ways and {sizes} page sizes: each size has as many ways, so choose a \
                 multiple of {} ways, or other `page_sizes`",
                sizes.max(1)
            )));
        }
        if replacement != Replacement::Lru {
            return Err(OrganisationError(format!(
                "index = \"{name}\" with replacement = \"{}\": a skewed array has no sets whose order such \
                 a policy could keep: leave it out, or choose \"lru\"",
                replacement.name()
            )));
        }
        let mut shifts = shape.shifts.to_vec();
        shifts.sort_unstable();
        let bits = geometry.sets().trailing_zeros();
        let hashes = (0..ways).map(|way| bytes(way, bits)).collect();
        Ok(Skewed { bits, ways, shifts, hashes, places: vec![VACANT; geometry.entries()], clock: 0 })
    }

    fn contains(&self, entry: Entry) -> bool {
        self.find(entry).is_some()
    }

    fn touch(&mut self, entry: Entry) -> bool {
        let Some(place) = self.find(entry) else { return false };
        self.places[place].time = self.now();
        true
    }

    fn insert(&mut self, entry: Entry) -> Option<u64> {
        debug_assert!(self.find(entry).is_none(), "{entry:?} is held already");
        // Empty places have the earliest times.
        let place = self.places_of(entry).min_by_key(|&place| self.places[place].time);
        let place = place.expect("each size has a way");
        let new = Place { key: entry.key, time: self.now() };
        let old = std::mem::replace(&mut self.places[place], new);
        (old.key != EMPTY).then_some(old.key)
    }

    fn remove(&mut self, entry: Entry) -> bool {
        let found = self.find(entry);
        found.into_iter().for_each(|place| self.places[place] = VACANT);
        found.is_some()
    }

    fn remove_where(&mut self, mut gone: impl FnMut(u64) -> bool) {
        let held = self.places.iter_mut().filter(|place| place.key != EMPTY);
        held.filter(|place| gone(place.key)).for_each(|place| *place = VACANT);
    }

    fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.places.iter().map(|place| place.key).filter(|&key| key != EMPTY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, SetIndex};

    /// Seznec's sizes: 8 KiB, 64 KiB, 512 KiB and 4 MiB.
    const SHIFTS: [u32; 4] = [13, 16, 19, 22];

    fn array(entries: u32, ways: u32, shifts: &[u32]) -> Result<Skewed, OrganisationError> {
        let geometry = Geometry::new(entries, Some(ways)).unwrap();
        Skewed::of(Shape { geometry, shifts, replacement: Replacement::Lru })
    }

    fn entry(address: u64, shift: u32) -> Entry {
        Entry { shift, number: address >> shift, key: address >> shift << 6 | u64::from(shift) }
    }

    #[test]
    fn seznec_2004_each_size_has_two_of_eight_ways_and_each_way_one_size() {
        let array = array(64, 8, &SHIFTS).unwrap();
        for address in (0..64).map(|n| n * 0x12_3456) {
            let mut ways: Vec<usize> =
                SHIFTS.iter().flat_map(|&shift| array.ways_of(entry(address, shift))).collect();
            ways.sort_unstable();
            assert!(ways.into_iter().eq(0..8), "{address:#x}");
        }
        // Each size uses all ways, by regions.
        for shift in SHIFTS {
            let mut ways: Vec<usize> =
                (0..4).flat_map(|region| array.ways_of(entry(region << 22, shift))).collect();
            ways.sort_unstable();
            assert!(ways.into_iter().eq(0..8));
        }
    }

    #[test]
    fn aligned_runs_use_every_place_of_each_bank() {
        for (bits, way) in (0..8).flat_map(|bits| (0..12).map(move |way| (bits, way))) {
            let start = 0x1234_5678_9abc << bits;
            let run = start..start + (1 << bits);
            let mut used: Vec<usize> = run.map(|number| place_in(way, number, bits)).collect();
            used.sort_unstable();
            assert!(used.into_iter().eq(0..1 << bits), "way {way} of {bits} bits");
        }
    }

    #[test]
    fn the_first_way_folds() {
        for (bits, n) in (0..10).flat_map(|bits| (0..100_u64).map(move |n| (bits, n))) {
            let number = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let bank = Geometry::new(1 << bits, Some(1)).unwrap();
            assert_eq!(place_in(0, number, bits), SetIndex::XorFold.set_of(bank, number));
        }
    }

    /// 16 pages that all conflict in the first of 2 ways with 16 places fit in the second.
    #[test]
    fn pages_that_meet_in_one_way_do_not_meet_in_another() {
        let mut array = array(32, 2, &[12]).unwrap();
        let pages: Vec<u64> = (0..16).map(|n| n << 4 | n).collect();
        assert!(pages.iter().all(|&page| place_in(0, page, 4) == 0));
        for &page in &pages {
            array.insert(entry(page << 12, 12));
        }
        assert!(array.keys().count() > 10, "{}", array.keys().count());
    }

    #[test]
    fn a_page_of_each_size_at_one_address_is_held_at_one_time() {
        let mut array = array(8, 8, &SHIFTS).unwrap();
        for shift in SHIFTS {
            assert_eq!(array.insert(entry(0x4000_0000, shift)), None);
        }
        for shift in SHIFTS {
            assert!(array.touch(entry(0x4000_0000, shift)));
            assert!(array.remove(entry(0x4000_0000, shift)));
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let why = array(64, 8, &[12, 21, 30]).unwrap_err().to_string();
        assert!(why.contains("8 ways and 3 page sizes") && why.contains("multiple of 3 ways"), "{why}");
        let geometry = Geometry::new(8, Some(2)).unwrap();
        let shape = Shape { geometry, shifts: &[12], replacement: Replacement::Fifo };
        let why = Skewed::of(shape).unwrap_err().to_string();
        assert!(why.contains("replacement = \"fifo\"") && why.contains("choose \"lru\""), "{why}");
    }
}
