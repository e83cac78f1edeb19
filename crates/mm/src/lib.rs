//! The kernel's side: address spaces, page sizes and physical memory.
//!
//! Design constraints: it knows no TLB. [`AddressSpace`] follows the stream's events as Linux would (splitting, merging
//! and naming mappings) and reports what each event removes. A [`PageSizePolicy`] decides once per first touch of a
//! block as large as a huge page. [`frames`] is physical memory; [`structure`] describes references of an operating
//! system's kernel and servers.

mod change;
mod former_code;
pub mod frames;
mod inferred_areas;
mod kernel;
mod mapping;
pub mod migration;
mod os;
pub mod placement;
mod policy;
pub mod promotion;
mod space;
pub mod structure;
mod superpage;
mod vma;

pub use change::Change;
pub use former_code::FilePlace;
pub use inferred_areas::{AreaMode, AreaRules, InferredAreas};
pub use kernel::{
    Account, Accounts, FileRules, ForkRules, FullMemoryAction, Kernel, KernelCosts, KernelCounts, Loss,
    MemoryRules, MemorySample, MemoryTotals, ORDERS, OomKill, PageTable, PagesInUse, Remap,
};
pub use mapping::{MappingId, MappingInfo, ProcessMapping};
pub use os::{OsError, OsKernel, OsSpec, PolicyKey, policies_page, read_files};
pub use policy::{
    Everything, FirstTouch, OneMapping, PageSizePolicy, Scope, Small, Thp, ThpMode, UnrestrictedThp,
};
pub use space::AddressSpace;
pub use superpage::{Superpage, TlbEntry};
pub use vma::{FilePage, HugeAdvice, Vma};
