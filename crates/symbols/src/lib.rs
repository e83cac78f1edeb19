//! Code addresses to functions, files and lines; build-ids.
//!
//! Design constraints: the files looked at belong to the traced program and may be stripped, corrupt or
//! gone, so a lookup never fails: it knows less, and [`Symbolizer::problems`] says which files could not be
//! read and why. An object's symbols and its index of debug information are read at the first lookup in it,
//! line tables when a lookup needs them.
//!
//! The same byte of code has a number in three address spaces, and mixing them up gives plausible nonsense:
//!
//! - **AVMA**, the actual address in the traced process: [`pagewalk_units::VirtAddr`]. Only code that is in
//!   no file (a JIT's) is looked up by it, in a [`JitSymbols`].
//! - **[`FileOffset`]**, the byte's place in its file. What a mapping gives: AVMA − mapping start + mapping's
//!   file offset. Lookups take this one, because it needs no notion of where the loader put the file.
//! - **[`Svma`]**, the address that the ELF file itself states, which symbols and DWARF use. A program header
//!   takes an offset there; the two differ wherever the linker placed a segment at an address unequal to
//!   its offset.

mod address;
mod code;
mod debug_file;
mod dwarf;
mod elf;
mod flow;
mod jit;
mod object_file;
mod pclntab;
mod plt;
mod symbol_table;
mod symbolizer;
mod unwind;

pub use address::{FileOffset, Svma};
pub use jit::{JitError, JitSymbols};
pub use object_file::ObjectError;
pub use symbolizer::{Symbol, Symbolizer, build_id};
