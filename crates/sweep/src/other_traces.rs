//! Runs a study on other traces.

use crate::error::SweepError;
use crate::file::{check_names, file_trace};
use crate::study::Study;
use crate::{layouts, plots};
use std::path::PathBuf;

impl Study {
    /// The study with these trace files instead of its own streams, and the names of what it then leaves out: layouts,
    /// comparisons and pictures of missing streams.
    ///
    /// # Errors
    /// If two files have the same name, or the streams do not suit the study.
    pub fn on_traces(mut self, traces: &[PathBuf]) -> Result<(Study, Vec<String>), SweepError> {
        let file = self.file.clone();
        let wrong = |why: String| SweepError::Study { file: file.clone(), why };
        self.traces = traces.iter().cloned().map(file_trace).collect::<Result<_, _>>().map_err(wrong)?;
        check_names(&self.traces).map_err(wrong)?;
        let mut left_out = Vec::new();
        let names: Vec<String> = self.traces.iter().map(|trace| trace.name().to_owned()).collect();
        for recorded in self.layouts.iter_mut().filter(|layout| layout.planner.is_none()) {
            recorded.traces.retain(|name| names.contains(name));
        }
        self.layouts.retain(|layout| {
            let known = layout.from.iter().chain(&layout.traces).all(|name| names.contains(name));
            if !known {
                left_out.push(format!("layout `{}`", layout.name));
            }
            known
        });
        layouts::check(&self).map_err(wrong)?;
        let mut compare = std::mem::take(&mut self.compare);
        compare.retain(|one| one.check(&self).inspect_err(|why| left_out.push(why.clone())).is_ok());
        let mut plots = std::mem::take(&mut self.plots);
        plots.retain(|one| plots::check(one, &self).inspect_err(|why| left_out.push(why.clone())).is_ok());
        (self.compare, self.plots) = (compare, plots);
        Ok((self, left_out))
    }
}
