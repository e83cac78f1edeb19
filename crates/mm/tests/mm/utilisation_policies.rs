//! Ingens and HawkEye, as described in their papers.

use crate::common::{PAGE, Process};
use pagewalk_mm::promotion::{FreeBsd, HawkEye, HawkEyeSettings, Ingens, IngensSettings};
use pagewalk_mm::{Account, Remap, Superpage};
use pagewalk_trace::MappingKind::Anonymous;

fn block(number: u64) -> Superpage {
    Superpage { first: number * 512, order: 9 }
}

fn ingens(change: impl Fn(&mut IngensSettings)) -> Process {
    let mut settings = IngensSettings {
        promote_sleep_millisecs: 10,
        instructions_per_millisecond: 1,
        ..IngensSettings::new(9)
    };
    change(&mut settings);
    let mut p = Process::new(Box::new(Ingens::new(settings).expect("possible settings")));
    p.map(512, 1536, Anonymous);
    p
}

#[test]
fn ingens_wants_nine_tenths_of_a_block() {
    let mut p = ingens(|_| ());
    // 460 of 512 pages are 89.8 %.
    (512..972).for_each(|page| p.touch(page));
    p.wait(10);
    assert_eq!(p.order(512), Some(0));
    p.touch(972);
    assert_eq!(p.order(512), Some(0), "faults map base pages only");
    p.wait(10);
    assert_eq!(p.remaps, [Remap::Promoted(block(1))]);
    assert_eq!(p.kernel.accounts().of(Account::Copy), 461 * 4 * 200);
    assert_eq!(p.kernel.counts().untouched_bytes_peak, 51 * PAGE);
}

#[test]
fn ingens_wants_one_page_where_memory_is_not_fragmented() {
    for (fragmentation, order) in [(0.49, 9), (0.5, 0)] {
        let mut p = ingens(|settings| settings.fragmentation = fragmentation);
        p.touch(1030);
        assert_eq!(p.order(1030), Some(0));
        p.wait(10);
        assert_eq!(p.order(1030), Some(order), "{fragmentation}");
    }
}

#[test]
fn ingens_forgets_what_is_gone() {
    let mut p = ingens(|settings| settings.fragmentation = 0.0);
    p.touch(512);
    p.touch(1024);
    p.unmap(512, 512);
    p.unmap(1500, 8);
    p.wait(10);
    assert_eq!(p.remaps, []);
}

/// A sample each 100 instructions, of 10; the thread runs each 50.
fn hawkeye(change: impl Fn(&mut HawkEyeSettings)) -> Process {
    let mut settings = HawkEyeSettings {
        at_fault: false,
        sample_millisecs: 100,
        window_millisecs: 10,
        promote_sleep_millisecs: 50,
        promotions: 1,
        sample_weight: 50,
        instructions_per_millisecond: 1,
        ..HawkEyeSettings::new(9)
    };
    change(&mut settings);
    let mut p = Process::new(Box::new(HawkEye::new(settings).expect("possible settings")));
    p.map(512, 4 * 512, Anonymous);
    p
}

#[test]
fn hawkeye_makes_the_block_huge_of_which_most_is_used() {
    let mut p = hawkeye(|_| ());
    for number in 1..=4 {
        (0..512).for_each(|page| p.touch(number * 512 + page));
    }
    p.wait(100);
    assert_eq!(p.remaps, [], "what was used before the window does not count");
    // In the window: 49 pages of block 1, 120 of block 2, 130 of block 3, none of block 4.
    for (number, pages) in [(1, 49), (2, 120), (3, 130)] {
        (0..pages).for_each(|page| p.touch(number * 512 + page));
    }
    p.wait(40);
    assert_eq!(p.remaps, []);
    // Blocks 2 and 3 stand in one bucket, and the later one came to its head.
    p.wait(10);
    p.wait(50);
    p.wait(50);
    p.wait(50);
    let promoted: Vec<Remap> = [3, 2, 1].into_iter().map(|number| Remap::Promoted(block(number))).collect();
    assert_eq!(p.remaps, promoted);
}

#[test]
fn hawkeye_keeps_a_moving_average_and_prefers_blocks_that_rise() {
    let mut p = hawkeye(|settings| settings.promote_sleep_millisecs = 350);
    for number in 1..=2 {
        (0..512).for_each(|page| p.touch(number * 512 + page));
    }
    // Block 1: 200, 100, 120. Block 2: 0, 80, 120. Both end in the third bucket, one that fell to it and one that rose.
    for [first, second] in [[400, 0], [0, 160], [140, 160]] {
        p.wait(100);
        (0..first).for_each(|page| p.touch(512 + page));
        (0..second).for_each(|page| p.touch(1024 + page));
    }
    p.wait(50);
    assert_eq!(p.remaps, [Remap::Promoted(block(2))]);
    p.wait(350);
    assert_eq!(p.remaps.last(), Some(&Remap::Promoted(block(1))));
}

#[test]
fn hawkeye_takes_back_what_was_never_touched() {
    let mut p = hawkeye(|settings| {
        settings.at_fault = true;
        settings.memory = Some(4 * 512 * PAGE);
    });
    // Two blocks that are used, one in small part.
    (512..1536).for_each(|page| p.touch(page));
    (1536..1546).for_each(|page| p.touch(page));
    assert_eq!([512, 1024, 1536].map(|page| p.order(page)), [Some(9); 3]);
    p.remaps.clear();
    p.wait(50);
    assert_eq!(p.remaps, [], "75 % of the memory are less than 85 %");
    p.touch(2048);
    p.remaps.clear();
    p.wait(50);
    // Giving back 502 pages leaves 75 %, and 511 more leave less than 70 %.
    assert_eq!(p.remaps, [Remap::Demoted(block(3)), Remap::Demoted(block(4))]);
    assert_eq!([1545, 1546, 2048, 2049].map(|page| p.order(page)), [Some(0), None, Some(0), None]);
    assert_eq!(p.kernel.counts().trimmed_bytes, (502 + 511) * PAGE);
}

#[test]
fn impossible_settings_are_named() {
    let ingens = Ingens::new(IngensSettings { utilisation: 1.5, ..IngensSettings::new(9) });
    assert_eq!(ingens.unwrap_err().to_string(), "ingens: utilisation is 1.5: expected 0 to 1");
    let hawkeye = |change: fn(&mut HawkEyeSettings)| {
        let mut settings = HawkEyeSettings::new(9);
        change(&mut settings);
        HawkEye::new(settings).unwrap_err().to_string()
    };
    assert_eq!(
        hawkeye(|settings| settings.low_watermark = 90),
        "hawkeye: low_watermark is 90: expected 1 to 85"
    );
    assert_eq!(hawkeye(|settings| settings.buckets = 0), "hawkeye: buckets is 0: expected 1 to 512");
    assert_eq!(FreeBsd::new(14).unwrap_err().to_string(), "freebsd: order is 14: expected 1 to 13");
}
