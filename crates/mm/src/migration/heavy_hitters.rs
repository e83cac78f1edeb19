//! A miss buffer that finds heavy hitters: what the CML buffer could have been (Metwally, Agrawal and El Abbadi,
//! "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005, section 3).

use super::{CmlTuple, MissBuffer};
use crate::frames::Frame;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tuple: CmlTuple,
    /// Misses that others counted in this entry: the source's error. With the tuple's own, the page's most possible
    /// misses.
    inherited: u64,
}

/// Space-Saving: one segment, in which a new page takes the entry with the fewest misses and inherits them.
///
/// Of the source's two bounds on a page's misses, the kernel sees the lower one, which has none too many: those that
/// the page itself counted. With `n` entries, a page with more than one in `n` of all misses since the last clear has
/// an entry, unless pages were dropped. Of equals, the entry that was filled first gives way; the source takes any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceSaving {
    filled: Vec<Entry>,
    entries: usize,
}

impl SpaceSaving {
    /// An empty buffer with so many entries, at least 1.
    pub fn new(entries: usize) -> SpaceSaving {
        SpaceSaving { filled: Vec::with_capacity(entries), entries }
    }
}

impl MissBuffer for SpaceSaving {
    fn count(&mut self, frame: Frame, page: Option<u64>) -> u64 {
        if let Some(Entry { tuple, .. }) = self.filled.iter_mut().find(|entry| entry.tuple.frame == frame) {
            (tuple.page, tuple.count) = (page, tuple.count + 1);
            return tuple.count;
        }
        let tuple = CmlTuple { frame, page, count: 1 };
        if self.filled.len() < self.entries {
            self.filled.push(Entry { tuple, inherited: 0 });
        } else if let Some(least) = self.filled.iter_mut().min_by_key(|of| of.inherited + of.tuple.count) {
            *least = Entry { tuple, inherited: least.inherited + least.tuple.count };
        }
        1
    }

    fn tuples(&self) -> impl Iterator<Item = CmlTuple> {
        self.filled.iter().map(|entry| entry.tuple)
    }

    fn keep(&mut self, keeps: impl Fn(CmlTuple) -> bool) {
        self.filled.retain(|entry| keeps(entry.tuple));
    }

    fn clear(&mut self) {
        for Entry { tuple, inherited } in &mut self.filled {
            (tuple.count, *inherited) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_page_inherits_the_fewest_misses_and_hides_them() {
        let mut buffer = SpaceSaving::new(2);
        let counts = [1, 1, 2, 3, 1, 3, 3, 3].map(|frame| buffer.count(Frame(frame), None));
        // 3 takes the entry of 2 with one miss, and soon ranks above 1.
        assert_eq!(counts, [1, 2, 1, 1, 3, 2, 3, 4]);
        assert_eq!(buffer.count(Frame(4), None), 1);
        let held: Vec<_> = buffer.filled.iter().map(|of| (of.tuple.frame.0, of.inherited)).collect();
        assert_eq!(held, [(4, 3), (3, 1)], "three misses of 1 are fewer than four of 3 and one inherited");
        buffer.clear();
        assert_eq!(buffer.count(Frame(5), None), 1);
        assert_eq!(
            buffer.filled[0],
            Entry { tuple: CmlTuple { frame: Frame(5), page: None, count: 1 }, inherited: 0 }
        );
    }
}
