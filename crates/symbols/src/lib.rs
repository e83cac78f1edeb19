//! Maps code addresses to functions, files and lines; reads build-ids.
//!
//! Design constraints: the files belong to the traced program and may be stripped, corrupt or missing, so a look-up
//! never fails: it just knows less, and [`Symbolizer::problems`] lists unreadable files with reasons. An object's
//! symbols and its index of debug information are read at the first look-up in it, line tables on demand.
//!
//! A byte of code has a number in three address spaces; mixing them up gives plausible nonsense:
//!
//! - **AVMA**, the actual address in the traced process: [`pagewalk_units::VirtAddr`]. Used only for code outside files
//!   (a JIT's), in a [`JitSymbols`].
//! - **[`FileOffset`]**, the byte's offset in its file, from the mapping: AVMA − mapping start + mapping's file offset.
//!   Look-ups take this one, because it does not depend on where the loader put the file.
//! - **[`Svma`]**, the address stated in the ELF file, which symbols and DWARF use. Program headers convert between
//!   offsets and these; they differ wherever the linker gave a segment an address unequal to its offset.

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
