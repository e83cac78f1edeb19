//! How many entries TLB designs would need for a live process's memory: the result and its renderers.
//!
//! [`schema`] is the result; [`render_text`] prints it on a terminal, [`to_json`] writes it as JSON, [`render_html`]
//! as a page, [`run_lengths_file`] the picture of run lengths; [`advise`] says in one sentence what to do about it.

mod advice;
pub(crate) mod colors;
mod html;
mod picture;
pub mod schema;

pub use crate::json::to_json;
pub use crate::text::render_contiguity_text as render_text;
pub use advice::{advise, huge_pages_help};
pub use html::render_html;
pub use schema::ContiguityResult;

use schema::CONTIGUITY_SCHEMA;

/// Reads what [`to_json`] wrote.
///
/// # Errors
/// When the text is not JSON, names another schema, lacks fields of this one, or contradicts itself.
pub fn from_json(text: &str) -> Result<ContiguityResult, crate::ReadError> {
    let result: ContiguityResult = crate::json::read(text, CONTIGUITY_SCHEMA)?;
    let odd = result.designs.iter().find(|design| {
        let sizes = &design.sizes;
        sizes.pages.len() != sizes.entries.len() || sizes.pages.contains(&0)
    });
    match odd {
        Some(design) => Err(crate::ReadError::Shape {
            expected: CONTIGUITY_SCHEMA,
            error: serde::de::Error::custom(format!(
                "design {:?}: sizes.pages and sizes.entries need the same length, and no size may be 0",
                design.name
            )),
        }),
        None => Ok(result),
    }
}

/// The picture of run lengths as a file of its own.
pub fn run_lengths_file(result: &ContiguityResult) -> String {
    picture::run_lengths(result).file(&picture::run_lengths_label(result))
}
