//! Linux's huge pages as documented.

use crate::common::Process;
use pagewalk_mm::promotion::{
    Collapse, Khugepaged, Linux, LinuxError, LinuxSettings, MADV_COLLAPSE, Mthp, SizeMode,
};
use pagewalk_mm::{Account, ForkRules, Remap, Superpage, ThpMode};
use pagewalk_trace::MappingKind::{Anonymous, File, Heap, SharedAnonymous, Stack};
use pagewalk_units::VirtAddr;

const HUGEPAGE: i32 = 14;
const NOHUGEPAGE: i32 = 15;
const DONTNEED: i32 = 4;

fn settings(enabled: ThpMode) -> LinuxSettings {
    LinuxSettings::new(9, enabled)
}

fn process(settings: LinuxSettings) -> Process {
    Process::new(Box::new(Linux::new(settings).expect("possible settings")))
}

/// Ten milliseconds of sleep, at one instruction in each.
fn eager_khugepaged() -> Option<Khugepaged> {
    Some(Khugepaged { scan_sleep_millisecs: 10, instructions_per_millisecond: 1, ..Khugepaged::new(9) })
}

fn huge(block: u64) -> Superpage {
    Superpage { first: block * 512, order: 9 }
}

#[test]
fn a_whole_block_of_private_anonymous_memory_gets_one_page() {
    let mut p = process(settings(ThpMode::Always));
    p.map(100, 1900, Anonymous);
    // Blocks 1 and 2 lie inside; 0 and 3 reach out.
    for page in [100, 700, 1100, 1600] {
        p.touch(page);
    }
    assert_eq!([100, 700, 1100, 1600].map(|page| p.order(page)), [Some(0), Some(9), Some(9), Some(0)]);
    p.touch(701);
    assert_eq!(p.kernel.counts().faults, 4);
    for (n, kind) in [Heap, Stack, File, SharedAnonymous].into_iter().enumerate() {
        let block = 10 + 2 * n as u64;
        p.map(block * 512, 512, kind);
        p.touch(block * 512 + 3);
        assert_eq!(p.order(block * 512), (n < 2).then_some(9), "{kind:?}");
    }
}

#[test]
fn advice_and_modes_decide() {
    for (mode, plain, advised, against) in
        [(ThpMode::Always, 9, 9, 0), (ThpMode::Madvise, 0, 9, 0), (ThpMode::Never, 0, 0, 0)]
    {
        let mut p = process(settings(mode));
        p.map(512, 3 * 512, Anonymous);
        p.advise(1024, 512, HUGEPAGE);
        p.advise(1536, 512, NOHUGEPAGE);
        for page in [512, 1024, 1536] {
            p.touch(page);
        }
        let orders = [512, 1024, 1536].map(|page| p.order(page));
        assert_eq!(orders, [Some(plain), Some(advised), Some(against)], "{mode:?}");
    }
}

#[test]
fn the_largest_size_that_fits_and_is_empty_is_taken() {
    let mut settings = settings(ThpMode::Madvise);
    settings.sizes[4] = SizeMode::Always;
    settings.sizes[6] = SizeMode::Madvise;
    let mut p = process(settings);
    p.map(512, 1024 + 20, Anonymous);
    p.advise(1024, 532, HUGEPAGE);
    p.touch(520);
    p.touch(1050);
    p.touch(1540);
    p.touch(1553);
    // No advice: 16 pages. Advice: the huge page; past its block 16 pages fit, 64 do not; and at the end nothing does.
    assert_eq!([520, 1050, 1540, 1553].map(|page| p.order(page)), [Some(4), Some(9), Some(4), Some(0)]);
    // One of 16 pages is there, so that 512 are not empty, and 64 are not either.
    p.advise(512, 512, HUGEPAGE);
    p.touch(530);
    p.touch(600);
    assert_eq!([530, 600].map(|page| p.order(page)), [Some(4), Some(6)]);
}

#[test]
fn a_page_is_taken_apart_where_part_of_it_changes() {
    for change in [
        |p: &mut Process| p.unmap(600, 8),
        |p: &mut Process| p.protect(600, 8, false),
        |p: &mut Process| p.advise(600, 8, DONTNEED),
        |p: &mut Process| p.advise(600, 8, NOHUGEPAGE),
    ] {
        let mut p = process(settings(ThpMode::Always));
        p.map(512, 512, Anonymous);
        p.touch(512);
        assert_eq!(p.order(1000), Some(9));
        change(&mut p);
        assert_eq!(p.order(1000), Some(0));
        assert_eq!(p.remaps, [Remap::Mapped(huge(1)), Remap::Demoted(huge(1))]);
    }
    // Advice that the whole area has already makes no areas.
    let mut p = process(settings(ThpMode::Madvise));
    p.map(512, 512, Anonymous);
    p.advise(512, 512, HUGEPAGE);
    p.touch(512);
    p.advise(600, 8, HUGEPAGE);
    assert_eq!(p.order(1000), Some(9));
}

#[test]
fn khugepaged_collapses_after_its_sleep() {
    let mut p = process(LinuxSettings { khugepaged: eager_khugepaged(), ..settings(ThpMode::Madvise) });
    p.map(512, 1024, Anonymous);
    p.touch(512);
    p.touch(1024);
    p.advise(512, 512, HUGEPAGE);
    p.wait(9);
    assert_eq!(p.order(512), Some(0));
    p.wait(1);
    assert_eq!([512, 1024].map(|page| p.order(page)), [Some(9), Some(0)]);
    assert_eq!(p.remaps, [Remap::Promoted(huge(1))]);
    // It copies one page, clears the others, and has scanned one block.
    let accounts = p.kernel.accounts();
    assert_eq!(accounts.of(Account::Scan), 512 * 10);
    assert_eq!(accounts.of(Account::Copy), 4 * 200);
    assert_eq!(accounts.of(Account::Zero), (2 + 511) * 4 * 100);
}

#[test]
fn khugepaged_wants_enough_of_a_block() {
    let khugepaged = eager_khugepaged().map(|k| Khugepaged { max_ptes_none: 510, ..k });
    let mut p = process(LinuxSettings { khugepaged, ..settings(ThpMode::Always) });
    p.map(0, 100, Anonymous);
    p.touch(50);
    // Nothing of the block when it is made whole: no huge page at the next fault.
    p.map(100, 924, Anonymous);
    p.wait(10);
    assert_eq!(p.order(50), Some(0));
    p.touch(400);
    assert_eq!(p.order(400), Some(0));
    p.wait(10);
    assert_eq!(p.order(50), Some(9));
    // A block without mapped pages stays unmapped.
    assert_eq!(p.order(512), None);
}

#[test]
fn khugepaged_counts_what_a_child_has_too_while_that_lives() {
    let forked = || {
        let khugepaged = eager_khugepaged().map(|k| Khugepaged { max_ptes_shared: 1, ..k });
        let mut p = process(LinuxSettings { khugepaged, ..settings(ThpMode::Madvise) });
        let fork = ForkRules { child_instructions: 15, ..ForkRules::default() };
        p.kernel = p.kernel.with_sharing(None, fork);
        p.map(512, 512, Anonymous);
        p.touch(512);
        p.touch(513);
        p.advise(512, 512, HUGEPAGE);
        p.kernel.forked(7, &p.space, &mut p.remaps);
        p
    };
    // It becomes another program after 15 instructions. Its parent stores to nothing.
    let mut p = forked();
    p.wait(10);
    assert_eq!(p.order(512), Some(0));
    p.wait(10);
    assert_eq!(p.order(512), Some(9));
    // The parent sees its end before.
    let mut p = forked();
    p.kernel.child_ended(7);
    p.wait(10);
    assert_eq!(p.order(512), Some(9));
    // A single mapped page does not exceed the limit.
    let mut p = forked();
    p.touch(513);
    p.wait(10);
    assert_eq!(p.order(512), Some(9));
}

#[test]
fn khugepaged_goes_so_far_at_a_time_and_round() {
    let khugepaged = eager_khugepaged().map(|k| Khugepaged { pages_to_scan: 1024, ..k });
    let mut p = process(LinuxSettings { khugepaged, ..settings(ThpMode::Madvise) });
    p.map(512, 5 * 512, Anonymous);
    for block in 1..=5 {
        p.touch(block * 512);
    }
    p.advise(512, 5 * 512, HUGEPAGE);
    // A step of two blocks each time: 1 + 512 is short of 1,024. The last one leaves room to go round to the first.
    for collapsed in [2, 4, 5] {
        p.wait(10);
        let orders = (1..=5).map(|block| p.order(block * 512));
        assert_eq!(orders.filter(|&order| order == Some(9)).count(), collapsed);
    }
}

/// Two blocks from page 512 on, and these pages touched, which faults map by base pages; then sizes of these orders are
/// allowed, the huge page among them if it is one, and khugepaged collapses as `mthp` says.
fn scanned(mthp: Mthp, max_ptes_none: u64, orders: &[usize], touched: &[u64]) -> Process {
    let khugepaged = eager_khugepaged().map(|k| Khugepaged { mthp, max_ptes_none, ..k });
    let mut settings = LinuxSettings { khugepaged, ..settings(ThpMode::Madvise) };
    settings.sizes[9] = SizeMode::Never;
    orders.iter().for_each(|&order| settings.sizes[order] = SizeMode::Madvise);
    let mut p = process(settings);
    p.map(512, 1024, Anonymous);
    touched.iter().for_each(|page| p.touch(512 + page));
    p.advise(512, 1024, HUGEPAGE);
    p
}

/// What larger pages map, from page 512 on: first pages and orders.
fn large(p: &Process) -> Vec<(u64, u8)> {
    let units = p.units(512, 1024).into_iter().filter(|unit| unit.order > 0);
    units.map(|unit| (unit.first - 512, unit.order)).collect()
}

/// 16 pages, 15 of the next 16, 64 pages from 64 on, and one page.
fn utilised() -> Vec<u64> {
    (0..31).chain(64..128).chain([200]).collect()
}

#[test]
fn khugepaged_collapses_what_is_full_to_the_largest_size_that_is() {
    let mut p = scanned(Mthp::Strict, 0, &[2, 4, 6, 9], &utilised());
    p.wait(9);
    assert_eq!(large(&p), []);
    p.wait(1);
    // The first 64 have 31, so that 16 and three times 4 are full; 28 to 31 have three.
    assert_eq!(large(&p), [(0, 4), (16, 2), (20, 2), (24, 2), (64, 6)]);
    assert_eq!(p.kernel.table().backed(), 31 + 64 + 1);
    // Nothing is cleared for it, and the other block, of which nothing is mapped, is not looked at.
    assert_eq!(p.kernel.accounts().of(Account::Zero), 96 * 4 * 100);
    assert_eq!(p.kernel.accounts().of(Account::Scan), 512 * 10);
    // Nothing changes that.
    let before = p.remaps.len();
    p.wait(100);
    assert_eq!(p.remaps.len(), before);
    // Below the huge page, every limit other than all pages but one counts as 0 missing pages.
    for max_ptes_none in [1, 255, 510 - 96] {
        let mut p = scanned(Mthp::Strict, max_ptes_none, &[2, 4, 6, 9], &utilised());
        p.wait(10);
        assert_eq!(large(&p), [(0, 4), (16, 2), (20, 2), (24, 2), (64, 6)], "{max_ptes_none}");
    }
    let mut p = scanned(Mthp::Strict, 512 - 96, &[2, 4, 6, 9], &utilised());
    p.wait(10);
    assert_eq!(large(&p), [(0, 9)]);
    // Linux 7.1 knows only that one.
    let mut p = scanned(Mthp::Never, 0, &[2, 4, 6, 9], &utilised());
    p.wait(10);
    assert_eq!(large(&p), []);
}

#[test]
fn khugepaged_collapses_around_every_page_where_all_but_one_may_be_missing() {
    for (orders, collapsed) in [
        (&[2, 4, 6][..], vec![(0, 6), (64, 6), (192, 6)]),
        (&[2, 4][..], (0..2).chain(4..8).chain([12]).map(|n| (n * 16, 4)).collect()),
        (&[2, 4, 6, 9][..], vec![(0, 9)]),
    ] {
        let mut p = scanned(Mthp::Strict, 511, orders, &utilised());
        p.wait(10);
        assert_eq!(large(&p), collapsed, "{orders:?}");
        // Memory mapped by pages of this size or larger is skipped.
        p.wait(100);
        assert_eq!(large(&p), collapsed, "{orders:?}");
    }
}

#[test]
fn khugepaged_collapses_what_has_its_share_and_grows_by_it() {
    // 255 of 512 are 7 of 16: nine of the first 16 suffice, eight of the next do not.
    let touched: Vec<u64> = (0..9).chain(16..24).collect();
    let mut p = scanned(Mthp::Scaled, 255, &[4, 9], &touched);
    p.wait(100);
    assert_eq!(large(&p), [(0, 4)]);
    // 300 of 512 are 9 of 16, 18 of 32, 37 of 64: the 16 that the first collapse fills are enough for 32, those for
    // 64, and those, of which 75 of 128 may be missing, for 128, and so on to the huge page.
    let mut p = scanned(Mthp::Scaled, 300, &[4, 5, 6, 7, 8, 9], &[0, 1, 2, 3, 4, 5, 6]);
    for order in [4, 5, 6, 7, 8, 9, 9] {
        p.wait(10);
        assert_eq!(large(&p), [(0, order)]);
    }
}

#[test]
fn khugepaged_goes_by_whole_blocks_whatever_the_size() {
    let khugepaged = eager_khugepaged().map(|k| Khugepaged { mthp: Mthp::Strict, max_ptes_none: 0, ..k });
    let mut settings = LinuxSettings { khugepaged, ..settings(ThpMode::Madvise) };
    settings.sizes[4] = SizeMode::Madvise;
    let mut p = process(settings);
    p.map(528, 1008, Anonymous);
    (528..544).chain(1024..1040).chain(1041..1057).for_each(|page| p.touch(page));
    p.advise(528, 1008, HUGEPAGE);
    p.wait(10);
    // The first 16 lie before the area's first huge block, the last are not aligned.
    let units = p.units(528, 1008).into_iter().filter(|unit| unit.order > 0).collect::<Vec<_>>();
    assert_eq!(units, [Superpage { first: 1024, order: 4 }]);
    // The block's table stays: no fault has a huge page there once the rest is gone.
    p.advise(1024, 500, DONTNEED);
    p.touch(1024);
    assert_eq!(p.order(1024), Some(4));
}

#[test]
fn khugepaged_leaves_out_what_a_child_has_too_of_smaller_sizes() {
    let mut p = scanned(Mthp::Strict, 0, &[4, 5, 9], &(0..32).collect::<Vec<_>>());
    let fork = ForkRules { child_instructions: 15, ..ForkRules::default() };
    p.kernel = p.kernel.with_sharing(None, fork);
    p.kernel.forked(7, &p.space, &mut p.remaps);
    // Half of the 32 pages are its own again.
    (512..528).for_each(|page| p.touch(page));
    p.wait(10);
    assert_eq!(large(&p), [(0, 4)]);
    p.wait(10);
    assert_eq!(large(&p), [(0, 5)]);
}

#[test]
fn khugepaged_passes_over_what_a_huge_page_has_left() {
    let split = |mthp_remains| {
        let mthp = Mthp::Strict;
        let khugepaged = eager_khugepaged().map(|k| Khugepaged { mthp, mthp_remains, max_ptes_none: 0, ..k });
        let mut settings = LinuxSettings { khugepaged, ..settings(ThpMode::Always) };
        settings.sizes[4] = SizeMode::Inherit;
        let mut p = process(settings);
        p.map(512, 512, Anonymous);
        p.touch(512);
        p.advise(512 + 500, 1, DONTNEED);
        p.advise(512 + 16, 8, DONTNEED);
        (528..536).for_each(|page| p.touch(page));
        p.wait(10);
        p
    };
    // All 16 pages are there but in the last of 32 parts; half of the second is new.
    assert_eq!(large(&split(true)), (0..31).map(|n| (n * 16, 4)).collect::<Vec<_>>());
    let mut p = split(false);
    assert_eq!(large(&p), []);
    // Now all of that is.
    p.advise(512 + 24, 8, DONTNEED);
    (536..544).for_each(|page| p.touch(page));
    p.wait(10);
    assert_eq!(large(&p), [(16, 4)]);
    // The huge page itself is built as before.
    p.touch(512 + 500);
    p.wait(10);
    assert_eq!(large(&p), [(0, 9)]);
}

#[test]
fn collapse_is_done_at_once_in_every_mode() {
    let mut p = process(settings(ThpMode::Never));
    p.map(512, 4 * 512, Anonymous);
    p.advise(1536, 512, NOHUGEPAGE);
    for block in [1, 3, 4] {
        p.touch(block * 512 + 7);
    }
    p.advise(600, 4 * 512 - 88, MADV_COLLAPSE);
    // The first block is not wholly in the range, of the second nothing is mapped, the third is advised against.
    assert_eq!(
        (1..=4).map(|block| p.order(block * 512 + 7)).collect::<Vec<_>>(),
        [Some(0), None, Some(0), Some(9)]
    );
}

#[test]
fn collapse_is_called_for_the_program() {
    let call = Collapse { start: VirtAddr(512 * 4096), bytes: 1 << 21, at: 1000 };
    let mut p = process(LinuxSettings { collapse: vec![call], ..settings(ThpMode::Never) });
    p.map(512, 512, Anonymous);
    p.touch(512);
    p.wait(999);
    assert_eq!(p.order(512), Some(0));
    p.wait(1);
    assert_eq!(p.order(512), Some(9));
}

#[test]
fn impossible_settings_are_named() {
    let with = |change: fn(&mut LinuxSettings)| {
        let mut settings = settings(ThpMode::Always);
        change(&mut settings);
        Linux::new(settings).map(|_| ()).map_err(|error| error.to_string())
    };
    let wrong = |text: &str| Err(text.to_owned());
    assert_eq!(with(|s| s.huge = 14), wrong("huge page of order 14: expected 2 to 13"));
    let order_1 = "pages of order 1 are enabled: anonymous memory has those of orders 2 to 9";
    assert_eq!(with(|s| s.sizes[1] = SizeMode::Always), wrong(order_1));
    assert_eq!(
        with(|s| s.khugepaged = Some(Khugepaged { max_ptes_none: 512, ..Khugepaged::new(9) })),
        wrong("khugepaged's max_ptes_none is 512: expected 0 to 511")
    );
    let no_pages = LinuxSettings {
        khugepaged: Some(Khugepaged { pages_to_scan: 0, ..Khugepaged::new(9) }),
        ..settings(ThpMode::Always)
    };
    assert_eq!(Linux::new(no_pages).err(), Some(LinuxError::PagesToScan));
}
