//! Plans of huge pages: doing what they say, and telling what came of it.

pub mod apply;
pub mod undo;
pub mod verify;

use crate::arguments::Data;
use crate::output::{print, write_to_stderr};
use pagewalk::Error;

/// Says what came of a process. A dry run's text is what was asked for, so it is printed.
fn tell(data: &Data, text: &str, dry_run: bool) -> Result<(), Error> {
    match dry_run {
        true if !data.json => return print(text),
        false if !data.quiet => write_to_stderr(text),
        _ => {}
    }
    Ok(())
}
