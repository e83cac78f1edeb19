//! Page sizes by index, and how a machine's TLBs hold them.

use pagewalk_mm::ORDERS;
use pagewalk_translate::MachineSpec;
use pagewalk_units::{Kind, PageSize};

/// Index of base pages in tables by size. Designs with a kernel have an index for each order.
pub(crate) const SMALL: usize = 0;
pub(crate) const HUGE: usize = 1;
/// Length of those tables.
pub(crate) const SIZES: usize = ORDERS;

/// Whether some first-level array distinguishes loads from stores.
pub(crate) fn splits_data(machine: &MachineSpec) -> bool {
    machine.level(1).any(|(_, tlb)| tlb.serves.has(Kind::Load) != tlb.serves.has(Kind::Store))
}

/// A machine's page sizes by index.
pub(crate) fn sizes(machine: &MachineSpec) -> [PageSize; 2] {
    [machine.paging.base(), machine.paging.huge()]
}

/// Whether TLBs hold huge pages in pieces of base pages.
pub(crate) fn in_pieces(machine: &MachineSpec) -> bool {
    machine.walker.largest_entry().is_some_and(|size| size < machine.paging.huge())
}
