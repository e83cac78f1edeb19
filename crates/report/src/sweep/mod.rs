//! The result of a sweep, and its renderers.
//!
//! [`schema`] is the result; [`render_text`] prints it on a terminal, [`to_json`] writes it as JSON, [`to_parquet`] as
//! one table for other programs, [`render_html`] as a page, [`pictures()`] its pictures one by one.

mod curve;
mod heat;
mod html;
mod parquet;
mod picture;
pub mod schema;

pub use crate::text::render_sweep_text as render_text;
pub use html::{PictureFile, pictures, render_html};
pub use parquet::to_parquet;
pub use schema::SweepResult;

/// Reads what [`to_json`] wrote.
///
/// # Errors
/// When the text is not JSON, names another schema, or lacks fields of this one.
pub fn from_json(text: &str) -> Result<SweepResult, crate::ReadError> {
    crate::json::read(text, schema::SWEEP_SCHEMA)
}

/// The result as JSON, with a newline at its end.
pub fn to_json(result: &SweepResult) -> String {
    crate::json::written(result)
}
