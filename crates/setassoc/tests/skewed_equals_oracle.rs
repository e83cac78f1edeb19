//! Skewed-associative arrays against the slow model of `oracle`: every outcome, on random shapes, pages and removals.

use pagewalk_oracle::{Skewed, cases};
use pagewalk_setassoc::{Entry, Geometry, Organisation, Replacement, Shape};
use proptest::prelude::*;

/// An operation on an array: the page, and the index of its size.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// A lookup and, if it misses, a fill: what a TLB does.
    Refer(u64, usize),
    Fill(u64, usize),
    Contains(u64, usize),
    Remove(u64, usize),
    /// Removes every key with this remainder.
    RemoveWhere(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let page = || (0..5_000_u64, 0..4_usize);
    prop_oneof![
        12 => page().prop_map(|(at, size)| Op::Refer(at, size)),
        3 => page().prop_map(|(at, size)| Op::Fill(at, size)),
        1 => page().prop_map(|(at, size)| Op::Contains(at, size)),
        2 => page().prop_map(|(at, size)| Op::Remove(at, size)),
        1 => (3..20_u64).prop_flat_map(|d| (Just(d), 0..d)).prop_map(|(d, r)| Op::RemoveWhere(d, r)),
    ]
}

/// The `at`-th of `few` pages of a size, near and far.
fn entry(at: u64, few: u64, shift: u32) -> Entry {
    let at = at % few;
    let address = (at << 12) ^ ((at % 7) << 30) ^ ((at % 3) << 44);
    let number = address >> shift;
    Entry { shift, number, key: number << 6 | u64::from(shift) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_outcome_is_the_oracles(
        set_bits in 0..7_u32, each in 1..6_u32, few in 1..5_000_u64,
        shifts in prop::sample::subsequence(vec![12_u32, 13, 16, 21, 30], 1..=4).prop_shuffle(),
        ops in prop::collection::vec(op(), 0..800),
    ) {
        let ways = each * shifts.len() as u32;
        let geometry = Geometry::new(ways << set_bits, Some(ways)).unwrap();
        let organisation = Organisation::from_name("skewed").unwrap();
        let shape = Shape { geometry, shifts: &shifts, replacement: Replacement::Lru };
        let mut fast = organisation.array(shape).unwrap();
        let mut slow = Skewed::new(geometry.sets(), geometry.ways(), shifts.clone());
        let page = |at, size: usize| entry(at, few, shifts[size % shifts.len()]);
        for op in ops {
            match op {
                Op::Refer(at, size) => {
                    let page @ Entry { shift, number, key } = page(at, size);
                    let hit = fast.touch(page);
                    prop_assert_eq!(hit, slow.touch(number, shift, key), "{:?}", op);
                    if !hit {
                        prop_assert_eq!(fast.insert(page), slow.fill(number, shift, key), "{:?}", op);
                    }
                }
                Op::Fill(at, size) => {
                    let page @ Entry { shift, number, key } = page(at, size);
                    prop_assert_eq!(fast.fill(page), slow.fill(number, shift, key), "{:?}", op);
                }
                Op::Contains(at, size) => {
                    let page @ Entry { shift, number, key } = page(at, size);
                    prop_assert_eq!(fast.contains(page), slow.contains(number, shift, key), "{:?}", op);
                }
                Op::Remove(at, size) => {
                    let page @ Entry { shift, number, key } = page(at, size);
                    prop_assert_eq!(fast.remove(page), slow.remove(number, shift, key), "{:?}", op);
                }
                Op::RemoveWhere(divisor, remainder) => {
                    fast.remove_where(|key| key % divisor == remainder);
                    slow.remove_where(|key| key % divisor == remainder);
                }
            }
        }
        prop_assert_eq!(fast.keys(), slow.keys(), "keys or their places differ at the end");
    }

    /// Using a page again before any other page changes nothing.
    #[test]
    fn repetitions_change_nothing(
        ways in 1..9_u32, few in 1..200_u64, ats in prop::collection::vec(0..200_u64, 0..400),
    ) {
        let geometry = Geometry::new(ways << 3, Some(ways)).unwrap();
        let shape = Shape { geometry, shifts: &[12], replacement: Replacement::Lru };
        let mut all = Organisation::from_name("skewed").unwrap().array(shape).unwrap();
        let (mut some, mut last) = (all.clone(), None);
        for at in ats {
            let page = entry(at / 3, few, 12);
            let victim = all.fill(page);
            if last.replace(page) != Some(page) {
                prop_assert_eq!(victim, some.fill(page));
            }
        }
        prop_assert_eq!(all.keys(), some.keys());
    }
}
