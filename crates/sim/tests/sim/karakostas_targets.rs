//! Checks of Karakostas 2016 on small programs made up page by page: ranges against pages, and against the whole pass.

use crate::stream::{LOAD, Numbers, batch, map, one_block};
use pagewalk_mm::{Small, Thp, ThpMode};
use pagewalk_sim::{DataSideTotals, DataSides, DesignCounts, DesignSpec, Library, NoObserver, Pass};
use pagewalk_trace::{Analysis, Ref, Span};
use pagewalk_translate::{DataSideSpec, MachineSpec, RangeBacking};
use pagewalk_units::{RefIndex, VirtAddr};
use std::ops::Range;
use std::sync::Arc;

/// A machine of the library.
fn machine(name: &str) -> MachineSpec {
    Library::get(name).unwrap_or_else(|why| panic!("{why}"))
}

/// The same machine with a changed data side.
fn changed(name: &str, change: impl Fn(&mut DataSideSpec)) -> MachineSpec {
    let mut machine = machine(name);
    change(machine.data_side.as_deref_mut().expect("it is a data side"));
    machine
}

/// Maps areas, and loads from each of `pages` by a separate instruction.
fn feed(analysis: &mut dyn Analysis, areas: &[Range<u64>], pages: &[u64]) {
    for area in areas {
        analysis.on_event(RefIndex(0), &map(area.start << 12, (area.end - area.start) << 12, 4096));
    }
    let (blocks, block) = one_block(0x1000, &[LOAD]);
    for (number, pages) in pages.chunks(1000).enumerate() {
        let refs: Vec<Ref> = pages.iter().map(|page| Ref::new(VirtAddr(page << 12), LOAD)).collect();
        let spans: Vec<Span> = (0..refs.len()).map(|first| Span { block, first: first as u32 }).collect();
        let before = number as u64 * 1000;
        analysis.on_batch(&batch((before, before), &refs, &spans, &blocks));
    }
}

fn simulated(machines: &[MachineSpec], areas: &[Range<u64>], pages: &[u64]) -> Vec<DataSideTotals> {
    let policy = Arc::new(Thp { mode: ThpMode::Always });
    let mut pass = DataSides::new(machines, policy).unwrap();
    feed(&mut pass, areas, pages);
    pass.finish()
}

/// Pages drawn from areas, none of which touches the next.
fn program(areas: u64, length: u64) -> (Vec<Range<u64>>, Vec<u64>) {
    let areas: Vec<Range<u64>> =
        (0..areas).map(|i| (1 + 3 * i) << 12..((1 + 3 * i) << 12) + length).collect();
    let mut random = Numbers(7);
    let mut page = || areas[random.below(areas.len() as u64) as usize].start + random.below(length);
    let pages = (0..60_000).map(|_| page()).collect();
    (areas, pages)
}

/// Without ranges in the page table, range TLBs change nothing.
#[test]
fn without_ranges_rmm_is_the_page_baseline() {
    let (areas, pages) = program(5, 700);
    for (plain, with_ranges) in [("karakostas_4k", "karakostas_rmm_4k"), ("karakostas_thp", "karakostas_rmm")]
    {
        let none = changed(with_ranges, |side| side.range_threshold = 1 << 40);
        let found = simulated(&[machine(plain), none], &areas, &pages);
        let (mut plain, mut none) = (found[0].counts.clone(), found[1].counts.clone());
        assert_eq!(none.range_walks, 0);
        assert!(plain.walks > 100);
        plain.ranges.clear();
        none.ranges.clear();
        assert_eq!(plain, none);
    }
}

/// If all ranges fit, each is walked for exactly once; with one entry less they do not fit.
#[test]
fn as_many_entries_as_ranges_miss_once_a_range() {
    let (areas, pages) = program(9, 700);
    let with = |entries: u32| changed("karakostas_rmm_4k", move |side| side.range_tlbs[0].entries = entries);
    let found = simulated(&[with(9), with(8)], &areas, &pages);
    assert_eq!((found[0].counts.walks, found[0].counts.range_walks), (9, 9));
    assert_eq!(found[0].ranges.map(|ranges| ranges.ranges), Some(9));
    assert!(found[1].counts.walks > 9);
}

/// Section 5.4.3: a range of level 2 that is hit goes to level 1, and the page to the TLB of base pages.
#[test]
fn a_range_of_level_two_fills_both_first_levels() {
    let areas = [4096..8192, 16384..20480];
    // The first level has one range: the second area's takes the place of the first's, which level 2 still has.
    let one = changed("karakostas_rmm_lite", |side| side.range_tlbs[0].entries = 1);
    let counts = |pages: &[u64]| simulated(std::slice::from_ref(&one), &areas, pages).remove(0).counts;
    let before = counts(&[4096, 16384]);
    let after = counts(&[4096, 16384, 4097]);
    assert_eq!((before.walks, after.walks), (2, 2));
    assert_eq!((before.level1_misses, after.level1_misses), (2, 3));
    assert_eq!(after.ranges[0].writes - before.ranges[0].writes, 1);
    assert_eq!(after.arrays[0].writes() - before.arrays[0].writes(), 1);
}

/// Section 2.3.3: with the entry that points to its table cached, a base page's walk reads one entry; a 2M page's entry
/// is a leaf, which that cache never has.
#[test]
fn walks_of_large_pages_never_use_the_cache_of_tables_of_base_pages() {
    let first = 0x4000_0000 >> 12;
    let memory = first..first + 64 * 512;
    let area = std::slice::from_ref(&memory);
    let pages: Vec<u64> = (0..64).map(|block| first + block * 512).collect();
    let pde = |counts: &DataSideTotals| {
        counts.counts.arrays.iter().find(|array| array.name == "pde").unwrap().clone()
    };
    let found = simulated(&[machine("karakostas_thp"), machine("karakostas_4k")], area, &pages);
    assert_eq!((pde(&found[0]).hits, pde(&found[0]).writes()), (0, 0));
    assert_eq!(pde(&found[1]).writes(), 64);
    let next: Vec<u64> = pages.iter().flat_map(|page| [*page, page + 1]).collect();
    let found = simulated(&[machine("karakostas_4k")], area, &next);
    assert_eq!(pde(&found[0]).hits, 64);
}

/// The same arrays in an ordinary pass.
#[test]
fn base_pages_miss_as_in_the_whole_pass() {
    let (areas, pages) = program(6, 300);
    let tlb = |name: &str, level: u32, serves: &str, entries: u32, ways: u32| {
        format!(
            "[[tlb]]\nname = \"{name}\"\nlevel = {level}\nserves = [{serves}]\npage_sizes = [\"4K\"]\n\
             entries = {entries}\nways = {ways}\n"
        )
    };
    let data = "\"load\", \"store\"";
    let arrays =
        [tlb("i", 1, "\"fetch\"", 64, 4), tlb("d", 1, data, 64, 4), tlb("l2", 2, data, 512, 4)].concat();
    let rest = "[walker]\nkind = \"radix\"\nlevels = 4\n[cost]\nwalk_reference = 20\n";
    let whole = MachineSpec::from_toml("m", &format!("schema = 1\nname = \"m\"\n{arrays}{rest}")).unwrap();
    let mut pass = Pass::new(vec![DesignSpec::new(&whole, Arc::new(Small))], NoObserver).unwrap();
    feed(&mut pass, &areas, &pages);
    let DesignCounts { walks_data, arrays, .. } = pass.finish().remove(0);
    let side = simulated(&[machine("karakostas_4k")], &areas, &pages).remove(0).counts;
    assert_eq!((side.walks, side.level1_misses), (walks_data, arrays[1].lookups - arrays[1].hits));
    assert_eq!(side.arrays[1].hits, arrays[2].hits);
    assert!(walks_data > 1000 && arrays[2].hits > 1000);
}

/// A memory of 256 frames cannot back 5 areas of 700 pages: this is reported, and not hidden by anything else.
#[test]
fn a_memory_that_is_too_small_is_told() {
    let (areas, pages) = program(5, 700);
    let of = |size: &str| {
        let memory = toml::Table::from_iter([("size".to_owned(), toml::Value::from(size))]);
        changed("karakostas_rmm_4k", |side| {
            (side.backing, side.memory) = (RangeBacking::Demand, Some(memory.clone()));
        })
    };
    let found = simulated(&[of("1M"), of("64M"), machine("karakostas_rmm_4k")], &areas, &pages);
    let without = [0, 1, 2].map(|at| found[at].unbacked_walks);
    assert!(without[0].is_some_and(|walks| walks > 1000), "{without:?}");
    assert_eq!(without[1..], [Some(0), None]);
    assert_eq!(found[0].ranges.map(|ranges| ranges.pages), Some(256));
    assert_eq!(found[1].ranges.map(|ranges| ranges.pages), Some(5 * 700));
}
