//! The policy of OFFLINE's replays: builds given superpages, and charges misses to find better ones (Romer 1998,
//! section 3.4.1).

use super::capacity::Capacity;
use super::tlb_counts::TlbCounts;
use super::{Actions, Miss, Policy, PolicyEvent, Request, Rules};
use crate::kernel::ORDERS;
use crate::kernel::tree::Tree;
use crate::{Superpage, Vma};
use pagewalk_units::{Draws, PageSize};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::sync::Arc;

/// Builds given superpages, and no others. Each is built at the first touch inside it, so that none of its pages misses
/// by itself, or at the first touch after its area has grown to hold it. If several hold a page, the largest that fits
/// its area is built. Building costs its price; a superpage whose memory is freed and touched again is built and paid
/// again.
#[derive(Clone, Debug)]
pub struct ChosenSuperpages {
    orders: u32,
    /// The given superpages, with the numbers of their processes.
    blocks: Arc<FxHashSet<(u32, Superpage)>>,
    /// The number of the process.
    process: u32,
    /// Their largest order.
    top: u8,
    /// Charges of other blocks, if counted.
    charges: Option<Charges>,
}

/// For each block, the misses that it would prevent as one page, given the built superpages.
#[derive(Clone, Debug)]
pub struct Charges {
    top: u8,
    tlbs: Vec<TlbCounts>,
    lives: Tree<Life>,
    capacity: Capacity,
    sample: Sample,
    /// The largest order of blocks around the last touched page that fit its area.
    fits: u8,
    /// The blocks charged for the last miss, kept to reuse the allocation.
    found: Vec<Superpage>,
    /// Builds of each superpage, by that order.
    built: FxHashMap<Superpage, [u32; ORDERS]>,
}

/// A random sample of misses with their charged blocks, all misses equally likely.
#[derive(Clone, Debug)]
struct Sample {
    charged: u64,
    keys: Draws,
    /// Misses with a key (a hash of their number) up to this are in the sample.
    largest: u64,
    misses: Vec<(u64, Vec<Superpage>)>,
}

impl Sample {
    /// Most misses in the sample.
    const MOST: usize = 1 << 14;

    /// The number of first misses that are all charged for capacity, a search that dominates the run. Of later misses
    /// an even share is charged, with a weight.
    const EACH: u64 = 1 << 20;
    const ONE_IN: u64 = 16;

    /// The key of the next miss.
    fn next_key(&mut self) -> u64 {
        self.charged += 1;
        self.keys.draw()
    }

    /// The weight of a miss's capacity charge.
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

/// The history of a block, as if it were among the given ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Life {
    /// Whether it would be one page now.
    is_built: bool,
    /// Its builds.
    builds: u32,
    /// Misses in it, while it would have been one page, with an entry of it in the TLB.
    prefetch: u64,
    /// Misses elsewhere, while it would have been one page, that its freed TLB entries would have prevented.
    capacity: u64,
}

/// The charges of a block after a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Misses in it with an entry of it in the TLB.
    pub prefetch: u64,
    /// Misses elsewhere that its freed TLB entries would have prevented; an estimate beyond a million misses.
    pub capacity: u64,
    /// Its builds.
    pub builds: u32,
}

impl ChosenSuperpages {
    /// A policy for `blocks`, each with the number of its process, which may be nested. The kernel may map pages of
    /// `orders`, one bit each.
    pub fn new(orders: u32, blocks: impl IntoIterator<Item = (u32, Superpage)>) -> ChosenSuperpages {
        let blocks: FxHashSet<(u32, Superpage)> = blocks.into_iter().collect();
        let top = blocks.iter().map(|(_, block)| block.order).max().unwrap_or(0);
        ChosenSuperpages { orders, blocks: Arc::new(blocks), process: 0, top, charges: None }
    }

    /// Charges every miss to the blocks that would have prevented it, up to the largest of the orders.
    pub fn charging(self) -> ChosenSuperpages {
        let top = u32::BITS as u8 - 1 - (self.orders | 1).leading_zeros() as u8;
        let charges = Charges {
            top,
            tlbs: Vec::new(),
            lives: Tree::from_order(top.min(1), top),
            capacity: Capacity::new(top),
            sample: Sample { charged: 0, keys: Draws::new(0), largest: u64::MAX, misses: Vec::new() },
            fits: 0,
            found: Vec::new(),
            built: FxHashMap::default(),
        };
        ChosenSuperpages { charges: Some(charges), ..self }
    }
}

impl Charges {
    /// First touch of a page; its area holds blocks around it up to order `fits`.
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

    /// Blocks around a page that satisfy `is_broken` would no longer be one page.
    fn broken(&mut self, page: u64, is_broken: impl Fn(Superpage) -> bool) {
        self.lives.climb(page, 1, |order, life| {
            life.is_built &= !is_broken(Superpage::around(page, order));
            true
        });
    }

    /// Charges a miss to the blocks that would have prevented it and would have existed.
    fn charge(&mut self, Miss { tlb, unit, entry, .. }: Miss) {
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
            // A block around the page with capacity charges also has an entry in the TLB: the miss counts once.
            let around = found.len();
            let elsewhere = |block: Superpage| !block.holds(unit) && lives.get(block).is_built;
            capacity.charge(tlb, entry, elsewhere, |block, _| found.push(block));
            found[around..].iter().for_each(|&block| lives.get_mut(block).capacity += weight);
        }
        if is_in_sample && !found.is_empty() {
            sample.add(key, found.clone());
        }
    }

    /// Builds of a superpage while its area held a block of this order around it.
    pub fn built_within(&self, block: Superpage, order: u8) -> u32 {
        self.built.get(&block).map_or(0, |by_order| by_order[usize::from(order)..].iter().sum())
    }

    /// The charged blocks of an even sample of charged misses.
    pub fn sample(&self) -> impl Iterator<Item = &[Superpage]> {
        self.sample.misses.iter().map(|(_, blocks)| blocks.as_slice())
    }

    /// Calls `each` with every charged block.
    pub fn each(&self, mut each: impl FnMut(Superpage, Charge)) {
        self.lives.each(|block, life| {
            let Life { builds, prefetch, capacity, .. } = life;
            if prefetch + capacity > 0 {
                each(block, Charge { prefetch, capacity, builds });
            }
        });
    }
}

impl Policy for ChosenSuperpages {
    fn rules(&self) -> Rules {
        Rules { watches_tlbs: self.charges.is_some(), ..Rules::new(self.orders & !1) }
    }

    fn on(&mut self, event: PolicyEvent<'_>, actions: &mut Actions) {
        match event {
            PolicyEvent::Process(number) => self.process = number,
            PolicyEvent::Touched { page, base, area, table } => {
                let wish = self.wish(page, base, area).filter(|&block| table.mapped(page) != Some(block));
                actions.requests.extend(wish.map(Request::Promote));
            }
            _ => {}
        }
        if let Some(charges) = &mut self.charges {
            charges.on(event);
        }
    }
}

impl ChosenSuperpages {
    /// The charges, if counted.
    pub fn charges(&self) -> Option<&Charges> {
        self.charges.as_ref()
    }

    /// The largest given block around a page that fits its area.
    fn wish(&mut self, page: u64, base: PageSize, area: Option<&Vma>) -> Option<Superpage> {
        let top = self.charges.as_ref().map_or(self.top, |charges| charges.top.max(self.top));
        let holds = |order: &u8| {
            let pages = Superpage::around(page, *order).pages();
            area.is_some_and(|area| {
                area.start <= pages.start << base.shift() && pages.end << base.shift() <= area.end
            })
        };
        let fits = (1..=top).take_while(holds).last().unwrap_or(0);
        if let Some(charges) = &mut self.charges {
            charges.touched(page, fits);
        }
        let mut blocks = (1..=fits).rev().map(|order| Superpage::around(page, order));
        blocks.find(|&block| self.blocks.contains(&(self.process, block)))
    }
}

impl Charges {
    fn on(&mut self, event: PolicyEvent<'_>) {
        match event {
            PolicyEvent::Gone(page) => self.broken(page, |_| true),
            PolicyEvent::Flushed(pages) => {
                let reaches_out =
                    |block: Superpage| block.first < pages.start || pages.end < block.pages().end;
                ends(pages).into_iter().for_each(|end| self.broken(end, reaches_out));
            }
            PolicyEvent::Advised { pages, view, .. } => {
                let is_cut = |block| view.area_of(block).is_none();
                ends(pages).into_iter().for_each(|end| self.broken(end, is_cut));
            }
            PolicyEvent::Tlbs(entries) => {
                self.tlbs = entries.iter().map(|_| TlbCounts::new(self.top)).collect();
                self.capacity.watch(entries);
            }
            PolicyEvent::Missed { miss, .. } => self.charge(miss),
            PolicyEvent::Entered { tlb, entry } => {
                self.tlbs[tlb].enter(entry);
                self.capacity.entered(tlb, entry);
            }
            PolicyEvent::Left { tlb, entry, lost } => {
                self.tlbs[tlb].leave(entry);
                self.capacity.left(tlb, entry, lost);
            }
            // Charges stay: they count misses with this superpage in force.
            PolicyEvent::Promoted(block) => {
                self.built.entry(block).or_default()[usize::from(self.fits)] += 1;
                self.tlbs.iter_mut().for_each(|tlb| tlb.promote(block));
                self.capacity.built(block);
            }
            PolicyEvent::Demoted(block) => {
                self.tlbs.iter_mut().for_each(|tlb| tlb.demote(block));
                self.capacity.demoted(block);
            }
            _ => {}
        }
    }
}

/// The first and the last page of a range.
fn ends(pages: &Range<u64>) -> [u64; 2] {
    [pages.start, pages.end.saturating_sub(1)]
}
