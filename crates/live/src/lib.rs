//! This Linux host: what can be seen of a program while it runs at its own speed.
//!
//! [`trap`] is Tapeworm on Linux: pages that the simulated TLB does not hold are absent, so that only misses cost time.
//! [`layout`] runs a program with its libraries where a plan wants them.
//! [`pages`] runs a program with those ranges of its memory on huge pages that a plan wants there.
//! [`promote`] brings a running process's memory onto huge pages where its TLB misses have paid for that.
//! [`pagemap`] reads a live process's page map: what designs of TLBs would make of its memory.
//! [`timing`] says how long a program takes, [`warmth`] has it find memory that is there.
//! [`probe`] measures the host itself by timing: its TLBs, walks, caches, and what its kernel takes.

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
