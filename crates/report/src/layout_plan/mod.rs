//! A planned layout: the result and its renderers.

pub mod schema;

pub use crate::json::to_json;
pub use crate::text::render_layout_plan_text as render_text;
pub use schema::LayoutPlanResult;
