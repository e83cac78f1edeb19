//! Sequential prefetching of translations into buffers beside the last TLB level.
//!
//! When a walk finds a page that the array would hold, or the buffer had it, the page that follows is due: if some
//! page maps the next byte and neither the array nor its buffer holds it, it is walked for and put into the buffer. The
//! buffer is looked up when every level has missed; what is found there moves into the TLBs as after a walk and is no
//! walk. So each prefetch is useful once at most, and every useful one asks for the next (tagged prefetching).
//!
//! Sources: next-page prefetching and the buffer as in Kandiraju, Sivasubramaniam, "Going the Distance for TLB
//! Prefetching", ISCA 2002, section 2 (SP); prefetched entries held apart from the TLB as in Bala, Kaashoek, Weihl,
//! "Software Prefetching and Caching for Translation Lookaside Buffers", OSDI 1994. `docs/reference/machine-files.md`
//! says what they leave open and what is taken here.

use crate::{Asid, KindSet, MachineSpec, page_key};
use pagewalk_setassoc::SetArray;
use pagewalk_units::{Kind, PageSize};

/// What one array's prefetcher did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchCounts {
    /// Translations fetched into the buffer.
    pub issued: u64,
    /// Those that a reference found there: walks saved.
    pub useful: u64,
    /// Page-table entries read for prefetches, beside those that walks read.
    pub walk_references: u64,
}

/// The prefetcher of one array of the last level.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    /// Index of the array in its machine.
    pub array: usize,
    serves: KindSet,
    sizes: Vec<PageSize>,
    buffer: SetArray,
    counts: PrefetchCounts,
}

impl Prefetcher {
    /// The prefetchers of a machine, with empty buffers.
    pub fn of(machine: &MachineSpec) -> Vec<Prefetcher> {
        let arrays = machine.tlbs.iter().enumerate();
        let prefetcher = arrays.filter_map(|(array, tlb)| {
            Some(Prefetcher {
                array,
                serves: tlb.serves,
                sizes: tlb.page_sizes.clone(),
                buffer: tlb.prefetch?.array(),
                counts: PrefetchCounts::default(),
            })
        });
        prefetcher.collect()
    }

    /// Drops everything of an address space.
    pub fn flush(&mut self, asid: Asid) {
        self.buffer.remove_where(|key| Asid::split(key).0 == asid);
    }

    /// Whether it looks after references of `kind` to pages of `size`.
    pub fn takes(&self, kind: Kind, size: PageSize) -> bool {
        self.serves.has(kind) && self.sizes.contains(&size)
    }

    /// Takes the page of `asid` with this number at `size` out of the buffer; says whether it was there.
    pub fn claim(&mut self, asid: Asid, number: u64, size: PageSize) -> bool {
        let found = self.buffer.remove(number, key(asid, number, size));
        self.counts.useful += u64::from(found);
        found
    }

    /// Whether a page that is due has to be fetched: the array can hold it and the buffer has it not.
    pub fn wants(&self, asid: Asid, number: u64, size: PageSize) -> bool {
        self.sizes.contains(&size) && !self.buffer.contains(number, key(asid, number, size))
    }

    /// Puts a page that was walked for into the buffer; the walk read so many page-table entries.
    pub fn put(&mut self, asid: Asid, number: u64, size: PageSize, walk_references: u32) {
        self.buffer.insert(number, key(asid, number, size));
        self.counts.issued += 1;
        self.counts.walk_references += u64::from(walk_references);
    }

    /// Drops the page of `asid` with this number at `size`.
    pub fn invalidate(&mut self, asid: Asid, number: u64, size: PageSize) {
        self.buffer.remove(number, key(asid, number, size));
    }

    /// What it did so far.
    pub fn counts(&self) -> PrefetchCounts {
        self.counts
    }
}

fn key(asid: Asid, number: u64, size: PageSize) -> u64 {
    asid.tag(page_key(number, size))
}
