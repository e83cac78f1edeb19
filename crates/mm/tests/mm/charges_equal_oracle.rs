//! Compares the charges of APPROX-ONLINE, immediate or deferred, with a scan of the TLBs at every miss, with promotions
//! and demotions: targets U2, U3, U4 and U6 of Romer's thesis (1998).

use pagewalk_mm::promotion::{Actions, ApproxOnline, BreakEven, Deferral, Miss, Online, Policy, PolicyEvent};
use pagewalk_mm::{Accounts, Superpage};
use pagewalk_oracle::cases;
use pagewalk_oracle::prefetch::{Block, PrefetchCharges};
use pagewalk_units::PageSize;
use proptest::prelude::*;

const PAGES: u64 = 80;

/// A policy that receives events one by one.
trait Hears: Policy {
    fn hears(&mut self, event: PolicyEvent<'_>) {
        self.on(event, &mut Actions::default());
    }
}

impl<P: Policy> Hears for P {}

fn unit((first, order): Block) -> Superpage {
    Superpage { first, order }
}

fn miss(tlb: usize, unit: Superpage) -> Miss {
    Miss { tlb, unit, entry: unit, page: unit.first, frame: None, instructions: 0, cycles: 0 }
}

/// Prices with which a superpage pays off after `misses` misses for each 4 KiB of it.
fn prices(misses: u64) -> BreakEven {
    BreakEven { base: PageSize::FOUR_KIB, copy_per_kib: misses, miss_cycles: 4 }
}

#[derive(Clone, Debug)]
enum Op {
    /// A reference to a page, in one of the TLBs.
    Touch(u64, usize),
    /// A superpage that is built without a request.
    Promote(u64, u8),
    Demote(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Mostly in a few blocks, so that charges rise.
    let page = prop_oneof![3 => 0..24u64, 1 => 0..PAGES];
    let op = prop_oneof![
        30 => (page.clone(), 0..2usize).prop_map(|(page, tlb)| Op::Touch(page, tlb)),
        1 => (page.clone(), 1..4u8).prop_map(|(page, order)| Op::Promote(page, order)),
        1 => page.prop_map(Op::Demote),
    ];
    prop::collection::vec(op, 1..600)
}

/// The policy and the slow model side by side.
struct Both {
    top: u8,
    entries: usize,
    thresholds: Vec<u64>,
    eager: Option<u8>,
    fast: ApproxOnline,
    slow: PrefetchCharges,
}

impl Both {
    fn blocks(&self) -> impl Iterator<Item = Block> {
        (0..=self.top).flat_map(|order| {
            (0..PAGES.next_multiple_of(1 << order)).step_by(1 << order).map(move |f| (f, order))
        })
    }

    fn touch(&mut self, page: u64, tlb: usize) -> Result<(), TestCaseError> {
        let of = self.slow.unit(page);
        if let Some(at) = self.slow.tlbs[tlb].iter().position(|&held| held == of) {
            // A hit: the policy does not see it.
            self.slow.tlbs[tlb].remove(at);
            self.slow.tlbs[tlb].push(of);
            return Ok(());
        }
        self.slow.miss(tlb, of);
        self.fast.hears(PolicyEvent::Missed { miss: miss(tlb, unit(of)), accounts: &Accounts::default() });
        if self.slow.tlbs[tlb].len() == self.entries {
            let left = self.slow.tlbs[tlb].remove(0);
            self.fast.hears(PolicyEvent::Left { tlb, entry: unit(left), lost: false });
        }
        self.slow.tlbs[tlb].push(of);
        self.fast.hears(PolicyEvent::Entered { tlb, entry: unit(of) });
        self.check()?;
        self.build_what_is_due(of)
    }

    fn build_what_is_due(&mut self, missed: Block) -> Result<(), TestCaseError> {
        let mut from = unit(missed);
        loop {
            let paid = |block: &Superpage| {
                self.slow.of((block.first, block.order)) >= self.thresholds[usize::from(block.order)]
            };
            let expected = from.ancestors(self.top).find(paid);
            let due = self.fast.due(from);
            match (self.eager, due) {
                (None, _) => prop_assert_eq!(due, expected),
                // Never too early; up to the eager size also never too late.
                (Some(_), Some(block)) => prop_assert!(paid(&block), "{:?}", block),
                (Some(eager), None) => prop_assert!(expected.is_none_or(|block| block.order > eager)),
            }
            let Some(block) = due else { return Ok(()) };
            self.promote((block.first, block.order))?;
            from = block;
        }
    }

    fn promote(&mut self, block: Block) -> Result<(), TestCaseError> {
        self.slow.promote(block);
        self.fast.hears(PolicyEvent::Promoted(unit(block)));
        self.check()
    }

    fn run(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Touch(page, tlb) => self.touch(page, tlb),
            Op::Promote(page, order) => {
                let order = order.min(self.top);
                let block = Superpage::around(page, order);
                if self.slow.unit(page).1 >= order {
                    return Ok(());
                }
                self.promote((block.first, block.order))
            }
            Op::Demote(page) => {
                let of = self.slow.unit(page);
                if of.1 == 0 {
                    return Ok(());
                }
                for tlb in 0..2 {
                    if let Some(at) = self.slow.tlbs[tlb].iter().position(|&held| held == of) {
                        self.slow.tlbs[tlb].remove(at);
                        self.fast.hears(PolicyEvent::Left { tlb, entry: unit(of), lost: false });
                    }
                }
                self.slow.demote(of);
                self.fast.hears(PolicyEvent::Demoted(unit(of)));
                self.check()
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for block in self.blocks() {
            let charges = self.fast.charges(unit(block));
            prop_assert_eq!(charges, self.slow.of(block), "{:?}", block);
            let known = self.fast.known_charges(unit(block));
            // Up to the eager size no charges are pending, and of each block inside at most a batch.
            let waiting = |eager: u8| -> u64 {
                let inside = |order: u8| (1 << (block.1 - order)) * (self.batch(order) - 1);
                (eager..block.1).map(inside).sum()
            };
            prop_assert!(known <= charges);
            prop_assert!(
                charges - known <= self.eager.map_or(0, waiting),
                "{:?}: {} of {}",
                block,
                known,
                charges
            );
            if block.1 < self.top {
                let outer = Superpage::around(block.0, block.1 + 1);
                prop_assert!(charges <= self.fast.charges(outer), "U4: {:?}", block);
            }
        }
        Ok(())
    }

    /// Charges that a block of this order passes on together.
    fn batch(&self, order: u8) -> u64 {
        self.thresholds.get(usize::from(order) + 1).map_or(1, |&of_next| (of_next / 2).max(1))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(400), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn u3_and_u4_charges_are_what_a_scan_of_the_tlbs_says_deferred_or_not(
        top in 2..6u8,
        entries in 1..9usize,
        misses in 1..40u64,
        eager in prop::option::of(1..4u8),
        ops in ops(),
    ) {
        let prices = prices(misses);
        let mut fast = ApproxOnline::new(top, &prices, 1.0, 100);
        if let Some(eager) = eager {
            fast = fast.deferring(Deferral { eager, batch: 0.5 });
        }
        fast.hears(PolicyEvent::Tlbs(&[entries as u64; 2]));
        let thresholds = (0..=top).map(|order| misses << order).collect();
        let eager = eager.filter(|&eager| eager < top);
        let slow = PrefetchCharges::new(2, top);
        let mut both = Both { top, entries, thresholds, eager, fast, slow };
        for op in &ops {
            both.run(op)?;
        }
    }
}

/// Misses until a block of this order is due, each of which is charged to it.
fn misses_until_due(mut policy: ApproxOnline, order: u8) -> u64 {
    policy.hears(PolicyEvent::Tlbs(&[1]));
    let halves = [0, 1 << (order - 1)].map(|page| Superpage::around(page, 0));
    let mut charged = 0;
    for turn in 0.. {
        let (page, other) = (halves[turn % 2], halves[(turn + 1) % 2]);
        policy.hears(PolicyEvent::Missed { miss: miss(0, page), accounts: &Accounts::default() });
        if turn > 0 {
            charged += 1;
            policy.hears(PolicyEvent::Left { tlb: 0, entry: other, lost: false });
        }
        policy.hears(PolicyEvent::Entered { tlb: 0, entry: page });
        if policy.due(page).is_some() {
            break;
        }
    }
    charged
}

/// At the source's prices, 3,000 cycles for each KiB and 30 a miss, a superpage costs 100 misses for each KiB of it,
/// and is built after an eighth of that.
#[test]
fn u2_superpages_are_due_after_an_eighth_of_a_hundred_misses_for_each_kib() {
    let prices = BreakEven { base: PageSize::FOUR_KIB, copy_per_kib: 3000, miss_cycles: 30 };
    for order in 1..=11u8 {
        let kib = 4u64 << order;
        assert_eq!(prices.even(order), 100.0 * kib as f64);
        let alone = || ApproxOnline::new(11, &prices, 0.125, 100).only(1 << order);
        assert_eq!(misses_until_due(alone(), order), 100 * kib / 8, "{kib} KiB");
        // Where all charges come through one half at a time, batches are full when the block is due.
        let deferred = misses_until_due(alone().deferring(Deferral { eager: 4, batch: 0.5 }), order);
        assert!((100 * kib / 8..=100 * kib / 4).contains(&deferred), "{kib} KiB: {deferred}");
    }
    assert_eq!(misses_until_due(ApproxOnline::new(5, &prices, 0.125, 100).only(1 << 5), 5), 1600);
    assert_eq!(misses_until_due(ApproxOnline::new(11, &prices, 0.125, 100).only(1 << 11), 11), 102_400);
}

/// Section 3.5.2: for each base page a charge for its superpages (1), a count for them and for itself (2), and deferred
/// charges from 64 KiB up (0.125). The source's is one TLB, and one that is deferred from 64 KiB on.
#[test]
fn u6_there_are_three_and_an_eighth_counters_for_each_base_page() {
    let prices = BreakEven { base: PageSize::FOUR_KIB, copy_per_kib: 3000, miss_cycles: 30 };
    let counters = |tlbs: usize, deferral: Option<Deferral>| {
        let mut policy = ApproxOnline::new(11, &prices, 0.125, 100);
        if let Some(deferral) = deferral {
            policy = policy.deferring(deferral);
        }
        policy.hears(PolicyEvent::Tlbs(&vec![32; tlbs]));
        for region in 0..3u64 {
            for page in [0, 1] {
                let unit = Superpage::around((region << 11) + page, 0);
                (0..tlbs).for_each(|tlb| {
                    policy
                        .hears(PolicyEvent::Missed { miss: miss(tlb, unit), accounts: &Accounts::default() });
                    policy.hears(PolicyEvent::Entered { tlb, entry: unit });
                });
            }
        }
        policy.counters() as f64 / (3u64 << 11) as f64
    };
    let source = Deferral { eager: 4, batch: 0.5 };
    assert_eq!(counters(1, Some(source)), 3.125);
    assert_eq!(counters(1, None), 3.0);
    assert_eq!(counters(2, Some(source)), 5.125);
}

/// Section 3.5.3.
#[test]
fn u6_capacity_charges_take_one_more() {
    let prices = BreakEven { base: PageSize::FOUR_KIB, copy_per_kib: 3000, miss_cycles: 30 };
    let mut policy = Online::new(11, &prices, 0.125, 0.625, 2570);
    policy.hears(PolicyEvent::Tlbs(&[32]));
    for page in [0, 1, 2048, 2049] {
        let unit = Superpage::around(page, 0);
        policy.hears(PolicyEvent::Missed { miss: miss(0, unit), accounts: &Accounts::default() });
        policy.hears(PolicyEvent::Entered { tlb: 0, entry: unit });
    }
    assert_eq!(policy.counters().map(|counters| counters as f64 / 4096.0), [3.0, 1.0]);
}
