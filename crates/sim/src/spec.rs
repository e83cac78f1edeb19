//! Specifications of designs.

use crate::watched_tlbs::WatchedTlbs;
use pagewalk_mm::{Kernel, PageSizePolicy, Small};
use pagewalk_translate::{MachineSpec, NestedMisses};
use pagewalk_units::PageSize;
use std::sync::Arc;

/// A design to simulate.
#[derive(Clone)]
pub struct DesignSpec {
    /// Name for people and results.
    pub name: String,
    /// The hardware.
    pub machine: MachineSpec,
    /// The kernel's choice of page sizes.
    pub policy: Arc<dyn PageSizePolicy>,
    /// Sizes of the last level to count misses for, as doublings of the machine's own, and the array's page size.
    pub reach: Option<(&'static [i32], PageSize)>,
    /// A kernel that builds superpages of many sizes during the run. It replaces `policy`, which is then that of base
    /// pages.
    pub kernel: Option<Kernel>,
    /// How traps simulate it, if they do: on base pages, under the host's kernel.
    pub traps: Option<TrapSpec>,
}

/// How traps simulate a software-managed TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapSpec {
    /// Slots of the host's TLB, which is fully associative and replaces at random.
    pub host: u32,
    /// The treatment of nested misses.
    pub nested: NestedMisses,
}

impl DesignSpec {
    /// A machine under a policy, named after the machine.
    pub fn new(machine: &MachineSpec, policy: Arc<dyn PageSizePolicy>) -> DesignSpec {
        DesignSpec {
            name: machine.name.clone(),
            machine: machine.clone(),
            policy,
            reach: None,
            kernel: None,
            traps: None,
        }
    }

    /// A machine that traps simulate.
    pub fn by_traps(name: String, machine: &MachineSpec, traps: TrapSpec) -> DesignSpec {
        DesignSpec { name, traps: Some(traps), ..DesignSpec::new(machine, Arc::new(Small)) }
    }

    /// Whether a pass can simulate it. A pass supports no superpages with mapped page tables, and under a kernel
    /// neither prefetchers nor entries of several pages, nor policies that watch more than the last level. It counts
    /// some fetches ahead of data references, so it cannot say which come before a kernel's look at times of use.
    pub(crate) fn fits_pass(&self) -> bool {
        let prefetches = self.machine.tlbs.iter().any(|tlb| tlb.prefetch.is_some());
        match &self.kernel {
            Some(kernel) => {
                let is_exact = !prefetches && !self.machine.shares_entries() && !kernel.reads_uses();
                let moves_on_hits = || WatchedTlbs::of_cores(&self.machine, 1).0[0].moves_on_hits;
                let is_heard = !kernel.watches_tlbs() || !moves_on_hits();
                self.machine.software().is_none() && is_exact && is_heard
            }
            None => self.machine.software().is_none() || !self.machine.has_huge_pages(),
        }
    }

    /// A machine under a kernel.
    pub fn with_kernel(name: String, machine: &MachineSpec, kernel: Kernel) -> DesignSpec {
        DesignSpec { name, kernel: Some(kernel), ..DesignSpec::new(machine, Arc::new(Small)) }
    }
}
