//! Superpages that are known beforehand, and the charges by which they are found: what OFFLINE replays a stream with
//! (Romer 1998, section 3.4.1).

use super::approx_online::ApproxOnline;
use super::capacity::Capacity;
use super::{Miss, Policy};
use crate::kernel::tree::Tree;
use crate::kernel::{Accounts, PageTable};
use crate::{Superpage, Vma};
use pagewalk_units::PageSize;
use std::collections::BTreeMap;

/// Builds given superpages, and no others. Each is built at the first touch inside it, in the place of all that is or
/// will be backed there, so that none of its pages ever misses alone; where its area of memory is still too small then,
/// at the first touch after the area has grown over it. Its price is paid when it is built; one whose memory is given
/// back and touched anew is built, and paid, anew.
#[derive(Clone, Debug)]
pub struct Given {
    orders: u32,
    /// Orders by first page. No two overlap.
    blocks: BTreeMap<u64, u8>,
    charges: Option<Charges>,
}

/// What could be built: misses that each block would have prevented, as one page, beyond those that are built.
#[derive(Clone, Debug)]
pub struct Charges {
    top: u8,
    prefetch: ApproxOnline,
    capacity: Capacity,
    lives: Tree<Life>,
    sample: Sample,
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

    /// Whether the next miss is in the sample: its key then.
    fn takes_next(&mut self) -> Option<u64> {
        self.charged += 1;
        // The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
        let key = self.charged.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let key = key ^ (key >> 31);
        (key <= self.largest).then_some(key)
    }

    fn add(&mut self, key: u64, blocks: Vec<Superpage>) {
        self.misses.push((key, blocks));
        while self.misses.len() > Self::MOST {
            self.largest /= 2;
            self.misses.retain(|&(key, _)| key <= self.largest);
        }
    }
}

/// Whether a block can be built, and how often it would be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Life {
    touched: u16,
    fits: bool,
    begun: u32,
}

/// What is known of a block after a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Misses with something of the block in the TLB.
    pub prefetch: u64,
    /// Misses elsewhere that room in the TLB would have prevented.
    pub capacity: u64,
    /// Times that it would be built.
    pub builds: u32,
}

impl Given {
    /// These superpages, which do not overlap. The kernel may map pages of `orders`, a bit each.
    pub fn new(orders: u32, blocks: impl IntoIterator<Item = Superpage>) -> Given {
        let blocks = blocks.into_iter().map(|block| (block.first, block.order)).collect();
        Given { orders, blocks, charges: None }
    }

    /// The same; every miss is charged to the blocks that would have prevented it, up to the largest of the orders.
    pub fn charging(self) -> Given {
        let top = u32::BITS as u8 - 1 - (self.orders | 1).leading_zeros() as u8;
        let charges = Charges {
            top,
            prefetch: ApproxOnline::charging(top),
            capacity: Capacity::new(top),
            lives: Tree::new(top),
            sample: Sample { charged: 0, largest: u64::MAX, misses: Vec::new() },
        };
        Given { charges: Some(charges), ..self }
    }

    fn around(&self, page: u64) -> Option<Superpage> {
        let (&first, &order) = self.blocks.range(..=page).next_back()?;
        Some(Superpage { first, order }).filter(|block| block.pages().contains(&page))
    }
}

impl Charges {
    fn charge(&mut self, Miss { tlb, unit, .. }: Miss) {
        let first = self.prefetch.charge(tlb, unit);
        let key = self.sample.takes_next();
        let mut blocks = Vec::new();
        if let (Some(first), Some(_)) = (first, key) {
            blocks.extend(unit.ancestors(self.top).filter(|block| block.order >= first));
        }
        // Around the page, what leaves room has something in the TLB as well: a miss counts once.
        let elsewhere = |block: Superpage| !block.holds(unit);
        self.capacity.charge(tlb, unit, elsewhere, |block, _| blocks.extend(key.map(|_| block)));
        if let (Some(key), false) = (key, blocks.is_empty()) {
            self.sample.add(key, blocks);
        }
    }

    /// Times that a block would be built: its memory is touched after nothing of it was.
    pub fn builds(&self, block: Superpage) -> u32 {
        self.lives.get(block).begun
    }

    /// The blocks that misses were charged to, for an even sample of all misses that were charged.
    pub fn sample(&self) -> impl Iterator<Item = &[Superpage]> {
        self.sample.misses.iter().map(|(_, blocks)| blocks.as_slice())
    }

    /// Calls `each` with every block that was charged and lay inside one area of memory when a page of it was touched.
    pub fn each(&self, mut each: impl FnMut(Superpage, Charge)) {
        self.lives.each(|block, life| {
            let (prefetch, capacity) = (self.prefetch.charges(block), self.capacity.of(block));
            if life.fits && prefetch + capacity > 0 {
                each(block, Charge { prefetch, capacity, builds: life.begun });
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

    fn touched(&mut self, page: u64, table: &PageTable, wishes: &mut Vec<Superpage>) {
        if let Some(block) = self.around(page) {
            wishes.extend((table.mapped(page) != Some(block)).then_some(block));
        }
    }

    fn touches(&mut self, page: u64, base: PageSize, area: Option<&Vma>) {
        let Some(charges) = &mut self.charges else { return };
        charges.lives.climb(page, 0, |order, life| {
            life.begun += u32::from(life.touched == 0);
            life.touched += 1;
            life.fits |= area.is_some_and(|area| {
                let pages = Superpage::around(page, order).pages();
                area.start <= pages.start << base.shift() && pages.end << base.shift() <= area.end
            });
            true
        });
    }

    fn gone(&mut self, page: u64) {
        let Some(charges) = &mut self.charges else { return };
        charges.lives.climb(page, 0, |_, life| {
            life.touched -= 1;
            true
        });
    }

    fn watches_tlbs(&self) -> bool {
        self.charges.is_some()
    }

    fn watch(&mut self, entries: &[u64]) {
        if let Some(charges) = &mut self.charges {
            charges.prefetch.watch(entries);
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
            charges.prefetch.entered(tlb, unit);
            charges.capacity.entered(tlb, unit);
        }
    }

    fn left(&mut self, tlb: usize, unit: Superpage) {
        if let Some(charges) = &mut self.charges {
            charges.prefetch.left(tlb, unit);
            charges.capacity.left(tlb, unit);
        }
    }

    fn promoted(&mut self, block: Superpage) {
        // Charges stay: what they count was missed with this superpage in force.
        if let Some(charges) = &mut self.charges {
            charges.prefetch.built(block);
            charges.capacity.built(block);
        }
    }

    fn demoted(&mut self, block: Superpage) {
        if let Some(charges) = &mut self.charges {
            charges.prefetch.demoted(block);
            charges.capacity.demoted(block);
        }
    }
}
