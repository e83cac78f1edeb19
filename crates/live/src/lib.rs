//! Observes and changes programs on this Linux host, at their own speed.
//!
//! [`trap`] is Tapeworm on Linux: pages that the simulated TLB does not hold are absent, so that only misses cost time.
//! [`layout`] runs a program with its libraries at planned addresses. [`pages`] runs a program with planned ranges on
//! huge pages. [`promote`] puts a running process's memory on huge pages where its TLB misses pay for it. [`pagemap`]
//! reads a live process's page map and compares TLB designs on it. [`timing`] times a program; [`warmth`] warms its
//! memory before. [`probe`] measures the host by timing: its TLBs, walks, caches and kernel costs.

pub mod layout;
pub mod pagemap;
pub mod pages;
mod perf;
pub mod probe;
pub mod promote;
pub mod timing;
pub mod tracing;
pub mod trap;
pub mod warmth;
