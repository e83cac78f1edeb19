//! The structure of an operating system, for address translation: the pages that the kernel and its servers touch while
//! a program runs.
//!
//! Streams record programs and their system calls, but not the kernel's work. A [`StructureSpec`] describes that work
//! (unmapped or mapped kernel data, services in one server or several), and a [`Generator`] yields [`Visits`] for each
//! system call and each tick of the clock: references of the kernel to its mapped data, and of servers to their pages.
//! They are drawn at random from a seed: a model, not a recording. `docs/explanation/os-structure.md` gives the
//! assumptions and reasons.
//!
//! Sources: Uhlig, Nagle, Stanley, Mudge, Sechrest, Brown, "Design Tradeoffs for Software-Managed TLBs", ACM TOCS 12
//! (3), 1994: section 4.2 (the properties of a system's structure that affect TLB misses), Figure 4 and Table IV (the
//! systems), section 5.2.1 (page-table entries that each needs at a time).

mod class;
mod generator;
mod layout;
mod spec;

pub use class::{CallClass, ClassValues};
pub use generator::{Generator, Reference, Visitor, Visits};
pub use layout::KERNEL_START;
pub use spec::{KernelSpec, SegmentSpec, ServerSpec, StructureError, StructureSpec, WorkingSet};

#[cfg(test)]
mod tests;
