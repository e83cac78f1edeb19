//! Where libraries lie, and where they should.
//!
//! A library's address decides which TLB sets its pages fall into. A plan's [layout](pagewalk_plan::Layout)
//! gives each library an address; [`files`] compares it with this host's files, [`arrivals`] with a run. [`objects`]
//! finds the libraries of a recorded stream, [`rebase`] moves them there. [`evictions`] watches a TLB's sets and which
//! pages evict which, [`graph`] draws a set; [`splits`] counts what sets cost under many layouts at once; [`calls`]
//! counts which code pages call which.

pub mod arrivals;
pub mod calls;
pub mod elf;
pub mod evictions;
pub mod files;
pub mod graph;
pub mod objects;
pub mod planner;
pub mod rebase;
pub mod splits;
