//! Address-space identifiers.

/// Which address space a TLB entry translates for. Entries of several may be held at one time; only those of the space
/// that runs are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asid(u8);

/// Where keys carry it: above page numbers, their sizes, and the prefixes that walk caches hold.
const SHIFT: u32 = u64::BITS - 6;

impl Asid {
    /// So many there are: 0 to one below.
    pub const COUNT: u32 = 1 << 6;

    /// The identifier with this number; `None` where there is none.
    pub fn new(number: u32) -> Option<Asid> {
        (number < Asid::COUNT).then_some(Asid(number as u8))
    }

    /// As an index.
    pub fn index(self) -> usize {
        self.0.into()
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
