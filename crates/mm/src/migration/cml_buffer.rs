//! The Cache Miss Lookaside buffer: hardware that counts misses by page (Romer 1998, section 5.2; Bershad et al.,
//! "Avoiding Conflict Misses Dynamically in Large Direct-Mapped Caches", ASPLOS 1994).

use super::MissBuffer;
use crate::frames::Frame;

/// A counted page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmlTuple {
    /// Its frame.
    pub frame: Frame,
    /// The program's page there at the last miss, if it was one.
    pub page: Option<u64>,
    /// Misses since the last clear.
    pub count: u64,
}

/// The buffer's segments: an associative array of tuples.
///
/// A page that no segment holds replaces the least recently missing one of the LRU segment. A tuple of the LRU segment
/// that has counted more than the lowest of the HOT segment changes places with it; the source names no tuple, and does
/// not say how recent the demoted one is then: here the most recent. The FIXED segment, which software loads, is empty
/// in the source's studies, and left out here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmlBuffer {
    /// Most recent last.
    recent: Vec<CmlTuple>,
    recent_entries: usize,
    hot: Vec<CmlTuple>,
    hot_entries: usize,
}

impl CmlBuffer {
    /// An empty buffer with so many entries in its LRU and HOT segments.
    pub fn new(recent_entries: usize, hot_entries: usize) -> CmlBuffer {
        let (recent, hot) = (Vec::with_capacity(recent_entries), Vec::with_capacity(hot_entries));
        CmlBuffer { recent, recent_entries, hot, hot_entries }
    }

    /// Swaps the tuple of the LRU segment that has counted most with the lowest of the HOT segment, if it has counted
    /// more. A free entry has counted nothing.
    fn swap(&mut self) -> bool {
        let Some(most) = (0..self.recent.len()).max_by_key(|&at| self.recent[at].count) else { return false };
        let count = self.recent[most].count;
        if self.hot.len() < self.hot_entries && count > 0 {
            self.hot.push(self.recent.remove(most));
            return true;
        }
        let least = (0..self.hot.len()).min_by_key(|&at| self.hot[at].count);
        let Some(least) = least.filter(|&at| self.hot[at].count < count) else { return false };
        let tuple = self.recent.remove(most);
        self.recent.push(std::mem::replace(&mut self.hot[least], tuple));
        true
    }
}

impl MissBuffer for CmlBuffer {
    fn count(&mut self, frame: Frame, page: Option<u64>) -> u64 {
        if let Some(tuple) = self.hot.iter_mut().find(|tuple| tuple.frame == frame) {
            (tuple.page, tuple.count) = (page, tuple.count + 1);
            let count = tuple.count;
            while self.swap() {}
            return count;
        }
        let known = self.recent.iter().position(|tuple| tuple.frame == frame);
        let count = known.map_or(0, |at| self.recent.remove(at).count) + 1;
        if known.is_none() && self.recent.len() == self.recent_entries {
            self.recent.remove(0);
        }
        self.recent.push(CmlTuple { frame, page, count });
        while self.swap() {}
        count
    }

    /// HOT, then LRU, the least recent first.
    fn tuples(&self) -> impl Iterator<Item = CmlTuple> {
        self.hot.iter().chain(&self.recent).copied()
    }

    fn keep(&mut self, keeps: impl Fn(CmlTuple) -> bool) {
        for segment in [&mut self.recent, &mut self.hot] {
            segment.retain(|&tuple| keeps(tuple));
        }
    }

    fn clear(&mut self) {
        self.hot.iter_mut().chain(&mut self.recent).for_each(|tuple| tuple.count = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(buffer: &CmlBuffer) -> Vec<(u64, u64)> {
        buffer.tuples().map(|tuple| (tuple.frame.0, tuple.count)).collect()
    }

    #[test]
    fn hot_pages_stay_while_others_pass() {
        let mut buffer = CmlBuffer::new(2, 1);
        let count = |buffer: &mut CmlBuffer, frame: u64| buffer.count(Frame(frame), None);
        assert_eq!([1, 2, 1].map(|frame| count(&mut buffer, frame)), [1, 1, 2]);
        for passing in 3..9 {
            count(&mut buffer, passing);
        }
        assert_eq!(frames(&buffer), [(1, 2), (7, 1), (8, 1)], "HOT, then the two latest");
        assert_eq!([8, 8].map(|frame| count(&mut buffer, frame)), [2, 3]);
        assert_eq!(frames(&buffer), [(8, 3), (7, 1), (1, 2)], "8 has counted more than 1");
        buffer.clear();
        assert!(frames(&buffer).iter().all(|&(_, count)| count == 0));
    }
}
