//! Addresses, as caches see them.

use crate::AddressUsed;

/// An address of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAddress {
    /// In physical memory.
    pub physical: u64,
    /// In its address space; spaces do not overlap.
    pub logical: u64,
}

impl CacheAddress {
    /// An address that is the same in physical memory and in its address space.
    pub fn same(address: u64) -> CacheAddress {
        CacheAddress { physical: address, logical: address }
    }

    /// The address of a byte in the kernel's own view of physical memory, beyond all address spaces.
    pub(crate) fn of_kernel(physical: u64) -> CacheAddress {
        CacheAddress { physical, logical: physical | 1 << 63 }
    }

    #[inline]
    pub(crate) fn line(self, used: AddressUsed, shift: u32) -> u64 {
        match used {
            AddressUsed::Physical => self.physical >> shift,
            AddressUsed::Virtual => self.logical >> shift,
        }
    }

    #[inline]
    pub(crate) fn plus(self, bytes: u64) -> CacheAddress {
        CacheAddress { physical: self.physical + bytes, logical: self.logical + bytes }
    }
}
