//! The subject of a TLB entry: a small page, a unit, a block, or a superpage.

/// The subject of a TLB entry, by its id in the [`PageStore`](crate::store::PageStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryId {
    Page(u32),
    Unit(u32),
    Block(u32),
    Super(u32),
}

/// [`EntryId`] in 32 bits: the kind in the two top bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedEntry(u32);

impl PackedEntry {
    pub const EMPTY: PackedEntry = PackedEntry(u32::MAX);

    pub fn new(held: EntryId) -> PackedEntry {
        match held {
            EntryId::Page(id) => PackedEntry(id),
            EntryId::Unit(id) => PackedEntry(1 << 30 | id),
            EntryId::Block(id) => PackedEntry(2 << 30 | id),
            EntryId::Super(id) => PackedEntry(3 << 30 | id),
        }
    }

    /// The page, if it is one, as most are.
    #[inline(always)]
    pub fn page(self) -> Option<u32> {
        (self.0 >> 30 == 0).then_some(self.0)
    }

    #[inline]
    pub fn get(self) -> EntryId {
        let id = self.0 & !(3 << 30);
        match self.0 >> 30 {
            0 => EntryId::Page(id),
            1 => EntryId::Unit(id),
            2 => EntryId::Block(id),
            _ => EntryId::Super(id),
        }
    }

    /// As the key of an array.
    pub fn key(self) -> u64 {
        self.0.into()
    }

    /// The inverse of [`PackedEntry::key`].
    pub fn from_key(key: u64) -> PackedEntry {
        PackedEntry(key as u32)
    }

    /// Kind and id, as indices of lists by kind.
    #[inline]
    pub fn parts(self) -> (usize, usize) {
        ((self.0 >> 30) as usize, (self.0 & !(3 << 30)) as usize)
    }
}
