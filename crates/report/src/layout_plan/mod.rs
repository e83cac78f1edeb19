//! A planned layout: the result and its renderers.

pub mod schema;

pub use crate::text::render_layout_plan_text as render_text;
pub use schema::LayoutPlanResult;

/// The result as JSON, with a newline at its end.
pub fn to_json(result: &LayoutPlanResult) -> String {
    crate::json::written(result)
}
