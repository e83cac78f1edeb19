//! Counts what an array's sets cost under many layouts of one stream, in one pass.
//!
//! For each *lane*, an array under a layout, this counts what [`crate::evictions`] counts over the rebased stream,
//! except pairs of pages: misses by kind, misses of each set, evictions by code and data, and the evictions that
//! involve the most involved page.
//!
//! Layouts change neither the order of references nor their pages, only the pages' sets. So all lanes share the times
//! of pages' last uses (the earliest in a set is its victim), and the fully associative twin, for which sets do not
//! matter. A page knows whether all lanes and twins hold it: a reference to such a page is two stores, however many
//! lanes there are. Only if some lane misses are lanes examined, as bits.
//!
//! Pages keep their recorded numbers. For memory that no event maps, a rebased stream may keep translations that this
//! one drops, if a range around an object is unmapped.

mod group;

use crate::evictions::fetches::{FetchTable, Touch};
use crate::evictions::{ArraySpec, Misses, Side, may_cross};
use crate::objects::{OwnerId, Owners};
use crate::rebase::PlanBinding;
use group::Group;
use pagewalk_mm::{AddressSpace, Change};
use pagewalk_trace::{Analysis, Batch, Event, StreamHeader};
use pagewalk_units::{PAGE_SHIFT, PageSize, RefIndex};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Page numbers in the direct-mapped look-up.
const FRONT: usize = 1 << 12;
/// No page has this number.
const NONE: u64 = u64::MAX;

/// An array under a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The array.
    pub array: ArraySpec,
    /// The layout's index in the given list; `None` for the recorded one.
    pub layout: Option<usize>,
}

/// The counts of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Misses by kind.
    pub misses: Misses,
    /// Misses of each set.
    pub misses_by_set: Vec<u64>,
    /// Evictions by the victimiser's side, then by the victim's.
    pub evictions: [[u64; 2]; 2],
    /// Evictions that involve the most involved page.
    pub most_involved: u64,
}

impl LaneCounts {
    /// Standard deviation over mean of the sets' misses; 0 without misses.
    pub fn variation(&self) -> f64 {
        crate::evictions::variation(&self.misses_by_set)
    }

    /// Evictions that involve the most involved page, relative to all misses; 0 without misses.
    pub fn most_involved_share(&self) -> f64 {
        self.most_involved as f64 / self.misses.total().max(1) as f64
    }
}

/// A page while it belongs to one owner.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// Time of the last reference by [`Side`].
    last: [u64; 2],
    /// By [`Side`] as a bit: whether all lanes and twins that serve it hold the page.
    whole: u8,
}

/// Counts what sets cost in all lanes over one stream.
pub struct Splits {
    layouts: Vec<PlanBinding>,
    groups: Vec<Group>,
    /// By lane: its group, and its index there.
    lanes: Vec<(usize, usize)>,
    pages: Vec<Page>,
    numbers: FxHashMap<(u64, OwnerId), u32>,
    /// By page number: the page, if its mapping has not changed since its last reference.
    live: FxHashMap<u64, u32>,
    /// By a number's low bits: a number, and its page.
    front: Box<[(u64, u32)]>,
    clock: u64,
    fetches: FetchTable,
    owners: Owners,
    space: AddressSpace,
    changes: Vec<Change>,
}

impl Splits {
    /// For lanes under these layouts, bound to the stream with this header.
    pub fn new(header: &StreamHeader, layouts: Vec<PlanBinding>, lanes: &[Lane]) -> Splits {
        let mut groups: Vec<Group> = Vec::new();
        let place = |lane: &Lane| {
            let group = groups.iter().position(|group| group.is_of(&lane.array)).unwrap_or_else(|| {
                groups.push(Group::new(&lane.array));
                groups.len() - 1
            });
            (group, groups[group].add(lane.layout))
        };
        let lanes = lanes.iter().map(place).collect();
        Splits {
            layouts,
            groups,
            lanes,
            pages: Vec::new(),
            numbers: FxHashMap::default(),
            live: FxHashMap::default(),
            front: vec![(NONE, 0); FRONT].into(),
            clock: 0,
            fetches: FetchTable::default(),
            owners: Owners::new(header),
            space: AddressSpace::default(),
            changes: Vec::new(),
        }
    }

    /// The counts of each lane.
    pub fn finish(self) -> Vec<LaneCounts> {
        let splits: Vec<Vec<LaneCounts>> = self.groups.into_iter().map(Group::finish).collect();
        self.lanes.iter().map(|&(group, lane)| splits[group][lane].clone()).collect()
    }

    #[inline(always)]
    fn refer(&mut self, side: Side, vpn: u64) {
        self.clock += 1;
        let (number, page) = self.front[vpn as usize % FRONT];
        let page = if number == vpn { page } else { self.look_up(vpn) };
        let used = &mut self.pages[page as usize];
        used.last[side as usize] = self.clock;
        if used.whole & 1 << side as u8 == 0 {
            self.settle(page, side);
        }
    }

    /// The page of a number.
    #[inline(never)]
    fn look_up(&mut self, vpn: u64) -> u32 {
        let page = match self.live.get(&vpn) {
            Some(&page) => page,
            None => self.meet(vpn),
        };
        self.front[vpn as usize % FRONT] = (vpn, page);
        page
    }

    /// A page not referenced since its mapping changed.
    #[cold]
    fn meet(&mut self, vpn: u64) -> u32 {
        let address = vpn << PAGE_SHIFT;
        let id = self.owners.at(address);
        let new = u32::try_from(self.pages.len()).expect("fewer than 2^32 pages");
        let page = *self.numbers.entry((vpn, id)).or_insert(new);
        if page == new {
            self.pages.push(Page { last: [0; 2], whole: 0 });
        }
        let owner = self.owners.get(id);
        let moved = |bound: &PlanBinding| address.wrapping_add(bound.delta_at(owner, address)) >> PAGE_SHIFT;
        let moved: Vec<u64> = self.layouts.iter().map(moved).collect();
        self.groups.iter_mut().for_each(|group| group.meet(page, vpn, &moved));
        self.live.insert(vpn, page);
        page
    }

    /// Adds a page to all lanes and twins that serve this side.
    #[inline(never)]
    fn settle(&mut self, page: u32, side: Side) {
        for group in self.groups.iter_mut().filter(|group| group.serves(side)) {
            group.settle(page, side, &mut self.pages);
        }
        self.pages[page as usize].whole |= 1 << side as u8;
    }

    fn invalidate(&mut self, pages: Range<u64>) {
        let gone: Vec<u64> = if ((pages.end - pages.start) as usize) < self.live.len() {
            pages.filter(|vpn| self.live.contains_key(vpn)).collect()
        } else {
            self.live.keys().copied().filter(|vpn| pages.contains(vpn)).collect()
        };
        for vpn in gone {
            let Some(page) = self.live.remove(&vpn) else { continue };
            self.front[vpn as usize % FRONT] = (NONE, 0);
            self.pages[page as usize].whole = 0;
            self.groups.iter_mut().for_each(|group| group.invalidate(page));
        }
    }

    fn data(&mut self, batch: &Batch<'_>, range: Range<usize>) {
        for &record in &batch.refs[range] {
            let vpn = record.address().vpn().0;
            self.refer(Side::Data, vpn);
            if may_cross(record, batch.wide) {
                (vpn + 1..=record.last_vpn().0).for_each(|vpn| self.refer(Side::Data, vpn));
            }
        }
    }
}

impl Analysis for Splits {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.owners.start_running();
        self.space.start_running();
        let mut fetches = std::mem::take(&mut self.fetches);
        fetches.each(batch, |touch| match touch {
            Touch::Data(range) => self.data(batch, range),
            Touch::Fetch(vpn) => self.refer(Side::Fetch, vpn),
        });
        self.fetches = fetches;
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        self.owners.apply(event);
        self.space.apply(event, &mut self.changes);
        for change in std::mem::take(&mut self.changes) {
            self.invalidate(change.pages(PageSize::FOUR_KIB));
        }
    }
}
