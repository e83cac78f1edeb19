//! Quad-age LRU: two bits of age per way; 3 is the oldest.
//!
//! Abel and Reineke's names define the variants:
//!
//! - `Hxy`: a hit turns age 3 into x, age 2 into y, and others into 0; `Mx`: a fill gets age x.
//! - `R0`, `R1`: the victim is the lowest way of age 3. `R2`: the highest; the source fills the highest empty way
//!   first, which is the same with ways numbered from the other end. If no way has age 3, `R1` takes the first way; so
//!   do the others here, where that can happen only with one way.
//! - After each hit and fill, if no way has age 3: `U0` raises all ages equally until the highest is 3; `U1` does so
//!   for all ways except the one just used; `U2` adds 1 to every age.
//!
//! Empty ways have age 3. A removed key's way is empty.
//!
//! Source: Abel and Reineke, "nanoBench: A Low-Overhead Tool for Running Microbenchmarks on x86 Systems", ISPASS 2020,
//! with uops.info/cache.html, for [`RULES`]: second- and third-level caches of Intel's cores.
//!
//! These policies need repetitions: reusing a key right after its fill makes it younger. So they are for the second
//! level and below, and for caches.
//!
//! State: a byte per entry. Cost: hit and fill, one pass over the set's ages.

use crate::{Array, Geometry, NamedPolicy, RelevantHits, ReplacementError, ReplacementPolicy};

/// The oldest age.
const OLDEST: u8 = 3;

/// How ways grow older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ageing {
    /// All equally, until the oldest is 3.
    ToOldest,
    /// All except the one just used, until the oldest of them is 3.
    OthersToOldest,
    /// All by 1.
    ByOne,
}

/// A variant.
#[derive(Clone, Copy, Debug)]
struct Rule {
    name: &'static str,
    /// The age after a hit, by age before.
    hit: [u8; 4],
    fill: u8,
    highest: bool,
    ageing: Ageing,
}

/// The variants found in hardware.
const RULES: [Rule; 4] = [
    // Second-level cache of Skylake to Coffee Lake.
    Rule {
        name: "qlru-h00-m1-r2-u1",
        hit: [0, 0, 0, 0],
        fill: 1,
        highest: true,
        ageing: Ageing::OthersToOldest,
    },
    // Second-level cache of Cannon Lake and Ice Lake.
    Rule {
        name: "qlru-h00-m1-r0-u1",
        hit: [0, 0, 0, 0],
        fill: 1,
        highest: false,
        ageing: Ageing::OthersToOldest,
    },
    // Third-level caches of Haswell to Coffee Lake.
    Rule { name: "qlru-h11-m1-r0-u0", hit: [0, 0, 1, 1], fill: 1, highest: false, ageing: Ageing::ToOldest },
    // Third-level cache of Ivy Bridge.
    Rule { name: "qlru-h11-m1-r1-u2", hit: [0, 0, 1, 1], fill: 1, highest: false, ageing: Ageing::ByOne },
];

/// The ages of the ways; `RULE` is an index of the variants.
#[derive(Clone, Debug)]
pub struct Qlru<const RULE: usize> {
    ways: usize,
    ages: Vec<u8>,
}

impl<const RULE: usize> Qlru<RULE> {
    const RULE: Rule = RULES[RULE];

    fn ages(&mut self, set: usize) -> &mut [u8] {
        &mut self.ages[set * self.ways..][..self.ways]
    }

    /// Ages the ways of a set if none is oldest. `used`: the way just used.
    fn grow(&mut self, set: usize, used: usize) {
        let ages = self.ages(set);
        if ages.contains(&OLDEST) {
            return;
        }
        let spared = (Self::RULE.ageing == Ageing::OthersToOldest).then_some(used);
        let grows = |&(way, _): &(usize, &mut u8)| Some(way) != spared;
        let highest = ages.iter_mut().enumerate().filter(grows).map(|(_, age)| *age).max().unwrap_or(OLDEST);
        let by = if Self::RULE.ageing == Ageing::ByOne { 1 } else { OLDEST - highest };
        ages.iter_mut().enumerate().filter(grows).for_each(|(_, age)| *age += by);
    }

    fn set_age(&mut self, set: usize, way: usize, age: u8) {
        self.ages(set)[way] = age;
        self.grow(set, way);
    }
}

impl<const RULE: usize> NamedPolicy for Qlru<RULE> {
    const NAME: &'static str = RULES[RULE].name;
    const RELEVANT_HITS: RelevantHits = RelevantHits::Each;

    fn of(geometry: Geometry, _seed: u64) -> Result<Qlru<RULE>, ReplacementError> {
        Ok(Qlru { ways: geometry.ways(), ages: vec![OLDEST; geometry.entries()] })
    }
}

impl<const RULE: usize> Array<Qlru<RULE>> {
    /// An empty array.
    pub fn new(geometry: Geometry) -> Array<Qlru<RULE>> {
        Array::with_policy(geometry, Qlru { ways: geometry.ways(), ages: vec![OLDEST; geometry.entries()] })
    }
}

impl<const RULE: usize> ReplacementPolicy for Qlru<RULE> {
    #[inline]
    fn hit(&mut self, set: usize, way: usize) {
        let age = Self::RULE.hit[usize::from(self.ages(set)[way])];
        self.set_age(set, way, age);
    }

    #[inline]
    fn victim(&mut self, set: usize) -> usize {
        let mut ages = self.ages(set).iter();
        let oldest = |&age: &u8| age == OLDEST;
        let way = if Self::RULE.highest { ages.rposition(oldest) } else { ages.position(oldest) };
        way.unwrap_or(0)
    }

    #[inline]
    fn fill(&mut self, set: usize, way: usize) {
        self.set_age(set, way, Self::RULE.fill);
    }

    fn remove(&mut self, set: usize, way: usize) {
        self.ages(set)[way] = OLDEST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// uops.info's example of `QLRU_H11_M1_R0_U0`, worked out by hand: a full set of age 1 ages to 3; a new key has age
    /// 1; a hit at age 1 gives 0.
    #[test]
    fn ages_by_hand() {
        let mut policy = Qlru::<2>::of(Geometry::new(4, None).unwrap(), 0).unwrap();
        for way in 0..4 {
            policy.fill(0, way);
        }
        assert_eq!(policy.ages, [3; 4]);
        assert_eq!(policy.victim(0), 0);
        policy.fill(0, 0);
        policy.hit(0, 1);
        assert_eq!(policy.ages, [1, 1, 3, 3]);
        policy.hit(0, 1);
        assert_eq!(policy.ages, [1, 0, 3, 3]);
        assert_eq!(policy.victim(0), 2);
    }

    #[test]
    fn one_way_is_always_the_victim() {
        let mut array = Array::<Qlru<0>>::new(Geometry::new(2, Some(1)).unwrap());
        assert_eq!([2, 4, 4, 6].map(|key| array.fill(key, key)), [None, Some(2), None, Some(4)]);
    }
}
