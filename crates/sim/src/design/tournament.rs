//! The least recently used way of each set, by recorded times.

use pagewalk_setassoc::Geometry;

/// A tournament tree per set over the recorded times of its ways.
#[derive(Clone, Debug)]
pub(crate) struct Tournament {
    /// Ways per set in the lists below, a power of two. Ways that the array lacks never win.
    stride: usize,
    /// A lower bound on the time of the entry's last reference; 0 for empty ways.
    seen: Vec<u64>,
    /// For each set the inner nodes of a binary tree, from index 1 on; each holds the way below it with the least time.
    winners: Vec<u32>,
}

impl Tournament {
    /// All ways empty.
    pub fn new(geometry: Geometry) -> Tournament {
        let stride = geometry.ways().next_power_of_two();
        let times = (0..stride).map(|way| if way < geometry.ways() { 0 } else { u64::MAX });
        let times: Vec<u64> = times.collect();
        // All times are equal: the leftmost way wins everywhere.
        let leftmost = |node: usize| (node << (stride.ilog2() - node.ilog2())) - stride;
        let winners: Vec<u32> = (0..stride).map(|node| leftmost(node.max(1)) as u32).collect();
        Tournament { stride, seen: times.repeat(geometry.sets()), winners: winners.repeat(geometry.sets()) }
    }

    /// Ways per set.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The way with the least time in the set that begins at `first`, and that time.
    pub fn least(&self, first: usize) -> (usize, u64) {
        let way = self.winners[first + 1 % self.stride] as usize;
        (way, self.seen[first + way])
    }

    /// Records `time` as the last known use of `way`, and replays its matches.
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
