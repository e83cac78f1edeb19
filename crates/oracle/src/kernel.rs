//! The kernel's side, one entry per page.

use crate::Life;
use std::collections::{BTreeMap, BTreeSet};

const MADV_HUGEPAGE: i32 = 14;
const MADV_NOHUGEPAGE: i32 = 15;

/// How page sizes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging {
    /// Base pages everywhere.
    Small,
    /// Huge pages everywhere.
    Everything,
    /// Transparent huge pages at fault time for anonymous memory.
    Thp,
    /// Huge pages for the base pages from the first number up to the second, base pages for the rest.
    Range(u64, u64),
}

/// Mapped pieces, touched pages, huge blocks.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The policy.
    pub paging: Paging,
    /// log2 of the bytes of a base page, and of a huge page.
    pub shifts: [u32; 2],
    /// Mapped pieces of 4 KiB: whether anonymous.
    pub mapped: BTreeMap<u64, bool>,
    /// Access rights of those pieces, where they are not all: 2 to write, 1 to execute.
    pub rights: BTreeMap<u64, u8>,
    /// Advice on huge pages that those pieces were given, if any: `MADV_HUGEPAGE`, or `MADV_NOHUGEPAGE`.
    pub advice: BTreeMap<u64, i32>,
    /// Of those pieces, the ones of files that never had the right to write: a file's number, and the piece of it.
    pub files: BTreeMap<u64, (u64, u64)>,
    /// Those of hugetlb: how many pieces their pages have.
    pub hugetlb: BTreeMap<u64, u64>,
    /// Whether the machine has huge pages to put memory of hugetlb on.
    pub maps_hugetlb: bool,
    /// 1 where all huge pages are forbidden, 2 where those are that were not advised.
    pub forbidden: u8,
    /// Base pages backed by memory because something touched them.
    pub touched: BTreeSet<u64>,
    /// Blocks mapped by one huge page.
    pub huge: BTreeSet<u64>,
    /// First touches in all.
    pub faults: u64,
    /// What lives are told by: instructions executed.
    pub now: u64,
    /// Base pages that a huge page has backed, also one that is split by now, and nothing has touched; since when.
    untouched: BTreeMap<u64, u64>,
    /// Huge pages of [`Paging::Everything`]: since when, and the most base pages that were touched at one time.
    kept: BTreeMap<u64, (u64, u64)>,
    /// What was backed for nothing and is no more.
    ended: Vec<Life>,
}

impl Kernel {
    /// Nothing mapped.
    pub fn new(paging: Paging, shifts: [u32; 2]) -> Kernel {
        Kernel {
            paging,
            shifts,
            mapped: BTreeMap::new(),
            rights: BTreeMap::new(),
            advice: BTreeMap::new(),
            files: BTreeMap::new(),
            hugetlb: BTreeMap::new(),
            maps_hugetlb: false,
            forbidden: 0,
            touched: BTreeSet::new(),
            huge: BTreeSet::new(),
            faults: 0,
            now: 0,
            untouched: BTreeMap::new(),
            kept: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Base pages in a huge page.
    fn pages(&self) -> u64 {
        1 << (self.shifts[1] - self.shifts[0])
    }

    /// Pieces of 4 KiB in a base page.
    fn pieces(&self) -> u64 {
        1 << (self.shifts[0] - 12)
    }

    /// log2 of the size at which base page `page` is mapped, after touching it.
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

    /// Whether the pieces of a block are one page of hugetlb, or a part of one.
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

    /// Whether pieces have the same rights and advice.
    fn are_alike(&self, pieces: &std::ops::Range<u64>) -> bool {
        let of = |piece: u64| (self.rights_of(piece), self.advice.get(&piece));
        pieces.clone().all(|piece| of(piece) == of(pieces.start))
    }

    /// Pieces of 4 KiB `[start, end)` are given advice. Returns the blocks whose huge pages go, as advice differs in
    /// them now.
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

    /// What base page `page` holds, if all of it is one piece of a file that never could be written: the file, the
    /// first 4 KiB of it, the rights.
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

    /// Base pages that hold some of the pieces of 4 KiB `[start, end)`.
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

    /// log2 of the size of what maps base page `page`, if something does: it was touched, or the huge page around it
    /// was.
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

    /// Translations that go when the pieces of 4 KiB `[start, end)` lose their memory or their rights: (log2 of size,
    /// page number). Huge pages covered in part become base pages. `mapped` is as it is afterwards.
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

    /// A page that was backed for nothing is so no more.
    fn free(&mut self, page: u64) {
        let born = self.untouched.remove(&page);
        self.ended.extend(born.map(|born| Life { born, died: self.now, pages: 1 }));
    }

    /// Whether nothing touched is left in a block.
    fn is_empty(&self, block: u64) -> bool {
        self.touched.range(block * self.pages()..(block + 1) * self.pages()).next().is_none()
    }

    /// Of a block in which nothing touched is left, nothing is.
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

    /// All that was backed for nothing; what still is, up to `died`.
    pub fn lives(&self, died: u64) -> Vec<Life> {
        let untouched = self.untouched.values().map(|&born| Life { born, died, pages: 1 });
        let kept = self.kept.values();
        let kept = kept.map(|&(born, most)| Life { born, died, pages: self.pages() - most });
        self.ended.iter().copied().chain(untouched).chain(kept).collect()
    }
}
