use super::*;

const A: u64 = 10 * HUGE_BYTES;
const B: u64 = 11 * HUGE_BYTES;
/// 200 us for a promotion, 25 ns for a walk: break-even at 8,000 misses, due at 1,000.
const PRICES: PromotionCosts =
    PromotionCosts { walk: 25.0, walk_alone: 100.0, collapse: 200_000.0, bounds: [25.0, 100.0] };
const LIMITS: PolicyLimits = PolicyLimits { factor: 0.125, budget_bytes: 1 << 20, entries: 1 << 20 };

fn view(start: u64) -> RegionView {
    RegionView { start, resident_pages: PART_PAGES, huge: false }
}

fn huge(start: u64) -> RegionView {
    RegionView { huge: true, ..view(start) }
}

fn found(start: u64, misses_per_second: f64) -> RegionMisses {
    let seen = MissedPages::Pages(vec![start, start + 4096]);
    RegionMisses { start, misses_per_second, seen, saturated: false }
}

fn policy(views: &[RegionView]) -> PromotionPolicy {
    let mut policy = PromotionPolicy::new(PRICES, LIMITS);
    assert!(policy.update(0.0, views).is_empty());
    policy
}

#[test]
fn a_part_is_due_when_its_misses_have_paid_an_eighth() {
    let mut policy = policy(&[view(A), view(B)]);
    policy.charge(0.9, &[found(A, 1000.0), found(B, 10.0)]);
    assert_eq!(policy.due(), None, "900 misses");
    policy.charge(1.1, &[found(A, 1000.0), found(B, 10.0)]);
    let due = policy.due().expect("1,100 misses");
    assert_eq!((due.start, due.added_bytes), (A, 0));
    assert!((due.charges - 1100.0).abs() < 1e-6, "{due:?}");
    policy.promoted(1.1, due, 400_000.0);
    assert_eq!(policy.due(), None);
    assert_eq!(policy.prices.collapse, 250_000.0, "what it really took counts");
    assert_eq!(policy.watched().map(|part| part.view.start).collect::<Vec<_>>(), [B]);
}

/// The due region with most charges comes first.
#[test]
fn the_dearest_is_first() {
    let mut policy = policy(&[view(A), view(B)]);
    policy.charge(1.0, &[found(A, 2000.0), found(B, 3000.0)]);
    assert_eq!(policy.due().map(|due| due.start), Some(B));
}

#[test]
fn one_page_that_misses_is_no_reason() {
    let one = |page| RegionMisses { seen: MissedPages::Pages(vec![page]), ..found(A, 1e6) };
    let mut policy = policy(&[view(A)]);
    policy.charge(1.0, &[one(A)]);
    policy.charge(2.0, &[one(A)]);
    assert_eq!(policy.due(), None, "the same page again");
    policy.charge(3.0, &[one(A + 8192)]);
    assert_eq!(policy.due().map(|due| due.start), Some(A));
    let mut policy = super::tests::policy(&[view(A)]);
    policy.charge(1.0, &[RegionMisses { seen: MissedPages::Several, ..found(A, 1e6) }]);
    assert!(policy.due().is_some());
}

/// One huge page among very many missing pages would be missed for itself: its neighbours are seldom in the TLB.
#[test]
fn misses_without_neighbours_in_the_tlb_are_not_charged() {
    let many: Vec<RegionView> = (0..1000).map(|i| view(i * HUGE_BYTES)).collect();
    let mut policy = PromotionPolicy::new(PRICES, PolicyLimits { entries: 100, ..LIMITS });
    policy.update(0.0, &many);
    let all: Vec<RegionMisses> = many.iter().map(|view| found(view.start, 1000.0)).collect();
    policy.charge(1.0, &all);
    let charges = policy.parts().next().unwrap().charges;
    assert!((charges - 1000.0 * (1.0 - (-0.1f64).exp())).abs() < 1e-6, "a tenth of an entry each: {charges}");
    // The same if only some were sampled.
    let mut policy = PromotionPolicy::new(PRICES, PolicyLimits { entries: 100, ..LIMITS });
    policy.update(0.0, &many);
    policy.charge(1.0, &all[..10]);
    assert!((policy.parts().next().unwrap().charges - charges).abs() < 1e-6);
}

#[test]
fn memory_has_a_budget() {
    let sparse = |start| RegionView { start, resident_pages: 400, huge: false };
    let mut policy =
        policy(&[sparse(A), sparse(B), RegionView { resident_pages: PAGES_LEAST - 1, ..view(2 * B) }]);
    policy.charge(1.0, &[found(A, 1e6), found(B, 2e6), found(2 * B, 9e6)]);
    let due = policy.due().expect("fits");
    assert_eq!((due.start, due.added_bytes), (B, 112 * 4096), "the third has too few pages");
    policy.promoted(1.0, due, 2e5);
    policy.promoted(1.0, policy.due().expect("fits too"), 2e5);
    assert_eq!(policy.added_bytes, 224 * 4096);
    let mut policy = PromotionPolicy::new(PRICES, PolicyLimits { budget_bytes: 500 << 10, ..LIMITS });
    policy.update(0.0, &[sparse(A), sparse(B)]);
    policy.charge(1.0, &[found(A, 1e6), found(B, 2e6)]);
    policy.promoted(1.0, policy.due().expect("448 KiB"), 2e5);
    assert_eq!((policy.due(), policy.over_budget()), (None, 1));
}

#[test]
fn what_is_split_each_time_is_left_in_the_end() {
    let mut policy = policy(&[view(A)]);
    let mut now = 0.0;
    for promotion in 0..PROMOTIONS_MAX {
        let needed = policy.threshold(promotion);
        assert!(
            (needed / policy.threshold(0) - f64::from(1 << promotion)).abs() < 1e-9,
            "twice as much each time"
        );
        policy.charge(now + 1.0, &[found(A, needed * 0.9)]);
        assert_eq!(policy.due(), None);
        policy.charge(now + 2.0, &[found(A, needed * 0.2)]);
        now += 2.0;
        policy.promoted(now, policy.due().expect("it pays"), 200_000.0);
        now += 1.0;
        assert!(policy.update(now, &[huge(A)]).is_empty());
        now += 1.0;
        assert_eq!(policy.update(now, &[view(A)]), [A]);
    }
    policy.charge(now + 100.0, &[found(A, 1e9)]);
    assert_eq!(policy.due(), None);
    let part = policy.parts().next().unwrap();
    assert!(matches!(&part.fate, Fate::Left(reason) if reason.contains("split after each of 3")), "{part:?}");
    assert_eq!(policy.splits, 3);
}

#[test]
fn failures_that_may_pass_are_tried_again_and_earn_it_anew() {
    let mut policy = policy(&[view(A), view(B)]);
    for time in 1..=FAILURES_MAX {
        policy.charge(f64::from(time), &[found(A, 1e6)]);
        let due = policy.due().expect("it pays again");
        let again = policy.failed(f64::from(time), due.start, "no free block".to_owned(), true);
        assert_eq!((again, policy.due()), (time < FAILURES_MAX, None));
    }
    policy.charge(9.0, &[found(B, 1e6)]);
    assert!(!policy.failed(9.0, B, "never".to_owned(), false));
    assert_eq!(policy.watched().count(), 0);
}

#[test]
fn what_is_saved_counts_while_the_page_is_huge() {
    let mut policy = policy(&[view(A), view(B)]);
    policy.charge(1.0, &[found(A, 2000.0)]);
    policy.promoted(1.0, policy.due().unwrap(), 2e5);
    policy.update(3.0, &[huge(A), view(B)]);
    assert_eq!(policy.saved(), 4000.0);
    policy.update(4.0, &[view(A), view(B)]);
    assert_eq!(policy.saved(), 4000.0, "when it was split is not known");
    policy.update(5.0, &[view(B)]);
    assert_eq!((policy.saved(), policy.parts().count()), (4000.0, 1), "gone, and not forgotten");
}

#[test]
fn parts_on_huge_pages_from_elsewhere_are_left_alone() {
    let mut policy = policy(&[huge(A), view(B)]);
    policy.charge(1.0, &[found(A, 1e6), found(B, 1e6)]);
    assert_eq!(policy.due().map(|due| due.start), Some(B));
    assert!(policy.update(2.0, &[huge(A), huge(B)]).is_empty());
    assert_eq!((policy.due(), policy.watched().count()), (None, 0), "khugepaged was there first");
    policy.update(3.0, &[view(A), huge(B)]);
    assert_eq!(policy.watched().count(), 1, "split by others");
    assert_eq!((policy.splits, policy.saved()), (0, 0.0));
}

#[test]
fn a_dry_run_decides_the_same_once() {
    let mut policy = policy(&[view(A)]);
    policy.charge(1.0, &[found(A, 1e6)]);
    policy.would_promote(1.0, policy.due().unwrap());
    policy.update(2.0, &[view(A)]);
    policy.charge(2.0, &[found(A, 1e6)]);
    assert_eq!((policy.due(), policy.promotions, policy.saved()), (None, 1, 0.0));
}

/// A region with few pages is not sampled, and later samples say nothing about that time.
#[test]
fn a_part_is_not_charged_for_when_it_was_hardly_there() {
    let few = RegionView { resident_pages: PAGES_LEAST - 1, ..view(A) };
    let mut policy = policy(&[few]);
    policy.update(3600.0, &[few]);
    policy.update(3601.0, &[view(A)]);
    policy.charge(3601.5, &[found(A, 1000.0)]);
    let charges = policy.parts().next().unwrap().charges;
    assert!((charges - 1500.0).abs() < 1e-6, "from when it was seen last with few: {charges}");
}
