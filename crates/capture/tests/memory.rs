//! Programs that depend on where their memory lies, or ask the kernel for more than Valgrind gives: they print the same
//! natively and under the engine.

mod native;

use native::{Image, compile, compile_with, followed, natively};
use pagewalk_trace::{Event, Mapping};
use std::process::ExitStatus;

/// Runs one of the test programs both ways; returns its image, and its output.
fn same(name: &str, argument: &str) -> (Image, String) {
    same_with(name, argument, &[])
}

fn same_with(name: &str, argument: &str, options: &[&str]) -> (Image, String) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile_with(folder.path(), name, options);
    let native: (String, ExitStatus) = natively(&program, argument);
    let (output, status, mut images) = followed(&program, argument);
    assert_eq!((&output, status), (&native.0, native.1), "{name} {argument}");
    (images.swap_remove(0), output)
}

fn mappings(image: &Image) -> impl Iterator<Item = &Mapping> {
    image.events.iter().filter_map(|event| match event {
        Event::Map(mapping) => Some(mapping),
        _ => None,
    })
}

/// Arrays larger than the core supports, anywhere in the program: see `zeros.c`.
#[test]
fn arrays_of_any_size_are_there() {
    let bare = ["-DBARE", "-nostdlib", "-static-pie", "-fPIE", "-mcmodel=large"];
    let elsewhere = ["-no-pie", "-mcmodel=medium", "-Wl,--section-start=.lbss=0x10000000000"];
    for (size, place) in [
        (6 << 30, &["-pie", "-fPIE", "-mcmodel=large"][..]),
        (4 << 30, &["-pie", "-fPIE", "-mcmodel=medium"]),
        ((8 << 30) + 4097, &bare),
        ((4 << 30) - 64, &elsewhere),
        (6 << 30, &elsewhere),
        (1 << 30, &["-no-pie"]),
    ] {
        let define = format!("-DSZ={size}L");
        let options = [&[define.as_str()], place].concat();
        let (image, output) = same_with("zeros", "", &options);
        let expected = format!("{size} bytes, 0 stale, break behind\n");
        assert!(output == expected || place == bare, "{size} {place:?}: {output}");
        let whole = mappings(&image).any(|mapping| mapping.bytes >= size - (2 << 20));
        assert!(whole && image.lost.is_empty(), "{size} {place:?}: {:?}", image.lost);
    }
}

/// Six hundred mappings of all kinds, moved, grown and undone: see `placement.c`.
#[test]
fn mappings_lie_where_the_kernel_puts_them() {
    let (image, output) = same("placement", "");
    assert!(output.lines().count() == 600 && image.lost.is_empty(), "{:?}", image.lost);
}

/// Code of files that is written through another mapping or right: see `rewritten.c`.
#[test]
fn code_that_is_written_elsewhere_is_not_stale() {
    let ways = ["memfd", "shm", "unlinked", "private", "late", "call", "views", "threads", "child", "patch"];
    for way in ways {
        let (image, output) = same("rewritten", way);
        assert!(!output.is_empty() && !output.contains("STALE") && image.lost.is_empty(), "{way}: {output}");
    }
}

/// What fault handlers see, also for code that ends where nothing can be fetched: see `faulting.c`.
#[test]
fn faults_are_told_as_natively() {
    let (image, output) = same("faulting", "");
    assert!(output.lines().count() == 47 && image.lost.is_empty(), "{output} {:?}", image.lost);
}

/// Registers around calls that the engine makes differently, or that a signal interrupts: see `registers.c`.
#[test]
fn arguments_of_calls_stay_in_their_registers() {
    let (image, output) = same("registers", "");
    assert!(output.lines().count() == 15 && !output.contains("differs") && image.lost.is_empty(), "{output}");
}

/// Over two thousand calls with wrong arguments, in one test since each is short: see `wrong.c`. Tests start in the
/// order of their names, and this one takes longest.
#[test]
fn a_wrong_argument_is_answered_as_natively() {
    for (what, calls) in [("some", 50), ("all", 2_000)] {
        let (image, output) = same("wrong", what);
        assert!(output.lines().count() > calls && image.lost.is_empty(), "{what}: {:?}", image.lost);
    }
}

#[test]
fn what_can_be_huge_begins_on_a_border() {
    let (image, output) = same("aligned", "");
    assert!(output.contains("of 64 on a border"), "{output}");
    let large: Vec<_> = mappings(&image).filter(|mapping| mapping.bytes == 2 << 20).collect();
    assert_eq!(large.len(), 64);
    let on_border = large.iter().filter(|mapping| mapping.start.0.is_multiple_of(2 << 20)).count();
    assert!(output.contains(&format!("{on_border} of 64 on a border")), "{on_border}: {output}");
}

#[test]
fn calls_that_valgrind_lacks_or_changes_do_what_the_kernel_does() {
    for what in ["large", "remap", "hugetlb"] {
        let (image, _) = same("calls", what);
        assert!(image.lost.is_empty(), "{what}: {:?}", image.lost);
    }
    let (image, _) = same("uring", "");
    assert!(image.lost.is_empty(), "{:?}", image.lost);
}

/// Views of one heap, guards and seals, advice, calls that wait, closed descriptors: see `situations.c`.
#[test]
fn situations_that_others_reported_are_as_natively() {
    for what in ["views", "guards", "advice", "waiting", "closing", "masks"] {
        let (image, output) = same("situations", what);
        assert!(image.lost.is_empty() && output.lines().count() >= 3, "{what}: {:?}", image.lost);
    }
}

#[test]
fn more_mappings_than_valgrinds_table_are_followed() {
    let (image, _) = same("segments", "20000");
    assert!(image.lost.is_empty() && mappings(&image).count() > 20_000);
}

/// Down to the stack's limit, far below the stack pointer. The number of pages depends on where the stack begins.
#[test]
fn the_stack_may_be_touched_down_to_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (output, status, images) = followed(&compile(folder.path(), "stacktouch"), "");
    assert!(status.success() && output.ends_with("pages touched\n"), "{status}: {output}");
    assert!(images[0].references > 1_900, "{}", images[0].references);
}

/// Without AVX-512 the instruction ends the programs natively as well.
#[test]
fn a_program_goes_on_untraced_where_the_engine_cannot() {
    let (image, output) = same("leaving", "");
    let goes_on = |image: &Image, reason: &str| {
        let start = "the rest of the program, which runs untraced from here: ";
        image.lost.iter().any(|lost| lost.starts_with(start) && lost.contains(reason))
    };
    assert!(output.is_empty() || goes_on(&image, "needs AVX-512"), "{:?}", image.lost);
    let (image, output) = same("calls", "faults");
    assert!(output.contains("no userfaultfd") || goes_on(&image, "userfaultfd"), "{:?}", image.lost);
}

#[test]
fn what_the_engine_cannot_take_part_in_is_left_to_the_program() {
    for (what, reason) in [("clock", "the processor's clock (PR_SET_TSC)"), ("segments", "modify_ldt")] {
        let (image, output) = same("wrong", what);
        let left = output.starts_with('0') || what == "clock";
        assert!(!left || image.lost.iter().any(|lost| lost.contains(reason)), "{what}: {:?}", image.lost);
    }
}

#[test]
fn threads_that_wait_by_spinning_hand_their_turn_on() {
    let (image, _) = same("spin", "200");
    let spins = image.events.iter().filter(|event| matches!(event, Event::Spin { .. })).count();
    assert!(spins > 50, "{spins}");
    let (_, output) = same("situations", "tickets");
    assert_eq!(output, "800 turns\n");
}

/// The process forbids huge pages for itself: the stream says so.
#[test]
fn forbidden_huge_pages_are_told() {
    let forbids = |image: &Image| image.events.iter().any(|event| matches!(event, Event::ThpDisable { .. }));
    assert!(!forbids(&same("spin", "1").0));
    assert!(forbids(&same("nothp", "off").0));
}
