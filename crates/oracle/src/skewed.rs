//! Reference model of a skewed-associative array: each way is a bank of places, with a hash computed shift by shift.

use std::collections::BTreeMap;

/// An array of pages of several sizes; the address decides which size each way may hold.
#[derive(Clone, Debug)]
pub struct Skewed {
    /// Number of places per way.
    places: usize,
    ways: usize,
    /// log2 of the page sizes, smallest first.
    shifts: Vec<u32>,
    /// By way and place: the key, and the time of its last use.
    held: BTreeMap<(usize, usize), (u64, u64)>,
    now: u64,
}

impl Skewed {
    /// An empty array.
    pub fn new(places: usize, ways: usize, mut shifts: Vec<u32>) -> Skewed {
        shifts.sort();
        Skewed { places, ways, shifts, held: BTreeMap::new(), now: 0 }
    }

    /// The place of a number in a way: the exclusive or of its pieces, the k-th of them shifted `way` times k times.
    fn place(&self, way: usize, number: u64) -> usize {
        let width = self.places.ilog2() as usize;
        if width == 0 {
            return 0;
        }
        let mut place = 0;
        for k in 0..64usize.div_ceil(width) {
            let mut piece = number >> (k * width) & ((1 << width) - 1);
            // Nothing shifted is nothing, and most numbers have few pieces.
            let shifts = if piece == 0 || width == 1 { 0 } else { way * k };
            for _ in 0..shifts {
                let highest = (piece >> (width - 1) ^ piece) & 1;
                piece = piece >> 1 | highest << (width - 1);
            }
            place ^= piece;
        }
        place as usize
    }

    /// The places where a page may be, lowest way first.
    fn places_of(&self, number: u64, shift: u32) -> Vec<(usize, usize)> {
        let region = ((number << shift) >> self.shifts.last().unwrap()) as usize;
        let size_of = |way: usize| {
            let each = self.ways / self.shifts.len();
            self.shifts[(way / each + region) % self.shifts.len()]
        };
        let ways = (0..self.ways).filter(|&way| size_of(way) == shift);
        ways.map(|way| (way, self.place(way, number))).collect()
    }

    /// The place of a page's key, if it is held.
    fn find(&self, number: u64, shift: u32, key: u64) -> Option<(usize, usize)> {
        let mut places = self.places_of(number, shift).into_iter();
        places.find(|place| self.held.get(place).is_some_and(|&(held, _)| held == key))
    }

    /// Whether the key is held.
    pub fn contains(&self, number: u64, shift: u32, key: u64) -> bool {
        self.find(number, shift, key).is_some()
    }

    /// Looks up a key; returns whether it hits.
    pub fn touch(&mut self, number: u64, shift: u32, key: u64) -> bool {
        self.now += 1;
        let found = self.find(number, shift, key);
        found.into_iter().for_each(|place| self.held.get_mut(&place).unwrap().1 = self.now);
        found.is_some()
    }

    /// Inserts a key; returns the victim.
    pub fn fill(&mut self, number: u64, shift: u32, key: u64) -> Option<u64> {
        if self.touch(number, shift, key) {
            return None;
        }
        let places = self.places_of(number, shift);
        let empty = places.iter().find(|place| !self.held.contains_key(place));
        let oldest = || places.iter().min_by_key(|place| self.held[place].1).unwrap();
        let place = *empty.unwrap_or_else(oldest);
        self.held.insert(place, (key, self.now)).map(|(gone, _)| gone)
    }

    /// Removes a key; returns whether it was there.
    pub fn remove(&mut self, number: u64, shift: u32, key: u64) -> bool {
        let found = self.find(number, shift, key);
        found.is_some_and(|place| self.held.remove(&place).is_some())
    }

    /// Removes every key for which `gone` holds.
    pub fn remove_where(&mut self, gone: impl Fn(u64) -> bool) {
        self.held.retain(|_, &mut (key, _)| !gone(key));
    }

    /// The keys held, bank after bank.
    pub fn keys(&self) -> Vec<u64> {
        self.held.values().map(|&(key, _)| key).collect()
    }
}
