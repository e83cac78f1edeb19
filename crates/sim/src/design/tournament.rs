//! Which way of a set was seen least recently, known at any moment.

use pagewalk_setassoc::Geometry;

/// The ways of each set of an array, in the order of the times at which they were seen.
#[derive(Clone, Debug)]
pub(crate) struct Tournament {
    /// Ways of a set in the lists below: a power of two. Those that the array does not have are never least.
    stride: usize,
    /// A time that the last reference to the entry was not before; 0 for empty ways.
    seen: Vec<u64>,
    /// The inner nodes of a binary tree for each set, from index 1 on, each with the way below it that was seen least
    /// recently.
    winners: Vec<u32>,
}

impl Tournament {
    /// Nothing was seen yet.
    pub fn new(geometry: Geometry) -> Tournament {
        let stride = geometry.ways().next_power_of_two();
        let times = (0..stride).map(|way| if way < geometry.ways() { 0 } else { u64::MAX });
        let times: Vec<u64> = times.collect();
        // All the same at first: the leftmost way wins everywhere.
        let leftmost = |node: usize| (node << (stride.ilog2() - node.ilog2())) - stride;
        let winners: Vec<u32> = (0..stride).map(|node| leftmost(node.max(1)) as u32).collect();
        Tournament { stride, seen: times.repeat(geometry.sets()), winners: winners.repeat(geometry.sets()) }
    }

    /// From one set to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The way, of the set that begins at `first`, that was seen least recently, and when.
    pub fn least(&self, first: usize) -> (usize, u64) {
        let way = self.winners[first + 1 % self.stride] as usize;
        (way, self.seen[first + way])
    }

    /// Notes that `way` was last seen used at `time`, and plays its matches again.
    #[inline]
    pub fn note(&mut self, first: usize, way: usize, time: u64) {
        let seen = &mut self.seen[first..first + self.stride];
        let winners = &mut self.winners[first..first + self.stride];
        seen[way] = time;
        let (mut winner, mut least) = (way, time);
        let mut node = self.stride + way;
        while node > 1 {
            let rival = if node < self.stride { winners[node ^ 1] as usize } else { way ^ 1 };
            if seen[rival] < least {
                (winner, least) = (rival, seen[rival]);
            }
            node /= 2;
            winners[node] = winner as u32;
        }
    }
}
