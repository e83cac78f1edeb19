//! Running a real program under an engine, and importers.
//!
//! Design constraints: engines live in processes of their own, under licences of their own, and are spoken to through
//! the documented stream of `engines/valgrind/WIRE.md` only; nothing that comes from another process or a file
//! is trusted; whatever fails, the traced program runs on to its own end; no simulator, report or column format
//! is known here, so that recording stays light.
//!
//! - [`engine::Engine`]: the Valgrind tool, built once for the Valgrind that is installed.
//! - [`Session`]: runs the engine's command and hands out one [`RingSource`] for each process image.
//! - [`wire`]: the words of the stream, decoded.
//! - [`Window`]: the region of interest of any source.
//! - [`import`]: other tools' files, one file and one line of the registry a format. [`LackeyWriter`] is the way out.
//! - [`check_program`]: whether a program can be captured, found out before anything is started; [`check_place`]:
//!   whether the engine leaves it its place.

pub mod engine;
pub mod import;
pub mod wire;

mod build_id;
mod error;
mod host;
mod instructions;
mod processors;
mod program;
mod read_ahead;
mod ring;
mod session;
mod source;
mod window;

pub use error::CaptureError;
pub use host::Host;
pub use import::{LackeySource, LackeyWriter, Text};
pub use instructions::{MissingInstructions, unmet_needs};
pub use program::{check_place, check_program};
pub use read_ahead::{ReadAhead, read_ahead};
pub use session::{Handle, Session};
pub use source::{RingSource, UNFINISHED};
pub use window::{Window, WindowSpec};
