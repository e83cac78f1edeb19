//! What a TLB entry names: a small page, a unit, a block, or a superpage.

/// What an array can hold, by its id in the [`PageStore`](crate::store::PageStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Page(u32),
    Unit(u32),
    Block(u32),
    Super(u32),
}

/// [`Held`] in 32 bits: the kind in the two top bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed(u32);

impl Packed {
    pub const EMPTY: Packed = Packed(u32::MAX);

    pub fn new(held: Held) -> Packed {
        match held {
            Held::Page(id) => Packed(id),
            Held::Unit(id) => Packed(1 << 30 | id),
            Held::Block(id) => Packed(2 << 30 | id),
            Held::Super(id) => Packed(3 << 30 | id),
        }
    }

    /// The page, if it is one: what most are.
    #[inline(always)]
    pub fn page(self) -> Option<u32> {
        (self.0 >> 30 == 0).then_some(self.0)
    }

    #[inline]
    pub fn get(self) -> Held {
        let id = self.0 & !(3 << 30);
        match self.0 >> 30 {
            0 => Held::Page(id),
            1 => Held::Unit(id),
            2 => Held::Block(id),
            _ => Held::Super(id),
        }
    }

    /// As the key of an array.
    pub fn key(self) -> u64 {
        self.0.into()
    }

    /// What [`Packed::key`] gave.
    pub fn from_key(key: u64) -> Packed {
        Packed(key as u32)
    }

    /// Kind and id, to index lists that are kept by kind.
    #[inline]
    pub fn parts(self) -> (usize, usize) {
        ((self.0 >> 30) as usize, (self.0 & !(3 << 30)) as usize)
    }
}
