//! A TLB that the kernel's handlers refill from linear page tables which are mapped themselves.
//!
//! The page table of an address space is an array of page-table entries (PTEs), indexed by page number, in virtual
//! memory. So a handler's load of a PTE goes through the same TLB and can miss in its turn, and what it then puts into
//! the TLB takes the place of something else. Three levels of tables, of which the last lies in memory that needs no
//! translation:
//!
//! ```text
//!   class of miss   what misses                     its PTE lies in            which is
//!   l1u             a page of the program           a level-1 table page       mapped (misses as l2)
//!   l1k             a mapped page of the kernel     a level-2 table page       mapped (misses as l3)
//!   l2              a level-1 table page            a level-2 table page       mapped (misses as l3)
//!   l3              a level-2 table page            the level-3 table          not mapped
//! ```
//!
//! With two levels the level-2 tables are not mapped, and there is no class l3; with one, nothing misses but pages.
//! A nested miss is counted and filled before the one that led to it, which is counted once: the interrupted handler
//! goes on where it was. A superpage has a PTE for each of its base pages, all alike, so that handlers find it as
//! they find any page; it takes one entry. Table pages of all address spaces are kernel memory, held whatever space
//! runs, and are never dropped.
//!
//! The slots of the TLB are split at a *partition*: which classes of entries go below it is the [`Placement`]. Below
//! and above, each entry replaces what the part's own replacement chooses. `Tuner` moves the partition as the program
//! runs.
//!
//! Two classes depend on no TLB: `invalid`, the first touch of a page, and `modify`, the first store to a page that was
//! first touched otherwise. The simulator counts them beside.
//!
//! Source: Uhlig, Nagle, Stanley, Mudge, Sechrest, Brown, "Design Tradeoffs for Software-Managed TLBs", ACM TOCS
//! 12 (3), 1994, sections 4.1 and 5.2. What it leaves open is named in `docs/explanation/software-managed-tlbs.md`.

mod mmu;
mod slots;
mod spec;
mod trap_driven;
mod tuner;

pub use mmu::{Refill, RefillRequest, SoftwareCounts, SoftwareMmu};
pub use spec::{HandlerSystem, MissClass, Objective, Placement, SoftwareSpec, TuningSpec};
pub use trap_driven::{NestedMisses, TrapDriven, TrapError};
