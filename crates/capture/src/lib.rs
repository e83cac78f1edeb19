//! Running a real program under an engine, and importers.
pub mod engine;
mod build_id;
mod error;
mod host;
mod program;
mod ring;
mod session;
mod source;
pub mod wire;
pub use error::CaptureError;
pub use host::Host;
pub use program::check_program;
pub use session::{Handle, Session};
pub use source::RingSource;
