//! Linux's huge pages as its documentation tells them.

mod common;

use common::Process;
use pagewalk_mm::promotion::{
    Collapse, Khugepaged, Linux, LinuxError, LinuxSettings, MADV_COLLAPSE, SizeMode,
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
    // It copies one page, clears the others, and has looked at one block.
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
    // A block of which nothing is mapped stays so.
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
    // One page that it has is not too many.
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
