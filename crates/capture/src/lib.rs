//! Capture.
pub mod wire;
