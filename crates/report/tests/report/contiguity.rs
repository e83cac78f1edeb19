//! The result of `contiguity` as text, JSON, page and picture.

use crate::golden::check_golden;
use crate::hostile::{assert_harmless, hostile};
use pagewalk_report::TextOptions;
use pagewalk_report::contiguity::schema::*;
use pagewalk_report::contiguity::{
    ContiguityResult, advise, from_json, render_html, render_text, run_lengths_file, to_json,
};
use pagewalk_report::schema::Host;

/// A design with these entries; the least number of entries for each share is computed entry by entry.
fn design(name: &str, title: &str, class: &str, sizes: &[(u64, u64)]) -> Design {
    let each: Vec<u64> =
        sizes.iter().rev().flat_map(|&(pages, entries)| (0..entries).map(move |_| pages)).collect();
    let all: u64 = each.iter().sum();
    let fewest = |percent: u32| {
        let mut mapped = 0;
        let enough = each.iter().position(|pages| {
            mapped += pages;
            mapped * 100 >= all * u64::from(percent)
        });
        Coverage { percent, entries: enough.map_or(0, |last| last as u64 + 1) }
    };
    Design {
        name: name.to_owned(),
        title: title.to_owned(),
        class: class.to_owned(),
        missing: None,
        entries: Some(each.len() as u64),
        covering: PERCENTS.map(fewest).to_vec(),
        sizes: EntrySizes {
            pages: sizes.iter().map(|size| size.0).collect(),
            entries: sizes.iter().map(|size| size.1).collect(),
        },
    }
}

/// 20 MB on huge pages, and 40 MB of base pages in some order.
fn result(frames: bool) -> ContiguityResult {
    let mut designs = vec![
        design(name::BASE_PAGES, "a 4 KB page", "measured", &[(1, 15_360)]),
        design(name::AS_MAPPED, "a page as mapped", "measured", &[(1, 10_240), (512, 10)]),
        design(name::CLUSTERED, "a cluster of up to 8", "measured", &[(4, 1280), (8, 640), (512, 10)]),
        design(name::RANGES, "a range", "measured", &[(16, 640), (1024, 5)]),
        design(name::HUGE_EVERYWHERE, "2 MB pages everywhere", "bound", &[(512, 30)]),
        design(name::VIRTUAL_RUNS, "a range, laid out", "bound", &[(5120, 1), (10_240, 1)]),
    ];
    if !frames {
        for design in &mut designs[2..4] {
            let missing =
                MissingFigures { reason: "no frame numbers".to_owned(), enable: "be root".to_owned() };
            let nothing = (None, Vec::new(), EntrySizes::default());
            (design.entries, design.covering, design.sizes) = nothing;
            design.missing = Some(missing);
        }
    }
    let mapping = |name: &str, start: u64, pages: u64, huge: u64| MappingContiguity {
        start: format!("{start:#x}"),
        bytes: pages * 4096,
        rights: "rw-".to_owned(),
        name: name.to_owned(),
        present_pages: pages,
        huge_mapped_pages: Some(huge),
        virtual_runs: 1,
        ranges: frames.then_some(pages / 16),
    };
    let process = ProcessReading {
        pid: 4711,
        program: "/usr/bin/server".to_owned(),
        command_line: vec!["server".to_owned(), "--cache".to_owned()],
        read: ReadingTime::WhileRunning,
        at_seconds: Some(3.25),
        reading_seconds: 0.0042,
    };
    let host = Host { cpu: "some CPU".to_owned(), kernel: "6.18".to_owned(), thp: "madvise".to_owned() };
    let mut result = ContiguityResult {
        schema: CONTIGUITY_SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        host,
        process,
        page_bytes: 4096,
        huge_page_pages: 512,
        present_pages: 15_360,
        mapped_pages: 15_360,
        repeated_pages: 0,
        huge_mapped_pages: 5120,
        swapped_pages: 256,
        peak_resident_bytes: Some(64 << 20),
        frame_numbers: frames,
        classes: figures(),
        designs,
        largest_virtual_run_pages: 10_240,
        largest_range_pages: frames.then_some(1024),
        colors: None,
        mappings: (0..9).map(|n| mapping("", 0x7000_0000 + (n << 24), 100, 0)).collect(),
        advice: String::new(),
    };
    result.mappings.push(mapping("[heap]", 0x1000, 14_460, 5120));
    result.advice = advise(&result);
    result
}

fn text(result: &ContiguityResult, width: usize, verbose: bool) -> String {
    render_text(result, &TextOptions { width, color: false, verbose })
}

#[test]
fn goldens() {
    check_golden("contiguity.txt", &text(&result(true), 100, false));
    check_golden("contiguity-no-frames.txt", &text(&result(false), 80, true));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (frames, width, verbose) in [(true, 72, false), (false, 80, true), (true, 200, true)] {
        for line in text(&result(frames), width, verbose).lines() {
            assert!(line.chars().count() <= width && line == line.trim_end(), "{width}: {line}");
        }
    }
}

#[test]
fn json_comes_back_and_contradictions_do_not() {
    for frames in [true, false] {
        let written = result(frames);
        assert_eq!(from_json(&to_json(&written)).unwrap(), written);
    }
    let mut odd = result(true);
    odd.designs[1].sizes.entries.pop();
    let error = from_json(&to_json(&odd)).unwrap_err().to_string();
    assert!(error.contains("as_mapped") && error.contains("sizes.pages"), "{error}");
    let error = from_json(&to_json(&odd).replace("contiguity/1", "result/1")).unwrap_err().to_string();
    assert!(error.contains("pagewalk.contiguity/1"), "{error}");
}

#[test]
fn the_page_has_its_data_and_asks_for_nothing() {
    let mut hostile = result(true);
    let evil = "</script><img src=x onerror=alert(1)>{{island}}\u{1b}[2J";
    hostile.process.program = evil.to_owned();
    hostile.process.command_line = vec![evil.to_owned()];
    hostile.mappings[9].name = evil.to_owned();
    for result in [result(true), result(false), hostile] {
        let page = render_html(&result);
        let (_, island) = page.split_once("id=\"pagewalk-contiguity\">").unwrap();
        let island = &island[..island.find("</script>").unwrap()];
        assert_eq!(from_json(island).unwrap(), result);
        assert!(!page.contains("<img") && !page.contains("src=\"") && !page.contains("http-equiv=\"refresh"));
        assert_eq!(page.matches("<svg class=\"picture\"").count(), 2);
        assert!(!page.contains("NaN") && !page.contains("inf,"));
        assert!(!text(&result, 100, true).contains('\u{1b}'));
    }
}

/// Names and classes of designs are identifiers in the page, not texts, so they stay unchanged.
#[test]
fn no_text_of_a_file_becomes_markup() {
    for (frames, kept) in
        [(true, &["schema", "read", "classes"][..]), (false, &["schema", "read", "classes", "name", "class"])]
    {
        assert_harmless(&render_html(&from_json(&hostile(&to_json(&result(frames)), kept)).unwrap()));
    }
}

#[test]
fn the_picture_has_a_line_for_each_kind_of_run() {
    for (frames, lines) in [(true, 2), (false, 1)] {
        let svg = run_lengths_file(&result(frames));
        assert_eq!(svg.matches("<polyline").count(), lines);
        assert_eq!(svg.contains("frame numbers not readable"), !frames);
        assert!(svg.contains("<style>") && svg.contains("a huge page"));
    }
}

/// Memory mapped three times, as some garbage collectors map their heap.
#[test]
fn memory_that_is_mapped_again_is_told() {
    let mut thrice = result(true);
    (thrice.present_pages, thrice.repeated_pages) = (5120, 5120);
    let told = text(&thrice, 200, false);
    assert!(told.contains("20 MiB present, 33.3 % on huge pages"), "{told}");
    assert!(
        told.contains("20 MiB of it mapped more than once, so that its page tables map 60 MiB"),
        "{told}"
    );
    assert!(render_html(&thrice).contains("20 MiB of it mapped more than once"));
    assert!(!text(&result(true), 200, false).contains("more than once"));
}

/// 16 colors, of which the fourth has 40 base pages more than the others.
fn spread() -> ColorSpread {
    let mut base_pages = vec![10; 16];
    base_pages[3] = 50;
    ColorSpread {
        cache: ColoredCache { name: "cache l2 of <m>".to_owned(), bytes: 512 << 10, ways: 8, line_bytes: 64 },
        colors: 16,
        base_pages,
        huge_pages: vec![32; 16],
        least_pages: 42,
        median_pages: 42.0,
        most_pages: 82,
        even_pages: 44.5,
        chi_square: Some(120.0),
        chi_square_random: 15.0,
        chi_square_deviation: 30f64.sqrt(),
        colors_beyond_ways: 16,
        pages_beyond_ways: 584,
        pages_beyond_ways_if_even: 584,
        guest: true,
    }
}

#[test]
fn colors_are_shown_with_bars_and_what_they_mean() {
    let mut result = result(true);
    let options = |verbose| TextOptions { width: 200, color: false, verbose };
    assert!(!render_text(&result, &options(false)).contains("color"));
    result.colors = Some(spread());
    assert_eq!(from_json(&to_json(&result)).unwrap(), result);
    let text = render_text(&result, &options(false));
    for part in [
        "16 colors of cache l2 of <m> (512 KiB, 8 ways, lines of 64 bytes)",
        "Pages per color: 42 least, 42.0 median, 82 most; 44.5 if even.",
        "8.00 times what random colors give on average (15.0 ± 5.48; 0 is even)",
        "584 pages must conflict if all are in use",
        "virtual machine's memory",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let bar = |color: &str| {
        let row =
            text.lines().find(|line| line.split_whitespace().next() == Some(color) && line.contains('█'));
        row.unwrap_or_else(|| panic!("{text}")).matches('█').count()
    };
    assert_eq!((bar("3"), bar("4")), (40, 21));
    let page = render_html(&result);
    assert!(page.contains("id=\"colors\"") && page.contains("cache l2 of &lt;m&gt;"));
    // Of many colors, those with most pages.
    let many = spread();
    let of = |pages: &[u64]| pages.iter().copied().cycle().take(320).collect::<Vec<_>>();
    let many = ColorSpread { base_pages: of(&many.base_pages), huge_pages: of(&many.huge_pages), ..many };
    result.colors = Some(ColorSpread { colors: 320, ..many });
    let bars =
        |verbose| render_text(&result, &options(verbose)).lines().filter(|line| line.contains('█')).count();
    assert_eq!((bars(true), bars(false)), (320, 32));
}
