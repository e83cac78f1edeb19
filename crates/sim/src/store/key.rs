//! Keys of pages and blocks: number and address space.

use pagewalk_translate::Asid;

/// The number of a page or block of one address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(u64);

impl Key {
    /// Numbers have at most 52 bits.
    const SHIFT: u32 = 56;

    pub fn new(asid: Asid, number: u64) -> Key {
        Key((asid.index() as u64) << Self::SHIFT | number)
    }

    /// The number, if the key belongs to this space.
    pub fn number(self, asid: Asid) -> Option<u64> {
        let number = self.0 & ((1 << Self::SHIFT) - 1);
        (self.0 >> Self::SHIFT == asid.index() as u64).then_some(number)
    }
}
