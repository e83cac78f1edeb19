//! A data side's view of memory.

use super::range_table::RangeWalk;
use crate::Walker;
use pagewalk_units::{PageSize, VirtAddr};

/// The kernel's pages, as a data side sees them at misses. Pages have the numbers of [`Asid::page`](crate::Asid::page).
pub trait SideMemoryView {
    /// The size of the page that maps a base page. Its first walk decides.
    fn size(&mut self, page: u64) -> PageSize;
    /// The frame of a base page, if it has one, and whether the page may be read, written and executed.
    fn frame(&self, page: u64) -> Option<(u64, [bool; 3])>;
    /// How many pages from a base page on, up to `most`, lie in consecutive frames under the same rights.
    fn together(&mut self, page: u64, most: u64) -> u64;
    /// The lengths of all such runs.
    fn runs(&mut self) -> Vec<u64>;
    /// Walks the range table for a page.
    fn range(&mut self, page: u64) -> Option<RangeWalk>;
    /// Records a walk for a page; returns the size of the page that maps it.
    fn walked(&mut self, page: u64) -> PageSize;
    /// Walks to the leaf of an address; returns the page-table entries read.
    fn walk(&mut self, walker: &mut Walker, address: VirtAddr, leaf: PageSize) -> u32 {
        walker.walk(address, leaf)
    }
}
