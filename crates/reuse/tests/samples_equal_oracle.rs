//! Sampled stack distances against the slow model of `oracle` fed with the sample alone, and against exact ones.

use pagewalk_oracle::{History, cases};
use pagewalk_reuse::{ReferenceKinds, SampledDistances, Sampling, StackDistances};
use pagewalk_units::Vpn;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Refer(u64),
    Gone(std::ops::Range<u64>),
}

fn stream(pages: u64, may_go: bool) -> impl Strategy<Value = Vec<Op>> {
    let one = (0..pages, 0..pages, 0..100_u32).prop_map(move |(page, other, event)| match event {
        0 if may_go => Op::Gone(page..page + 1 + other % 5),
        _ => Op::Refer(page.min(other)),
    });
    prop::collection::vec(one, 0..3000)
}

fn sampled(ops: &[Op], sampling: Sampling) -> SampledDistances {
    let mut sampled = SampledDistances::new(ReferenceKinds::Data, sampling);
    for op in ops {
        match op {
            Op::Refer(vpn) => sampled.reference(Vpn(*vpn)),
            Op::Gone(vpns) => sampled.invalidate(Vpn(vpns.start)..Vpn(vpns.end)),
        }
    }
    sampled
}

fn exact(ops: &[Op]) -> StackDistances {
    let mut exact = StackDistances::new(ReferenceKinds::Data);
    for op in ops {
        match op {
            Op::Refer(vpn) => exact.reference(Vpn(*vpn)),
            Op::Gone(vpns) => exact.invalidate(Vpn(vpns.start)..Vpn(vpns.end)),
        }
    }
    exact
}

/// The hash of the sample, implemented a second time.
fn hash(vpn: u64) -> u64 {
    let z = vpn.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    /// A sample of all pages gives exact results.
    #[test]
    fn all_pages_give_the_exact_curve(ops in stream(600, true)) {
        let exact = exact(&ops);
        for sampling in [Sampling::Rate(1.0), Sampling::Pages(8 * 600)] {
            let sampled = sampled(&ops, sampling);
            prop_assert_eq!((sampled.rate(), sampled.resolution()), (1.0, 1));
            prop_assert_eq!(sampled.references(), exact.references());
            for entries in (1..=256).chain([320, 512, 640, 1024]) {
                let estimate = sampled.misses_with(entries);
                prop_assert_eq!(estimate.value, exact.misses_with(entries as usize) as f64, "{}", entries);
                prop_assert_eq!(estimate.standard_error, 0.0);
            }
        }
    }

    /// The sample is the stream of the pages with low hashes, its distances and counts scaled.
    #[test]
    fn a_rate_samples_the_pages_with_low_hashes(ops in stream(3000, false), bits in 1..5_u32) {
        let rate = 1.0 / f64::from(1 << bits);
        let kept = |op: &&Op| matches!(op, Op::Refer(vpn) if hash(*vpn) >> (64 - bits) == 0);
        let mut slow = History::default();
        let mut distances = Vec::new();
        for op in ops.iter().filter(kept) {
            if let Op::Refer(vpn) = op {
                distances.push(slow.refer(*vpn));
            }
        }
        let sampled = sampled(&ops, Sampling::Rate(rate));
        for entries in [1_u64, 2, 5, 16, 64, 160, 256] {
            let misses = |distance: &&Option<usize>| distance.is_none_or(|d| (d as u64) << bits >= entries);
            let missing = distances.iter().filter(misses).count();
            prop_assert_eq!(sampled.misses_with(entries).value, missing as f64 / rate, "{}", entries);
        }
    }

    /// Properties of the exact curve hold for estimates: more entries never miss more, and misses exceed the number of
    /// references by at most the error.
    #[test]
    fn estimates_are_curves(ops in stream(3000, true), pages in 8..400_usize) {
        let sampled = sampled(&ops, Sampling::Pages(pages));
        let misses: Vec<f64> = (1..4000).map(|entries| sampled.misses_with(entries).value).collect();
        prop_assert!(misses.is_sorted_by(|a, b| a >= b));
        prop_assert!((0.0..=1.0).contains(&sampled.rate()));
    }
}

/// On a long stream, the stated error matches the actual error, for both kinds of sample.
#[test]
fn stated_errors_are_honest() {
    let mut random = 1_u64;
    let ops: Vec<Op> = (0..400_000)
        .map(|_| {
            random = hash(random);
            // Skewed: page number p is referenced about 1/p as often as the first.
            Op::Refer((40_000_f64.powf((random >> 11) as f64 / (1_u64 << 53) as f64)) as u64 * 7)
        })
        .collect();
    let exact = exact(&ops);
    for sampling in [Sampling::Rate(0.1), Sampling::Pages(2000)] {
        let sampled = sampled(&ops, sampling);
        let (mut within, mut asked) = (0, 0);
        for entries in (0..12).map(|step| 256_u64 << step >> (step / 2)) {
            let estimate = sampled.misses_with(entries);
            let truth = exact.misses_with(entries as usize) as f64;
            asked += 1;
            within += u32::from((estimate.value - truth).abs() <= 2.5 * estimate.standard_error);
            assert!(
                (estimate.value - truth).abs() < 0.2 * truth,
                "{entries}: {estimate:?}, in truth {truth}"
            );
        }
        assert!(within * 4 >= asked * 3, "{sampling:?}: {within} of {asked} within 2.5 standard errors");
    }
}
