//! What huge pages would save a program: the result and its renderers.

pub mod schema;

pub use crate::text::render_huge_pages_text as render_text;
pub use schema::AdviceResult;

/// The result as JSON, with a newline at its end.
pub fn to_json(result: &AdviceResult) -> String {
    crate::json::written(result)
}
