//! Placing a program's shared objects: planning, and running programs so.

mod dry;
mod fitting;
pub(crate) mod landings;
pub mod plan;
mod rebase;
mod result;
mod run;

pub use dry::{LayoutPreview, outline};
pub use fitting::FittedLayout;
pub use rebase::LayoutFile;
pub use result::LayoutOutcome;
pub use run::{PlacementOptions, run};
