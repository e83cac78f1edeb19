//! Runs a real program under an engine; imports other tools' traces.
//!
//! Design constraints: engines are separate processes with their own licences, reached only through the documented
//! stream of `engines/valgrind/WIRE.md`; nothing from another process or a file is trusted; whatever fails, the traced
//! program runs to its own end; nothing here depends on a simulator or report, so that recording stays light.
//!
//! - [`engine::Engine`]: the Valgrind tool, built once for the installed Valgrind.
//! - [`Session`]: runs the engine's command and yields one [`RingSource`] for each process image.
//! - [`wire`]: decodes the words of the stream.
//! - [`Window`]: the region of interest of any source.
//! - [`import`]: other tools' files, one file and one registry line per format; [`export`]: the other way round.
//! - [`samples`]: samples that perf took.
//! - [`check_program`]: whether a program can be captured, checked before anything starts; [`check_place`]: whether it
//!   leaves the engine's addresses free.

pub mod engine;
pub mod export;
pub mod import;
pub mod samples;
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
pub use export::LackeyWriter;
pub use host::HostDescription;
pub use import::LackeySource;
pub use instructions::{MissingInstructions, unmet_needs};
pub use processors::share_a_cache;
pub use program::{check_place, check_program};
pub use read_ahead::{ReadAhead, read_ahead};
pub use session::{Session, SessionHandle};
pub use source::{RingSource, UNFINISHED};
pub use window::{MarkersSeen, PassedOver, Window, WindowSpec};
