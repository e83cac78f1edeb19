//! Page sizes: powers of two from 4 KiB up, read and printed as `4K 2M 1G`.

use crate::quantities::bytes;
use crate::{PAGE_SHIFT, VirtAddr};
use std::fmt;
use std::str::FromStr;

/// A page size: any power of two from 4 KiB to 512 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u8);

impl PageSize {
    /// 4 KiB.
    pub const FOUR_KIB: PageSize = PageSize(12);
    /// 2 MiB.
    pub const TWO_MIB: PageSize = PageSize(21);
    /// 1 GiB.
    pub const ONE_GIB: PageSize = PageSize(30);

    /// The size of 2^`shift` bytes, or `None` outside 4 KiB to 512 GiB.
    pub const fn from_shift(shift: u32) -> Option<PageSize> {
        if shift >= PAGE_SHIFT && shift <= 39 { Some(PageSize(shift as u8)) } else { None }
    }

    /// log2 of the size in bytes.
    #[inline(always)]
    pub const fn shift(self) -> u32 {
        self.0 as u32
    }

    /// Bytes in a page of this size.
    #[inline(always)]
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// The page number of `address` at this size.
    #[inline(always)]
    pub const fn number(self, address: VirtAddr) -> u64 {
        address.0 >> self.0
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes();
        match self.shift() {
            12..20 => write!(f, "{}K", bytes >> 10),
            20..30 => write!(f, "{}M", bytes >> 20),
            _ => write!(f, "{}G", bytes >> 30),
        }
    }
}

/// A text is not a page size; holds the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePageSizeError(String);

impl fmt::Display for ParsePageSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a page size: expected a power of two from 4K to 512G, such as 4K, 2M or 1G",
            self.0
        )
    }
}

impl std::error::Error for ParsePageSizeError {}

impl FromStr for PageSize {
    type Err = ParsePageSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParsePageSizeError(text.to_owned());
        let bytes = bytes(text).filter(|bytes| bytes.is_power_of_two()).ok_or_else(fail)?;
        PageSize::from_shift(bytes.trailing_zeros()).ok_or_else(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for shift in 12..=39 {
            let size = PageSize::from_shift(shift).unwrap();
            assert_eq!(size.to_string().parse::<PageSize>(), Ok(size));
        }
        assert_eq!("4096".parse(), Ok(PageSize::FOUR_KIB));
        for bad in ["", "K", "3K", "1K", "1T", "4KB", "-4K", "2048G"] {
            assert!(bad.parse::<PageSize>().is_err(), "{bad}");
        }
    }
}
