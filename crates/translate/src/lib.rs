//! Translation hardware: what a machine is, and its parts below the first-level TLBs.
//!
//! Design constraints: knows nothing of the kernel's policies and nothing of cycles. A machine is read
//! from TOML ([`MachineSpec`]); its lower TLB levels ([`LowerLevels`]) and its page walker
//! ([`RadixWalker`]) are touched only on first-level misses. First-level arrays are simulated by
//! `sim`, which sees every reference.

mod error;
mod file;
mod lower;
mod rules;
mod spec;
mod walker;

pub use error::MachineError;
pub use lower::{ArrayCounts, Filled, LowerLevels, page_key};
pub use spec::{CostSpec, Fills, KindSet, MachineSpec, Match, TlbSpec, WalkCacheSpec, WalkerSpec};
pub use walker::{RadixWalker, WalkCacheCounts, WalkLevel};
