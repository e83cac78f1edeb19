//! A value for every potential superpage.

use crate::Superpage;
use rustc_hash::FxHashMap;

/// A value for every block of orders from a bottom to a top order, all `T::default()` at first.
///
/// Each block of the top order, a *region*, has one array with the values of all blocks inside it: a binary tree in
/// heap order, so that indices of the blocks around a page follow by arithmetic. The first write creates a region.
#[derive(Clone, Debug)]
pub(crate) struct Tree<T> {
    bottom: u8,
    top: u8,
    regions: FxHashMap<u64, u32>,
    nodes: Vec<Box<[T]>>,
    /// The region written to last, with its key.
    latest: Option<(u64, u32)>,
}

/// The index of a block's value, for repeated access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    region: u32,
    node: u32,
}

impl<T: Copy + Default> Tree<T> {
    /// Values for orders up to `top`.
    pub fn new(top: u8) -> Tree<T> {
        Tree::from_order(0, top)
    }

    /// Values for orders from `bottom` to `top`, with `bottom` ≤ `top`.
    pub fn from_order(bottom: u8, top: u8) -> Tree<T> {
        Tree { bottom, top, regions: FxHashMap::default(), nodes: Vec::new(), latest: None }
    }

    /// The number of values in all regions.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|nodes| nodes.len()).sum()
    }

    /// Writes a value to every part of a block, but not to the block itself; above the top order, the default.
    pub fn fill_inside(&mut self, block: Superpage, value: T) {
        let (bottom, top) = (self.bottom, self.top);
        if block.order > top {
            // As mapped by hugetlb: whole regions. Those without values keep the default.
            for first in block.pages().step_by(1 << top) {
                if let Some(&region) = self.regions.get(&(first >> top)) {
                    self.nodes[region as usize].fill(value);
                }
            }
            return;
        }
        let region = self.region(block.first);
        let inside = (block.first & ((1 << top) - 1)) as usize;
        for order in bottom..block.order {
            let at = (1 << (top - order)) | inside >> order;
            region[at..at + (1 << (block.order - order))].fill(value);
        }
    }

    fn at(&self, block: Superpage) -> usize {
        let inside = block.first & ((1 << self.top) - 1);
        (1 << (self.top - block.order)) | (inside >> block.order) as usize
    }

    /// The value of a block; the default below the bottom.
    pub fn get(&self, block: Superpage) -> T {
        if block.order < self.bottom {
            return T::default();
        }
        let region = self.regions.get(&(block.first >> self.top));
        region.map_or_else(T::default, |&region| self.nodes[region as usize][self.at(block)])
    }

    /// The order of the smallest block around `page`, not below `from`, for which `accepts` says yes.
    pub fn smallest(&self, page: u64, from: u8, accepts: impl Fn(u8, T) -> bool) -> Option<u8> {
        let region = self.regions.get(&(page >> self.top));
        let nodes = region.map(|&region| &self.nodes[region as usize]);
        let leaf = (1 << self.top) | (page & ((1 << self.top) - 1)) as usize;
        let value = |order: u8| nodes.map_or_else(T::default, |nodes| nodes[leaf >> order]);
        (from.max(self.bottom)..=self.top).find(|&order| accepts(order, value(order)))
    }

    /// The value of a block, for changes.
    pub fn get_mut(&mut self, block: Superpage) -> &mut T {
        let at = self.at(block);
        &mut self.region(block.first)[at]
    }

    /// The index of a block's value, which never changes.
    pub fn place(&mut self, block: Superpage) -> Place {
        let node = self.at(block) as u32;
        Place { region: self.region_id(block.first), node }
    }

    /// The value at an index.
    pub fn at_mut(&mut self, place: Place) -> &mut T {
        &mut self.nodes[place.region as usize][place.node as usize]
    }

    /// All blocks whose value is not the default, by ascending region and order.
    pub fn each(&self, mut each: impl FnMut(Superpage, T))
    where
        T: PartialEq,
    {
        let mut regions: Vec<(u64, u32)> = self.regions.iter().map(|(&key, &at)| (key, at)).collect();
        regions.sort_unstable();
        for (key, region) in regions {
            for order in self.bottom..=self.top {
                let nodes = &self.nodes[region as usize][1 << (self.top - order)..2 << (self.top - order)];
                for (number, &value) in (0u64..).zip(nodes).filter(|&(_, &value)| value != T::default()) {
                    each(Superpage { first: (key << self.top) + (number << order), order }, value);
                }
            }
        }
    }

    /// Calls `each` for the blocks around `page` of orders from `from` up, by ascending size, until it returns false.
    pub fn climb(&mut self, page: u64, from: u8, mut each: impl FnMut(u8, &mut T) -> bool) {
        let (bottom, top) = (self.bottom, self.top);
        let leaf = (1 << top) | (page & ((1 << top) - 1)) as usize;
        let region = self.region(page);
        for order in from.max(bottom)..=top {
            if !each(order, &mut region[leaf >> order]) {
                break;
            }
        }
    }

    fn region(&mut self, page: u64) -> &mut [T] {
        let region = self.region_id(page);
        &mut self.nodes[region as usize]
    }

    fn region_id(&mut self, page: u64) -> u32 {
        let key = page >> self.top;
        if let Some((_, region)) = self.latest.filter(|&(latest, _)| latest == key) {
            return region;
        }
        let next = self.nodes.len() as u32;
        let region = *self.regions.entry(key).or_insert(next);
        self.latest = Some((key, region));
        if region == next {
            self.nodes.push(vec![T::default(); 2 << (self.top - self.bottom)].into_boxed_slice());
        }
        region
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_a_value_of_its_own() {
        let mut tree = Tree::new(3);
        let blocks: Vec<Superpage> = (0..=3u8)
            .flat_map(|order| (0..32u64 >> order).map(move |n| Superpage { first: n << order, order }))
            .collect();
        for (value, &block) in (1u32..).zip(&blocks) {
            assert_eq!(tree.get(block), 0);
            *tree.get_mut(block) = value;
        }
        for (value, &block) in (1u32..).zip(&blocks) {
            assert_eq!(tree.get(block), value);
        }
        let mut seen = Vec::new();
        tree.climb(13, 1, |order, &mut value| {
            seen.push((order, value));
            order < 2
        });
        let of = |order: u8| (order, tree.get(Superpage::around(13, order)));
        assert_eq!(seen, [of(1), of(2)]);
        // A block above the top covers regions.
        tree.fill_inside(Superpage { first: 16, order: 4 }, 0);
        let emptied = |block: &Superpage| block.first >= 16;
        assert!(blocks.iter().all(|block| (tree.get(*block) == 0) == emptied(block)));
    }
}
