//! How an operating system is built, as far as address translation sees it: which pages the kernel and the servers that
//! do its work touch of their own while a program runs.
//!
//! Streams hold what programs do, and where they call the kernel; what the kernel does then is not recorded. A
//! [`StructureSpec`] describes it (unmapped or mapped kernel data, services in a server of their own or in
//! several), and a [`Generator`] yields, for each system call and each tick of the clock, [`Visits`]: references of
//! the kernel to pages of its mapped data, and of servers to pages of their own. They are drawn at random, from a
//! seed: a model, not a recording. `docs/explanation/os-structure.md` says what is assumed, and why.
//!
//! Sources: Uhlig, Nagle, Stanley, Mudge, Sechrest, Brown, "Design Tradeoffs for Software-Managed TLBs", ACM TOCS 12
//! (3), 1994: section 4.2 (what of a system's structure its TLB misses depend on), Figure 4 and Table IV (the
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
