//! Memory under the host's kernel: each region gets a huge page or base pages at its first touch.
//!
//! A huge region stays huge until none of it is touched any more, or a change removes a part of it, if the policy then
//! splits it as a kernel does.

use super::page::Page;
use crate::ranges::{blocks_at_ends, page_bytes};
use crate::sizes::in_pieces;
use crate::untouched::UntouchedLife;
use pagewalk_mm::{AddressSpace, FirstTouch, MappingId, PageSizePolicy};
use pagewalk_translate::MachineSpec;
use pagewalk_units::Paging;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// One process's memory under the host's kernel.
pub(super) struct HostMemory {
    policy: Arc<dyn PageSizePolicy>,
    paging: Paging,
    /// Whether hugetlb memory is on huge pages.
    maps_hugetlb: bool,
    /// Whether TLBs hold huge pages in pieces of base pages.
    in_pieces: bool,
    /// Regions that are or were huge, by number.
    regions: BTreeMap<u64, Region>,
    ended: Vec<UntouchedLife>,
}

/// A region that a huge page backs, or backed before it was split.
struct Region {
    /// The mapping that was touched first.
    mapping: MappingId,
    huge: bool,
    hugetlb: bool,
    /// Instructions at which it was backed.
    born: u64,
    untouched: Untouched,
}

/// Base pages of a region that are backed and untouched.
enum Untouched {
    /// In a region that may split: which were never touched. Pages that are gone are no longer backed.
    Pages(Vec<bool>),
    /// In a region that stays whole: all but the most that were touched at once.
    Rest { pages: u64, touched: u64, most: u64 },
}

impl Untouched {
    fn count(&self) -> u64 {
        match self {
            Untouched::Pages(pages) => pages.iter().filter(|&&untouched| untouched).count() as u64,
            Untouched::Rest { pages, most, .. } => pages - most,
        }
    }

    /// First touch of a page.
    fn touch(&mut self, place: usize) {
        match self {
            Untouched::Pages(pages) => pages[place] = false,
            Untouched::Rest { touched, most, .. } => {
                *touched += 1;
                *most = (*most).max(*touched);
            }
        }
    }

    /// Some pages are gone, so that `left` are touched. Returns how many are no longer backed.
    fn take(&mut self, gone: Range<usize>, left: u64) -> u64 {
        match self {
            Untouched::Pages(pages) => pages[gone].iter_mut().map(std::mem::take).map(u64::from).sum(),
            Untouched::Rest { touched, .. } => {
                *touched = left;
                if left == 0 { self.count() } else { 0 }
            }
        }
    }
}

impl HostMemory {
    pub fn new(machine: &MachineSpec, policy: Arc<dyn PageSizePolicy>) -> HostMemory {
        HostMemory {
            policy,
            paging: machine.paging,
            maps_hugetlb: machine.has_huge_pages(),
            in_pieces: in_pieces(machine),
            regions: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    fn region_of(&self, vpn: u64) -> u64 {
        vpn >> self.paging.huge_order()
    }

    /// The place of a base page in its region.
    fn place_of(&self, vpn: u64) -> usize {
        (vpn - (self.region_of(vpn) << self.paging.huge_order())) as usize
    }

    fn is_huge(&self, vpn: u64) -> bool {
        self.regions.get(&self.region_of(vpn)).is_some_and(|region| region.huge)
    }

    /// What maps a base page.
    pub fn page(&self, vpn: u64) -> Page {
        let (base, huge) = (self.paging.base(), self.paging.huge());
        match (self.is_huge(vpn), self.in_pieces) {
            (false, _) => Page::base(vpn, base),
            (true, true) => Page { leaf: huge, ..Page::base(vpn, base) },
            (true, false) => Page { number: self.region_of(vpn), size: huge, leaf: huge },
        }
    }

    /// Whether TLBs may hold an untouched base page.
    pub fn maps_untouched(&self, vpn: u64) -> bool {
        self.is_huge(vpn) && !self.in_pieces
    }

    /// First touch of a base page in a region that is or was huge; false if its region is not.
    pub fn touched_in_region(&mut self, vpn: u64) -> bool {
        let (number, place) = (self.region_of(vpn), self.place_of(vpn));
        let Some(region) = self.regions.get_mut(&number) else { return false };
        region.untouched.touch(place);
        true
    }

    /// First touch of a base page; `others`: another page of its region is touched.
    pub fn touched(&mut self, vpn: u64, others: bool, space: &AddressSpace, now: u64) {
        if self.touched_in_region(vpn) || others {
            return;
        }
        let (number, order) = (self.region_of(vpn), self.paging.huge_order());
        let vma = space.vma_within(page_bytes(vpn, self.paging.base()));
        let mapping = vma.map_or(MappingId::UNKNOWN, |vma| vma.mapping);
        let fault = FirstTouch::new(number, self.paging.huge(), mapping, vma, false, space.thp_disable());
        let hugetlb = fault.is_hugetlb() && self.maps_hugetlb;
        if hugetlb || self.policy.wants_huge(&fault) {
            let mut untouched = match hugetlb || self.policy.splits(mapping) {
                true => Untouched::Pages(vec![true; 1 << order]),
                false => Untouched::Rest { pages: 1 << order, touched: 0, most: 0 },
            };
            untouched.touch(self.place_of(vpn));
            self.regions.insert(number, Region { mapping, huge: true, hugetlb, born: now, untouched });
        }
    }

    /// The regions at the ends of a range of bytes that extend beyond it.
    pub fn reaching_out(&self, bytes: &Range<u64>) -> Vec<u64> {
        let huge = self.paging.huge();
        let reaches_out = |number: &u64| {
            let region = page_bytes(*number, huge);
            region.start < bytes.start || bytes.end < region.end
        };
        blocks_at_ends(bytes, huge).into_iter().filter(reaches_out).collect()
    }

    /// Splits a huge page; false if there is none, or if it stays whole.
    pub fn split(&mut self, number: u64) -> bool {
        let splits =
            |region: &&mut Region| region.huge && !region.hugetlb && self.policy.splits(region.mapping);
        let Some(region) = self.regions.get_mut(&number).filter(splits) else { return false };
        region.huge = false;
        true
    }

    /// The base pages `gone` of a change are no longer backed, nor are regions without touched pages. `touched_in`: how
    /// many pages are.
    pub fn gone(
        &mut self,
        changed: Range<u64>,
        gone: &Range<u64>,
        now: u64,
        touched_in: impl Fn(Range<u64>) -> u64,
    ) {
        let order = self.paging.huge_order();
        let numbers = self.region_of(changed.start)..self.region_of(changed.end - 1) + 1;
        let mut left = Vec::new();
        for (&number, region) in self.regions.range_mut(numbers) {
            let pages = number << order..(number + 1) << order;
            let touched = touched_in(pages.clone());
            let taken = if touched == 0 { &pages } else { gone };
            let place = |page: u64| (page.clamp(pages.start, pages.end) - pages.start) as usize;
            let taken = region.untouched.take(place(taken.start)..place(taken.end), touched);
            let life = UntouchedLife { born: region.born, died: now, pages: taken };
            self.ended.extend((taken > 0).then_some(life));
            left.extend((touched == 0).then_some(number));
        }
        for number in left {
            self.regions.remove(&number);
        }
    }

    /// Lives of all memory backed and never touched, up to `now`.
    pub fn lives(&self, now: u64) -> Vec<UntouchedLife> {
        let alive = self.regions.values().map(|region| UntouchedLife {
            born: region.born,
            died: now,
            pages: region.untouched.count(),
        });
        self.ended.iter().copied().chain(alive).filter(|life| life.pages > 0).collect()
    }
}
