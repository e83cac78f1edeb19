//! An array's reuses by the objects that have a part in them: all others miss whatever the object's shift.

use super::shape;
use crate::planner::reuses::{ArrayReuses, Page};

/// Set of a page that belongs to the object whose shifts are priced: where it would be unshifted.
const ITS: u32 = 1 << 31;

/// The reuses, and which object is in which.
pub struct Parts<'a> {
    reuses: &'a ArrayReuses,
    /// By object: positions of the reuses that have some page of it.
    of_object: Vec<Vec<u32>>,
}

impl<'a> Parts<'a> {
    /// Of the pages of so many objects.
    pub fn new(reuses: &'a ArrayReuses, pages: &[Page], objects: usize) -> Parts<'a> {
        let mut of_object: Vec<Vec<u32>> = vec![Vec::new(); objects];
        for position in reuses.positions() {
            let (_, page, between) = reuses.at(position);
            for &page in between.iter().chain([&page]) {
                if let Some(object) = pages[page as usize].object
                    && of_object[object].last() != Some(&position)
                {
                    of_object[object].push(position);
                }
            }
        }
        Parts { reuses, of_object }
    }

    /// How many reuses each that is kept stands for.
    pub fn scale(&self) -> u64 {
        self.reuses.scale()
    }

    /// Misses among the reuses that an object has a part in, by its shift modulo the sets.
    pub fn costs(&self, pages: &[Page], shifts: &[u64], object: usize) -> Vec<u64> {
        let (mask, ways) = shape(self.reuses);
        let set = |&Page { page, object: of }: &Page| match of {
            Some(of) if of == object => (page.0 & mask) as u32 | ITS,
            Some(of) => (page.0.wrapping_add(shifts[of]) & mask) as u32,
            None => (page.0 & mask) as u32,
        };
        let sets: Vec<u32> = pages.iter().map(set).collect();
        let mut costs = vec![0_u64; mask as usize + 1];
        // Misses whatever the object's shift.
        let mut always = 0;
        let mut sharing = vec![0_u32; mask as usize + 1];
        let mut touched = Vec::new();
        for &position in &self.of_object[object] {
            let (times, page, between) = self.reuses.at(position);
            let own = sets[page as usize];
            let moves = own & ITS != 0;
            let mut together = 0;
            for &other in between {
                let other = sets[other as usize];
                if (other ^ own) & ITS == 0 {
                    together += usize::from(other == own);
                    continue;
                }
                // The shift at which the two meet.
                let difference = if moves { other.wrapping_sub(own) } else { own.wrapping_sub(other) };
                let shift = difference & mask as u32;
                sharing[shift as usize] += 1;
                touched.push(shift);
            }
            if together >= ways {
                always += times;
            } else {
                for &shift in &touched {
                    if sharing[shift as usize] as usize + together >= ways {
                        costs[shift as usize] += times;
                        // Once for each shift.
                        sharing[shift as usize] = 0;
                    }
                }
            }
            touched.drain(..).for_each(|shift| sharing[shift as usize] = 0);
        }
        costs.iter_mut().for_each(|cost| *cost += always);
        costs
    }
}
