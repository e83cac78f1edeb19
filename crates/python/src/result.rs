//! Results as the library renders them: JSON, text and pages.

use crate::error::BadInputError;
use pagewalk::report::sweep::SweepResult;
use pagewalk::report::{ReadError, TextOptions, documents, huge_pages, probe, schema::RunResult, sweep};
use pagewalk::report::{from_json, render_html, render_text, schema_of, to_json};
use pyo3::prelude::*;
use serde::Serialize;

/// A result of any kind.
pub enum AnyResult {
    Run(Box<RunResult>),
    Sweep(Box<SweepResult>),
    Probe(Box<probe::ProbeResult>),
    Advice(Box<huge_pages::AdviceResult>),
    /// One that has no renderer in common with others: its JSON and its text.
    Other {
        json: String,
        text: String,
    },
}

/// A result, rendered on demand.
#[pyclass(frozen, module = "pagewalk._pagewalk")]
pub struct Document(pub AnyResult);

impl Document {
    /// A document whose text was made with it.
    pub fn other(document: &impl Serialize, text: String) -> Document {
        Document(AnyResult::Other { json: documents::text(document), text })
    }
}

#[pymethods]
impl Document {
    /// The result as `--json` prints it.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| match &self.0 {
            AnyResult::Run(result) => to_json(result),
            AnyResult::Sweep(result) => sweep::to_json(result),
            AnyResult::Probe(result) => probe::to_json(result),
            AnyResult::Advice(result) => huge_pages::to_json(result),
            AnyResult::Other { json, .. } => json.clone(),
        })
    }

    /// The result as the command prints it.
    #[pyo3(signature = (verbose=false, width=100))]
    fn text(&self, py: Python<'_>, verbose: bool, width: usize) -> String {
        let options = TextOptions { width, color: false, verbose };
        py.detach(|| match &self.0 {
            AnyResult::Run(result) => render_text(result, &options),
            AnyResult::Sweep(result) => sweep::render_text(result, &options),
            AnyResult::Probe(result) => probe::render_text(result, &options),
            AnyResult::Advice(result) => huge_pages::render_text(result, &options),
            AnyResult::Other { text, .. } => text.clone(),
        })
    }

    /// The page, if there is one for this kind.
    fn html(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| match &self.0 {
            AnyResult::Run(result) => Some(render_html(result)),
            AnyResult::Sweep(result) => Some(sweep::render_html(result)),
            AnyResult::Probe(result) => Some(probe::render_html(result)),
            AnyResult::Advice(_) | AnyResult::Other { .. } => None,
        })
    }
}

/// Reads a saved result of a run, a study or a probe.
#[pyfunction]
pub fn read_result(text: &str) -> PyResult<Document> {
    let read = || -> Result<AnyResult, ReadError> {
        let schema = schema_of(text)?;
        Ok(match schema.as_str() {
            name if name.starts_with("pagewalk.sweep/") => {
                AnyResult::Sweep(Box::new(sweep::from_json(text)?))
            }
            name if name.starts_with("pagewalk.probe/") => {
                AnyResult::Probe(Box::new(probe::from_json(text)?))
            }
            _ => AnyResult::Run(Box::new(from_json(text)?)),
        })
    };
    read().map(Document).map_err(|error| BadInputError::new_err(error.to_string()))
}
