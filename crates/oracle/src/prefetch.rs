//! Reference model of prefetch charges (Romer 1998, section 3.3.2): searches whole TLBs at every miss, and all charges
//! at every promotion.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// An aligned block of pages, as its first page and its order.
pub type Block = (u64, u8);

/// TLBs that hold translations of blocks, and the charges for their misses.
#[derive(Clone, Debug)]
pub struct PrefetchCharges {
    top: u8,
    /// The contents of each TLB, the most recently used last.
    pub tlbs: Vec<Vec<Block>>,
    /// The superpages that exist.
    pub built: BTreeSet<Block>,
    charges: BTreeMap<Block, u64>,
}

fn pages((first, order): Block) -> Range<u64> {
    first..first + (1 << order)
}

fn around(page: u64, order: u8) -> Block {
    (page / (1 << order) * (1 << order), order)
}

fn is_inside(inner: Block, outer: Block) -> bool {
    inner.1 <= outer.1 && pages(outer).contains(&inner.0)
}

impl PrefetchCharges {
    /// `tlbs` empty TLBs, for superpages of orders up to `top`.
    pub fn new(tlbs: usize, top: u8) -> PrefetchCharges {
        PrefetchCharges {
            top,
            tlbs: vec![Vec::new(); tlbs],
            built: BTreeSet::new(),
            charges: BTreeMap::new(),
        }
    }

    /// The unit that maps a page.
    pub fn unit(&self, page: u64) -> Block {
        self.built.iter().copied().find(|&block| pages(block).contains(&page)).unwrap_or((page, 0))
    }

    /// The charges of a block.
    pub fn of(&self, block: Block) -> u64 {
        self.charges.get(&block).copied().unwrap_or(0)
    }

    /// A miss of a TLB, before the fill: charges every block around the unit that has a page in that TLB.
    pub fn miss(&mut self, tlb: usize, unit: Block) {
        for order in unit.1 + 1..=self.top {
            let block = around(unit.0, order);
            if self.tlbs[tlb].iter().any(|&held| is_inside(held, block)) {
                *self.charges.entry(block).or_default() += 1;
            }
        }
    }

    /// Builds a superpage: its charges are subtracted from the blocks around it, and reset for itself and its parts.
    pub fn promote(&mut self, block: Block) {
        let gained = self.of(block);
        for order in block.1 + 1..=self.top {
            if let Some(charges) = self.charges.get_mut(&around(block.0, order)) {
                *charges = charges.checked_sub(gained).expect("blocks around it were charged as often");
            }
        }
        self.charges.retain(|&other, _| !is_inside(other, block));
        self.tlbs.iter_mut().for_each(|tlb| tlb.retain(|&held| !is_inside(held, block)));
        self.built.retain(|&other| !is_inside(other, block));
        self.built.insert(block);
    }

    /// Splits a superpage, after its translation has left the TLBs.
    pub fn demote(&mut self, block: Block) {
        self.built.remove(&block);
    }
}
