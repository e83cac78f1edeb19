//! The x86-64 radix page walk with page-walk caches.
//!
//! ```text
//!   56      48 47      39 38      30 29      21 20      12 11        0
//!  ┌──────────┬──────────┬──────────┬──────────┬──────────┬───────────┐
//!  │  PML5E   │  PML4E   │  PDPTE   │   PDE    │   PTE    │  offset   │
//!  └──────────┴──────────┴──────────┴──────────┴──────────┴───────────┘
//! ```
//!
//! A walk reads one entry per level from the root down to the leaf: the PTE of a 4 KiB page, the PDE of
//! a 2 MiB page, the PDPTE of a 1 GiB page. A page-walk cache holds entries of one level that point to
//! tables (never leaves), tagged by the address bits translated so far. Every walk looks up all caches at
//! once (a hit becomes most recent), starts below the deepest hit, and fills those that missed.
//!
//! Source: Intel SDM vol. 3A ch. 4; caches by level as in Barr, Cox, Rixner, ISCA 2010 (translation caches).

use crate::WalkerSpec;
use pagewalk_setassoc::SetArray;
use pagewalk_units::{PageSize, VirtAddr};
use serde::Deserialize;

/// A level of the page table above the PTEs, deepest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalkLevel {
    /// Page directory: entries for 2 MiB.
    Pde,
    /// Page directory pointers: entries for 1 GiB.
    Pdpte,
    /// Entries for 512 GiB.
    Pml4,
    /// Entries for 256 TiB.
    Pml5,
}

impl WalkLevel {
    /// The key in machine files and metric names.
    pub fn key(self) -> &'static str {
        match self {
            WalkLevel::Pde => "pde",
            WalkLevel::Pdpte => "pdpte",
            WalkLevel::Pml4 => "pml4",
            WalkLevel::Pml5 => "pml5",
        }
    }

    /// log2 of the bytes that one entry of this level maps.
    fn shift(self) -> u32 {
        21 + 9 * self as u32
    }
}

/// Lookups and hits of one page-walk cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkCacheCounts {
    /// Walks that looked it up.
    pub lookups: u64,
    /// Walks that found their entry.
    pub hits: u64,
}

/// The walker: caches and their counts.
#[derive(Clone, Debug)]
pub struct RadixWalker {
    levels: u32,
    caches: Vec<(WalkLevel, SetArray, WalkCacheCounts)>,
}

impl RadixWalker {
    /// A walker with empty caches.
    pub fn new(spec: &WalkerSpec) -> RadixWalker {
        let cache = |(&level, spec): (&WalkLevel, &crate::WalkCacheSpec)| {
            (level, spec.array(), WalkCacheCounts::default())
        };
        RadixWalker { levels: spec.levels.into(), caches: spec.caches.iter().map(cache).collect() }
    }

    /// Walks to the leaf of `address`, mapped at `size`; returns the page-table entries read.
    pub fn walk(&mut self, address: VirtAddr, size: PageSize) -> u32 {
        // Number of entries from the root to the leaf when no cache helps.
        let depth = self.levels - (size.shift() - PageSize::FOUR_KIB.shift()) / 9;
        let mut read = depth;
        for (level, cache, counts) in &mut self.caches {
            counts.lookups += 1;
            if level.shift() <= size.shift() {
                continue; // At this level the walk meets its leaf, or has ended above: nothing to hold.
            }
            let prefix = address.0 >> level.shift();
            if cache.touch(prefix, prefix) {
                counts.hits += 1;
                // Entries left to read: those of the levels below the one that was found.
                read = read.min((level.shift() - size.shift()) / 9);
            } else {
                cache.fill(prefix, prefix);
            }
        }
        read
    }

    /// Forgets every cached entry that maps some byte of the range: its tables may be gone.
    pub fn invalidate(&mut self, start: VirtAddr, bytes: u64) {
        let last = start.0 + (bytes - 1);
        for (level, cache, _) in &mut self.caches {
            let covered = start.0 >> level.shift()..=last >> level.shift();
            cache.remove_where(|prefix| covered.contains(&prefix));
        }
    }

    /// Each cache's level and counts.
    pub fn counts(&self) -> impl Iterator<Item = (WalkLevel, WalkCacheCounts)> + '_ {
        self.caches.iter().map(|(level, _, counts)| (*level, *counts))
    }
}
