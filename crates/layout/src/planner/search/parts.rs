//! An array's reuses by the objects involved, and how many pages share the set in the present layout.
//!
//! The cost of an object's shifts depends on its own reuses, with all pages in between, and, for others' reuses, on its
//! own pages in between alone: how many of all share the set is known. So a round over all objects visits each page of
//! each reuse about twice, however many objects there are.

use super::shape;
use crate::planner::reuses::{ArrayReuses, Page};

/// Adjacent pages of one object among the pages in between, in a reuse of another object's page.
struct Run {
    /// The reuse's number.
    reuse: u32,
    /// Index of the first of them among the pages in between.
    first: u32,
    /// Their number.
    count: u32,
}

/// The reuses under the present layout.
pub struct ReuseState<'a> {
    reuses: &'a ArrayReuses,
    mask: u32,
    ways: u32,
    /// By page: its object.
    objects: Vec<Option<u32>>,
    /// By page: its unshifted set, and its present one.
    homes: Vec<u32>,
    sets: Vec<u32>,
    /// By object: its pages.
    pages: Vec<Vec<u32>>,
    /// By reuse: its position.
    positions: Vec<u32>,
    /// By reuse: pages in between that share its page's set now.
    sharing: Vec<u32>,
    /// By object: reuses of its pages.
    own: Vec<Vec<u32>>,
    /// By object: its pages in others' reuses.
    among: Vec<Vec<Run>>,
}

impl<'a> ReuseState<'a> {
    /// For pages of this many objects, none shifted. The reuses are grouped by object.
    pub fn new(reuses: &'a ArrayReuses, pages: &[Page], objects: usize) -> ReuseState<'a> {
        let (mask, ways) = shape(reuses);
        let homes: Vec<u32> = pages.iter().map(|page| (page.page.0 & mask) as u32).collect();
        let mut parts = ReuseState {
            reuses,
            mask: mask as u32,
            ways: ways as u32,
            objects: pages.iter().map(|page| page.object.map(|object| object as u32)).collect(),
            sets: homes.clone(),
            homes,
            pages: vec![Vec::new(); objects],
            positions: reuses.positions().collect(),
            sharing: Vec::new(),
            own: vec![Vec::new(); objects],
            among: (0..objects).map(|_| Vec::new()).collect(),
        };
        for (page, object) in (0..).zip(&parts.objects) {
            object.iter().for_each(|&object| parts.pages[object as usize].push(page));
        }
        (0..parts.positions.len() as u32).for_each(|reuse| parts.sort_in(reuse));
        parts.sharing = (0..parts.positions.len() as u32).map(|reuse| parts.share(reuse)).collect();
        parts
    }

    fn sort_in(&mut self, reuse: u32) {
        let (_, page, between) = self.at(reuse);
        let own = self.objects[page as usize];
        if let Some(own) = own {
            self.own[own as usize].push(reuse);
        }
        let mut first = 0;
        for run in between.chunk_by(|&a, &b| self.objects[a as usize] == self.objects[b as usize]) {
            let (object, count) = (self.objects[run[0] as usize], run.len() as u32);
            if let Some(object) = object.filter(|_| object != own) {
                self.among[object as usize].push(Run { reuse, first, count });
            }
            first += count;
        }
    }

    fn at(&self, reuse: u32) -> (u64, u32, &'a [u32]) {
        self.reuses.at(self.positions[reuse as usize])
    }

    /// How many pages in between share the page's set now.
    fn share(&self, reuse: u32) -> u32 {
        let (_, page, between) = self.at(reuse);
        self.in_set(between, self.sets[page as usize])
    }

    fn in_set(&self, pages: &[u32], set: u32) -> u32 {
        pages.iter().filter(|&&page| self.sets[page as usize] == set).count() as u32
    }

    /// How many reuses each kept one stands for.
    pub fn scale(&self) -> u64 {
        self.reuses.scale()
    }

    /// Shifts an object.
    pub fn shift(&mut self, object: usize, shift: u64) {
        self.count_among(object, u32::wrapping_sub);
        for &page in &self.pages[object] {
            self.sets[page as usize] = self.homes[page as usize].wrapping_add(shift as u32) & self.mask;
        }
        self.count_among(object, u32::wrapping_add);
        for at in 0..self.own[object].len() {
            let reuse = self.own[object][at];
            self.sharing[reuse as usize] = self.share(reuse);
        }
    }

    /// Updates the counts for the object's pages in others' reuses.
    fn count_among(&mut self, object: usize, count: fn(u32, u32) -> u32) {
        let among = std::mem::take(&mut self.among[object]);
        for run in &among {
            let (_, page, between) = self.at(run.reuse);
            let its = self.in_set(run.of(between), self.sets[page as usize]);
            let sharing = &mut self.sharing[run.reuse as usize];
            *sharing = count(*sharing, its);
        }
        self.among[object] = among;
    }

    /// Misses among the reuses that involve an object, by its shift modulo the sets.
    pub fn costs(&self, object: usize) -> Vec<u64> {
        let mut costs = Costs::new(self.mask);
        for &reuse in &self.own[object] {
            let (times, page, between) = self.at(reuse);
            let home = self.homes[page as usize];
            let mut with_it = 0;
            for &other in between {
                if self.objects[other as usize] == Some(object as u32) {
                    with_it += u32::from(self.homes[other as usize] == home);
                } else {
                    costs.meet(self.sets[other as usize].wrapping_sub(home));
                }
            }
            costs.add(times, self.ways.saturating_sub(with_it));
        }
        for run in &self.among[object] {
            let sharing = self.sharing[run.reuse as usize];
            if sharing + run.count < self.ways {
                continue;
            }
            let (times, page, between) = self.at(run.reuse);
            let (set, its) = (self.sets[page as usize], run.of(between));
            let others = sharing - self.in_set(its, set);
            if others + run.count < self.ways {
                continue;
            }
            its.iter().for_each(|&page| costs.meet(set.wrapping_sub(self.homes[page as usize])));
            costs.add(times, self.ways.saturating_sub(others));
        }
        costs.of_shifts()
    }
}

impl Run {
    fn of<'b>(&self, between: &'b [u32]) -> &'b [u32] {
        &between[self.first as usize..][..self.count as usize]
    }
}

/// Misses by shift.
struct Costs {
    mask: u32,
    by_shift: Vec<u64>,
    /// Misses at any shift.
    always: u64,
    /// Pages met at each shift in the present reuse, and the shifts with any.
    met: Vec<u32>,
    touched: Vec<u32>,
}

impl Costs {
    fn new(mask: u32) -> Costs {
        let shifts = mask as usize + 1;
        let (by_shift, met) = (vec![0; shifts], vec![0; shifts]);
        Costs { mask, by_shift, always: 0, met, touched: Vec::new() }
    }

    /// The reuse's page and one in between share their set at this shift.
    fn meet(&mut self, shift: u32) {
        let shift = shift & self.mask;
        self.met[shift as usize] += 1;
        self.touched.push(shift);
    }

    /// Ends the reuse: it misses at shifts with this many pages met.
    fn add(&mut self, times: u64, missing: u32) {
        if missing == 0 {
            self.always += times;
        }
        for shift in self.touched.drain(..) {
            let shift = shift as usize;
            if missing > 0 && self.met[shift] >= missing {
                self.by_shift[shift] += times;
            }
            // Once for each shift.
            self.met[shift] = 0;
        }
    }

    fn of_shifts(mut self) -> Vec<u64> {
        self.by_shift.iter_mut().for_each(|cost| *cost += self.always);
        self.by_shift
    }
}
