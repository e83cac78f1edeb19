//! Where libraries lie, and where they should.
//!
//! The address of a library decides which sets of a TLB its pages fall into. A [`Plan`] says where each library is to
//! lie; [`plan`] reads, checks and writes it, [`files`] compares it with the files of this host.

pub mod elf;
pub mod files;
pub mod plan;

pub use plan::{Place, Plan, PlanError, Program};
