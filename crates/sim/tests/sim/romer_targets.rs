//! Findings of Romer's thesis (1998) that any faithful simulator must reproduce, on small synthetic programs. Tests are
//! named after the targets.

use crate::stream::{Numbers, Stream, cost, spent};
use pagewalk_mm::promotion::{
    ApproxOnline, Asap, BreakEven, Fixed, OfflineSettings, Online, Policy, Throttle, ThrottleLimits,
};
use pagewalk_mm::{Account, KernelCosts};
use pagewalk_sim::{DesignCounts, Library};
use pagewalk_translate::MachineSpec;
use pagewalk_units::PageSize;

/// Order of the largest superpage: 8 MiB of 4 KiB.
const TOP: u8 = 11;
/// Pages of 1 MiB.
const MIB: u64 = 256;

fn machine() -> MachineSpec {
    Library::get("romer_1998").unwrap()
}

fn prices() -> BreakEven {
    BreakEven { base: PageSize::FOUR_KIB, copy_per_kib: 3000, miss_cycles: 30 }
}

fn fixed() -> Box<dyn Policy> {
    Box::new(Fixed { order: 0 })
}

fn approx_online() -> Box<dyn Policy> {
    Box::new(ApproxOnline::new(TOP, &prices(), 0.125, 100))
}

fn online() -> Box<dyn Policy> {
    Box::new(Online::new(TOP, &prices(), 0.125, 0.625, 2570))
}

fn under(stream: &Stream, policy: Box<dyn Policy>) -> DesignCounts {
    stream.under(&machine(), policy, KernelCosts::ROMER)
}

/// Cycles of misses, bookkeeping and building superpages.
fn overhead(counts: &DesignCounts) -> u64 {
    cost(counts) + spent(counts, Account::Bookkeeping)
}

/// Sweeps over so many MiB, with so many places half a MiB apart visited in turn: no two of them are ever near each
/// other.
fn strided_sweeps(mib: u64, loads: u64) -> Stream {
    let (stride, places) = (MIB / 2, 2 * mib);
    Stream::new((0..loads).map(|n| n % places * stride + n / places % stride).collect())
}

fn scattered(pages: u64, loads: u64) -> Stream {
    let mut random = Numbers(1998);
    Stream::new((0..loads).map(|_| random.below(pages)).collect())
}

/// Various programs, by name: some that benefit from superpages and some that do not.
fn programs() -> Vec<(&'static str, Stream)> {
    let mut phases = scattered(40, 200_000).pages;
    phases.extend(scattered(2000, 200_000).pages.iter().map(|page| page + 4096));
    vec![
        ("strided sweeps over 8 MiB", strided_sweeps(8, 600_000)),
        ("pages of 8 MiB at random", scattered(8 * MIB, 400_000)),
        ("pages of 256 KiB at random", scattered(64, 400_000)),
        ("two working sets", Stream::new(phases)),
        ("a sequential sweep", Stream::new((0..400_000).map(|n| n / 8 % (16 * MIB)).collect())),
        ("few misses", Stream::new((0..400_000).map(|n| n / 4000 % 40).collect())),
    ]
}

/// A TLB of one entry for each of code and data, and superpages of 8 KiB.
fn one_entry() -> MachineSpec {
    let tlb = |name, serves| {
        let sizes = r#"["4K", "8K"]"#;
        format!(
            "[[tlb]]\nname = \"{name}\"\nlevel = 1\nserves = [{serves}]\npage_sizes = {sizes}\nentries = 1\n"
        )
    };
    let (code, data) = (tlb("itlb", "\"fetch\""), tlb("dtlb", "\"load\", \"store\""));
    let walker = "[walker]\nkind = \"software\"\nrefill_cycles = 30\n[cost]\nl2_hit = 0\n";
    let paging = "[paging]\nbase = \"4K\"\nhuge = \"8K\"\n";
    let text = format!("schema = 1\nname = \"one\"\n{code}{data}{walker}{paging}");
    MachineSpec::from_toml("one.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Section 3.3.3: one superpage that is built after so many charges, against whoever knows how long the program will
/// run. The source's 2 + o/b is 5.33 with bookkeeping at 100 cycles and a miss at 30; it builds at an eighth of
/// break-even all the same, where the bound is 12.3, as what is charged once is mostly charged again.
#[test]
fn u5_the_worst_case_is_least_where_a_superpage_is_built_at_break_even() {
    let (miss, bookkeeping, build) = (30.0, 100.0, 8.0 * 3000.0);
    let machine = one_entry();
    let even = prices().even(1);
    let worst = |share: f64| {
        let due = (even * share) as u64;
        let ratio = |loads: u64| {
            // The pages of one block in turn, which both miss every time.
            let stream = Stream::new((0..loads).map(|n| n % 2).collect());
            let policy = Box::new(ApproxOnline::new(1, &prices(), share, 100));
            let online = overhead(&stream.under(&machine, policy, KernelCosts::ROMER));
            let best = stream.offline(&machine, &OfflineSettings::default());
            online as f64 / overhead(&best.counts) as f64
        };
        // Programs that end before it is built, when it has just been, and long afterwards.
        [due / 2, due, due + 1, due + 2, 2 * due, 20 * due].map(ratio).into_iter().fold(0.0, f64::max)
    };
    let bound = |share: f64| {
        let due = even * share;
        let early = 1.0 + bookkeeping / miss + build / (miss * due);
        early.max(1.0 + (miss + bookkeeping) * due / build)
    };
    let least = worst(1.0);
    assert!((least / (2.0 + bookkeeping / miss) - 1.0).abs() < 0.01, "{least}");
    for share in [0.125, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0, 4.0] {
        let found = worst(share);
        assert!((found / bound(share) - 1.0).abs() < 0.03, "{share}: {found}, {}", bound(share));
        assert!(found >= least, "{share}: {found}");
    }
}

#[test]
fn u11_a_strided_sweep_over_32_mib_pays_four_large_superpages_and_then_misses_no_more() {
    let approx = |loads: u64| under(&strided_sweeps(32, loads), approx_online());
    let (first, second) = (approx(500_000), approx(1_000_000));
    // Four superpages at 102,400 charges each, and what is missed before anything is near.
    let expected = 4.0 * 102_400.0;
    assert!((first.walks_data as f64 / expected - 1.0).abs() < 0.1, "{} misses", first.walks_data);
    assert_eq!(second.walks_data, first.walks_data, "silence afterwards");
    assert_eq!(spent(&second, Account::Copy), 32 * 1024 * 3000, "each byte is copied once");
    assert_eq!(second.kernel.unwrap().counts.promotions[usize::from(TOP)], 4);
}

#[test]
fn u12_asap_copies_sequential_data_half_as_often_as_there_are_levels() {
    let pages = 32 * MIB;
    let asap = under(&Stream::new((0..pages).collect()), Box::new(Asap::new(TOP)));
    let copied = spent(&asap, Account::Copy) as f64 / (pages * 4 * 3000) as f64;
    // Every second block of each level completes a larger one, which alone is built; of the last level, all are.
    assert_eq!(copied, 0.5 * (f64::from(TOP) - 1.0) + 1.0);
}

#[test]
fn p3_offline_is_no_worse_than_approx_online_which_is_better_than_online() {
    for (name, stream) in programs() {
        let offline = stream.offline(&machine(), &OfflineSettings::default());
        let [best, approx, online] =
            [offline.counts, under(&stream, approx_online()), under(&stream, online())].map(|c| overhead(&c));
        assert!(best <= approx && approx < online, "{name}: {best}, {approx}, {online}");
    }
}

#[test]
fn p4_online_has_no_more_misses_than_approx_online() {
    for (name, stream) in programs() {
        let [online, approx] = [online(), approx_online()].map(|policy| under(&stream, policy).walks());
        assert!(online <= approx, "{name}: {online}, {approx}");
    }
}

#[test]
fn p9_asap_backs_nothing_that_is_not_touched() {
    for (name, stream) in programs() {
        let counts = under(&stream, Box::new(Asap::new(TOP))).kernel.unwrap().counts;
        assert_eq!(counts.untouched_bytes_peak, 0, "{name}");
        assert!(counts.promotions.iter().sum::<u64>() > 0, "{name}");
    }
}

#[test]
fn w3_approx_online_loses_where_it_divides_misses_by_less_than_the_price_of_one() {
    let (mut lost, mut won) = (0, 0);
    for (name, stream) in programs() {
        let (before, after) = (under(&stream, fixed()), under(&stream, approx_online()));
        let divided = before.walks() as f64 / after.walks() as f64;
        // A miss costs 130 cycles instead of 30, and those that are left carry the copies.
        let copies = spent(&after, Account::Copy) as f64 / (30 * after.walks()) as f64;
        let loses = overhead(&after) > overhead(&before);
        assert_eq!(loses, divided < 130.0 / 30.0 + copies, "{name}: misses divided by {divided}");
        assert_eq!(spent(&after, Account::Bookkeeping), 100 * after.walks(), "{name}");
        *(if loses { &mut lost } else { &mut won }) += 1;
    }
    assert!(lost > 0 && won > 0, "programs of both kinds");
}

#[test]
fn w4_throttle_bounds_the_overhead_of_what_does_not_pay() {
    let limits = ThrottleLimits { window: 20_000, ..ThrottleLimits::default() };
    // Nothing near is used again soon, in more memory than any superpages in the TLB cover.
    let stream = Stream { instructions: 20, ..scattered(512 * MIB, 300_000) };
    let plain = under(&stream, fixed());
    let free = under(&stream, approx_online());
    let throttled = under(&stream, Box::new(Throttle::new(approx_online(), limits)));
    let per_instruction = |counts: &DesignCounts| {
        (overhead(counts) as f64 - overhead(&plain) as f64) / counts.instructions as f64
    };
    assert!(per_instruction(&free) > 5.0 * limits.target, "without: {}", per_instruction(&free));
    // It is switched on again when its overhead so far is below the target. One window may have come on top since.
    let rate = plain.walks() as f64 / plain.instructions as f64;
    let window = limits.window as f64 * rate * 100.0 / plain.instructions as f64;
    assert!(per_instruction(&throttled) <= limits.target + window, "{}", per_instruction(&throttled));
    assert!(spent(&throttled, Account::Bookkeeping) > 0, "it is tried");
}
