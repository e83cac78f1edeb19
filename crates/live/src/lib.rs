//! This Linux host: what of a machine can be simulated on it while a program runs at its own speed.
//!
//! [`trap`] is Tapeworm on Linux: pages that the simulated TLB does not hold are absent, so that only misses cost time.

pub mod trap;
