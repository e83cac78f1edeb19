//! Sequential prefetching of translations into buffers beside the last TLB level.
//!
//! After a walk to a page that the array can hold, or a hit in the buffer, the next page is due: if it is mapped and
//! neither the array nor its buffer holds it, a walk puts it into the buffer. The buffer is looked up after every level
//! has missed; a hit moves the entry into the TLBs and is no walk. So each prefetch is useful at most once, and every
//! useful one triggers the next (tagged prefetching).
//!
//! Sources: next-page prefetching and the buffer as in Kandiraju, Sivasubramaniam, "Going the Distance for TLB
//! Prefetching", ISCA 2002, section 2 (SP); prefetched entries held apart from the TLB as in Bala, Kaashoek, Weihl,
//! "Software Prefetching and Caching for Translation Lookaside Buffers", OSDI 1994. `docs/reference/machine-files.md`
//! says what they leave open and what is chosen here.

use crate::{Asid, KindSet, MachineSpec, page_key};
use pagewalk_setassoc::SetArray;
use pagewalk_units::{Kind, PageSize};

/// Counts of one array's prefetcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchCounts {
    /// Translations fetched into the buffer.
    pub issued: u64,
    /// Translations that a reference hit there: walks saved.
    pub useful: u64,
    /// Page-table entries that prefetches read, not counted for walks.
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

    /// Drops an address space.
    pub fn flush(&mut self, asid: Asid) {
        self.buffer.remove_where(|key| Asid::split(key).0 == asid);
    }

    /// Whether it serves references of `kind` to pages of `size`.
    pub fn takes(&self, kind: Kind, size: PageSize) -> bool {
        self.serves.has(kind) && self.sizes.contains(&size)
    }

    /// Takes a page out of the buffer; false if it is not there.
    pub fn claim(&mut self, asid: Asid, number: u64, size: PageSize) -> bool {
        let found = self.buffer.remove(number, key(asid, number, size));
        self.counts.useful += u64::from(found);
        found
    }

    /// Whether a due page must be fetched: the array can hold it and the buffer lacks it.
    pub fn wants(&self, asid: Asid, number: u64, size: PageSize) -> bool {
        self.sizes.contains(&size) && !self.buffer.contains(number, key(asid, number, size))
    }

    /// Puts a page into the buffer, after a walk that read `walk_references` entries.
    pub fn put(&mut self, asid: Asid, number: u64, size: PageSize, walk_references: u32) {
        self.buffer.insert(number, key(asid, number, size));
        self.counts.issued += 1;
        self.counts.walk_references += u64::from(walk_references);
    }

    /// Drops the page of `asid` with this number at `size`.
    pub fn invalidate(&mut self, asid: Asid, number: u64, size: PageSize) {
        self.buffer.remove(number, key(asid, number, size));
    }

    /// Counts so far.
    pub fn counts(&self) -> PrefetchCounts {
        self.counts
    }
}

fn key(asid: Asid, number: u64, size: PageSize) -> u64 {
    asid.tag(page_key(number, size))
}
