//! The range table: a B-tree of ranges that hardware walks.
//!
//! A node has up to 4 ranges and 5 children and fills two cache lines of 64 bytes: 4 times 36 + 36 + 64 bits of ranges,
//! 5 times 8 bytes of physical addresses (Karakostas 2016, section 4.4.2). The thesis leaves the shape for a number of
//! ranges open; here the kernel rebuilds the table, as full as possible, whenever ranges change.

use super::range::Range;

/// Ranges of a node.
const RANGES: usize = 4;

#[derive(Clone, Debug, Default)]
struct Node {
    ranges: Vec<Range>,
    /// Children: one more than ranges, or none in a leaf.
    children: Vec<u32>,
}

/// The result of a walk of the range table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeWalk {
    /// The range around the page.
    pub range: Range,
    /// Nodes read.
    pub nodes: u32,
}

/// The ranges of a process.
#[derive(Clone, Debug, Default)]
pub struct RangeTable {
    nodes: Vec<Node>,
    root: Option<u32>,
    levels: u32,
    ranges: usize,
}

impl RangeTable {
    /// Cache lines of a node, which has 128 bytes.
    pub const NODE_LINES: u64 = 2;

    /// A table of ascending ranges that do not overlap.
    ///
    /// # Panics
    /// If they do not ascend, or overlap.
    pub fn new(ranges: &[Range]) -> RangeTable {
        assert!(ranges.is_sorted_by(|a, b| a.limit <= b.base), "ranges ascend and do not overlap");
        let levels = RangeTable::levels_of(ranges.len());
        let mut table = RangeTable { ranges: ranges.len(), levels, ..RangeTable::default() };
        if table.levels > 0 {
            table.root = Some(table.build(ranges, table.levels));
        }
        table
    }

    fn build(&mut self, ranges: &[Range], levels: u32) -> u32 {
        let mut node = Node::default();
        if levels == 1 {
            node.ranges = ranges.to_vec();
        } else {
            let children = (ranges.len() + 1).div_ceil(capacity(levels - 1) + 1);
            // Ranges left for the children, shared evenly, after one between each two.
            let below = ranges.len() + 1 - children;
            let mut rest = ranges;
            for child in 0..children {
                let of_child = (below + child) / children;
                let (its, after) = rest.split_at(of_child);
                node.children.push(self.build(its, levels - 1));
                if let Some((between, after)) = after.split_first() {
                    node.ranges.push(*between);
                    rest = after;
                }
            }
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Levels of a table of `ranges` ranges.
    pub fn levels_of(ranges: usize) -> u32 {
        (0..).find(|&levels| capacity(levels) >= ranges).unwrap_or(0)
    }

    /// Walks the table for a page.
    pub fn walk(&self, page: u64) -> Option<RangeWalk> {
        let (mut at, mut nodes) = (self.root?, 0);
        loop {
            let node = &self.nodes[at as usize];
            nodes += 1;
            let next = node.ranges.partition_point(|range| range.limit <= page);
            if let Some(&range) = node.ranges.get(next).filter(|range| range.contains(page)) {
                return Some(RangeWalk { range, nodes });
            }
            at = *node.children.get(next)?;
        }
    }

    /// The number of ranges.
    pub fn len(&self) -> usize {
        self.ranges
    }

    /// Whether it has no ranges.
    pub fn is_empty(&self) -> bool {
        self.ranges == 0
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Its levels.
    pub fn levels(&self) -> u32 {
        self.levels
    }
}

/// Most ranges of a table of `levels` levels.
fn capacity(levels: u32) -> usize {
    (RANGES + 1).saturating_pow(levels) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(count: u64) -> Vec<Range> {
        (0..count).map(|i| Range { base: i * 16, limit: i * 16 + 12, offset: 7 }).collect()
    }

    /// Karakostas 2016, section 4.4.2: three full levels of 31 nodes hold 124 ranges, and a page of nodes 128.
    #[test]
    fn three_levels_hold_124_ranges() {
        let table = RangeTable::new(&ranges(124));
        assert_eq!((table.levels(), table.nodes(), table.len()), (3, 31, 124));
        assert_eq!(RangeTable::new(&ranges(125)).levels(), 4);
        assert_eq!(4096 / (64 * RangeTable::NODE_LINES) * RANGES as u64, 128);
        let bits = RANGES as u64 * (36 + 36 + 64) + (RANGES as u64 + 1) * 64;
        assert!(bits <= RangeTable::NODE_LINES * 64 * 8);
    }

    #[test]
    fn every_page_is_found_in_its_range_and_no_other() {
        for count in 0..300 {
            let all = ranges(count);
            let table = RangeTable::new(&all);
            for page in 0..count * 16 + 2 {
                let found = table.walk(page).map(|walk| walk.range);
                assert_eq!(found, all.iter().copied().find(|range| range.base <= page && page < range.limit));
            }
            let deepest = all.iter().map(|range| table.walk(range.base).unwrap().nodes).max().unwrap_or(0);
            assert_eq!(deepest, table.levels());
        }
    }
}
