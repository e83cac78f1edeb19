//! The result of a sweep and its renderers.
//!
//! [`schema`] is the result. [`render_text`] prints it on a terminal, [`to_json`] writes it as JSON, [`to_parquet`] as
//! one table, [`render_html`] as a page, [`pictures()`] as separate pictures.

mod bars;
pub(crate) mod cache_families;
pub(crate) mod comparison;
mod curve;
mod heat;
pub(crate) mod html;
mod kernels;
pub(crate) mod layouts;
mod lines;
pub(crate) mod machines;
pub(crate) mod markup;
mod parquet;
mod parts;
pub(crate) mod picture;
mod plane;
pub mod schema;

pub use crate::json::to_json;
pub use crate::text::render_sweep_text as render_text;
pub use html::{pictures, render_html};
pub use markup::PictureFile;
pub use parquet::to_parquet;
pub use schema::SweepResult;

/// Reads what [`to_json`] wrote.
///
/// # Errors
/// When the text is not JSON, names another schema, lacks fields of this one, or contradicts itself.
pub fn from_json(text: &str) -> Result<SweepResult, crate::ReadError> {
    let result: SweepResult = crate::json::read(text, schema::SWEEP_SCHEMA)?;
    check(&result).map_err(|why| crate::ReadError::Shape {
        expected: schema::SWEEP_SCHEMA,
        error: serde::de::Error::custom(why),
    })?;
    Ok(result)
}

/// Checks what renderers rely on, since a file may not come from [`to_json`].
fn check(result: &SweepResult) -> Result<(), String> {
    let traces = result.traces.len();
    let of_machines = result.machines.iter().map(|cell| ("machines", cell.trace));
    let of_families = result.families.iter().map(|cell| ("families", cell.trace));
    let of_caches = result.cache_families.iter().map(|cell| ("cache_families", cell.trace));
    let of_families = of_families.chain(of_caches);
    let of_curves = result.curves.iter().map(|cell| ("curves", cell.trace));
    let found = result.comparisons.iter().flat_map(|comparison| &comparison.found);
    let of_comparisons = found.map(|found| ("comparisons", found.trace));
    let left_out = result.comparisons.iter().flat_map(|comparison| &comparison.left_out);
    let of_left_out = left_out.map(|left_out| ("comparisons", left_out.trace));
    let of_plans = result.plans.iter().map(|plan| ("plans", plan.trace));
    let of_machines = of_machines.chain(of_plans);
    let mut named = of_machines.chain(of_families).chain(of_curves).chain(of_comparisons).chain(of_left_out);
    if let Some((list, trace)) = named.find(|&(_, trace)| trace >= traces) {
        return Err(format!("{list}: there is no trace {trace}: the {traces} traces are numbered from 0"));
    }
    let of_families = result.families.iter().map(|cell| ("families", &cell.serves));
    let of_caches = result.cache_families.iter().map(|cell| ("cache_families", &cell.serves));
    let mut serves =
        of_families.chain(of_caches).chain(result.curves.iter().map(|cell| ("curves", &cell.serves)));
    match serves.find(|(_, serves)| !matches!(serves.as_str(), "data" | "fetches" | "everything")) {
        Some((list, serves)) => {
            Err(format!("{list}: serves = {serves:?}: choose from data, fetches, everything"))
        }
        None => Ok(()),
    }
}
