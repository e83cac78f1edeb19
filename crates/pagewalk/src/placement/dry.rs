//! What would be placed where, and whether files and host allow it.

use super::fitting::FittedLayout;
use super::rebase::read;
use super::result::plan_file;
use crate::error::{Error, Fault};
use crate::program::OR_DEFAULT;
use pagewalk_layout::files::Object;
use pagewalk_live::layout::check_host;
use pagewalk_report::documents::layout_run::{
    LAYOUT_RUN_SCHEMA, LayoutRunResult, PlacedDryRun, PlannedLibrary,
};
use pagewalk_report::printable;
use std::ffi::OsString;
use std::path::Path;

/// A preview of a layout.
pub struct LayoutPreview {
    /// For people.
    pub text: String,
    /// As data.
    pub document: LayoutRunResult,
    missing: Option<String>,
}

impl LayoutPreview {
    /// Checks that this host allows it.
    ///
    /// # Errors
    /// What the host lacks.
    pub fn check_host(&self) -> Result<(), Error> {
        self.missing.as_ref().map_or(Ok(()), |missing| Err(Error::new(Fault::HostCannot, missing)))
    }
}

/// Checks the plan at `path` with the program of `command`, or with the plan's own program; runs nothing.
///
/// # Errors
/// If the plan does not fit.
pub fn outline(path: &Path, command: &[OsString]) -> Result<LayoutPreview, Error> {
    let planned = || -> Result<OsString, Error> { Ok(read(path)?.0.path.into()) };
    let program = command.first().cloned().map_or_else(planned, Ok)?;
    let mut fitting = FittedLayout::new(path, &program, OR_DEFAULT)?;
    let missing = check_host().err().map(|error| format!("{error}; to enable: {}", error.enable()));
    fitting.objects.sort_by_key(|object| object.base);
    let objects = &fitting.objects;
    let place = |object: &Object| {
        let (file, base) = (object.file.clone(), format!("{:#x}", object.base));
        PlannedLibrary { file, base, bytes: object.bytes }
    };
    let document = LayoutRunResult::Dry(PlacedDryRun {
        schema: LAYOUT_RUN_SCHEMA,
        dry_run: true,
        plan: plan_file(path, &fitting),
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        would_place: objects.iter().map(place).collect(),
        missing: missing.clone(),
    });
    let row = |object: &Object| {
        let end = object.base + object.bytes;
        format!("{:#x} to {end:#x}  {}\n", object.base, printable(&object.file))
    };
    let mut text: String = objects.iter().map(row).collect();
    text += &format!(
        "{} of the plan's libraries are here as planned; nothing was run (--dry-run)\n",
        objects.len()
    );
    Ok(LayoutPreview { text, document, missing })
}
