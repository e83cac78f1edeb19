//! The memory price of huge pages: memory that they back and the program never touches.
//!
//! A huge page backs all that it maps from its first touch until none of it is touched any more. When the kernel splits
//! it, its base pages stay backed until each is unmapped or discarded, or until the block has no touched page. A base
//! page touched later does not count as untouched.

use crate::store::key::Key;
use crate::store::{Block, PageStore, Unit};
use pagewalk_mm::MappingId;
use pagewalk_translate::Asid;
use std::collections::BTreeMap;
use std::ops::Range;

/// Base pages backed and never touched, and the time they were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntouchedLife {
    pub born: u64,
    pub died: u64,
    pub pages: u64,
}

/// An [`UntouchedLife`] in several designs, one bit each.
#[derive(Clone, Copy, Debug)]
struct DesignLife {
    life: UntouchedLife,
    designs: u64,
}

/// The remainder of a split huge page.
#[derive(Clone, Debug)]
struct SplitRemainder {
    born: u64,
    designs: u64,
    /// Number of the block's first page.
    first: u64,
    /// By page of the block: whether it is backed and never touched.
    untouched: Vec<bool>,
}

impl SplitRemainder {
    /// The pages of its block.
    fn block(&self) -> Range<u64> {
        self.first..self.first + self.untouched.len() as u64
    }

    /// Removes pages; returns their life up to `died`.
    fn take(&mut self, pages: &Range<u64>, died: u64) -> DesignLife {
        let Range { start, end } = self.block();
        let [from, to] = [pages.start, pages.end].map(|page| (page.clamp(start, end) - start) as usize);
        let taken = self.untouched[from..to].iter_mut().map(std::mem::take).map(u64::from).sum();
        self.lived(died, taken)
    }

    /// The life of the remaining pages up to `died`.
    fn life(&self, died: u64) -> DesignLife {
        self.lived(died, self.untouched.iter().filter(|&&untouched| untouched).count() as u64)
    }

    fn lived(&self, died: u64, pages: u64) -> DesignLife {
        DesignLife { life: UntouchedLife { born: self.born, died, pages }, designs: self.designs }
    }
}

/// Ended lives of untouched memory, and remainders of splits.
#[derive(Clone, Debug, Default)]
pub(crate) struct UntouchedMemory {
    ended: Vec<DesignLife>,
    /// Remainders by block and mapping.
    rests: BTreeMap<(Key, MappingId), SplitRemainder>,
}

impl UntouchedMemory {
    fn end(&mut self, life: DesignLife) {
        if life.life.pages > 0 && life.designs != 0 {
            self.ended.push(life);
        }
    }

    /// The remainders in these blocks, by key.
    fn rests_in(
        &mut self,
        asid: Asid,
        blocks: Range<u64>,
    ) -> impl Iterator<Item = (&(Key, MappingId), &mut SplitRemainder)> {
        let [start, end] = [blocks.start, blocks.end].map(|block| (Key::new(asid, block), MappingId(0)));
        self.rests.range_mut(start..end)
    }

    /// Copies the remainders of design `from` to design `to`; ended lives are common to both.
    pub fn fork(&mut self, from: usize, to: usize) {
        for SplitRemainder { designs, .. } in self.rests.values_mut() {
            *designs |= (*designs >> from & 1) << to;
        }
    }

    /// Some designs now map all of `mapping` by huge pages, without remainders.
    pub fn make_huge(&mut self, designs: u64, mapping: MappingId) {
        let of_mapping = self.rests.iter_mut().filter(|((_, of), _)| *of == mapping);
        of_mapping.for_each(|(_, rest)| rest.designs &= !designs);
    }
}

/// Operations with the store's state at instruction `now`.
impl UntouchedMemory {
    /// Peak bytes that a design backs untouched. The extents of units must be current.
    pub fn bytes(&self, store: &PageStore, design: u64, now: u64) -> u64 {
        let units = store.units.iter().filter(|unit| unit.pages > 0).map(|unit| of_unit(unit, now));
        let blocks = store.blocks.iter().filter(|block| block.pages > 0);
        let blocks = blocks.map(|block| of_block(store, block, now));
        let rests = self.rests.values().map(|rest| rest.life(now));
        let lives = self.ended.iter().copied().chain(units).chain(blocks).chain(rests);
        let own = lives.filter(|life| life.designs & design != 0 && life.life.pages > 0);
        most_at_once(own.map(|life| life.life)) * store.paging.base().bytes()
    }

    /// The last touched page of a unit is gone.
    pub fn end_unit(&mut self, store: &PageStore, unit: u32, now: u64) {
        self.end(of_unit(&store.units[unit as usize], now));
    }

    /// The last touched page of a block is gone.
    pub fn end_block(&mut self, store: &PageStore, block: u32, now: u64) {
        self.end(of_block(store, &store.blocks[block as usize], now));
    }

    /// Splits a unit's huge page in some designs: its untouched pages stay backed.
    pub fn leave(&mut self, store: &PageStore, unit: u32, designs: u64, now: u64) {
        if designs == 0 {
            return;
        }
        let Unit { asid, number, mapping, born, .. } = store.units[unit as usize];
        let order = store.paging.huge_order();
        let first = number << order;
        let mut rest = SplitRemainder { born, designs, first, untouched: vec![true; 1 << order] };
        for page in store.pages_in(rest.block()) {
            rest.untouched[(store.pages[page as usize].vpn - first) as usize] = false;
        }
        let before = self.rests.insert((Key::new(asid, number), mapping), rest);
        before.into_iter().for_each(|rest| self.end(rest.life(now)));
    }

    /// First touch of a page, perhaps of a remainder.
    pub fn touch(&mut self, store: &PageStore, asid: Asid, vpn: u64, now: u64) {
        let block = store.block_number(vpn);
        for (_, rest) in self.rests_in(asid, block..block + 1) {
            rest.take(&(vpn..vpn + 1), now);
        }
    }

    /// The pages `gone` of a change are no longer backed, nor are remainders in blocks without a touched page.
    pub fn free(&mut self, store: &PageStore, changed: Range<u64>, gone: &Range<u64>, now: u64) {
        let blocks = store.block_number(changed.start)..store.block_number(changed.end - 1) + 1;
        let left = self.rests_in(store.asid, blocks).map(|(&key, _)| key);
        for key in left.collect::<Vec<_>>() {
            let Some(rest) = self.rests.get_mut(&key) else { continue };
            let block = rest.block();
            let is_empty = store.pages_in(block.clone()).is_empty();
            let life = rest.take(if is_empty { &block } else { gone }, now);
            self.end(life);
            if is_empty {
                self.rests.remove(&key);
            }
        }
    }
}

fn of_block(store: &PageStore, block: &Block, died: u64) -> DesignLife {
    let pages = (1 << store.paging.huge_order()) - u64::from(block.pages_peak);
    DesignLife { life: UntouchedLife { born: block.born, died, pages }, designs: store.block_designs }
}

/// The untouched life of a unit's huge page.
fn of_unit(unit: &Unit, died: u64) -> DesignLife {
    let pages = unit.extent.saturating_sub(unit.pages_peak).into();
    DesignLife { life: UntouchedLife { born: unit.born, died, pages }, designs: unit.huge }
}

/// The largest sum of pages over lives that overlap in time.
pub(crate) fn most_at_once(lives: impl Iterator<Item = UntouchedLife>) -> u64 {
    // A life includes its last moment, so a life that ends at an instant overlaps one that begins then.
    let ends = |life: UntouchedLife| [(life.born, life.pages as i64), (life.died + 1, -(life.pages as i64))];
    let mut steps: Vec<(u64, i64)> = lives.flat_map(ends).collect();
    steps.sort_unstable();
    let mut sum = 0;
    let sums = steps.into_iter().map(|(_, step)| {
        sum += step;
        sum
    });
    sums.max().unwrap_or(0).max(0) as u64
}
