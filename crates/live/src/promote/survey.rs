//! What of a process's memory is on huge pages already, and what keeps the rest off, before any sampling.

use super::PromoteError;
use super::parts::{is_candidate, views};
use super::policy::PAGES_LEAST;
use crate::pagemap::{self, PagemapError};
use crate::pages::{EXCEPT_ADVISED_SINCE, HUGE_BYTES, HostConditions, Mode, is_since, kernel};
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::Pid;
use std::collections::BTreeMap;

/// A process's memory before sampling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Resident bytes of hugetlb memory, by page size in bytes.
    pub pools: BTreeMap<u64, u64>,
    /// What the process itself forbids.
    pub forbids: Option<HugePageBan>,
    /// Resident bytes marked against huge pages (`MADV_NOHUGEPAGE`).
    pub refused_bytes: u64,
    /// Memory that settings and marks allow on huge pages, but that is not.
    pub grown: Option<GrownBlocks>,
}

/// Huge pages forbidden by `prctl(PR_SET_THP_DISABLE)` of the process or its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePageBan {
    /// For all memory.
    All,
    /// For all but marked memory (`PR_THP_DISABLE_EXCEPT_ADVISED`, Linux 6.18). Matters only in mode `always`: other
    /// modes behave so anyway.
    Unmarked,
}

/// 2 MiB blocks on small pages although huge ones are allowed: most of their pages came before the block lay whole in
/// its mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrownBlocks {
    /// How many.
    pub blocks: u64,
    /// Those in the heap.
    pub heap_blocks: u64,
    /// Whether nothing else explains them: since boot the kernel failed to give or split fewer huge pages than there
    /// are such blocks. Otherwise some may have failed or been split.
    pub is_certain: bool,
}

/// Surveys a process.
///
/// # Errors
/// If it is gone or may not be read.
pub fn survey(pid: Pid) -> Result<Survey, PromoteError> {
    let pagemap = pagemap::open(pid)?;
    let failed = |error| PagemapError::Read { pid, error };
    let mappings = maps::detailed_mappings(pid).map_err(failed)?;
    let eligible: Vec<Mapping> = mappings.iter().filter(|mapping| mapping.huge_eligible).cloned().collect();
    let mut small = Vec::new();
    for view in views(&pagemap, &eligible).map_err(failed)? {
        if !view.huge && view.resident_pages >= PAGES_LEAST {
            small.push(view.start);
        }
    }
    Ok(found(&mappings, &small, &HostConditions::of(pid), &kernel()))
}

/// From mappings with `smaps` details, and the blocks that may have huge pages but are mostly resident in small ones.
fn found(mappings: &[Mapping], small: &[u64], around: &HostConditions, kernel: &str) -> Survey {
    let mut pools = BTreeMap::new();
    for mapping in mappings.iter().filter(|mapping| mapping.pool_bytes > 0) {
        *pools.entry(mapping.page_bytes).or_default() += mapping.pool_bytes;
    }
    let refused = mappings.iter().filter(|mapping| mapping.huge_refused && is_candidate(mapping));
    let in_heap = |block: &&u64| {
        let heap = |mapping: &&Mapping| mapping.name == "[heap]";
        mappings.iter().filter(heap).any(|mapping| (mapping.start..mapping.end).contains(*block))
    };
    let blocks = small.len() as u64;
    let grown = GrownBlocks {
        blocks,
        heap_blocks: small.iter().filter(in_heap).count() as u64,
        is_certain: around.failures.is_some_and(|failures| failures < blocks),
    };
    Survey {
        pools,
        forbids: forbids(mappings, around, kernel),
        refused_bytes: refused.map(|mapping| mapping.resident_bytes).sum(),
        grown: (blocks > 0).then_some(grown),
    }
}

fn forbids(mappings: &[Mapping], around: &HostConditions, kernel: &str) -> Option<HugePageBan> {
    if around.disabled {
        return Some(HugePageBan::All);
    }
    // In this mode the kernel would allow huge pages for unmarked memory with a whole block.
    let could = |mapping: &&Mapping| {
        let whole = mapping.start.next_multiple_of(HUGE_BYTES) + HUGE_BYTES <= mapping.end;
        is_candidate(mapping) && whole && !mapping.huge_refused && !mapping.huge_wanted && !mapping.special
    };
    let mut could_be = mappings.iter().filter(could).peekable();
    let shows = around.mode == Some(Mode::Always) && is_since(kernel, EXCEPT_ADVISED_SINCE);
    let none_may = shows && could_be.peek().is_some() && could_be.all(|mapping| !mapping.huge_eligible);
    none_may.then_some(HugePageBan::Unmarked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracing::maps::parsed;

    const AROUND: HostConditions = HostConditions {
        mode: Some(Mode::Always),
        disabled: false,
        free_blocks: Some(9),
        limited: false,
        failures: Some(0),
    };

    fn of(text: &str, small: &[u64], around: HostConditions) -> Survey {
        found(&parsed(text), small, &around, "6.18.44")
    }

    #[test]
    fn memory_of_pools_is_known_by_its_page_size() {
        let text = "7f0000000000-7f0004000000 rw-p 00000000 00:10 77 /anon_hugepage (deleted)\n\
                    KernelPageSize: 2048 kB\n\
                    Private_Hugetlb: 65536 kB\nVmFlags: rd wr ht\n\
                    7f1000000000-7f1040000000 rw-s 00000000 00:10 78 /memfd:x (deleted)\nKernelPageSize: 1048576 kB\n\
                    Shared_Hugetlb: 1048576 kB\nVmFlags: rd wr sh ht\n";
        let pools = of(text, &[], AROUND).pools;
        assert_eq!(pools.into_iter().collect::<Vec<_>>(), [(2 << 20, 64 << 20), (1 << 30, 1 << 30)]);
    }

    #[test]
    fn what_a_process_forbids_is_known() {
        let plain = "7f0000000000-7f0010000000 rw-p 00000000 00:00 0 \nRss: 262144 kB\nTHPeligible: 0\n\
                     VmFlags: rd wr\n";
        let disabled = HostConditions { disabled: true, ..AROUND };
        assert_eq!(of(plain, &[], disabled).forbids, Some(HugePageBan::All));
        assert_eq!(of(plain, &[], AROUND).forbids, Some(HugePageBan::Unmarked), "`always`, and not allowed");
        let madvise = HostConditions { mode: Some(Mode::Madvise), ..AROUND };
        assert_eq!(of(plain, &[], madvise).forbids, None, "it makes no difference there");
        let older = found(&parsed(plain), &[], &AROUND, "6.12.1");
        assert_eq!(older.forbids, None);
        let refused = plain.replace("rd wr", "rd wr nh");
        let found = of(&refused, &[], AROUND);
        assert_eq!((found.forbids, found.refused_bytes), (None, 256 << 20));
        assert_eq!(of(&plain.replace("THPeligible: 0", "THPeligible: 1"), &[], AROUND).forbids, None);
    }

    #[test]
    fn small_blocks_that_may_be_huge_have_grown() {
        let text = "5000000000-5008000000 rw-p 00000000 00:00 0 [heap]\nTHPeligible: 1\nVmFlags: rd wr\n";
        let blocks = [0x50_0000_0000, 0x50_0020_0000, 0x70_0000_0000];
        let grown = of(text, &blocks, AROUND).grown.unwrap();
        assert_eq!(grown, GrownBlocks { blocks: 3, heap_blocks: 2, is_certain: true });
        let failures = HostConditions { failures: Some(3), ..AROUND };
        assert!(!of(text, &blocks, failures).grown.unwrap().is_certain, "they may be those that failed");
        assert_eq!(of(text, &[], AROUND).grown, None);
    }
}
