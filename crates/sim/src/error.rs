//! Why a pass cannot be set up.

use crate::fit::KernelError;
use pagewalk_mm::frames::MemoryError;
use pagewalk_translate::TrapDrivenError;
use pagewalk_units::Paging;

/// See [`crate::Pass::DESIGNS_MAX`].
pub(crate) const DESIGNS_MAX: usize = 64;

/// Why a pass cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// No design, or more than a residency word has bits.
    #[error(
        "{0} different first levels in one pass, alternatives included: from 1 to {DESIGNS_MAX} are possible"
    )]
    DesignCount(usize),
    /// A machine that can have one core only.
    #[error(
        "machine `{0}` has tables or caches in memory (hashed, nested, mapped, [[cache]]): a pass has one core of it"
    )]
    OneCore(String),
    /// A design whose policy leaves no base pages, so no global pages.
    #[error("`{0}` maps everything by huge pages, but global pages are base pages")]
    HugeGlobals(String),
    /// A kernel that does not fit its machine.
    #[error("{design}: {error}")]
    Kernel {
        /// The design.
        design: String,
        /// Why.
        error: KernelError,
    },
    /// A design that only a [`System`](crate::System) can simulate: its machine maps its page tables, or it prefetches
    /// under a kernel, or the kernel reads times of use.
    #[error(
        "{0}: huge pages of the host are not simulated with mapped page tables, nor those of a simulated kernel \
         with prefetchers, or that reads times of use"
    )]
    Unfit(String),
    /// A data side.
    #[error(
        "machine `{0}` is a data side (side = \"data\"), which is simulated reference by reference: it cannot be \
         in a pass"
    )]
    InOrder(String),
    /// A data side whose memory cannot be built.
    #[error("machine `{0}`: ranges.memory: {1}")]
    DataSide(String, MemoryError),
    /// A machine that traps cannot simulate: without mapped page tables.
    #[error("machine `{0}`: traps simulate software-managed TLBs with [walker.mapped]")]
    NoTraps(String),
    /// A machine whose replacement traps cannot simulate.
    #[error("machine `{0}`: {1}")]
    Traps(String, TrapDrivenError),
    /// A design with a kernel in a pass of several processes or cores.
    #[error("{0}: in a pass a kernel that builds superpages manages one process on one core")]
    KernelOfMany(String),
    /// Machines with different page sizes, which need a pass each.
    #[error(
        "machine `{machine}` has pages of {its}, `{other}` of {others}: a pass needs machines with equal pages"
    )]
    Paging {
        /// The first machine.
        machine: String,
        /// Its pages.
        its: Paging,
        /// The machine that differs.
        other: String,
        /// Its pages.
        others: Paging,
    },
}
