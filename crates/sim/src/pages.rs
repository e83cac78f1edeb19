//! The pages on which a reference lies.

use pagewalk_trace::Ref;
use pagewalk_units::{PageSize, VirtAddr};
use std::ops::RangeInclusive;

/// An address as records hold it: of one above, such as that of a page of code of the kernel's, the low bits.
#[inline]
pub(crate) fn as_recorded(address: VirtAddr) -> VirtAddr {
    VirtAddr(address.0 % Ref::ADDRESS_END)
}

/// The numbers of the pages that hold these bytes. There are none beyond the last that records hold: what goes on
/// there ends in that.
#[inline]
pub(crate) fn pages_of(base: PageSize, address: VirtAddr, bytes: u64) -> RangeInclusive<u64> {
    let first = as_recorded(address);
    let last = (first.0 + (bytes.max(1) - 1)).min(Ref::ADDRESS_END - 1);
    base.number(first)..=base.number(VirtAddr(last))
}
