//! The slow twin: all pages in a map, and each design checked page by page.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A page's frame, rights, and whether a huge page maps it.
type Page = (Option<u64>, u8, bool);
type Memory = BTreeMap<u64, Page>;

fn memory(runs: &[PageRun]) -> Memory {
    let pages = runs.iter().flat_map(|run| {
        (0..run.pages).map(|i| (run.first + i, (run.frame.map(|frame| frame + i), run.rights, run.huge)))
    });
    pages.collect()
}

/// Entries as sets of pages with the same key.
fn by_name<K: Ord>(memory: &Memory, name: impl Fn(u64, Page) -> K) -> Sizes {
    let mut entries: BTreeMap<K, u64> = BTreeMap::new();
    for (&page, &what) in memory {
        *entries.entry(name(page, what)).or_default() += 1;
    }
    let mut sizes = Sizes::new();
    entries.into_values().for_each(|pages| sizes.add(pages, 1));
    sizes
}

/// The start of each page's run.
fn starts(memory: &Memory, joins: &dyn Fn(u64, u64) -> bool) -> BTreeMap<u64, u64> {
    let mut starts = BTreeMap::new();
    for &page in memory.keys() {
        let before = page.checked_sub(1).filter(|before| memory.contains_key(before));
        let start = before.filter(|&before| joins(before, page)).map_or(page, |before| starts[&before]);
        starts.insert(page, start);
    }
    starts
}

fn runs(memory: &Memory, joins: &dyn Fn(u64, u64) -> bool) -> Sizes {
    let starts = starts(memory, joins);
    by_name(memory, |page, _| starts[&page])
}

fn expected(memory: &Memory, frames: bool) -> Designs {
    let of = |page: u64| memory[&page];
    let rights = |a: u64, b: u64| of(a).1 == of(b).1;
    let adjacent = |a: u64, b: u64| rights(a, b) && of(a).0.map(|frame| frame + 1) == of(b).0;
    // Huge pages are whole entries; others by key.
    let huge = |page: u64| (0, page / 512, 0, 0);
    let in_fours = starts(memory, &|a, b| adjacent(a, b) && a / 4 == b / 4 && !of(a).2);
    let coalesced =
        by_name(memory, |page, (.., is_huge)| if is_huge { huge(page) } else { (1, in_fours[&page], 0, 0) });
    let clustered = by_name(memory, |page, (frame, rights, is_huge)| {
        if is_huge { huge(page) } else { (1, page / 8, frame.unwrap_or(0) / 8, u64::from(rights)) }
    });
    let is_block = |page: u64| {
        let first = page / 16 * 16;
        let whole = |n: u64| memory.get(&n).is_some_and(|page| !page.2 && page.0.is_some());
        (first..first + 16).all(whole)
            && of(first).0.is_some_and(|frame| frame % 16 == 0)
            && (first..first + 15).all(|n| adjacent(n, n + 1))
    };
    let hinted = by_name(memory, |page, (.., is_huge)| match (is_huge, is_block(page)) {
        (true, _) => huge(page),
        (false, true) => (1, page / 16, 0, 0),
        (false, false) => (2, page, 0, 0),
    });
    Designs {
        base_pages: by_name(memory, |page, _| page),
        as_mapped: by_name(memory, |page, (.., is_huge)| if is_huge { huge(page) } else { (1, page, 0, 0) }),
        huge_everywhere: by_name(memory, |page, (_, rights, _)| (page / 512, rights)),
        virtual_runs: runs(memory, &rights),
        coalesced: frames.then_some(coalesced),
        clustered: frames.then_some(clustered),
        hinted: frames.then_some(hinted),
        ranges: frames.then(|| runs(memory, &adjacent)),
    }
}

fn tallied(runs: &[PageRun], frames: bool) -> Designs {
    let mut tally = Tally::new(frames);
    runs.iter().for_each(|&run| tally.add(run));
    assert_eq!(tally.pages, memory(runs).len() as u64);
    tally.finish()
}

/// Runs in address order: with gaps, often consecutive frames, and huge pages.
fn any_runs(frames: bool) -> impl Strategy<Value = Vec<PageRun>> {
    let piece = (0u64..3, 1u64..40, 0u64..24, any::<bool>(), 1u8..3, 0u8..8);
    prop::collection::vec(piece, 0..24).prop_map(move |pieces| {
        let (mut page, mut next) = (3, 5);
        let run = |(gap, pages, frame, goes_on, rights, kind): (u64, u64, u64, bool, u8, u8)| {
            let huge = kind == 0;
            page += gap;
            let mut pages = pages;
            if huge {
                page = page.next_multiple_of(512);
                pages = 512;
            }
            let frame = match (huge, goes_on) {
                (true, _) => frame * 512,
                (false, true) => next,
                (false, false) => frame * 8 + pages % 8,
            };
            let run = PageRun { first: page, frame: frames.then_some(frame), pages, rights, huge };
            (page, next) = (page + pages, frame + pages);
            run
        };
        pieces.into_iter().map(run).collect()
    })
}

proptest! {
    #[test]
    fn designs_are_those_of_the_slow_twin(runs in any_runs(true)) {
        prop_assert_eq!(tallied(&runs, true), expected(&memory(&runs), true));
    }

    #[test]
    fn without_frames_the_others_are(runs in any_runs(false)) {
        prop_assert_eq!(tallied(&runs, false), expected(&memory(&runs), false));
    }

    /// Dividing the reading into pieces makes no difference.
    #[test]
    fn pieces_make_no_difference(runs in any_runs(true), at in prop::collection::vec(1u64..20, 1..60)) {
        let mut cuts = at.iter().cycle();
        let mut cut = Vec::new();
        for run in &runs {
            let mut rest = *run;
            while rest.pages > 0 {
                let pages = (*cuts.next().expect("a cycle")).min(rest.pages);
                cut.push(PageRun { pages, ..rest });
                let frame = rest.frame.map(|frame| frame + pages);
                rest = PageRun { first: rest.first + pages, pages: rest.pages - pages, frame, ..rest };
            }
        }
        prop_assert_eq!(tallied(&cut, true), tallied(&runs, true));
    }

    /// Every design maps every page once.
    #[test]
    fn no_page_is_lost(runs in any_runs(true)) {
        let designs = tallied(&runs, true);
        let Designs { base_pages, as_mapped, huge_everywhere, virtual_runs, .. } = &designs;
        let with_frames = [&designs.coalesced, &designs.clustered, &designs.hinted, &designs.ranges];
        let all = [base_pages, as_mapped, huge_everywhere, virtual_runs].into_iter();
        let pages: BTreeSet<u64> = all.chain(with_frames.into_iter().flatten()).map(Sizes::pages).collect();
        prop_assert_eq!(pages, BTreeSet::from([memory(&runs).len() as u64]));
    }
}

#[test]
fn a_known_memory() {
    let run = |first, frame, pages| PageRun { first, frame: Some(frame), pages, rights: 3, huge: false };
    // A cluster in any order; a block of 16 for the hint; one with misaligned frames.
    let runs = [run(8, 103, 1), run(9, 100, 2), run(11, 110, 1), run(32, 320, 16), run(64, 641, 16)];
    let designs = tallied(&runs, true);
    let listed = |sizes: &Option<Sizes>| sizes.as_ref().unwrap().iter().collect::<Vec<_>>();
    assert_eq!(listed(&designs.clustered), [(1, 3), (3, 1), (7, 2), (8, 2)]);
    assert_eq!(listed(&designs.coalesced), [(1, 2), (2, 1), (4, 8)]);
    assert_eq!(listed(&designs.hinted), [(1, 20), (16, 1)]);
    assert_eq!(listed(&designs.ranges), [(1, 2), (2, 1), (16, 2)]);
}
