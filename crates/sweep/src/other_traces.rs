//! A study of other programs than its file names.

use crate::error::SweepError;
use crate::file::{check_names, file_trace};
use crate::study::Study;
use crate::{layouts, plots, together};
use std::path::PathBuf;

impl Study {
    /// The same study of these trace files instead of the streams that it names, and what it then leaves out by name:
    /// layouts, comparisons and pictures of streams that are not there.
    ///
    /// # Errors
    /// If two files have one name, or streams cannot be what the study asks for.
    pub fn on_traces(mut self, traces: &[PathBuf]) -> Result<(Study, Vec<String>), SweepError> {
        let file = self.file.clone();
        let wrong = |why: String| SweepError::Study { file: file.clone(), why };
        self.traces = traces.iter().cloned().map(file_trace).collect::<Result<_, _>>().map_err(wrong)?;
        check_names(&self.traces).map_err(wrong)?;
        let mut left_out = Vec::new();
        let names: Vec<String> = self.traces.iter().map(|trace| trace.name().to_owned()).collect();
        self.layouts.retain(|layout| {
            let known = layout.from.iter().chain(&layout.traces).all(|name| names.contains(name));
            if !known {
                left_out.push(format!("layout `{}`", layout.name));
            }
            known
        });
        together::check(&self).map_err(wrong)?;
        layouts::check(&self).map_err(wrong)?;
        let mut compare = std::mem::take(&mut self.compare);
        compare.retain(|one| one.check(&self).inspect_err(|why| left_out.push(why.clone())).is_ok());
        let mut plots = std::mem::take(&mut self.plots);
        plots.retain(|one| plots::check(one, &self).inspect_err(|why| left_out.push(why.clone())).is_ok());
        (self.compare, self.plots) = (compare, plots);
        Ok((self, left_out))
    }
}
