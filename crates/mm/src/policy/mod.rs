//! Policies that choose a page size at first touches. One file each.

mod everything;
mod one_mapping;
mod small;
mod thp;

pub use everything::Everything;
pub use one_mapping::OneMapping;
pub use small::Small;
pub use thp::{Thp, ThpMode, UnrestrictedThp};

use crate::{ProcessMapping, Vma};
use pagewalk_trace::ThpDisable;
use pagewalk_units::{PageSize, VirtAddr};
use std::ops::Range;

/// The first touch of the part of a mapping inside a block, the scope of a huge page.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FirstTouch<'a> {
    /// The block's first byte.
    pub block: VirtAddr,
    /// Its size, that of a huge page.
    pub size: PageSize,
    /// The named mapping touched.
    pub mapping: ProcessMapping,
    /// The area of the address, if known.
    pub vma: Option<&'a Vma>,
    /// Whether some of the block is mapped already.
    pub populated: bool,
    /// The huge pages that the process forbids.
    pub forbidden: ThpDisable,
}

impl<'a> FirstTouch<'a> {
    /// A first touch in block number `block`.
    pub fn new(
        block: u64,
        size: PageSize,
        mapping: ProcessMapping,
        vma: Option<&'a Vma>,
        populated: bool,
        forbidden: ThpDisable,
    ) -> FirstTouch<'a> {
        FirstTouch { block: VirtAddr(block << size.shift()), size, mapping, vma, populated, forbidden }
    }

    /// Whether the block is a hugetlb page or a part of one, which no policy decides.
    pub fn is_hugetlb(&self) -> bool {
        self.vma.is_some_and(|vma| vma.holds_of_hugetlb(&self.bytes()))
    }

    /// The bytes of the block.
    pub fn bytes(&self) -> Range<u64> {
        self.block.0..self.block.0 + self.size.bytes()
    }
}

/// The pages of a block that one huge page maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Pages of the touched mapping.
    Mapping,
    /// All pages, of any mapping.
    Block,
}

/// Chooses between base pages and a huge page of the machine. It is called once per block and mapping, not per
/// reference, and not for hugetlb memory, which is the program's own choice.
pub trait PageSizePolicy: Send + Sync {
    /// Whether the block gets a huge page.
    fn wants_huge(&self, fault: &FirstTouch<'_>) -> bool;

    /// Whether the policy ever answers yes.
    fn may_be_huge(&self) -> bool {
        true
    }

    /// The scope of a huge page.
    fn scope(&self) -> Scope {
        Scope::Mapping
    }

    /// Whether pages of the block that areas give other names later keep this page's: so they do in the huge pages that
    /// the host's kernel gives, as they belong to one page.
    fn is_kernels(&self, _fault: &FirstTouch<'_>) -> bool {
        true
    }

    /// Whether a huge page of `mapping` splits when part of it is unmapped, protected, discarded or advised on, like
    /// the kernel's. Hypothetical policies keep theirs.
    fn splits(&self, _mapping: ProcessMapping) -> bool {
        false
    }
}
