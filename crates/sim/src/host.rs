//! The kernel of the recording host, on any machine.

use crate::spec::DesignSpec;
use pagewalk_mm::{PageSizePolicy, Small, Thp, ThpMode};
use pagewalk_translate::MachineSpec;
use std::sync::Arc;

/// Transparent huge pages in the host's mode if the machine's TLBs hold huge pages; base pages otherwise.
pub struct HostKernel {
    thp: Arc<dyn PageSizePolicy>,
    small: Arc<dyn PageSizePolicy>,
}

impl HostKernel {
    /// The kernel in this mode.
    pub fn new(mode: ThpMode) -> HostKernel {
        HostKernel { thp: Arc::new(Thp { mode }), small: Arc::new(Small) }
    }

    /// A machine under this kernel. Its designs share the policies, so that a pass can simulate them together: see
    /// [`Pass::new`](crate::Pass::new).
    pub fn design(&self, machine: &MachineSpec) -> DesignSpec {
        let policy = if machine.has_huge_pages() { &self.thp } else { &self.small };
        DesignSpec::new(machine, Arc::clone(policy))
    }
}
