//! Running a real program under an engine, and importers.
pub mod engine;
pub mod wire;
mod build_id;
mod error;
mod host;
mod lackey;
mod program;
mod ring;
mod session;
mod source;
mod window;
pub use error::CaptureError;
pub use host::Host;
pub use lackey::{LackeySource, LackeyWriter};
pub use program::check_program;
pub use session::{Handle, Session};
pub use source::RingSource;
pub use window::{Window, WindowSpec};
