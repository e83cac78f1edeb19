//! Moves the shared objects of a recorded stream to a plan's places.

use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::traces::{bad, check_file};
use pagewalk_layout::rebase::{self, PlanBinding, RebaseError, RebasedSource};
use pagewalk_plan::{Layout, Plan, Program};
use pagewalk_trace::pwt::{Events, events};
use pagewalk_trace::{Event, Source};
use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// A plan from a file.
pub struct LayoutFile {
    path: PathBuf,
    layout: Layout,
}

impl LayoutFile {
    /// Reads and checks the plan at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or places nothing.
    pub fn read(path: &Path) -> Result<LayoutFile, Error> {
        Ok(LayoutFile { path: path.to_owned(), layout: read(path)?.1 })
    }

    /// Moves the objects of `reader`, which reads `trace` from its beginning, to the plan's places.
    pub fn move_objects<S: Source>(
        &self,
        trace: &Path,
        reader: S,
        listener: &dyn Listener,
    ) -> Result<RebasedSource<S>, Error> {
        Ok(RebasedSource::new(reader, &self.bind(trace, listener)?))
    }

    /// The plan's places in `trace`. Scans its events, so that conflicts are found before anything is simulated.
    pub fn bind(&self, trace: &Path, listener: &dyn Listener) -> Result<PlanBinding, Error> {
        check_file(trace, "--layout")?;
        let recorded = recorded(trace)?;
        let bound = PlanBinding::new(&self.layout, &recorded.header, recorded.in_order());
        let bound = bound.map_err(|error| does_not_fit(&self.path.display(), trace, &error))?;
        if let Some(absent) = told_absent(bound.absent(), trace) {
            listener.warn(&format!("{}: {absent}", self.path.display()));
        }
        Ok(bound)
    }
}

/// Most absent files to name.
const ABSENT_TOLD: usize = 3;

/// One line about the planned files that are no shared objects of `trace`; `None` if all are.
fn told_absent(absent: &[String], trace: &Path) -> Option<String> {
    let trace = trace.display();
    match absent {
        [] => None,
        [file] => Some(format!("{file} is no shared object of {trace}")),
        files => {
            let told = files[..files.len().min(ABSENT_TOLD)].join(", ");
            let more = match files.len().saturating_sub(ABSENT_TOLD) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Some(format!("{} files are no shared objects of {trace}: {told}{more}", files.len()))
        }
    }
}

/// The program and the layout of the plan at `path`.
///
/// # Errors
/// If it cannot be read, or places nothing.
pub(super) fn read(path: &Path) -> Result<(Program, Layout), Error> {
    let Plan { program, layout, .. } = Plan::read(path).map_err(|error| Error::of_file(path, error))?;
    let nothing = || format!("{} places no libraries: it has no [layout]", path.display());
    let layout = layout
        .ok_or_else(|| Error::new(Fault::BadInput, nothing()).or("make one with `pagewalk layout plan`"));
    Ok((program, layout?))
}

/// The places of a new layout from `trace`, its arena moved to free addresses.
pub(super) fn slide(layout: &mut Layout, trace: &Path) -> Result<PlanBinding, Error> {
    let recorded = recorded(trace)?;
    rebase::slide(layout, &recorded.header, recorded.in_order())
        .map_err(|error| does_not_fit(&"the plan", trace, &error))
}

fn recorded(trace: &Path) -> Result<Events, Error> {
    let bad = |error: &dyn Display| bad(trace, error);
    let file = File::open(trace).map_err(|error| bad(&error))?;
    let file = BufReader::with_capacity(1 << 20, file);
    events(file, Event::moves_memory).map_err(|error| bad(&error))
}

fn does_not_fit(plan: &dyn Display, trace: &Path, error: &RebaseError) -> Error {
    let why = format!("{plan} does not fit {}: {error}", trace.display());
    Error::new(Fault::BadInput, why).or("make a plan for this trace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_files_are_counted_and_a_few_named_in_one_line() {
        let told = |files: &[&str]| {
            let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
            told_absent(&files, Path::new("t.pwt"))
        };
        assert_eq!(told(&[]), None);
        assert_eq!(told(&["/a.so"]).as_deref(), Some("/a.so is no shared object of t.pwt"));
        let three = "3 files are no shared objects of t.pwt: a, b, c";
        assert_eq!(told(&["a", "b", "c"]).as_deref(), Some(three));
        let five = "5 files are no shared objects of t.pwt: a, b, c and 2 more";
        assert_eq!(told(&["a", "b", "c", "d", "e"]).as_deref(), Some(five));
    }
}
