//! Caches of memory in a design, which the program's references and the reads of walks go through.
//!
//! Only machines with caches pay for this: the caches see every reference of the program in order, even if its page
//! hits the TLB. Physical addresses of the program equal virtual ones. `docs/reference/machine-files.md` describes the
//! model.

use pagewalk_cache::{DataSource, Hierarchy, Requester};
use pagewalk_trace::Grain;
use pagewalk_translate::{Asid, MachineSpec, Walker};
use pagewalk_units::{Kind, PageSize, VirtAddr};

/// The stream lacks detail that a machine's caches need.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "only the pages of its data are known (record --grain page), and machine `{0}` has caches ([[cache]]), which need \
     whole addresses: record it without --grain page, or leave the caches out"
)]
pub struct GrainError(String);

/// Checks that streams of this grain have the detail that a machine needs.
///
/// # Errors
/// If the machine has caches and the stream has pages only.
pub fn check_grain(grain: Grain, machine: &MachineSpec) -> Result<(), GrainError> {
    if grain.is_byte() || machine.caches.is_empty() { Ok(()) } else { Err(GrainError(machine.name.clone())) }
}

/// What a walk cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkCost {
    /// Page-table entries read.
    pub references: u32,
    /// Modelled cycles.
    pub cycles: u64,
}

impl WalkCost {
    /// A walk whose entries cost `price` cycles each.
    pub fn flat(references: u32, price: u64) -> WalkCost {
        WalkCost { references, cycles: u64::from(references).saturating_mul(price) }
    }
}

/// The caches of one design.
#[derive(Clone, Debug)]
pub(crate) struct MemoryCaches {
    pub hierarchy: Hierarchy,
    /// Page-table entries that missed every cache.
    pub walks_in_memory: u64,
    /// Addresses of the entries of one walk.
    entries: Vec<u64>,
}

impl MemoryCaches {
    /// The empty caches of a machine that has some.
    pub fn of(machine: &MachineSpec) -> Option<MemoryCaches> {
        let hierarchy = Hierarchy::new(&machine.caches, machine.cost.walk_reference);
        (!machine.caches.is_empty()).then_some(MemoryCaches {
            hierarchy,
            walks_in_memory: 0,
            entries: Vec::new(),
        })
    }

    /// Walks; each read of an entry goes through the caches.
    pub fn walk(&mut self, walker: &mut Walker, address: VirtAddr, size: PageSize) -> WalkCost {
        self.entries.clear();
        let references = walker.walk_listing(address, size, &mut self.entries);
        let mut cycles = 0u64;
        for &entry in &self.entries {
            let served = self.hierarchy.access(Requester::Walk, entry);
            self.walks_in_memory += u64::from(served == DataSource::Memory);
            cycles = cycles.saturating_add(self.hierarchy.latency(served));
        }
        WalkCost { references, cycles }
    }
}

impl MemoryCaches {
    /// A reference of the program to a physical address.
    #[inline]
    pub fn access(&mut self, kind: Kind, physical: u64, bytes: u64) {
        let requester = match kind {
            Kind::Fetch => Requester::Fetch,
            Kind::Load => Requester::Load,
            Kind::Store | Kind::Modify => Requester::Store,
        };
        self.hierarchy.access_bytes(requester, physical, bytes);
    }
}

/// The physical address of a record's address. Address spaces have 57 bits each and lie one after the other.
#[inline]
pub(crate) fn physical(asid: Asid, address: VirtAddr) -> u64 {
    (asid.index() as u64) << VirtAddr::BITS | address.0
}
