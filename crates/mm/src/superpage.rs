//! Naturally aligned blocks of base pages.

use std::ops::Range;

/// A block of 2^`order` base pages, aligned to its size. Order 0 is a base page.
///
/// Romer 1998, section 3.1, calls blocks that the kernel has built *superpages*, and all others of a legal size
/// *potential* superpages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Superpage {
    /// Number of its first base page: a multiple of its size.
    pub first: u64,
    /// log2 of its base pages.
    pub order: u8,
}

impl Superpage {
    /// The block of this order that holds a base page.
    pub fn around(page: u64, order: u8) -> Superpage {
        Superpage { first: page >> order << order, order }
    }

    /// Its number among blocks of its order.
    pub fn number(self) -> u64 {
        self.first >> self.order
    }

    /// Its base pages.
    pub fn pages(self) -> Range<u64> {
        self.first..self.first + self.len()
    }

    /// The number of its base pages.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u64 {
        1 << self.order
    }

    /// Whether it contains `other`.
    pub fn holds(self, other: Superpage) -> bool {
        other.order <= self.order && Superpage::around(other.first, self.order) == self
    }

    /// Its parts of an order up to its own.
    pub fn parts(self, order: u8) -> impl Iterator<Item = Superpage> {
        self.pages().step_by(1 << order).map(move |first| Superpage { first, order })
    }

    /// The blocks of orders `self.order + 1 ..= top` around it, by ascending size.
    pub fn ancestors(self, top: u8) -> impl Iterator<Item = Superpage> {
        (self.order + 1..=top).map(move |order| Superpage::around(self.first, order))
    }
}

/// An entry of a TLB, which maps pages of one size: one, or neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbEntry {
    /// The smallest block that holds its pages.
    pub block: Superpage,
    /// The order of a page.
    pub order: u8,
}

impl TlbEntry {
    /// An entry of one page.
    pub fn of(page: Superpage) -> TlbEntry {
        TlbEntry { block: page, order: page.order }
    }
}
