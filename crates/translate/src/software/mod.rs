//! A TLB that the kernel's handlers refill from linear page tables in mapped memory.
//!
//! The page table of an address space is an array of page-table entries (PTEs) in virtual memory, indexed by page
//! number. So a handler's load of a PTE goes through the same TLB, can miss too, and then evicts another entry. There
//! are three levels of tables; the last lies in unmapped memory:
//!
//! ```text
//!   class of miss   what misses                     its PTE lies in            which is
//!   l1u             a page of the program           a level-1 table page       mapped (misses as l2)
//!   l1k             a mapped page of the kernel     a level-2 table page       mapped (misses as l3)
//!   l2              a level-1 table page            a level-2 table page       mapped (misses as l3)
//!   l3              a level-2 table page            the level-3 table          not mapped
//! ```
//!
//! With two levels, level-2 tables are not mapped and there is no class l3; with one, only pages miss. A nested miss is
//! counted and filled before its parent, which counts once: the interrupted handler resumes. A superpage has equal PTEs
//! for all its base pages, so handlers find it like any page; it takes one entry. Table pages of all address spaces are
//! kernel memory: their entries match in every space and are never dropped.
//!
//! A *partition* splits the slots of the TLB: the [`Placement`] says which classes of entries go below it. Each part
//! has its own replacement. `Tuner` moves the partition during the run.
//!
//! Two classes depend on no TLB: `invalid`, the first touch of a page, and `modify`, the first store to a page whose
//! first touch was no store. The simulator counts them separately.
//!
//! Source: Uhlig, Nagle, Stanley, Mudge, Sechrest, Brown, "Design Tradeoffs for Software-Managed TLBs", ACM TOCS
//! 12 (3), 1994, sections 4.1 and 5.2. `docs/explanation/software-managed-tlbs.md` lists what it leaves open.

mod mmu;
mod slots;
mod spec;
mod trap_driven;
mod tuner;

pub use mmu::{Refill, RefillRequest, SoftwareCounts, SoftwareMmu};
pub use spec::{HandlerSystem, MissClass, Objective, Placement, SoftwareSpec, TuningSpec};
pub use trap_driven::{NestedMisses, TrapDriven, TrapDrivenError};
