//! Why a pass cannot be set up.

use crate::fit::KernelError;
use pagewalk_mm::frames::MemoryError;
use pagewalk_units::Paging;

/// See [`crate::Pass::DESIGNS_MAX`].
pub(crate) const DESIGNS_MAX: usize = 64;

/// Why a pass cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// No design, or more than one word of residency bits holds.
    #[error(
        "{0} different first levels in one pass, alternatives included: from 1 to {DESIGNS_MAX} are possible"
    )]
    DesignCount(usize),
    /// Machines that can have one core only.
    #[error(
        "machine `{0}` has tables or caches in memory (hashed, nested, mapped, [[cache]]): a pass has one core of it"
    )]
    OneCore(String),
    /// A design whose policy leaves no base page that could be global.
    #[error("`{0}` maps everything by huge pages: global pages are base pages")]
    HugeGlobals(String),
    /// A kernel that cannot work on its machine.
    #[error("{design}: {error}")]
    Kernel {
        /// The design.
        design: String,
        /// Why.
        error: KernelError,
    },
    /// A design that only a [`System`](crate::System) simulates: its machine's page tables are mapped, or it prefetches
    /// under a kernel.
    #[error(
        "{0}: the host's huge pages are not simulated where tables are mapped, nor a kernel's beside prefetchers"
    )]
    Unfit(String),
    /// A machine of which every operation is counted.
    #[error(
        "machine `{0}` is a data side (side = \"data\"), whose references are taken one by one: no pass takes it"
    )]
    InOrder(String),
    /// A data side whose memory cannot be made.
    #[error("machine `{0}`: ranges.memory: {1}")]
    DataSide(String, MemoryError),
    /// A kernel manages one process on one core.
    #[error("{0}: in a pass a kernel that builds superpages manages one process on one core")]
    KernelOfMany(String),
    /// Machines with different pages: each kind needs a pass of its own.
    #[error("machine `{machine}` has pages of {its}, `{other}` of {others}: one pass can have one kind")]
    Paging {
        /// The first machine.
        machine: String,
        /// Its pages.
        its: Paging,
        /// One that differs.
        other: String,
        /// Its pages.
        others: Paging,
    },
}
