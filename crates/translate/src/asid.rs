//! Address-space identifiers.

use pagewalk_units::{PageSize, SpaceId};
use std::ops::Range;

/// The key of a page in arrays that mix sizes.
pub fn page_key(number: u64, size: PageSize) -> u64 {
    number << 6 | u64::from(size.shift())
}

/// The address space of a TLB entry. A TLB may hold entries of several spaces; lookups find only those of the running
/// space and global ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asid(u8);

/// Its position in keys: above page numbers with sizes, and above prefixes in walk caches. At most 45 of an address's
/// 57 bits number a page.
const SHIFT: u32 = u64::BITS - 7;
/// Bits of a base page's number in [`Asid::page`]; a key has 6 more for the size.
const NUMBER_BITS: u32 = SHIFT - 6;

impl Asid {
    /// The number of identifiers; they begin at 0.
    pub const COUNT: u32 = 1 << 6;

    /// The identifier of global entries, which serve all spaces and survive switches: entries with x86's G bit, or
    /// without Arm's nG bit.
    pub const GLOBAL: Asid = Asid(Asid::COUNT as u8);

    /// The identifier with this number; `None` if it is too large.
    pub fn new(number: u32) -> Option<Asid> {
        (number < Asid::COUNT).then_some(Asid(number as u8))
    }

    /// As an index.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// The space's number.
    pub fn space(self) -> SpaceId {
        SpaceId(self.0.into())
    }

    /// The key of a page of this space in arrays that mix spaces and sizes.
    pub fn key(self, number: u64, size: PageSize) -> u64 {
        self.tag(page_key(number, size))
    }

    /// The inverse of [`Asid::key`].
    pub fn page_of(key: u64) -> (Asid, u64, PageSize) {
        let (asid, key) = Asid::split(key);
        (asid, key >> 6, PageSize::from_shift((key & 63) as u32).expect("keys hold page sizes"))
    }

    /// One number for a base page and this space.
    pub fn page(self, number: u64) -> u64 {
        number | u64::from(self.0) << NUMBER_BITS
    }

    /// The space in a number from [`Asid::page`].
    pub fn of_page(page: u64) -> Asid {
        Asid((page >> NUMBER_BITS) as u8)
    }

    /// The page number in a number from [`Asid::page`].
    pub fn number_of(page: u64) -> u64 {
        page & ((1 << NUMBER_BITS) - 1)
    }

    /// The range of such numbers for this space.
    pub fn pages(self) -> Range<u64> {
        u64::from(self.0) << NUMBER_BITS..(u64::from(self.0) + 1) << NUMBER_BITS
    }

    /// Adds it to a key without one.
    pub(crate) fn tag(self, key: u64) -> u64 {
        debug_assert!(key >> SHIFT == 0, "{key:#x} has no room for an identifier");
        key | u64::from(self.0) << SHIFT
    }

    /// The inverse of [`Asid::tag`].
    pub(crate) fn split(key: u64) -> (Asid, u64) {
        (Asid((key >> SHIFT) as u8), key & ((1 << SHIFT) - 1))
    }
}
