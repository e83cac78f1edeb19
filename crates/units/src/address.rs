//! Virtual addresses and 4 KiB page numbers.

use std::fmt;

/// log2 of the base page: 4 KiB. Every supported page size is a multiple of it.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes in a base page.
pub const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

/// A virtual byte address of the traced program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtAddr(pub u64);

impl VirtAddr {
    /// The base page that holds this byte.
    #[inline(always)]
    pub const fn vpn(self) -> Vpn {
        Vpn(self.0 >> PAGE_SHIFT)
    }

    /// Whether it lies in the kernel's half of an address space. Records hold the low 57 bits of an address; the
    /// highest of them tells the halves apart.
    #[inline]
    pub const fn is_kernel(self) -> bool {
        self.0 >> (VirtAddr::BITS - 1) & 1 == 1
    }

    /// Number of address bits in a record.
    pub const BITS: u32 = 57;
}

impl fmt::Display for VirtAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The number of a 4 KiB virtual page: address divided by 4096, whatever size the page is mapped at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vpn(pub u64);

impl Vpn {
    /// The first byte of the page.
    #[inline(always)]
    pub const fn start(self) -> VirtAddr {
        VirtAddr(self.0 << PAGE_SHIFT)
    }
}
