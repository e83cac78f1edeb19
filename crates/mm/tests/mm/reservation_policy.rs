//! FreeBSD's reservations, as described by Navarro et al. 2002.

use crate::common::Process;
use pagewalk_mm::promotion::FreeBsd;
use pagewalk_mm::{Account, Remap, Superpage};
use pagewalk_trace::MappingKind::{Anonymous, File};

fn freebsd() -> FreeBsd {
    FreeBsd::new(9).expect("a possible order")
}

fn touched_but_one(policy: FreeBsd) -> Process {
    let mut p = Process::new(Box::new(policy));
    p.map(512, 1024, Anonymous);
    (512..1023).for_each(|page| p.touch(page));
    assert_eq!((p.order(512), p.remaps.len()), (Some(0), 0));
    p
}

#[test]
fn a_block_is_one_page_when_all_of_it_was_touched_and_nothing_is_copied() {
    let mut p = touched_but_one(freebsd());
    p.touch(1023);
    assert_eq!(p.remaps, [Remap::Promoted(Superpage { first: 512, order: 9 })]);
    let accounts = p.kernel.accounts();
    assert_eq!([Account::Copy, Account::Map].map(|account| accounts.of(account)), [0, 1000]);
    assert_eq!(accounts.of(Account::Zero), 512 * 4 * 100);
    let counts = p.kernel.counts();
    assert_eq!((counts.faults, counts.promotions_in_place, counts.untouched_bytes_peak), (512, 1, 0));
    // Unmapping of a part leaves base pages.
    p.unmap(1000, 24);
    assert_eq!([512, 1000].map(|page| p.order(page)), [Some(0), None]);
}

#[test]
fn a_gap_breaks_the_reservation_or_is_filled_again() {
    const DONTNEED: i32 = 4;
    for (broken_by_gaps, order) in [(true, 0), (false, 9)] {
        let mut policy = freebsd();
        policy.broken_by_gaps = broken_by_gaps;
        let mut p = touched_but_one(policy);
        p.advise(600, 8, DONTNEED);
        (600..608).for_each(|page| p.touch(page));
        p.touch(1023);
        assert_eq!(p.order(512), Some(order), "{broken_by_gaps}");
        // Given back as a whole, and reserved anew.
        p.unmap(512, 512);
        p.map(512, 512, Anonymous);
        (512..1024).for_each(|page| p.touch(page));
        assert_eq!(p.order(512), Some(9), "{broken_by_gaps}");
    }
}

#[test]
fn files_and_blocks_in_two_areas_have_none() {
    let mut p = Process::new(Box::new(freebsd()));
    p.map(512, 512, File);
    p.map(1024, 256, Anonymous);
    p.map(1280, 256, File);
    (512..1536).for_each(|page| p.touch(page));
    assert_eq!([512, 1024].map(|page| p.order(page)), [Some(0); 2]);
    assert_eq!(p.kernel.counts().refused_area, 2);
}
