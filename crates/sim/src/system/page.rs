//! A page in TLBs and page tables.

use pagewalk_setassoc::Entry;
use pagewalk_translate::Asid;
use pagewalk_units::{PageSize, VirtAddr};

/// The page that TLBs hold for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Its number at its size.
    pub number: u64,
    /// Its size in TLBs.
    pub size: PageSize,
    /// The size of its leaf in the page tables.
    pub leaf: PageSize,
}

impl Page {
    /// A base page.
    pub fn base(vpn: u64, base: PageSize) -> Page {
        Page { number: vpn, size: base, leaf: base }
    }

    /// Its entry in TLBs.
    pub fn entry(self, asid: Asid) -> Entry {
        Entry { shift: self.size.shift(), number: self.number, key: asid.key(self.number, self.size) }
    }

    /// Its first byte.
    pub fn address(self) -> VirtAddr {
        VirtAddr(self.number << self.size.shift())
    }
}
