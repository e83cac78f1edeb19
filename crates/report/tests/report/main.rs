//! All tests of this crate in one binary, so that shared code is built once.

mod absurd;
mod conflicts;
mod contiguity;
mod fixtures;
mod golden;
mod hostile;
mod html;
mod json;
mod layout_plan;
mod layout_studies;
mod page;
mod runs;
mod scripts;
mod sweep;
mod text;
mod viewers;
