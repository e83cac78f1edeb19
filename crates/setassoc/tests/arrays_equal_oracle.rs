//! Arrays of every policy and index against the slow model of `oracle`: every outcome, on random shapes, keys
//! and removals.

use pagewalk_oracle::{ReplacementModel, cases};
use pagewalk_setassoc::{Geometry, RelevantHits, Replacement, SetArray, SetIndex, UseOrder};
use proptest::prelude::*;

/// An operation on an array; keys are indices into a small population.
#[derive(Clone, Copy, Debug)]
enum Op {
    Touch(u64),
    Fill(u64),
    /// A lookup and, if it misses, a fill: what a TLB does.
    Refer(u64),
    Contains(u64),
    Remove(u64),
    /// Removes every key with this remainder.
    RemoveWhere(u64, u64),
}

#[derive(Clone, Debug)]
struct Case {
    sets: usize,
    ways: usize,
    replacement: &'static str,
    seed: u64,
    index: String,
    /// Number of keys, as a multiple of the number of entries.
    population: u64,
    ops: Vec<Op>,
}

/// Page numbers with bits far apart, two keys each: pages of two sizes may share a number.
fn place(at: u64) -> (u64, u64) {
    let number = (at / 2) ^ (at / 2 * 0x9e37 % 127) << 9 ^ (at % 5) << 40;
    (number, (number << 1) | (at % 2))
}

impl Case {
    fn key(&self, at: u64) -> (u64, u64) {
        place(at % (self.population * (self.sets * self.ways) as u64 / 2 + 1))
    }

    fn arrays(&self) -> (SetArray, ReplacementModel) {
        let shape = Geometry::new((self.sets * self.ways) as u32, Some(self.ways as u32)).unwrap();
        let replacement = Replacement::from_name(self.replacement, self.seed).unwrap();
        let index = SetIndex::from_name(&self.index).unwrap();
        let fast = SetArray::new(shape, replacement).unwrap().indexed_by(index);
        let slow = ReplacementModel::new(self.sets, self.ways, self.replacement, self.seed, &self.index);
        (fast, slow)
    }

    /// Checks that both sides give the same results.
    fn check(&self) -> Result<(), TestCaseError> {
        let (mut fast, mut slow) = self.arrays();
        for &op in &self.ops {
            match op {
                Op::Touch(at) => {
                    let (number, key) = self.key(at);
                    prop_assert_eq!(fast.touch(number, key), slow.touch(number, key), "{:?}", op);
                }
                Op::Fill(at) => {
                    let (number, key) = self.key(at);
                    prop_assert_eq!(fast.fill(number, key), slow.fill(number, key), "{:?}", op);
                }
                Op::Refer(at) => {
                    let (number, key) = self.key(at);
                    let hit = fast.touch(number, key);
                    prop_assert_eq!(hit, slow.touch(number, key), "{:?}", op);
                    if !hit {
                        prop_assert_eq!(fast.insert(number, key), slow.fill(number, key), "{:?}", op);
                    }
                }
                Op::Contains(at) => {
                    let (number, key) = self.key(at);
                    prop_assert_eq!(fast.contains(number, key), slow.contains(number, key), "{:?}", op);
                }
                Op::Remove(at) => {
                    let (number, key) = self.key(at);
                    prop_assert_eq!(fast.remove(number, key), slow.remove(number, key), "{:?}", op);
                }
                Op::RemoveWhere(divisor, remainder) => {
                    fast.remove_where(|key| key % divisor == remainder);
                    slow.remove_where(|key| key % divisor == remainder);
                }
            }
        }
        prop_assert!(fast.keys().eq(slow.keys()), "keys or their ways differ at the end");
        Ok(())
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => any::<u64>().prop_map(Op::Touch),
        3 => any::<u64>().prop_map(Op::Fill),
        12 => any::<u64>().prop_map(Op::Refer),
        1 => any::<u64>().prop_map(Op::Contains),
        2 => any::<u64>().prop_map(Op::Remove),
        1 => (3..20_u64).prop_flat_map(|d| (Just(d), 0..d)).prop_map(|(d, r)| Op::RemoveWhere(d, r)),
    ]
}

/// This number of ways, or the next number that the policy supports.
fn served(replacement: &str, ways: usize) -> usize {
    let replacement = Replacement::from_name(replacement, 0).unwrap();
    (ways..).find(|&ways| replacement.serves(ways).is_ok()).unwrap()
}

/// The policies whose relevant hits satisfy `how`.
fn with_relevant_hits(how: impl Fn(RelevantHits) -> bool) -> Vec<&'static str> {
    Replacement::NAMES
        .into_iter()
        .filter(|name| how(Replacement::from_name(name, 0).unwrap().relevant_hits()))
        .collect()
}

/// A case with sets of up to `ways_max` ways and about `ops` operations.
fn case(ways_max: usize, ops: std::ops::Range<usize>) -> impl Strategy<Value = Case> {
    let index = prop_oneof![
        Just("modulo".to_owned()),
        Just("xor-fold".to_owned()),
        (1..=32_u32).prop_map(|bits| format!("xor-{bits}")),
    ];
    let shape = (0..6_u32, 1..=ways_max, prop::sample::select(&Replacement::NAMES[..]));
    let stream = (1..5_u64, prop::collection::vec(op(), ops));
    (shape, any::<u64>(), index, stream).prop_map(
        |((set_bits, ways, replacement), seed, index, (population, ops))| {
            let ways = served(replacement, ways);
            // Only few large sets, so that a stream fills them.
            let sets = if ways > 64 { 1 } else { 1 << set_bits };
            Case { sets, ways, replacement, seed, index, population, ops }
        },
    )
}

/// The victim according to times of last use, as defined by [`UseOrder`].
fn by_times(how: UseOrder, times: &[usize]) -> usize {
    let latest = |ways: &[usize]| ways.iter().copied().max();
    let tree = |first: usize, mut ways: &[usize]| {
        let mut way = first;
        while ways.len() > 1 {
            let (lower, upper) = ways.split_at(ways.len() / 2);
            (way, ways) =
                if latest(upper) < latest(lower) { (way + lower.len(), upper) } else { (way, lower) };
        }
        way
    };
    let third = times.len() / 3;
    let of_three = |chosen: usize| tree(chosen * third, &times[chosen * third..][..third]);
    let by_latest = || (0..3).map(|chosen| latest(&times[chosen * third..][..third]));
    match how {
        UseOrder::Oldest => (0..times.len()).min_by_key(|&way| times[way]).unwrap(),
        UseOrder::Tree => tree(0, times),
        UseOrder::NextOfThreeTrees => {
            of_three((by_latest().enumerate().max_by_key(|&(_, time)| time).unwrap().0 + 1) % 3)
        }
        UseOrder::OldestOfThreeTrees => {
            of_three(by_latest().enumerate().min_by_key(|&(_, time)| time).unwrap().0)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_sets(case in case(16, 0..600)) {
        case.check()?;
    }

    #[test]
    fn large_sets(case in case(500, 0..2400)) {
        case.check()?;
    }

    #[test]
    fn every_index_chooses_the_same_set(
        number in any::<u64>(), set_bits in 0..13_u32, bits in 1..=32_u32,
    ) {
        let shape = Geometry::new(1 << set_bits, Some(1)).unwrap();
        for name in ["modulo".to_owned(), "xor-fold".to_owned(), format!("xor-{bits}")] {
            let slow = ReplacementModel::new(shape.sets(), 1, "lru", 0, &name);
            let fast = SetIndex::from_name(&name).unwrap().set_of(shape, number);
            prop_assert_eq!(fast, slow.set_of(number), "{}", name);
        }
    }

    /// References that repeat the last one of their class may be left out, unless every hit is relevant.
    #[test]
    fn repetitions_change_nothing(
        shape in (0..4_u32, 1..20_u32, 0..4_u32),
        name in prop::sample::select(with_relevant_hits(|relevant| relevant != RelevantHits::Each)),
        ats in prop::collection::vec(0..150_u64, 0..800),
    ) {
        let (set_bits, ways, class_bits) = shape;
        let ways = served(name, ways as usize) as u32;
        let shape = Geometry::new(ways << set_bits, Some(ways)).unwrap();
        let mut all = SetArray::new(shape, Replacement::from_name(name, 1).unwrap()).unwrap();
        let mut some = all.clone();
        let classes = 1_u64 << class_bits.min(set_bits);
        let mut last = vec![None; classes as usize];
        for at in ats {
            let (number, key) = place(at / 3);
            let hit = all.touch(number, key);
            let victim = if hit { None } else { all.fill(number, key) };
            if last[(number % classes) as usize].replace(key) == Some(key) {
                prop_assert!(hit);
            } else {
                prop_assert_eq!(hit, some.touch(number, key));
                prop_assert_eq!(victim, some.fill(number, key));
            }
        }
    }

    /// All hits may be left out if no hit is relevant to the policy.
    #[test]
    fn hits_change_nothing_where_none_is_relevant(
        ways in 1..40_usize,
        name in prop::sample::select(with_relevant_hits(|relevant| relevant == RelevantHits::Nothing)),
        ats in prop::collection::vec(0..60_u64, 0..800),
    ) {
        let replacement = Replacement::from_name(name, 1).unwrap();
        let mut all = SetArray::new(Geometry::new(ways as u32, None).unwrap(), replacement).unwrap();
        let mut some = all.clone();
        for at in ats {
            if !all.touch(at, at) {
                prop_assert_eq!(all.insert(at, at), some.insert(at, at));
            }
        }
    }

    /// The victim depends only on the times of last use if the policy says so.
    #[test]
    fn times_of_last_use_say_the_victim(
        ways in 1..40_usize, few in 1..4_u64,
        name in prop::sample::select(with_relevant_hits(|relevant| matches!(relevant, RelevantHits::LastUse(_)))),
        ats in prop::collection::vec(0..120_u64, 0..800),
    ) {
        let ways = served(name, ways);
        let replacement = Replacement::from_name(name, 1).unwrap();
        let RelevantHits::LastUse(how) = replacement.relevant_hits() else { return Ok(()) };
        let mut array = SetArray::new(Geometry::new(ways as u32, None).unwrap(), replacement).unwrap();
        let mut held: Vec<(u64, usize)> = Vec::new();
        for (time, at) in ats.into_iter().map(|at| at % (few * ways as u64)).enumerate() {
            if let Some(way) = held.iter().position(|&(key, _)| key == at) {
                prop_assert!(array.touch(at, at));
                held[way].1 = time;
            } else if held.len() < ways {
                prop_assert_eq!(array.fill(at, at), None);
                held.push((at, time));
            } else {
                let times: Vec<usize> = held.iter().map(|&(_, time)| time).collect();
                let way = by_times(how, &times);
                prop_assert_eq!(array.fill(at, at), Some(held[way].0));
                held[way] = (at, time);
            }
        }
    }

    /// Mattson et al. 1970: with the same sets, more ways hold all that fewer hold.
    #[test]
    fn larger_lru_never_misses_more(
        set_bits in 0..4_u32, ways in 1..40_u32, more in 1..40_u32, ats in prop::collection::vec(0..400_u64, 0..800),
    ) {
        let lru = |ways| SetArray::new(Geometry::new(ways << set_bits, Some(ways)).unwrap(), Replacement::Lru);
        let (mut small, mut large) = (lru(ways).unwrap(), lru(ways + more).unwrap());
        for at in ats {
            let (number, key) = place(at);
            let hit = small.touch(number, key);
            prop_assert!(large.touch(number, key) || !hit);
            small.fill(number, key);
            large.fill(number, key);
            let mut held = small.keys();
            prop_assert!(held.all(|key| large.contains(key >> 1, key)));
        }
    }

    /// Reineke et al. 2007: tree pseudo-LRU keeps the log2(ways) keys used last.
    #[test]
    fn tree_plru_keeps_the_last_used(bits in 0..8_u32, ats in prop::collection::vec(0..300_u64, 0..600)) {
        let mut array = SetArray::new(Geometry::new(1 << bits, None).unwrap(), Replacement::TreePlru).unwrap();
        let mut last: Vec<u64> = Vec::new();
        for at in ats {
            if let Some(victim) = array.fill(at, at) {
                prop_assert!(!last.contains(&victim));
            }
            last.retain(|&key| key != at);
            last.insert(0, at);
            last.truncate(bits as usize);
        }
    }
}

/// Arrays as large as the largest that the machine files speak of, once for each policy.
#[test]
fn fully_associative_3000_or_more() {
    for replacement in Replacement::NAMES {
        // References spread over 5,000 keys fill the array; each tenth operation removes.
        let ats = (0..12_000_u64).map(|at| (at, at * 7919 % 5000));
        let ops =
            ats.map(|(at, key)| if at % 10 == 3 { Op::Remove(key + 1) } else { Op::Refer(key) }).collect();
        let index = "modulo".to_owned();
        let ways = served(replacement, 3000);
        let case = Case { sets: 1, ways, replacement, seed: 1, index, population: 3, ops };
        case.check().unwrap();
    }
}
