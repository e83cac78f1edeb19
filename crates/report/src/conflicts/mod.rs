//! Conflicts in the sets of a TLB: the result and its renderers.
//!
//! [`schema`] is the result; [`render_text`] prints it on a terminal, [`to_json`] writes it as JSON, [`render_html`] as
//! a page with a chooser of sets.

mod html;
pub mod schema;
mod words;

pub use crate::json::to_json;
pub use crate::text::render_conflicts_text as render_text;
pub use html::render_html;
pub use schema::ConflictsResult;
pub use words::places_could_help;
pub(crate) use words::{array_title, headline, page_name, summary};

use crate::ReadError;
use schema::{ArrayResult, CONFLICTS_SCHEMA};

/// Reads what [`to_json`] wrote.
///
/// # Errors
/// When the text is not JSON, names another schema, lacks fields of this one, or contradicts itself.
pub fn from_json(text: &str) -> Result<ConflictsResult, ReadError> {
    let result: ConflictsResult = crate::json::read(text, CONFLICTS_SCHEMA)?;
    match result.arrays.iter().find(|array| !is_whole(array)) {
        None => Ok(result),
        Some(array) => Err(ReadError::Shape {
            expected: CONFLICTS_SCHEMA,
            error: serde::de::Error::custom(format!(
                "array {:?}: misses_by_set needs one number per set, and graphs may name only pages, nodes and sets \
                 that exist",
                array.name
            )),
        }),
    }
}

fn is_whole(array: &ArrayResult) -> bool {
    let known = |graph: &schema::SetGraph| {
        let node = |node: usize| node < graph.nodes.len();
        graph.set < array.sets
            && graph.nodes.iter().all(|node| node.page < array.pages.len())
            && graph.edges.iter().all(|edge| node(edge.victim) && node(edge.victimiser))
    };
    array.misses_by_set.len() as u64 == array.sets && array.graphs.iter().all(known)
}
