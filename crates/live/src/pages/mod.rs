//! Huge pages by range for an unmodified program.

pub mod plan;
