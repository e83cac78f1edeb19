//! Plans of huge pages: doing what they say, and telling what came of it.

pub mod apply;
mod attach;
mod dry;
mod fitting;
mod history;
mod outcome;
pub mod undo;
pub mod verify;
