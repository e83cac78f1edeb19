//! The base and huge page size that a kernel uses on a machine.

use crate::PageSize;
use std::fmt;

/// A base page size, and the huge page size that one last-level table of base pages covers (a PMD in Linux).
///
/// ```
/// use pagewalk_units::{PageSize, Paging};
///
/// let granule: PageSize = "16K".parse()?;
/// let paging = Paging::with_base(granule).expect("its huge page is not too large");
/// assert_eq!(paging.huge().to_string(), "32M");
/// assert_eq!(1 << paging.huge_order(), 2048);
/// # Ok::<(), pagewalk_units::ParsePageSizeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Paging {
    base: PageSize,
    huge: PageSize,
}

impl Paging {
    /// 4 KiB and 2 MiB: x86-64, and the 4 KiB granules of AArch64 and RISC-V.
    pub const FOUR_KIB: Paging = Paging { base: PageSize::FOUR_KIB, huge: PageSize::TWO_MIB };

    /// A pair of sizes; `None` unless the huge page is larger than the base page.
    pub const fn new(base: PageSize, huge: PageSize) -> Option<Paging> {
        if base.shift() < huge.shift() { Some(Paging { base, huge }) } else { None }
    }

    /// The pair for a base page size: the huge page is what one table of 8-byte entries that fills a base page maps.
    /// `None` if there is no such page size.
    pub const fn with_base(base: PageSize) -> Option<Paging> {
        match PageSize::from_shift(2 * base.shift() - 3) {
            Some(huge) => Some(Paging { base, huge }),
            None => None,
        }
    }

    /// The base page size.
    pub const fn base(self) -> PageSize {
        self.base
    }

    /// The huge page size.
    pub const fn huge(self) -> PageSize {
        self.huge
    }

    /// log2 of the number of base pages in a huge page.
    pub const fn huge_order(self) -> u32 {
        self.huge.shift() - self.base.shift()
    }
}

impl fmt::Display for Paging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.base, self.huge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PMD sizes of Linux: x86-64 and AArch64 (Documentation/arch/arm64/hugetlbpage.rst), Alpha.
    #[test]
    fn the_huge_page_of_each_base_page() {
        for (base, huge) in [("4K", "2M"), ("8K", "8M"), ("16K", "32M"), ("64K", "512M")] {
            let paging = Paging::with_base(base.parse().unwrap()).unwrap();
            assert_eq!(paging.huge().to_string(), huge);
            assert_eq!(Paging::new(paging.base(), paging.huge()), Some(paging));
        }
        assert_eq!(Paging::with_base(PageSize::FOUR_KIB), Some(Paging::FOUR_KIB));
        assert_eq!(Paging::new(PageSize::TWO_MIB, PageSize::TWO_MIB), None);
        assert_eq!(
            Paging::with_base(PageSize::TWO_MIB),
            Paging::new(PageSize::TWO_MIB, "512G".parse().unwrap())
        );
    }
}
