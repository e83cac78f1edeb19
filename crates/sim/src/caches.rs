//! Caches of memory in a design: the program's references go through them, and the entries that walks read.
//!
//! Only machines with caches pay for this: every reference of the program is given to them at its place, however often
//! its page hits. The program's physical addresses are its virtual ones. What is modelled:
//! `docs/reference/machine-files.md`.

use pagewalk_cache::{Hierarchy, Requester, Served};
use pagewalk_trace::Grain;
use pagewalk_translate::{Asid, MachineSpec, Walker};
use pagewalk_units::{Kind, PageSize, VirtAddr};

/// A stream that does not tell what a machine's caches need to know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "only the pages of its data are known (record --grain page), and machine `{0}` has caches ([[cache]]), which need \
     whole addresses: record it without --grain page, or leave the caches out"
)]
pub struct GrainError(String);

/// Checks that streams of this grain tell all that a machine looks at.
///
/// # Errors
/// When it has caches, and the stream pages alone.
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
    /// Each entry at one price, in cycles.
    pub fn flat(references: u32, price: u64) -> WalkCost {
        WalkCost { references, cycles: u64::from(references).saturating_mul(price) }
    }
}

/// The caches of one design.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub hierarchy: Hierarchy,
    /// Page-table entries that no cache had.
    pub walks_in_memory: u64,
    /// Addresses of the entries of one walk.
    entries: Vec<u64>,
}

impl Memory {
    /// The empty caches of a machine that has some.
    pub fn of(machine: &MachineSpec) -> Option<Memory> {
        let hierarchy = Hierarchy::new(&machine.caches, machine.cost.walk_reference);
        (!machine.caches.is_empty()).then_some(Memory { hierarchy, walks_in_memory: 0, entries: Vec::new() })
    }

    /// Walks, and reads each entry through the caches.
    pub fn walk(&mut self, walker: &mut Walker, address: VirtAddr, size: PageSize) -> WalkCost {
        self.entries.clear();
        let references = walker.walk_listing(address, size, &mut self.entries);
        let mut cycles = 0u64;
        for &entry in &self.entries {
            let served = self.hierarchy.access(Requester::Walk, entry);
            self.walks_in_memory += u64::from(served == Served::Memory);
            cycles = cycles.saturating_add(self.hierarchy.latency(served));
        }
        WalkCost { references, cycles }
    }
}

impl Memory {
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

/// Where an address, as records hold it, lies: those of several spaces, of 57 bits each, one behind the other.
#[inline]
pub(crate) fn physical(asid: Asid, address: VirtAddr) -> u64 {
    (asid.index() as u64) << VirtAddr::BITS | address.0
}
