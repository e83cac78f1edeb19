//! Superpages that are known beforehand, and the charges by which they are found: what OFFLINE replays a stream with
//! (Romer 1998, section 3.4.1).

use super::capacity::Capacity;
use super::tlb_counts::TlbCounts;
use super::{Miss, Policy, Request, View};
use crate::kernel::tree::Tree;
use crate::kernel::{Accounts, ORDERS, PageTable};
use crate::{Superpage, Vma};
use pagewalk_units::PageSize;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Builds given superpages, and no others. Each is built at the first touch inside it, in the place of all that is or
/// will be backed there, so that none of its pages ever misses alone; where its area of memory is still too small then,
/// at the first touch after the area has grown over it. Where several hold a page, the largest that its area holds is
/// built. Its price is paid when it is built; one whose memory is given back and touched anew is built, and paid, anew.
#[derive(Clone, Debug)]
pub struct Given {
    orders: u32,
    blocks: FxHashSet<Superpage>,
    /// The largest order of them.
    top: u8,
    /// What is to be built at the touch that is being made.
    wish: Option<Superpage>,
    charges: Option<Charges>,
}

/// What could be built: misses that each block would have prevented, as one page, beyond those that are built.
#[derive(Clone, Debug)]
pub struct Charges {
    top: u8,
    tlbs: Vec<TlbCounts>,
    lives: Tree<Life>,
    capacity: Capacity,
    sample: Sample,
    /// The largest order of the blocks around the page touched last that its area holds.
    fits: u8,
    /// What the last miss was charged to; kept for its memory.
    found: Vec<Superpage>,
    /// Of each superpage that was built: how often, by that order.
    built: FxHashMap<Superpage, [u32; ORDERS]>,
}

/// Which blocks some of the misses were charged to. Every miss has the same chance of being among them.
#[derive(Clone, Debug)]
struct Sample {
    charged: u64,
    /// Misses whose key, a hash of their number, is no larger are in the sample.
    largest: u64,
    misses: Vec<(u64, Vec<Superpage>)>,
}

impl Sample {
    /// Misses that are kept at most.
    const MOST: usize = 1 << 14;

    /// Misses of which each is charged for capacity: the search takes longer than all else together. Of those that
    /// follow, an even share is, each as so many.
    const EACH: u64 = 1 << 20;
    const ONE_IN: u64 = 16;

    /// The key of the next miss.
    fn next_key(&mut self) -> u64 {
        self.charged += 1;
        // The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
        let key = self.charged.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        key ^ (key >> 31)
    }

    /// As how many misses that one is charged for capacity.
    fn weight(&self, key: u64) -> u64 {
        match self.charged {
            ..=Self::EACH => 1,
            _ if key.is_multiple_of(Self::ONE_IN) => Self::ONE_IN,
            _ => 0,
        }
    }

    fn add(&mut self, key: u64, blocks: Vec<Superpage>) {
        self.misses.push((key, blocks));
        while self.misses.len() > Self::MOST {
            self.largest /= 2;
            self.misses.retain(|&(key, _)| key <= self.largest);
        }
    }
}

/// What would have become of a block, had it been given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Life {
    /// Whether it would be one page now.
    is_built: bool,
    /// Times that it would have been built.
    builds: u32,
    /// Misses, while it would have been one page, with something of it in the TLB.
    prefetch: u64,
    /// Misses elsewhere, while it would have been one page, that room in the TLB would have prevented.
    capacity: u64,
}

/// What is known of a block after a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Misses with something of the block in the TLB.
    pub prefetch: u64,
    /// Misses elsewhere that room in the TLB would have prevented; beyond a million in all, an estimate.
    pub capacity: u64,
    /// Times that it would be built.
    pub builds: u32,
}

impl Given {
    /// These superpages; some may hold others. The kernel may map pages of `orders`, a bit each.
    pub fn new(orders: u32, blocks: impl IntoIterator<Item = Superpage>) -> Given {
        let blocks: FxHashSet<Superpage> = blocks.into_iter().collect();
        let top = blocks.iter().map(|block| block.order).max().unwrap_or(0);
        Given { orders, blocks, top, wish: None, charges: None }
    }

    /// The same; every miss is charged to the blocks that would have prevented it, up to the largest of the orders.
    pub fn charging(self) -> Given {
        let top = u32::BITS as u8 - 1 - (self.orders | 1).leading_zeros() as u8;
        let charges = Charges {
            top,
            tlbs: Vec::new(),
            lives: Tree::from_order(top.min(1), top),
            capacity: Capacity::new(top),
            sample: Sample { charged: 0, largest: u64::MAX, misses: Vec::new() },
            fits: 0,
            found: Vec::new(),
            built: FxHashMap::default(),
        };
        Given { charges: Some(charges), ..self }
    }
}

impl Charges {
    /// First touch of a page, in an area that holds blocks around it up to this order.
    fn touched(&mut self, page: u64, fits: u8) {
        self.fits = fits;
        self.lives.climb(page, 1, |order, life| {
            if order <= fits && !life.is_built {
                life.is_built = true;
                life.builds += 1;
            }
            order < fits
        });
    }

    /// Blocks around a page for which `is_broken` says so would no longer be one page.
    fn broken(&mut self, page: u64, is_broken: impl Fn(Superpage) -> bool) {
        self.lives.climb(page, 1, |order, life| {
            life.is_built &= !is_broken(Superpage::around(page, order));
            true
        });
    }

    /// Charges a miss to the blocks that would have prevented it. One that did not exist at the time would not.
    fn charge(&mut self, Miss { tlb, unit, .. }: Miss) {
        let Charges { tlbs, lives, capacity, sample, found, .. } = self;
        let key = sample.next_key();
        let (is_in_sample, weight) = (key <= sample.largest, sample.weight(key));
        found.clear();
        if let Some(first) = tlbs[tlb].first_held(unit) {
            lives.climb(unit.first, first, |order, life| {
                life.prefetch += u64::from(life.is_built);
                if is_in_sample && life.is_built {
                    found.push(Superpage::around(unit.first, order));
                }
                true
            });
        }
        if is_in_sample || weight > 0 {
            // Around the page, what leaves room has something in the TLB as well: a miss counts once.
            let around = found.len();
            let elsewhere = |block: Superpage| !block.holds(unit) && lives.get(block).is_built;
            capacity.charge(tlb, unit, elsewhere, |block, _| found.push(block));
            found[around..].iter().for_each(|&block| lives.get_mut(block).capacity += weight);
        }
        if is_in_sample && !found.is_empty() {
            sample.add(key, found.clone());
        }
    }

    /// Times that a superpage was built where the area held a block of this order around it.
    pub fn built_within(&self, block: Superpage, order: u8) -> u32 {
        self.built.get(&block).map_or(0, |by_order| by_order[usize::from(order)..].iter().sum())
    }

    /// The blocks that misses were charged to, for an even sample of all misses that were charged.
    pub fn sample(&self) -> impl Iterator<Item = &[Superpage]> {
        self.sample.misses.iter().map(|(_, blocks)| blocks.as_slice())
    }

    /// Calls `each` with every block that was charged.
    pub fn each(&self, mut each: impl FnMut(Superpage, Charge)) {
        self.lives.each(|block, life| {
            let Life { builds, prefetch, capacity, .. } = life;
            if prefetch + capacity > 0 {
                each(block, Charge { prefetch, capacity, builds });
            }
        });
    }
}

impl Policy for Given {
    fn orders(&self) -> u32 {
        self.orders & !1
    }

    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn charges(&self) -> Option<&Charges> {
        self.charges.as_ref()
    }

    fn touches(&mut self, page: u64, base: PageSize, area: Option<&Vma>) {
        let top = self.charges.as_ref().map_or(self.top, |charges| charges.top.max(self.top));
        let holds = |order: &u8| {
            let pages = Superpage::around(page, *order).pages();
            area.is_some_and(|area| {
                area.start <= pages.start << base.shift() && pages.end << base.shift() <= area.end
            })
        };
        let fits = (1..=top).take_while(holds).last().unwrap_or(0);
        let around = (1..=fits).rev().map(|order| Superpage::around(page, order));
        self.wish = around.into_iter().find(|block| self.blocks.contains(block));
        if let Some(charges) = &mut self.charges {
            charges.touched(page, fits);
        }
    }

    fn touched(&mut self, page: u64, table: &PageTable, wishes: &mut Vec<Superpage>) {
        wishes.extend(self.wish.take().filter(|&block| table.mapped(page) != Some(block)));
    }

    fn gone(&mut self, page: u64) {
        if let Some(charges) = &mut self.charges {
            charges.broken(page, |_| true);
        }
    }

    fn flushed(&mut self, pages: Range<u64>) {
        let Some(charges) = &mut self.charges else { return };
        for end in [pages.start, pages.end.saturating_sub(1)] {
            let reaches_out = |block: Superpage| block.first < pages.start || pages.end < block.pages().end;
            charges.broken(end, reaches_out);
        }
    }

    fn advised(&mut self, pages: Range<u64>, _advice: i32, view: &View<'_>, _requests: &mut Vec<Request>) {
        let Some(charges) = &mut self.charges else { return };
        for end in [pages.start, pages.end.saturating_sub(1)] {
            charges.broken(end, |block| view.area_of(block).is_none());
        }
    }

    fn watches_tlbs(&self) -> bool {
        self.charges.is_some()
    }

    fn watch(&mut self, entries: &[u64]) {
        if let Some(charges) = &mut self.charges {
            charges.tlbs = entries.iter().map(|_| TlbCounts::new(charges.top)).collect();
            charges.capacity.watch(entries);
        }
    }

    fn missed(&mut self, miss: Miss, _accounts: &Accounts) -> u64 {
        if let Some(charges) = &mut self.charges {
            charges.charge(miss);
        }
        0
    }

    fn entered(&mut self, tlb: usize, unit: Superpage) {
        if let Some(charges) = &mut self.charges {
            charges.tlbs[tlb].enter(unit);
            charges.capacity.entered(tlb, unit);
        }
    }

    fn left(&mut self, tlb: usize, unit: Superpage) {
        if let Some(charges) = &mut self.charges {
            charges.tlbs[tlb].leave(unit);
            charges.capacity.left(tlb, unit);
        }
    }

    fn promoted(&mut self, block: Superpage) {
        // Charges stay: what they count was missed with this superpage in force.
        if let Some(charges) = &mut self.charges {
            charges.built.entry(block).or_default()[usize::from(charges.fits)] += 1;
            charges.tlbs.iter_mut().for_each(|tlb| tlb.promote(block));
            charges.capacity.built(block);
        }
    }

    fn demoted(&mut self, block: Superpage) {
        if let Some(charges) = &mut self.charges {
            charges.tlbs.iter_mut().for_each(|tlb| tlb.demote(block));
            charges.capacity.demoted(block);
        }
    }
}
