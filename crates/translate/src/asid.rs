//! Address-space identifiers.

use pagewalk_units::PageSize;
use std::ops::Range;

/// The key of a page in arrays that mix sizes.
pub fn page_key(number: u64, size: PageSize) -> u64 {
    number << 6 | u64::from(size.shift())
}

/// Which address space a TLB entry translates for. Entries of several may be held at one time; only those of the space
/// that runs are found, and global ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asid(u8);

/// Where keys carry it: above page numbers with their sizes, and the prefixes that walk caches hold. Of the 57 bits of
/// an address that is referenced, 45 at most number a page.
const SHIFT: u32 = u64::BITS - 7;
/// Bits for the number of a base page where it carries the space: a key has 6 more for the size.
const NUMBER_BITS: u32 = SHIFT - 6;

impl Asid {
    /// So many there are: 0 to one below.
    pub const COUNT: u32 = 1 << 6;

    /// Instead of an address space's: what translates for all that map a page alike, and stays at switches. Entries
    /// with the bit G of x86, or without nG of Arm.
    pub const GLOBAL: Asid = Asid(Asid::COUNT as u8);

    /// The identifier with this number; `None` where there is none.
    pub fn new(number: u32) -> Option<Asid> {
        (number < Asid::COUNT).then_some(Asid(number as u8))
    }

    /// As an index.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// The key of a page of this space in arrays that mix spaces and sizes.
    pub fn key(self, number: u64, size: PageSize) -> u64 {
        self.tag(page_key(number, size))
    }

    /// The page that [`Asid::key`] made a key of.
    pub fn page_of(key: u64) -> (Asid, u64, PageSize) {
        let (asid, key) = Asid::split(key);
        (asid, key >> 6, PageSize::from_shift((key & 63) as u32).expect("keys are made of page sizes"))
    }

    /// A base page of this space by one number.
    pub fn page(self, number: u64) -> u64 {
        number | u64::from(self.0) << NUMBER_BITS
    }

    /// The space of a page that [`Asid::page`] numbered.
    pub fn of_page(page: u64) -> Asid {
        Asid((page >> NUMBER_BITS) as u8)
    }

    /// The number that [`Asid::page`] was given.
    pub fn number_of(page: u64) -> u64 {
        page & ((1 << NUMBER_BITS) - 1)
    }

    /// All base pages of this space by such numbers.
    pub fn pages(self) -> Range<u64> {
        u64::from(self.0) << NUMBER_BITS..(u64::from(self.0) + 1) << NUMBER_BITS
    }

    /// Adds it to a key without one.
    pub(crate) fn tag(self, key: u64) -> u64 {
        debug_assert!(key >> SHIFT == 0, "{key:#x} has no room for an identifier");
        key | u64::from(self.0) << SHIFT
    }

    /// What [`Asid::tag`] was given.
    pub(crate) fn split(key: u64) -> (Asid, u64) {
        (Asid((key >> SHIFT) as u8), key & ((1 << SHIFT) - 1))
    }
}
