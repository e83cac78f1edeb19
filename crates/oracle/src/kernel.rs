//! Reference model of the kernel's memory management, with one entry per page.

use crate::Life;
use std::collections::{BTreeMap, BTreeSet};

const MADV_HUGEPAGE: i32 = 14;
const MADV_NOHUGEPAGE: i32 = 15;

/// How page sizes are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paging {
    /// Base pages everywhere.
    #[default]
    Small,
    /// Huge pages everywhere.
    Everything,
    /// Transparent huge pages at fault time for anonymous memory.
    Thp,
    /// Huge pages for the base pages from the first number up to the second, base pages for the rest.
    Range(u64, u64),
}

/// The kernel's state: mapped pieces, touched pages and huge blocks.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// The page-size policy.
    pub paging: Paging,
    /// log2 of the bytes of a base page, and of a huge page.
    pub shifts: [u32; 2],
    /// Mapped 4 KiB pieces, and whether each is anonymous memory.
    pub mapped: BTreeMap<u64, bool>,
    /// Access rights of pieces that do not have all rights: 2 for write, 1 for execute.
    pub rights: BTreeMap<u64, u8>,
    /// The advice given for pieces, if any: `MADV_HUGEPAGE` or `MADV_NOHUGEPAGE`.
    pub advice: BTreeMap<u64, i32>,
    /// Pieces that map files and were never writable: the file's number, and the piece of the file.
    pub files: BTreeMap<u64, (u64, u64)>,
    /// Hugetlb pieces: the number of pieces per page.
    pub hugetlb: BTreeMap<u64, u64>,
    /// Whether the machine has page sizes for hugetlb memory.
    pub maps_hugetlb: bool,
    /// 1 if all huge pages are forbidden, 2 if those that were not advised are.
    pub forbidden: u8,
    /// Base pages that are backed because they were touched.
    pub touched: BTreeSet<u64>,
    /// Blocks mapped by one huge page.
    pub huge: BTreeSet<u64>,
    /// Number of first touches.
    pub faults: u64,
    /// The time: instructions executed.
    pub now: u64,
    /// Base pages that a huge page backed (even if it is split by now) and that were never touched, with the time of
    /// backing.
    untouched: BTreeMap<u64, u64>,
    /// Huge pages of [`Paging::Everything`]: the time of backing, and the maximum number of touched base pages.
    kept: BTreeMap<u64, (u64, u64)>,
    /// Lives, ended by now, of pages that were backed and never touched.
    ended: Vec<Life>,
}

impl Kernel {
    /// A kernel with nothing mapped.
    pub fn new(paging: Paging, shifts: [u32; 2]) -> Kernel {
        Kernel { paging, shifts, ..Kernel::default() }
    }

    /// Number of base pages in a huge page.
    fn pages(&self) -> u64 {
        1 << (self.shifts[1] - self.shifts[0])
    }

    /// Number of 4 KiB pieces in a base page.
    fn pieces(&self) -> u64 {
        1 << (self.shifts[0] - 12)
    }

    /// Touches base page `page`; returns log2 of the size at which it is mapped then.
    pub fn touch(&mut self, page: u64) -> u32 {
        let block = page / self.pages();
        if self.touched.insert(page) {
            self.faults += 1;
            self.untouched.remove(&page);
            let pages = block * self.pages()..(block + 1) * self.pages();
            let others = self.touched.range(pages.clone()).any(|&other| other != page);
            if self.paging != Paging::Everything && !others {
                let pieces = pages.start * self.pieces()..pages.end * self.pieces();
                if self.is_hugetlb(&pieces) || self.paging == Paging::Thp && self.thp_allows(&pieces) {
                    self.huge.insert(block);
                    let others = pages.clone().filter(|&other| other != page);
                    self.untouched.extend(others.map(|other| (other, self.now)));
                }
            }
            if self.paging == Paging::Everything {
                let touched = self.touched.range(pages).count() as u64;
                let (_, most) = self.kept.entry(block).or_insert((self.now, 0));
                *most = touched.max(*most);
            }
        }
        self.size(page)
    }

    /// Whether the pieces of a block are a hugetlb page, or part of one.
    fn is_hugetlb(&self, pieces: &std::ops::Range<u64>) -> bool {
        let is_large = |piece: u64| {
            self.hugetlb
                .get(&piece)
                .is_some_and(|&pieces_of_page| pieces_of_page >= pieces.end - pieces.start)
        };
        self.maps_hugetlb && pieces.clone().all(is_large)
    }

    /// Whether Linux gives a block a huge page at its first touch.
    fn thp_allows(&self, pieces: &std::ops::Range<u64>) -> bool {
        let anonymous = self.mapped.range(pieces.clone()).filter(|(_, anonymous)| **anonymous).count();
        let advice = self.advice.get(&pieces.start).copied();
        let is_against = match self.forbidden {
            0 => advice == Some(MADV_NOHUGEPAGE),
            1 => true,
            _ => advice != Some(MADV_HUGEPAGE),
        };
        !is_against && self.are_alike(pieces) && anonymous as u64 == pieces.end - pieces.start
    }

    fn rights_of(&self, piece: u64) -> u8 {
        self.rights.get(&piece).copied().unwrap_or(3)
    }

    /// Whether all pieces have the same rights and advice.
    fn are_alike(&self, pieces: &std::ops::Range<u64>) -> bool {
        let of = |piece: u64| (self.rights_of(piece), self.advice.get(&piece));
        pieces.clone().all(|piece| of(piece) == of(pieces.start))
    }

    /// Applies advice to the 4 KiB pieces `[start, end)`. Returns the blocks whose huge pages are split because advice
    /// now differs inside them.
    pub fn advise(&mut self, start: u64, end: u64, advice: i32) -> Vec<u64> {
        self.advice.extend((start..end).map(|piece| (piece, advice)));
        let pieces = self.pages() * self.pieces();
        let mut gone = Vec::new();
        for block in [start / pieces, (end - 1) / pieces] {
            if !self.are_alike(&(block * pieces..(block + 1) * pieces)) && self.huge.remove(&block) {
                gone.push(block);
            }
        }
        gone
    }

    /// The content of base page `page`, if all of it is one piece of a file and was never writable: the file, its first
    /// 4 KiB piece, and the rights.
    pub fn file_page(&self, page: u64) -> Option<(u64, u64, u8)> {
        let start = page * self.pieces();
        let &(file, offset) = self.files.get(&start)?;
        let rights = self.rights_of(start);
        let same = |at: u64| {
            self.files.get(&(start + at)) == Some(&(file, offset + at))
                && self.rights_of(start + at) == rights
        };
        (0..self.pieces()).all(same).then_some((file, offset, rights))
    }

    /// The base pages that overlap the 4 KiB pieces `[start, end)`.
    pub fn pages_of(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        start / self.pieces()..end.div_ceil(self.pieces())
    }

    /// log2 of the size at which base page `page` is mapped.
    pub fn size(&self, page: u64) -> u32 {
        let is_huge = self.huge.contains(&(page / self.pages()));
        self.shifts[usize::from(match self.paging {
            Paging::Small | Paging::Thp => is_huge,
            Paging::Everything => true,
            Paging::Range(start, end) => is_huge || (start..end).contains(&page),
        })]
    }

    /// log2 of the size of the page that maps base page `page`, if it or the huge page around it was touched.
    pub fn present(&self, page: u64) -> Option<u32> {
        let pages = self.pages();
        let block = page / pages * pages..(page / pages + 1) * pages;
        let around = match self.paging {
            Paging::Everything => block,
            Paging::Range(start, end) if (start..end).contains(&page) => {
                start.max(block.start)..end.min(block.end)
            }
            _ if self.huge.contains(&(page / pages)) => block,
            _ => page..page + 1,
        };
        self.touched.range(around).next().map(|_| self.size(page))
    }

    /// The translations, as (log2 of size, page number), that become invalid when the 4 KiB pieces `[start, end)` lose
    /// their memory or their rights. Partly covered huge pages become base pages. `mapped` must be up to date already.
    pub fn invalidate(&mut self, start: u64, end: u64, gone: bool) -> Vec<(u32, u64)> {
        let affected: Vec<u64> = self.touched.range(self.pages_of(start, end)).copied().collect();
        let mut dropped: BTreeSet<(u32, u64)> = affected
            .iter()
            .map(|&page| {
                let shift = self.size(page);
                (shift, page << self.shifts[0] >> shift)
            })
            .collect();
        let pieces = self.pages() * self.pieces();
        for block in [start / pieces, (end - 1) / pieces] {
            let whole = start <= block * pieces && (block + 1) * pieces <= end;
            if !whole && self.huge.remove(&block) {
                dropped.insert((self.shifts[1], block));
            }
        }
        if gone {
            for page in self.pages_of(start, end) {
                let pieces = page * self.pieces()..(page + 1) * self.pieces();
                let whole = start <= pieces.start && pieces.end <= end;
                if whole || self.mapped.range(pieces).next().is_none() {
                    self.touched.remove(&page);
                    self.free(page);
                }
            }
            self.free_empty_blocks();
        }
        dropped.into_iter().collect()
    }

    /// Ends the life of an untouched page.
    fn free(&mut self, page: u64) {
        let born = self.untouched.remove(&page);
        self.ended.extend(born.map(|born| Life { born, died: self.now, pages: 1 }));
    }

    /// Whether a block has no touched page left.
    fn is_empty(&self, block: u64) -> bool {
        self.touched.range(block * self.pages()..(block + 1) * self.pages()).next().is_none()
    }

    /// Frees the blocks that have no touched page left.
    fn free_empty_blocks(&mut self) {
        self.huge = self.huge.iter().copied().filter(|&block| !self.is_empty(block)).collect();
        let is_left = |page: &u64| self.is_empty(page / self.pages());
        let left: Vec<u64> = self.untouched.keys().copied().filter(is_left).collect();
        left.into_iter().for_each(|page| self.free(page));
        let empty: Vec<u64> = self.kept.keys().copied().filter(|&block| self.is_empty(block)).collect();
        for block in empty {
            let (born, most) = self.kept.remove(&block).unwrap();
            self.ended.push(Life { born, died: self.now, pages: self.pages() - most });
        }
    }

    /// The lives of all pages that were backed and never touched; those still backed live until `died`.
    pub fn lives(&self, died: u64) -> Vec<Life> {
        let untouched = self.untouched.values().map(|&born| Life { born, died, pages: 1 });
        let kept = self.kept.values();
        let kept = kept.map(|&(born, most)| Life { born, died, pages: self.pages() - most });
        self.ended.iter().copied().chain(untouched).chain(kept).collect()
    }
}
