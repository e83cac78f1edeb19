//! Which pages evict which in the sets of a TLB array.
//!
//! Each array is simulated alone: it sees every reference of the kinds that it serves, replaces the least recently used
//! page of a set, and holds only base pages. A twin, a fully associative array with as many entries, shows what the
//! sets cost. Each miss is of one kind:
//!
//! - *compulsory*: the first reference to a page, or the first after its mapping changed, which no array could hit;
//! - *capacity*: the twin misses too;
//! - *conflict*: the twin hits.
//!
//! References that hit while the twin misses are counted separately ([`Misses::spared`]), so the twin's misses are
//! `compulsory + capacity + spared`.
//!
//! Speed: a reference to the most recently used page of a set costs a comparison and two stores; other hits search one
//! set; only misses do more.
//!
//! Memory is bounded by the number of rows (victimiser and victim). When they are full, those with the lowest counts
//! are dropped until at most half are left, and their counts are summed ([`ArrayHistory::dropped`]). A dropped row that
//! returns starts from zero. Everything else counts the whole stream.
//!
//! Source: S. Konireddygari, MS thesis, NC State University 2008, sections 2.1 and 3.2.1.

mod array;
pub(crate) mod fetches;
mod rows;
mod twin;

pub(crate) use array::may_cross;
pub use rows::Row;

use crate::objects::{OwnerId, Owners};
use array::WatchedArray;
use fetches::FetchTable;
use pagewalk_mm::{AddressSpace, Change};
use pagewalk_setassoc::{Geometry, SetIndex};
use pagewalk_trace::{Analysis, Batch, Event, StreamHeader};
use pagewalk_translate::TlbSpec;
use pagewalk_units::{Kind, PageSize, RefIndex, Vpn};

/// The default number of rows kept for each array.
pub const DEFAULT_ROWS: usize = 1 << 18;

/// An array to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// Its name.
    pub name: String,
    /// Its sets and ways.
    pub geometry: Geometry,
    /// How a page number selects its set.
    pub index: SetIndex,
    /// Whether it serves fetches.
    pub fetches: bool,
    /// Whether it serves loads and stores.
    pub data: bool,
}

impl ArraySpec {
    /// A machine's array, with true LRU replacement instead of the machine's; `None` if pages do not compete for sets
    /// in it.
    pub fn of(tlb: &TlbSpec) -> Option<ArraySpec> {
        Some(ArraySpec {
            name: tlb.name.clone(),
            geometry: tlb.geometry,
            index: tlb.index.sets()?,
            fetches: tlb.serves.has(Kind::Fetch),
            data: tlb.serves.has(Kind::Load) || tlb.serves.has(Kind::Store),
        })
    }

    /// The set of a page.
    pub fn set_of(&self, page: Vpn) -> usize {
        self.index.set_of(self.geometry, page.0)
    }
}

/// Instructions or data: the kind of a reference, or of the one that brought a page into an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Side {
    /// An instruction fetch.
    Fetch = 0,
    /// A load or a store.
    Data = 1,
}

/// Misses by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// First references.
    pub compulsory: u64,
    /// Misses that the twin has too.
    pub capacity: u64,
    /// Misses that the twin does not have.
    pub conflict: u64,
    /// Not misses: references that hit, but miss in the twin.
    pub spared: u64,
}

impl Misses {
    /// All misses.
    pub fn total(&self) -> u64 {
        self.compulsory + self.capacity + self.conflict
    }

    /// Misses of the fully associative twin.
    pub fn of_twin(&self) -> u64 {
        self.compulsory + self.capacity + self.spared
    }
}

/// A page while it belonged to one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHistory {
    /// The page.
    pub page: Vpn,
    /// Its owner.
    pub owner: OwnerId,
    /// The offset of its first byte in the owner's file, if it came from there.
    pub file_offset: Option<u64>,
    /// References by [`Side`]: instructions executed, loads and stores. One that crosses pages counts for both.
    pub references: [u64; 2],
    /// Misses by [`Side`].
    pub misses: [u64; 2],
    /// How often it replaced another page.
    pub evicted: u64,
    /// How often that was a page of its own owner.
    pub evicted_own: u64,
    /// How often another page replaced it.
    pub was_evicted: u64,
}

impl PageHistory {
    /// Evictions in which it took part.
    pub fn involved(&self) -> u64 {
        self.evicted + self.was_evicted
    }
}

/// The history of one array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayHistory {
    /// The array.
    pub array: ArraySpec,
    /// References by [`Side`].
    pub references: [u64; 2],
    /// Misses by [`Side`].
    pub misses_by_side: [u64; 2],
    /// Misses by kind.
    pub misses: Misses,
    /// Misses of each set.
    pub misses_by_set: Vec<u64>,
    /// Evictions by the victimiser's side, then by the victim's.
    pub evictions: [[u64; 2]; 2],
    /// Pages, in order of first reference.
    pub pages: Vec<PageHistory>,
    /// Evictions by pair of pages, set by set, most frequent first.
    pub rows: Vec<Row>,
    /// Evictions in dropped rows.
    pub dropped: u64,
}

impl ArrayHistory {
    /// All evictions.
    pub fn all_evictions(&self) -> u64 {
        self.evictions.iter().flatten().sum()
    }

    /// Standard deviation over mean of the sets' misses; 0 without misses.
    pub fn variation(&self) -> f64 {
        variation(&self.misses_by_set)
    }
}

/// Standard deviation over mean; 0 without misses.
pub(crate) fn variation(misses_by_set: &[u64]) -> f64 {
    let sets = misses_by_set.len() as f64;
    let mean = misses_by_set.iter().sum::<u64>() as f64 / sets;
    if mean == 0.0 {
        return 0.0;
    }
    let squares = misses_by_set.iter().map(|&misses| (misses as f64 - mean).powi(2));
    (squares.sum::<f64>() / sets).sqrt() / mean
}

/// Watches arrays over one stream.
pub struct Evictions {
    arrays: Vec<WatchedArray>,
    fetches: FetchTable,
    owners: Owners,
    space: AddressSpace,
    changes: Vec<Change>,
}

impl Evictions {
    /// Watches `arrays` over a stream with this header, with at most `rows` rows each.
    pub fn new(header: &StreamHeader, arrays: &[ArraySpec], rows: usize) -> Evictions {
        Evictions {
            arrays: arrays.iter().map(|spec| WatchedArray::new(spec.clone(), rows)).collect(),
            fetches: FetchTable::default(),
            owners: Owners::new(header),
            space: AddressSpace::default(),
            changes: Vec::new(),
        }
    }

    /// The history of each array, and the owners of pages.
    pub fn finish(self) -> (Vec<ArrayHistory>, Owners) {
        (self.arrays.into_iter().map(WatchedArray::finish).collect(), self.owners)
    }
}

impl Analysis for Evictions {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        // Even if the region of interest was empty.
        self.owners.start_running();
        self.space.start_running();
        if batch.spans.is_empty() {
            return;
        }
        self.fetches.learn(batch.blocks);
        for array in &mut self.arrays {
            array.batch(batch, &self.fetches, &self.owners);
        }
    }

    fn on_event(&mut self, _at: RefIndex, event: &Event) {
        self.owners.apply(event);
        self.space.apply(event, &mut self.changes);
        for change in self.changes.drain(..) {
            let pages = change.pages(PageSize::FOUR_KIB);
            self.arrays.iter_mut().for_each(|array| array.invalidate(pages.clone()));
        }
    }
}
