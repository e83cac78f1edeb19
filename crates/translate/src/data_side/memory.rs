//! What a data side asks of the kernel.

use super::range_table::RangeWalk;
use crate::Walker;
use pagewalk_units::{PageSize, VirtAddr};

/// What the kernel has made of the pages: asked on misses alone. Pages are numbered as
/// [`Asid::page`](crate::Asid::page) does it.
pub trait SideMemoryView {
    /// The size of the page that maps a base page. The first walk of one decides.
    fn size(&mut self, page: u64) -> PageSize;
    /// The frame of a base page, if it has one, and whether the page may be read, written and executed.
    fn frame(&self, page: u64) -> Option<(u64, [bool; 3])>;
    /// How many pages from a base page on, up to `most`, lie in frames that follow each other, under the same rights.
    fn together(&mut self, page: u64, most: u64) -> u64;
    /// The lengths of all runs of base pages that lie so.
    fn runs(&mut self) -> Vec<u64>;
    /// Walks the range table for a page.
    fn range(&mut self, page: u64) -> Option<RangeWalk>;
    /// A walk for this page is made: the size of the page that maps it.
    fn walked(&mut self, page: u64) -> PageSize;
    /// Walks to the leaf of an address: the page-table entries read.
    fn walk(&mut self, walker: &mut Walker, address: VirtAddr, leaf: PageSize) -> u32 {
        walker.walk(address, leaf)
    }
}
