//! The text that `valgrind --tool=lackey --trace-mem=yes` writes: one line for each instruction and each data
//! reference.
//!
//! ```text
//! I  04000c50,3
//!  L 1ffeffe7e,8
//!  S 1ffeffe80,8
//!  M 0421c7cc,4
//! ```
//!
//! Hexadecimal address, decimal bytes; the references of an instruction follow it. Lines that begin with `==` are
//! Valgrind's own. There are no mappings, threads or system calls in it, and no code bytes.

mod assembler;
mod reader;
mod writer;

pub use reader::LackeySource;
pub use writer::LackeyWriter;

#[cfg(test)]
mod tests;
