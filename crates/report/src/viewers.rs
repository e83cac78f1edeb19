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
pub trait Viewer: Sync {
    /// Its name for `--format`.
    fn name(&self) -> &'static str;

    /// What shows such files, as a phrase that continues "NAME is".
    fn about(&self) -> &'static str;

    /// The result in the format.
    fn render(&self, result: &RunResult) -> String;
}

/// All formats, in the order of messages.
pub static VIEWERS: &[&dyn Viewer] = &[&firefox::Firefox, &stacks::Folded, &callgrind::Callgrind];

/// The format of this name.
pub fn viewer(name: &str) -> Option<&'static dyn Viewer> {
    VIEWERS.iter().copied().find(|viewer| viewer.name() == name)
}

pub use leaves::REST;
