//! An LRU stack of unlimited depth: pages in order of arrival time, counted by a tree.
//!
//! Each arriving page takes the next moment. The depth of a page is the number of later moments that are still taken,
//! computed by a binary indexed tree with 64 moments per leaf (Bennett and Kruskal, "LRU stack processing", IBM Journal
//! of Research and Development 19 (4), 1975; Olken, LBL-12370, 1981). When moments run out, those still taken are
//! renumbered from 0 in their order, and the new timeline is at least twice as long, so the amortised cost per arriving
//! page is constant.
//!
//! Holes are moments without a page; they count like pages, see [`crate::stack`].

use crate::stack::HOLE;
use std::collections::BinaryHeap;

/// Number of moments of a new timeline.
const MOMENTS_MIN: usize = 1 << 8;
const WORD: usize = 64;
/// The moment of pages that are not in the timeline.
const NEVER: u32 = u32::MAX;

pub(crate) struct Timeline {
    /// The page that took each moment so far; the length is the next moment.
    pages: Vec<u32>,
    /// Bit set of the moments that are taken, by a page or a hole.
    taken: Vec<u64>,
    /// The leaf of word w is w + 1; node n counts the bits of the words in (n - lowest bit of n, n].
    tree: Vec<u32>,
    total: usize,
    /// The moment of each page, by page number.
    moments: Vec<u32>,
    /// The moments of holes; the latest is the first hole in the stack.
    holes: BinaryHeap<u32>,
}

impl Timeline {
    pub fn new() -> Timeline {
        let words = MOMENTS_MIN / WORD;
        Timeline {
            pages: Vec::new(),
            taken: vec![0; words],
            tree: vec![0; words + 1],
            total: 0,
            moments: Vec::new(),
            holes: BinaryHeap::new(),
        }
    }

    /// Moves `page` from here to the stack above, and adds `sunk`, which was pushed out of that stack; if there is no
    /// stack above, `sunk` is the page itself. Returns the number of places above the page, or `None` if it was not
    /// here.
    pub fn refer(&mut self, page: u32, sunk: u32) -> Option<usize> {
        let moment = self.moments.get(page as usize).copied().unwrap_or(NEVER);
        let depth = (moment != NEVER).then(|| self.later(moment));
        if depth.is_some() {
            self.moments[page as usize] = NEVER;
        }
        if sunk == HOLE {
            // A hole above was filled by the page that would have come here: the page's place becomes a hole.
            if depth.is_some() {
                self.leave_hole(moment);
            }
            return depth;
        }
        match self.holes.peek().copied() {
            Some(first) if depth.is_none() || first > moment => {
                self.holes.pop();
                self.free(first);
                if depth.is_some() {
                    self.leave_hole(moment);
                }
            }
            _ if depth.is_some() => self.free(moment),
            _ => {}
        }
        self.push(sunk);
        depth
    }

    /// Leaves a hole in the page's place, if it is here.
    pub fn remove(&mut self, page: u32) {
        let Some(moment) = self.moments.get_mut(page as usize) else { return };
        let moment = std::mem::replace(moment, NEVER);
        if moment != NEVER {
            self.leave_hole(moment);
        }
    }

    /// Removes a page, if it is here, without leaving a hole.
    pub fn forget(&mut self, page: u32) {
        let Some(moment) = self.moments.get_mut(page as usize) else { return };
        let moment = std::mem::replace(moment, NEVER);
        if moment != NEVER {
            self.free(moment);
        }
    }

    fn leave_hole(&mut self, moment: u32) {
        self.pages[moment as usize] = HOLE;
        self.holes.push(moment);
    }

    /// The number of moments after this one that are taken.
    fn later(&self, moment: u32) -> usize {
        let (word, bit) = (moment as usize / WORD, moment as usize % WORD);
        let mut earlier = (self.taken[word] & (u64::MAX >> (WORD - 1 - bit))).count_ones();
        let mut node = word;
        while node > 0 {
            earlier += self.tree[node];
            node &= node - 1;
        }
        self.total - earlier as usize
    }

    fn free(&mut self, moment: u32) {
        let (word, bit) = (moment as usize / WORD, moment as usize % WORD);
        self.taken[word] &= !(1 << bit);
        self.total -= 1;
        let mut node = word + 1;
        while node < self.tree.len() {
            self.tree[node] -= 1;
            node += node & node.wrapping_neg();
        }
    }

    fn push(&mut self, page: u32) {
        if self.pages.len() == self.taken.len() * WORD {
            self.renumber();
        }
        let moment = self.pages.len();
        self.pages.push(page);
        if self.moments.len() <= page as usize {
            self.moments.resize(page as usize + 1, NEVER);
        }
        self.moments[page as usize] = moment as u32;
        self.taken[moment / WORD] |= 1 << (moment % WORD);
        self.total += 1;
        let mut node = moment / WORD + 1;
        while node < self.tree.len() {
            self.tree[node] += 1;
            node += node & node.wrapping_neg();
        }
    }

    /// Renumbers the taken moments in their order.
    #[cold]
    fn renumber(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        let mut moment = 0;
        self.pages.retain(|_| {
            moment += 1;
            taken[(moment - 1) / WORD] >> ((moment - 1) % WORD) & 1 == 1
        });
        self.holes.clear();
        for (moment, &page) in self.pages.iter().enumerate() {
            match page {
                HOLE => self.holes.push(moment as u32),
                page => self.moments[page as usize] = moment as u32,
            }
        }
        let words = (2 * self.total).max(MOMENTS_MIN).div_ceil(WORD);
        self.taken = vec![0; words];
        self.tree = vec![0; words + 1];
        for moment in 0..self.total {
            self.taken[moment / WORD] |= 1 << (moment % WORD);
        }
        for node in 1..=words {
            self.tree[node] += self.taken[node - 1].count_ones();
            let above = node + (node & node.wrapping_neg());
            if above <= words {
                self.tree[above] += self.tree[node];
            }
        }
    }
}
