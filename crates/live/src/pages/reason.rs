//! Decides why a range is not on huge pages, from facts alone.

use super::host::{HUGE_BYTES, HostConditions, Mode};
use super::inspection::RangeSnapshot;
use super::table::TableEntry;
use pagewalk_plan::What;

/// The facts about a range.
#[derive(Clone, Copy, Debug)]
pub struct RangeFacts<'a> {
    /// The range.
    pub what: &'a What,
    /// The code's record of it.
    pub entry: TableEntry,
    /// Number of mappings of its length.
    pub mappings: u64,
    /// Whether the program put a filter on its system calls.
    pub quiet: bool,
    /// The inspection with most of it on huge pages; none if it was never inspected.
    pub best: Option<RangeSnapshot>,
    /// The last inspection.
    pub last: Option<RangeSnapshot>,
    /// The conditions at that time.
    pub around: HostConditions,
}

/// Why all or part of a range is not on huge pages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Too few mappings of its length, or none of its file; no heap.
    #[error("it never appeared: {0}")]
    NeverAppeared(String),
    /// Gone before the first inspection.
    #[error("it was gone before it was looked at")]
    NotLookedAt,
    /// Less than a huge page.
    #[error("it is too short: {0} KiB, and a huge page has 2048")]
    TooShort(u64),
    /// No whole block.
    #[error("it is not aligned: no 2 MiB block lies whole in it")]
    NotAligned,
    /// No pages at all.
    #[error("it was never touched: none of its whole 2 MiB blocks has a page")]
    NeverTouched,
    /// Huge before.
    #[error("it was split since: {0} KiB were on huge pages and are no longer")]
    Split(u64),
    /// `MADV_NOHUGEPAGE`.
    #[error("the program has marked it against huge pages (MADV_NOHUGEPAGE)")]
    Refused,
    /// `PR_SET_THP_DISABLE`.
    #[error("the process has switched huge pages off (PR_SET_THP_DISABLE)")]
    Disabled,
    /// `never`.
    #[error("huge pages are switched off: /sys/kernel/mm/transparent_hugepage/enabled is `never`")]
    Never,
    /// The kernel lacks huge pages.
    #[error("this kernel has no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)")]
    NoKernel,
    /// A filter.
    #[error("the program put a seccomp filter on its calls before it appeared, so nothing more was marked")]
    Filtered,
    /// The mark failed.
    #[error("the kernel refused the mark: error {0}")]
    MarkFailed(u64),
    /// The file system lacks huge pages.
    #[error("its file system has no huge pages for it")]
    FileSystem,
    /// No free block.
    #[error("no free block of 2 MiB is left (/proc/buddyinfo)")]
    NoFreeBlock,
    /// The cgroup's limit.
    #[error("the memory limit of its cgroup is nearly reached (memory.max, or memory.limit_in_bytes)")]
    Limited,
    /// Small pages came first.
    #[error("its pages were there before it was marked, or the kernel had no huge page at that moment")]
    Fallback,
    /// Small pages came before a huge one fitted.
    #[error(
        "its small pages were there before their 2 MiB lay whole in a mapping that may have huge pages, and the kernel \
         keeps them: grow by whole 2 MiB, and mark before the first touch"
    )]
    Grown,
    /// hugetlb memory.
    #[error("it is on huge pages already, which were set aside for it (hugetlb): nothing is to be done")]
    Pool,
}

impl Reason {
    /// Whether the memory existed, was used, and was seen on small pages. Missing memory does not count against the
    /// plan: another input may produce it.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Reason::NeverAppeared(_) | Reason::NotLookedAt | Reason::NeverTouched | Reason::Pool)
    }

    /// Whether the range is on huge pages without the plan.
    pub fn is_huge(&self) -> bool {
        matches!(self, Reason::Pool)
    }
}

/// None if nine tenths of what could be on huge pages are, and stayed there.
pub fn reason(facts: &RangeFacts<'_>) -> Option<Reason> {
    let RangeFacts { what, entry, quiet, around, .. } = *facts;
    let Some((best, last)) = facts.best.zip(facts.last).filter(|(best, _)| best.mapped > 0) else {
        let appeared = entry.start != 0 || entry.unmapped > 0;
        return Some(if appeared { Reason::NotLookedAt } else { never_appeared(facts) });
    };
    if best.is_pool() {
        return Some(Reason::Pool);
    }
    if best.is_huge() {
        let is_split = last.touched * 2 >= best.touched && last.huge * 2 < best.huge;
        return is_split.then(|| Reason::Split((best.huge - last.huge) / 1024));
    }
    let bytes = what.part().bytes().min(best.mapped);
    // It was larger before, like a heap that has shrunk.
    if bytes < HUGE_BYTES && entry.marked_bytes >= HUGE_BYTES {
        return Some(Reason::NotLookedAt);
    }
    Some(if bytes < HUGE_BYTES {
        Reason::TooShort(bytes / 1024)
    } else if best.whole == 0 {
        Reason::NotAligned
    } else if best.touched == 0 {
        Reason::NeverTouched
    } else if best.refused * 2 > best.mapped {
        Reason::Refused
    } else {
        not_given(&best, entry, quiet, around)
    })
}

fn never_appeared(facts: &RangeFacts<'_>) -> Reason {
    Reason::NeverAppeared(match facts.what {
        What::Heap(_) => "the program moved no break through its C library that far".to_owned(),
        What::Anonymous { bytes, nth, .. } => {
            format!(
                "the program made {} mappings of {bytes:#x} bytes, and the plan wants number {nth}",
                facts.mappings
            )
        }
        What::File { file, .. } => format!("{file} was not mapped"),
    })
}

/// Why the kernel gave small pages to memory that could have had huge ones.
fn not_given(best: &RangeSnapshot, entry: TableEntry, quiet: bool, around: HostConditions) -> Reason {
    match around.mode {
        None => return Reason::NoKernel,
        Some(Mode::Never) => return Reason::Never,
        Some(Mode::Always | Mode::Madvise) => {}
    }
    if around.disabled && best.eligible == 0 {
        return Reason::Disabled;
    }
    if entry.failure != 0 && entry.marked_bytes == 0 {
        return Reason::MarkFailed(entry.failure);
    }
    if quiet && best.marked == 0 {
        return Reason::Filtered;
    }
    if best.of_files * 2 > best.mapped && best.eligible == 0 {
        return Reason::FileSystem;
    }
    if around.free_blocks == Some(0) {
        return Reason::NoFreeBlock;
    }
    if around.limited {
        return Reason::Limited;
    }
    // There are more small blocks than the kernel's failures and splits explain.
    let is_grown = around.failures.is_some_and(|failures| failures < best.small / HUGE_BYTES);
    if is_grown && best.eligible * 2 > best.mapped {
        return Reason::Grown;
    }
    Reason::Fallback
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewalk_plan::RangePart;

    const MIB: u64 = 1 << 20;
    const AROUND: HostConditions = HostConditions {
        mode: Some(Mode::Madvise),
        disabled: false,
        free_blocks: Some(9),
        limited: false,
        failures: None,
    };
    const HEAP: What = What::Heap(RangePart { from: 0, to: 8 * MIB });
    const HUGE: RangeSnapshot = RangeSnapshot {
        mapped: 8 * MIB,
        whole: 6 * MIB,
        touched: 6 * MIB,
        small: 0,
        resident: 8 * MIB,
        huge: 6 * MIB,
        marked: 8 * MIB,
        refused: 0,
        eligible: 8 * MIB,
        of_files: 0,
        pools: 0,
    };
    const SMALL: RangeSnapshot = RangeSnapshot { huge: 0, small: 6 * MIB, ..HUGE };

    fn facts(best: RangeSnapshot) -> RangeFacts<'static> {
        let entry = TableEntry { start: 0x1000, marked_bytes: 8 * MIB, ..TableEntry::default() };
        RangeFacts {
            what: &HEAP,
            entry,
            mappings: 0,
            quiet: false,
            best: Some(best),
            last: Some(best),
            around: AROUND,
        }
    }

    #[test]
    fn what_took_has_no_reason() {
        assert_eq!(reason(&facts(HUGE)), None);
        let freed = RangeSnapshot { touched: 0, huge: 0, ..HUGE };
        assert_eq!(reason(&RangeFacts { last: Some(freed), ..facts(HUGE) }), None, "given back");
        assert_eq!(reason(&facts(RangeSnapshot { huge: 5 * MIB + MIB / 2, ..HUGE })), None, "nine tenths");
    }

    #[test]
    fn what_was_not_there_is_told_apart() {
        let gone = RangeFacts { best: None, last: None, ..facts(HUGE) };
        assert_eq!(reason(&gone), Some(Reason::NotLookedAt));
        let never = RangeFacts { entry: TableEntry::default(), ..gone };
        assert!(matches!(reason(&never), Some(Reason::NeverAppeared(_))));
        let unmapped = RangeFacts { entry: TableEntry { unmapped: 1, ..TableEntry::default() }, ..gone };
        assert_eq!(reason(&unmapped), Some(Reason::NotLookedAt));
        let what = What::Anonymous { bytes: 4096, nth: 3, by: None, part: None };
        let told = reason(&RangeFacts { what: &what, mappings: 2, ..never }).unwrap().to_string();
        assert!(told.contains("made 2 mappings of 0x1000 bytes") && told.contains("number 3"), "{told}");
        let what = What::File { file: "/a".into(), offset: 0, bytes: 4096 };
        assert!(
            reason(&RangeFacts { what: &what, ..never }).unwrap().to_string().contains("/a was not mapped")
        );
    }

    #[test]
    fn each_reason_follows_from_its_facts() {
        let of = |seen: RangeSnapshot| reason(&facts(seen)).unwrap();
        let short = RangeSnapshot { mapped: MIB, whole: 0, touched: 0, ..SMALL };
        assert_eq!(of(short), Reason::NotLookedAt, "there was more");
        let entry = TableEntry { start: 1, marked_bytes: MIB, ..TableEntry::default() };
        assert_eq!(reason(&RangeFacts { entry, ..facts(short) }), Some(Reason::TooShort(1024)));
        assert_eq!(of(RangeSnapshot { whole: 0, touched: 0, ..SMALL }), Reason::NotAligned);
        assert_eq!(of(RangeSnapshot { touched: 0, ..SMALL }), Reason::NeverTouched);
        assert_eq!(of(RangeSnapshot { refused: 8 * MIB, ..SMALL }), Reason::Refused);
        assert_eq!(of(RangeSnapshot { of_files: 8 * MIB, eligible: 0, ..SMALL }), Reason::FileSystem);
        assert_eq!(of(SMALL), Reason::Fallback);
        let split = RangeFacts { last: Some(SMALL), ..facts(HUGE) };
        assert_eq!(reason(&split), Some(Reason::Split(6 * 1024)));
        let around = |around: HostConditions| reason(&RangeFacts { around, ..facts(SMALL) }).unwrap();
        assert_eq!(around(HostConditions { mode: Some(Mode::Never), ..AROUND }), Reason::Never);
        assert_eq!(around(HostConditions { mode: None, ..AROUND }), Reason::NoKernel);
        assert_eq!(around(HostConditions { free_blocks: Some(0), ..AROUND }), Reason::NoFreeBlock);
        assert_eq!(around(HostConditions { limited: true, ..AROUND }), Reason::Limited);
        let known = HostConditions { failures: Some(2), ..AROUND };
        assert_eq!(around(known), Reason::Grown, "three blocks are small, and two huge pages failed");
        assert_eq!(around(HostConditions { failures: Some(3), ..AROUND }), Reason::Fallback);
        let off = RangeSnapshot { eligible: 0, ..SMALL };
        assert_eq!(
            reason(&RangeFacts { around: known, ..facts(off) }),
            Some(Reason::Fallback),
            "not allowed there"
        );
        let pool = RangeSnapshot { pools: 8 * MIB, ..HUGE };
        assert_eq!(of(pool), Reason::Pool);
        assert!(Reason::Pool.is_huge() && !Reason::Pool.is_fault() && Reason::Grown.is_fault());
        let disabled = HostConditions { disabled: true, ..AROUND };
        assert_eq!(reason(&RangeFacts { around: disabled, ..facts(off) }), Some(Reason::Disabled));
        let failed = TableEntry { start: 1, failure: 12, ..TableEntry::default() };
        assert_eq!(reason(&RangeFacts { entry: failed, ..facts(SMALL) }), Some(Reason::MarkFailed(12)));
        let unmarked = RangeSnapshot { marked: 0, ..SMALL };
        assert_eq!(reason(&RangeFacts { quiet: true, ..facts(unmarked) }), Some(Reason::Filtered));
    }
}
