//! The kernel's side, one entry per page.

use std::collections::{BTreeMap, BTreeSet};

/// How page sizes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging {
    /// 4 KiB everywhere.
    Small,
    /// 2 MiB everywhere.
    Everything,
    /// Transparent huge pages at fault time for anonymous memory.
    Thp,
    /// 2 MiB for the pages from the first number up to the second, 4 KiB for the rest.
    Range(u64, u64),
}

/// Pages per huge page.
const PAGES: u64 = 512;

/// Mapped pages, touched pages, huge blocks.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The policy.
    pub paging: Paging,
    /// Mapped pages: whether anonymous.
    pub mapped: BTreeMap<u64, bool>,
    /// Pages backed by memory because something touched them.
    pub touched: BTreeSet<u64>,
    /// Blocks mapped by one huge page.
    pub huge: BTreeSet<u64>,
    /// First touches in all.
    pub faults: u64,
}

impl Kernel {
    /// Nothing mapped.
    pub fn new(paging: Paging) -> Kernel {
        Kernel { paging, mapped: BTreeMap::new(), touched: BTreeSet::new(), huge: BTreeSet::new(), faults: 0 }
    }

    /// log2 of the size at which `vpn` is mapped, after touching it.
    pub fn touch(&mut self, vpn: u64) -> u32 {
        let block = vpn / PAGES;
        if self.touched.insert(vpn) {
            self.faults += 1;
            let pages = block * PAGES..(block + 1) * PAGES;
            let others = self.touched.range(pages.clone()).any(|&page| page != vpn);
            let anonymous = pages.clone().all(|page| self.mapped.get(&page) == Some(&true));
            if self.paging == Paging::Thp && anonymous && !others {
                self.huge.insert(block);
            }
        }
        self.size(vpn)
    }

    /// log2 of the size at which `vpn` is mapped.
    pub fn size(&self, vpn: u64) -> u32 {
        match self.paging {
            Paging::Small => 12,
            Paging::Everything => 21,
            Paging::Range(start, end) => 12 + 9 * u32::from((start..end).contains(&vpn)),
            Paging::Thp => 12 + 9 * u32::from(self.huge.contains(&(vpn / PAGES))),
        }
    }

    /// log2 of the size of what maps `vpn`, if something does: it was touched, or the huge page around it was.
    pub fn present(&self, vpn: u64) -> Option<u32> {
        let block = vpn / PAGES * PAGES..(vpn / PAGES + 1) * PAGES;
        let around = match self.paging {
            Paging::Everything => block,
            Paging::Range(start, end) if (start..end).contains(&vpn) => {
                start.max(block.start)..end.min(block.end)
            }
            Paging::Thp if self.huge.contains(&(vpn / PAGES)) => block,
            _ => vpn..vpn + 1,
        };
        self.touched.range(around).next().map(|_| self.size(vpn))
    }

    /// Translations that go when pages `[start, end)` lose their memory or their rights:
    /// (log2 of size, page number). Huge pages covered in part become small.
    pub fn invalidate(&mut self, start: u64, end: u64, gone: bool) -> Vec<(u32, u64)> {
        let affected: Vec<u64> = self.touched.range(start..end).copied().collect();
        let mut dropped: BTreeSet<(u32, u64)> = affected
            .iter()
            .map(|&vpn| {
                let shift = self.size(vpn);
                (shift, vpn << 12 >> shift)
            })
            .collect();
        for block in [start / PAGES, (end - 1) / PAGES] {
            let whole = start <= block * PAGES && (block + 1) * PAGES <= end;
            if !whole && self.huge.remove(&block) {
                dropped.insert((21, block));
            }
        }
        if gone {
            for vpn in affected {
                self.touched.remove(&vpn);
            }
            let touched = &self.touched;
            self.huge.retain(|&block| touched.range(block * PAGES..(block + 1) * PAGES).next().is_some());
        }
        dropped.into_iter().collect()
    }
}
