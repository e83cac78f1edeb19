//! The pages of a reference.

use pagewalk_trace::Ref;
use pagewalk_units::{PageSize, VirtAddr};
use std::ops::RangeInclusive;

/// An address as records hold it: the low bits of a higher one, such as that of kernel code.
#[inline]
pub(crate) fn as_recorded(address: VirtAddr) -> VirtAddr {
    VirtAddr(address.0 % Ref::ADDRESS_END)
}

/// The numbers of the pages that hold these bytes, cut at the last page that records hold.
#[inline]
pub(crate) fn pages_of(base: PageSize, address: VirtAddr, bytes: u64) -> RangeInclusive<u64> {
    let first = as_recorded(address);
    let last = (first.0 + (bytes.max(1) - 1)).min(Ref::ADDRESS_END - 1);
    base.number(first)..=base.number(VirtAddr(last))
}
