//! The slow twin: reads every page of every mapping by itself, keeps all pages, and computes each design from them. It
//! shares no code with what it checks.

use crate::Pages;
use pagewalk_live::pagemap::{Sizes, snapshot};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A page: its frame (0 if not readable), rights, and whether a huge page maps it.
#[derive(Clone, Copy, PartialEq)]
struct Page {
    frame: u64,
    rights: [u8; 3],
    huge: bool,
}

type Memory = BTreeMap<u64, Page>;

/// Mappings: start, end, rights; and the lines of smaps that follow.
fn smaps(pid: i32) -> Vec<(u64, u64, [u8; 3], Vec<String>)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut found: Vec<(u64, u64, [u8; 3], Vec<String>)> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0].split_once('-') {
            Some((start, end)) if !words[0].ends_with(':') => {
                let number = |text| u64::from_str_radix(text, 16).unwrap();
                let rights = words[1].as_bytes()[..3].try_into().unwrap();
                found.push((number(start), number(end), rights, Vec::new()));
            }
            _ => found.last_mut().unwrap().3.push(line.to_owned()),
        }
    }
    found
}

/// Mappings with huge pages: start, end, and how many base pages these are.
pub fn huge_ranges(pid: i32) -> Vec<(u64, u64, u64)> {
    let pages = |lines: &[String]| -> u64 {
        let line = lines.iter().find_map(|line| line.strip_prefix("AnonHugePages:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 4
    };
    let all = smaps(pid).into_iter().map(|(start, end, _, lines)| (start, end, pages(&lines)));
    all.filter(|&(_, _, pages)| pages > 0).collect()
}

fn memory(pid: i32) -> Memory {
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).unwrap();
    let mut memory = Memory::new();
    for (start, end, rights, lines) in smaps(pid) {
        if rights == *b"---"
            || start >> 63 == 1
            || lines.iter().any(|line| line == "Rss:                   0 kB")
        {
            continue;
        }
        let huge = huge_ranges(pid).into_iter().find(|&(at, ..)| at == start);
        for page in start / 4096..end / 4096 {
            let mut word = [0; 8];
            pagemap.read_exact_at(&mut word, page * 8).unwrap();
            let word = u64::from_le_bytes(word);
            if word >> 63 == 1 {
                let block = page / 512 * 512;
                // The program's mappings are huge in all whole blocks, or nowhere.
                let whole = start / 4096 <= block && block + 512 <= end / 4096;
                let huge = huge.is_some() && whole;
                memory.insert(page, Page { frame: word & 0x7f_ffff_ffff_ffff, rights, huge });
            }
        }
        if let Some((.., told)) = huge {
            let seen = memory.range(start / 4096..end / 4096).filter(|(_, page)| page.huge).count() as u64;
            assert_eq!(seen, told, "the program has another memory than the twin can tell");
        }
    }
    memory
}

/// Entries are sets of pages with the same key.
fn named(memory: &Memory, mut name: impl FnMut(u64, Page) -> [u64; 4]) -> Vec<(u64, u64)> {
    let mut entries = BTreeMap::new();
    for (&page, &what) in memory {
        *entries.entry(name(page, what)).or_insert(0u64) += 1;
    }
    let mut sizes = BTreeMap::new();
    entries.into_values().for_each(|pages| *sizes.entry(pages).or_insert(0u64) += 1);
    sizes.into_iter().collect()
}

/// Runs: pages that each follow the previous one.
fn runs(memory: &Memory, follows: impl Fn(Page, Page, u64) -> bool) -> BTreeMap<u64, u64> {
    let mut start = 0;
    let mut starts = BTreeMap::new();
    for (&page, &what) in memory {
        let before = memory.get(&(page - 1));
        if !before.is_some_and(|&before| follows(before, what, page)) {
            start = page;
        }
        starts.insert(page, start);
    }
    starts
}

fn listed(sizes: &Sizes) -> Vec<(u64, u64)> {
    sizes.iter().collect()
}

#[test]
fn every_design_is_that_of_the_twin() {
    let program = Pages::start();
    // The kernel may move pages between two readings: only readings with the same frames count.
    let (memory, snapshot) = (0..50)
        .map(|_| (memory(program.pid()), snapshot(program.pid()).unwrap(), memory(program.pid())))
        .find_map(|(before, snapshot, after)| (before == after).then_some((before, snapshot)))
        .expect("the program waits");
    let designs = &snapshot.designs;
    assert_eq!(snapshot.pages, memory.len() as u64);
    assert_eq!(listed(&designs.base_pages), named(&memory, |page, _| [page, 0, 0, 0]));
    let huge = |page: u64| [0, page / 512, 0, 0];
    let of_rights =
        |rights: [u8; 3]| u64::from(rights[0]) << 16 | u64::from(rights[1]) << 8 | u64::from(rights[2]);
    let as_mapped = named(&memory, |page, what| if what.huge { huge(page) } else { [1, page, 0, 0] });
    assert_eq!(listed(&designs.as_mapped), as_mapped);
    let everywhere = named(&memory, |page, what| [page / 512, of_rights(what.rights), 0, 0]);
    assert_eq!(listed(&designs.huge_everywhere), everywhere);
    let starts = runs(&memory, |before, what, _| before.rights == what.rights);
    assert_eq!(listed(&designs.virtual_runs), named(&memory, |page, _| [starts[&page], 0, 0, 0]));
    if snapshot.frames.is_none() {
        assert!(designs.ranges.is_none() && memory.values().all(|page| page.frame == 0));
        return;
    }
    let adjacent = |before: Page, what: Page| before.rights == what.rights && before.frame + 1 == what.frame;
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    memory.values().for_each(|page| *times.entry(page.frame).or_default() += 1);
    assert_eq!(snapshot.distinct_pages, times.len() as u64);
    assert_eq!(snapshot.repeated_pages, times.values().filter(|&&times| times > 1).count() as u64);
    let starts = runs(&memory, |before, what, _| adjacent(before, what));
    assert_eq!(listed(designs.ranges.as_ref().unwrap()), named(&memory, |page, _| [starts[&page], 0, 0, 0]));
    let starts = runs(&memory, |before, what, page| page % 4 > 0 && adjacent(before, what));
    let coalesced =
        named(&memory, |page, what| if what.huge { huge(page) } else { [1, starts[&page], 0, 0] });
    assert_eq!(listed(designs.coalesced.as_ref().unwrap()), coalesced);
    let clustered = named(&memory, |page, what| {
        if what.huge { huge(page) } else { [1, page / 8, what.frame / 8, of_rights(what.rights)] }
    });
    assert_eq!(listed(designs.clustered.as_ref().unwrap()), clustered);
    let hinted = named(&memory, |page, what| {
        let first = page / 16 * 16;
        let at = |n: u64| memory.get(&(first + n)).filter(|page| !page.huge && page.rights == what.rights);
        let frame = at(0).map_or(1, |page| page.frame);
        let block = frame % 16 == 0 && (0..16).all(|n| at(n).is_some_and(|page| page.frame == frame + n));
        if what.huge { huge(page) } else { [1 + u64::from(block), if block { first } else { page }, 0, 0] }
    });
    assert_eq!(listed(designs.hinted.as_ref().unwrap()), hinted);
}
