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
//!
//! Files in the wild have more: lines of other options, what the program printed, other line ends, a third column,
//! gzip. What cannot be mistaken is read or passed over, and [`LackeyNotes`] tells of it; what was to be a line of
//! the trace and is none is an error.

mod assembler;
mod line;
mod notes;
mod packed;
mod reader;
mod writer;

pub use notes::LackeyNotes;
pub use packed::Text;
pub use reader::LackeySource;
pub use writer::LackeyWriter;

#[cfg(test)]
mod tests;
