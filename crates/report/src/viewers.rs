//! Results for other tools' viewers of profiles: one file per format, with a line in [`VIEWERS`].
//!
//! A result has no call stacks: it knows the function and the line whose references walk. So stacks here are process,
//! object, function. What the functions of a process leave of its walks is [`REST`], so that totals are the result's.

mod callgrind;
mod firefox;
mod leaves;
mod markers;
mod stacks;

use crate::schema::RunResult;

/// A format of profiles.
pub struct Viewer {
    /// Its name for `--format`.
    pub name: &'static str,
    /// What shows such files, as a phrase that continues "NAME is".
    pub about: &'static str,
    /// Writes a result in the format.
    pub render: fn(&RunResult) -> String,
}

/// All formats, in the order of messages.
pub static VIEWERS: &[Viewer] = &[firefox::FORMAT, stacks::FORMAT, callgrind::FORMAT];

/// The format of this name.
pub fn viewer(name: &str) -> Option<&'static Viewer> {
    VIEWERS.iter().find(|viewer| viewer.name == name)
}

pub use leaves::REST;
