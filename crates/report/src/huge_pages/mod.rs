//! What huge pages would save a program: the result and its renderers.

pub mod schema;

pub use crate::json::to_json;
pub use crate::text::render_huge_pages_text as render_text;
pub use schema::AdviceResult;
