//! Runs of a program with its libraries where a plan wants them.

use super::fitting::FittedLayout;
use super::landings::{LOADER_DONE, table};
use super::result::LayoutOutcome;
use crate::error::{Error, Fault};
use crate::listener::Listener;
use crate::native::relay_signals;
use crate::program::{OR_DEFAULT, cannot_trace, does_not_fit};
use pagewalk_layout::files::Object;
use pagewalk_live::layout::{self, LayoutError, LayoutImage, LayoutRun, Relay};
use pagewalk_live::tracing::LaunchError;
use std::ffi::OsString;
use std::path::Path;

pub use pagewalk_live::layout::PlacementOptions;

/// Runs a program with its libraries where the plan at `path` wants them. If `options` ask to verify, the listener gets
/// the landings when the loader is done.
///
/// # Errors
/// If the plan does not fit, or the program cannot run.
pub fn run(
    path: &Path,
    command: &[OsString],
    options: PlacementOptions,
    listener: &dyn Listener,
) -> Result<LayoutOutcome, Error> {
    let fitting = FittedLayout::new(path, &command[0], OR_DEFAULT)?;
    let run = run_placed(command, &fitting.objects, options, listener)?;
    Ok(LayoutOutcome { fitting, run })
}

fn run_placed(
    command: &[OsString],
    objects: &[Object],
    options: PlacementOptions,
    listener: &dyn Listener,
) -> Result<LayoutRun, Error> {
    static RELAY: Relay = Relay::new();
    let signals = relay_signals(&RELAY, listener)?;
    let is_looked_at = options.verify;
    let mut loaded = |image: &LayoutImage| {
        if let Some(landings) = image.at_start.as_ref().filter(|_| is_looked_at) {
            listener.text(&table(image, objects, landings, LOADER_DONE));
        }
    };
    let run = layout::run(command, objects, options, &RELAY, &mut loaded);
    drop(signals);
    run.map_err(|error| match error {
        LayoutError::Launch(error @ LaunchError::Trace(_)) => cannot_trace(error),
        LayoutError::Program { .. } => does_not_fit(&error, OR_DEFAULT),
        error => Error::new(Fault::Failed, error),
    })
}
