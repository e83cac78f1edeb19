//! Where libraries lie, and where they should.
//!
//! The address of a library decides which sets of a TLB its pages fall into. A [`Plan`] says where each library is to
//! lie; [`plan`] reads, checks and writes it, [`files`] compares it with the files of this host, [`arrivals`] with a
//! run.
//! [`objects`] finds the libraries of a recorded stream, [`rebase`] moves them there. [`evictions`] watches a TLB's
//! sets, and whose pages evict whose, [`graph`] draws one of them; [`splits`] counts what sets cost under many layouts
//! at once; [`calls`] counts which pages of code call which.

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
