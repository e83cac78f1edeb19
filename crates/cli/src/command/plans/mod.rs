//! The commands on plans of huge pages.

pub mod apply;
pub mod undo;
pub mod verify;

use crate::arguments::Data;
use crate::output::{print, write_to_stderr};
use pagewalk::Error;

/// Prints the outcome for a process. A dry run's text is the requested output, so it goes to stdout.
fn report(data: &Data, text: &str, dry_run: bool) -> Result<(), Error> {
    match dry_run {
        true if !data.json => return print(text),
        false if !data.quiet => write_to_stderr(text),
        _ => {}
    }
    Ok(())
}
