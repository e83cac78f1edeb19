//! One page, as TLBs and tables know it.

use pagewalk_setassoc::Entry;
use pagewalk_translate::Asid;
use pagewalk_units::{PageSize, VirtAddr};

/// What TLBs hold for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Its number at its size.
    pub number: u64,
    /// Its size in TLBs.
    pub size: PageSize,
    /// The size at which tables map it: that of its leaf.
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
