//! Memory under the host's kernel: each region gets a huge page or base pages at its first touch.
//!
//! A huge region stays huge until none of it is touched any more, or a change removes a part of it, if the policy then
//! splits it as a kernel does. A kernel's huge page maps all of its region. That of a policy for one mapping maps the
//! mapping's pages, and others in the region stay base pages.

use super::page::Page;
use crate::ranges::{blocks_at_ends, page_bytes};
use crate::sizes::in_pieces;
use crate::untouched::UntouchedLife;
use pagewalk_mm::{AddressSpace, FirstTouch, MappingId, PageSizePolicy, ProcessMapping, Scope};
use pagewalk_translate::MachineSpec;
use pagewalk_units::{Paging, SpaceId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// One process's memory under the host's kernel.
pub(super) struct HostMemory {
    process: SpaceId,
    policy: Arc<dyn PageSizePolicy>,
    paging: Paging,
    /// Whether hugetlb memory is on huge pages.
    maps_hugetlb: bool,
    /// Whether TLBs hold huge pages in pieces of base pages.
    in_pieces: bool,
    /// Regions that are or were huge, by number and the mapping that was touched first.
    regions: BTreeMap<(u64, MappingId), Region>,
    ended: Vec<UntouchedLife>,
}

/// A region that a huge page backs, or backed before it was split.
struct Region {
    huge: bool,
    hugetlb: bool,
    /// Instructions at which it was backed.
    born: u64,
    /// Which pages are touched, if it maps its mapping's pages only; none if it maps all.
    part: Option<Vec<bool>>,
    /// Whether the kernel gives this huge page too. Its pages then keep the name of the first, until it would split.
    keeps_name: bool,
    untouched: Untouched,
}

/// Base pages of a region that are backed and untouched.
enum Untouched {
    /// In a region that may split: which were never touched. Pages that are gone are no longer backed.
    Pages(Vec<bool>),
    /// In a region that stays whole: all that it maps but the most that were touched at once.
    Rest { pages: u64, touched: u64, most: u64 },
}

impl Untouched {
    fn count(&self) -> u64 {
        match self {
            Untouched::Pages(pages) => pages.iter().filter(|&&untouched| untouched).count() as u64,
            // Pages of other names may be touched in it too.
            Untouched::Rest { pages, most, .. } => pages.saturating_sub(*most),
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

impl Region {
    /// Whether its huge page maps a touched page.
    fn maps(&self, place: usize) -> bool {
        self.huge && self.part.as_ref().is_none_or(|touched| touched[place])
    }

    /// Whether it takes all pages at their first touch, of any mapping.
    fn takes_all(&self) -> bool {
        self.huge && (self.part.is_none() || self.keeps_name)
    }

    /// First touch of a page that it takes.
    fn touch(&mut self, place: usize) {
        self.untouched.touch(place);
        self.part.iter_mut().for_each(|touched| touched[place] = true);
    }

    /// Some pages are gone. Returns how many of its own are touched still; `touched_in_all` are in its block.
    fn left(&mut self, gone: Range<usize>, touched_in_all: u64) -> u64 {
        let Some(touched) = &mut self.part else { return touched_in_all };
        touched[gone].fill(false);
        touched.iter().filter(|&&touched| touched).count() as u64
    }

    /// Base pages that are backed and untouched; `mapped` are those of its mapping now.
    fn untouched(&self, mapped: impl FnOnce() -> u64) -> u64 {
        match (&self.part, &self.untouched) {
            (Some(_), Untouched::Rest { pages, most, .. }) => mapped().max(*pages).saturating_sub(*most),
            (_, untouched) => untouched.count(),
        }
    }
}

impl HostMemory {
    /// The memory of a process.
    pub fn new(machine: &MachineSpec, policy: Arc<dyn PageSizePolicy>, process: SpaceId) -> HostMemory {
        HostMemory {
            process,
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

    /// Whether a huge page maps a base page. `untouched_of`: whether it is an untouched page of this mapping.
    fn is_huge(&self, vpn: u64, untouched_of: impl Fn(MappingId) -> bool) -> bool {
        let mut regions = self.regions.range(all_of(self.region_of(vpn)));
        regions.any(|(&(_, mapping), region)| {
            region.maps(self.place_of(vpn)) || region.huge && untouched_of(mapping)
        })
    }

    /// What maps a base page. `untouched_of`: whether it is an untouched page of this mapping.
    pub fn page(&self, vpn: u64, untouched_of: impl Fn(MappingId) -> bool) -> Page {
        let (base, huge) = (self.paging.base(), self.paging.huge());
        match (self.is_huge(vpn, untouched_of), self.in_pieces) {
            (false, _) => Page::base(vpn, base),
            (true, true) => Page { leaf: huge, ..Page::base(vpn, base) },
            (true, false) => Page { number: self.region_of(vpn), size: huge, leaf: huge },
        }
    }

    /// Whether TLBs may hold an untouched base page. `untouched_of`: whether it is one of this mapping.
    pub fn maps_untouched(&self, vpn: u64, untouched_of: impl Fn(MappingId) -> bool) -> bool {
        !self.in_pieces && self.is_huge(vpn, untouched_of)
    }

    /// First touch of a base page that is global, perhaps in a region that is or was huge.
    pub fn touched_by_all(&mut self, vpn: u64) {
        let (number, place) = (self.region_of(vpn), self.place_of(vpn));
        let regions = self.regions.range_mut(all_of(number)).map(|(_, region)| region);
        regions.filter(|region| region.part.is_none()).for_each(|region| region.touch(place));
    }

    /// First touch of a base page; `populated`: another page of its region is touched, and not global.
    pub fn touched(&mut self, vpn: u64, populated: bool, space: &AddressSpace, now: u64) {
        let (number, place) = (self.region_of(vpn), self.place_of(vpn));
        let vma = space.vma_within(page_bytes(vpn, self.paging.base()));
        let mapping = vma.map_or(MappingId::UNKNOWN, |vma| vma.mapping);
        let mut is_taken = false;
        for (&(_, named), region) in self.regions.range_mut(all_of(number)) {
            let takes = region.takes_all() || named == mapping;
            is_taken |= takes;
            // What is left of a split huge page backs pages of any mapping.
            if takes || !region.huge {
                region.touch(place);
            }
        }
        if is_taken {
            return;
        }
        let owner = ProcessMapping { process: self.process, mapping };
        let huge = self.paging.huge();
        let fault = FirstTouch::new(number, huge, owner, vma, populated, space.thp_disable());
        let hugetlb = fault.is_hugetlb() && self.maps_hugetlb && !populated;
        if hugetlb || self.policy.wants_huge(&fault) {
            let mut region = self.region(&fault, hugetlb, space, now);
            region.touch(place);
            self.regions.insert((number, mapping), region);
        }
    }

    /// A new huge region, without touched pages.
    fn region(&self, fault: &FirstTouch<'_>, hugetlb: bool, space: &AddressSpace, now: u64) -> Region {
        let owner = fault.mapping;
        let pages = 1 << self.paging.huge_order();
        let splits = hugetlb || self.policy.splits(owner);
        let is_part = !splits && self.policy.scope() == Scope::Mapping;
        let mapped = match is_part {
            true => space.pages_within(owner.mapping, fault.bytes(), self.paging.base()),
            false => pages as u64,
        };
        Region {
            huge: true,
            hugetlb,
            born: now,
            part: is_part.then(|| vec![false; pages]),
            keeps_name: self.policy.is_kernels(fault),
            untouched: match splits {
                true => Untouched::Pages(vec![true; pages]),
                false => Untouched::Rest { pages: mapped, touched: 0, most: 0 },
            },
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
        let HostMemory { process, ref policy, .. } = *self;
        let mut is_split = false;
        for (&(_, mapping), region) in self.regions.range_mut(all_of(number)) {
            region.keeps_name = false;
            if region.huge && !region.hugetlb && policy.splits(ProcessMapping { process, mapping }) {
                region.huge = false;
                is_split = true;
            }
        }
        is_split
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
        let [first, last] = [changed.start, changed.end - 1].map(|vpn| self.region_of(vpn));
        let mut left = Vec::new();
        for (&key, region) in self.regions.range_mut((first, MappingId(0))..(last + 1, MappingId(0))) {
            let number = key.0;
            let pages = number << order..(number + 1) << order;
            let place = |page: u64| (page.clamp(pages.start, pages.end) - pages.start) as usize;
            let places = |pages: &Range<u64>| place(pages.start)..place(pages.end);
            let touched = region.left(places(gone), touched_in(pages.clone()));
            let taken = if touched == 0 { &pages } else { gone };
            let taken = region.untouched.take(places(taken), touched);
            let life = UntouchedLife { born: region.born, died: now, pages: taken };
            self.ended.extend((taken > 0).then_some(life));
            left.extend((touched == 0).then_some(key));
        }
        for key in left {
            self.regions.remove(&key);
        }
    }

    /// Lives of all memory backed and never touched, up to `now`. `space` is the process's.
    pub fn lives(&self, space: &AddressSpace, now: u64) -> Vec<UntouchedLife> {
        let (base, huge) = (self.paging.base(), self.paging.huge());
        let alive = self.regions.iter().map(|(&(number, mapping), region)| UntouchedLife {
            born: region.born,
            died: now,
            pages: region.untouched(|| space.pages_within(mapping, page_bytes(number, huge), base)),
        });
        self.ended.iter().copied().chain(alive).filter(|life| life.pages > 0).collect()
    }
}

/// The keys of all regions with this number.
fn all_of(number: u64) -> Range<(u64, MappingId)> {
    (number, MappingId(0))..(number + 1, MappingId(0))
}
