//! A stack without bottom: pages in order of when they came, counted by a tree.
//!
//! Each page that comes takes the next moment; what a page finds above itself is the number of moments later than
//! its own that are still taken, read off a binary indexed tree over 64 moments a leaf (Bennett and Kruskal, "LRU
//! stack processing", IBM Journal of Research and Development 19 (4), 1975; Olken, LBL-12370, 1981). When moments
//! run out, those still taken are numbered anew from 0 in their order, over a line at least twice as long: the cost per
//! page that comes stays constant.
//!
//! Holes are moments taken by no page; they count like pages, see [`crate::stack`].

use crate::stack::HOLE;
use std::collections::BinaryHeap;

/// Moments of a new line.
const MOMENTS_MIN: usize = 1 << 8;
const WORD: usize = 64;
/// The moment of pages that are not here.
const NEVER: u32 = u32::MAX;

pub(crate) struct Timeline {
    /// The page that took each moment so far; the length is the next one.
    pages: Vec<u32>,
    /// Which moments are taken, by a page or a hole.
    taken: Vec<u64>,
    /// Word w's leaf is w + 1; node n counts the words in (n - lowest bit of n, n].
    tree: Vec<u32>,
    total: usize,
    /// By page number.
    moments: Vec<u32>,
    /// The moments of holes: the latest is the first hole.
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

    /// Takes `page` out, to the stack above, from which `sunk` comes; where there is no stack above, that is the page
    /// itself. Returns how many places were above the page;
    /// `None` if it was not here.
    pub fn refer(&mut self, page: u32, sunk: u32) -> Option<usize> {
        let moment = self.moments.get(page as usize).copied().unwrap_or(NEVER);
        let depth = (moment != NEVER).then(|| self.later(moment));
        if depth.is_some() {
            self.moments[page as usize] = NEVER;
        }
        if sunk == HOLE {
            // A hole above swallowed what would have come: the page's place becomes one.
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

    /// Takes a page out as if it had never been here, if it is.
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

    /// How many moments after this one are taken.
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

    /// Numbers the moments that are taken anew, in their order.
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
