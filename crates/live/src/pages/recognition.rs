//! Recognises planned ranges in a running process, and names its memory for plans.

use super::install::present;
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::Pid;
use pagewalk_plan::{RangePart, What};
use std::io;
use std::ops::Range;

/// Most bytes by which merging with neighbours lengthens a mapping.
const MERGED_BYTES: u64 = 1 << 20;

/// Where a range lies, as far as visible from outside: starts and lengths.
pub fn recognised(pid: Pid, what: &What, mappings: &[Mapping]) -> Vec<(u64, u64)> {
    let What::Anonymous { bytes, nth, .. } = what else { return present(pid, what, mappings) };
    let part = what.part();
    let found = of_length(mappings, *bytes).nth(*nth as usize - 1);
    found.map(|mapping| (mapping.start + part.from, part.bytes())).into_iter().collect()
}

/// Anonymous mappings of a length, in counting order: the kernel assigns addresses downwards, and merges neighbours.
fn of_length(mappings: &[Mapping], bytes: u64) -> impl Iterator<Item = &Mapping> {
    let plain = mappings.iter().rev().filter(|mapping| is_anonymous(mapping));
    plain.filter(move |mapping| (bytes..bytes + MERGED_BYTES).contains(&mapping.bytes()))
}

/// The kernel's name for anonymous hugetlb memory (`MAP_HUGETLB`).
const POOLED: &str = "/anon_hugepage (deleted)";

fn is_anonymous(mapping: &Mapping) -> bool {
    mapping.inode == 0 && !mapping.name.starts_with("[v") || mapping.name == POOLED
}

/// A process's memory, named as in plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMemory {
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Its name.
    pub what: What,
}

/// Names a running process's memory so that a plan recognises it: each of `ranges` (first address, first address after)
/// is cut where mappings end. Leaves out memory that has no such name.
///
/// # Errors
/// If the process's mappings cannot be read.
pub fn named(pid: Pid, ranges: &[(u64, u64)]) -> io::Result<Vec<NamedMemory>> {
    let mappings = maps::mappings(pid)?;
    Ok(named_if(&mappings, ranges, |what, place| recognised(pid, what, &mappings) == [place]))
}

/// A mapping of a process that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerMapping {
    /// Its addresses.
    pub bytes: Range<u64>,
    /// Its offset in the file.
    pub offset: u64,
    /// The file's path or the kernel's name; empty for plain memory.
    pub name: String,
}

/// The same for a process that is no more, with these mappings, by address. That a file's path still means the same
/// file is for the reader of the plan to check.
pub fn named_in(former: &[FormerMapping], ranges: &[(u64, u64)]) -> Vec<NamedMemory> {
    let mapping = |FormerMapping { bytes, offset, name }: &FormerMapping| Mapping {
        start: bytes.start,
        end: bytes.end,
        offset: *offset,
        inode: u64::from(name.starts_with('/')),
        name: name.clone(),
        ..Mapping::default()
    };
    let mappings: Vec<Mapping> = former.iter().map(mapping).collect();
    named_if(&mappings, ranges, |what, place| match what {
        What::File { .. } => true,
        what => recognised(0, what, &mappings) == [place],
    })
}

/// Names ranges, cut where mappings end, by names that lead back to them.
fn named_if(
    mappings: &[Mapping],
    ranges: &[(u64, u64)],
    leads_to: impl Fn(&What, (u64, u64)) -> bool,
) -> Vec<NamedMemory> {
    let mut all = Vec::new();
    for &(first, last) in ranges {
        for (at, mapping) in mappings.iter().enumerate() {
            let (start, end) = (first.max(mapping.start), last.min(mapping.end));
            let what = if start < end { name(mappings, at, start, end) } else { None };
            let is_found = |what: &What| leads_to(what, (start, end - start));
            all.extend(what.filter(is_found).map(|what| NamedMemory { start, end, what }));
        }
    }
    all
}

/// The name of `[from, to)`, which lies in one mapping.
fn name(mappings: &[Mapping], at: usize, from: u64, to: u64) -> Option<What> {
    let mapping = &mappings[at];
    if mapping.name == "[heap]" {
        let origin = mappings.iter().find(|mapping| mapping.name == "[heap]")?.start;
        return Some(What::Heap(RangePart { from: from - origin, to: to - origin }));
    }
    if !is_anonymous(mapping) {
        return None;
    }
    let before = at.checked_sub(1).map(|before| &mappings[before]);
    let behind = before.filter(|before| before.inode != 0 && before.end == mapping.start);
    if let Some(file) = behind.filter(|_| mapping.name.is_empty()) {
        let offset = file.offset + file.bytes() + (from - mapping.start);
        return Some(What::File { file: file.name.clone(), offset, bytes: to - from });
    }
    let bytes = mapping.bytes();
    let nth = 1 + of_length(mappings, bytes).position(|other| other.start == mapping.start)? as u32;
    let part = RangePart { from: from - mapping.start, to: to - mapping.start };
    Some(What::Anonymous { bytes, nth, by: None, part: Some(part) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, bytes: u64, name: &str, offset: u64) -> Mapping {
        let inode = u64::from(name.starts_with('/'));
        Mapping { start, end: start + bytes, inode, name: name.to_owned(), offset, ..Mapping::default() }
    }

    #[test]
    fn names_are_those_by_which_memory_is_recognised() {
        let mappings = [
            mapping(0x1000, 0x3000, "/p", 0x2000),
            mapping(0x4000, 0x80_0000, "", 0),
            mapping(0x100_0000, 0x40_0000, "[heap]", 0),
            mapping(0x700_0000, 0x60_0000, "", 0),
            mapping(0x800_0000, 0x60_0000, "", 0),
            mapping(0x900_0000, 0x2000, "[vdso]", 0),
        ];
        let name = |at, from, to| name(&mappings, at, from, to);
        let bss = What::File { file: "/p".to_owned(), offset: 0x20_1000, bytes: 0x20_0000 };
        assert_eq!(name(1, 0x20_0000, 0x40_0000), Some(bss));
        let heap = name(2, 0x120_0000, 0x140_0000).unwrap();
        assert_eq!(heap, What::Heap(RangePart { from: 0x20_0000, to: 0x40_0000 }));
        let second = name(3, 0x720_0000, 0x740_0000).unwrap();
        assert!(matches!(second, What::Anonymous { bytes: 0x60_0000, nth: 2, .. }), "{second:?}");
        assert_eq!(recognised(1, &second, &mappings), [(0x720_0000, 0x20_0000)]);
        assert_eq!(recognised(1, &heap, &mappings), [(0x120_0000, 0x20_0000)]);
        assert_eq!(name(5, 0x900_0000, 0x900_2000), None);
    }

    #[test]
    fn memory_of_a_former_process_is_named_likewise() {
        let former = |start: u64, bytes: u64, name: &str| FormerMapping {
            bytes: start..start + bytes,
            offset: 0,
            name: name.to_owned(),
        };
        let mappings = [
            former(0x1000, 0x3000, "/p"),
            former(0x4000, 0x80_0000, ""),
            former(0x100_0000, 0x40_0000, "[heap]"),
            former(0x700_0000, 0x20_0000, ""),
            former(0x720_0000, 0x40_0000, ""),
        ];
        let of = |start: u64| named_in(&mappings, &[(start, start + 0x20_0000)]).remove(0).what;
        assert_eq!(of(0x20_0000), What::File { file: "/p".to_owned(), offset: 0x1f_f000, bytes: 0x20_0000 });
        assert_eq!(of(0x120_0000), What::Heap(RangePart { from: 0x20_0000, to: 0x40_0000 }));
        let last = of(0x720_0000);
        assert!(matches!(last, What::Anonymous { bytes: 0x40_0000, nth: 1, .. }), "{last:?}");
    }

    #[test]
    fn memory_of_this_process_has_a_name() {
        let memory = vec![1u8; 37 << 20];
        let start = (memory.as_ptr() as u64).next_multiple_of(4096);
        let names = named(std::process::id() as Pid, &[(start, start + (4 << 20))]).unwrap();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!((names[0].start, names[0].what.part().bytes()), (start, 4 << 20));
        drop(memory);
    }
}
