//! Where the shared objects of a program lie: planning it, and running programs so.

mod dry;
mod fitting;
pub(crate) mod landings;
pub mod plan;
mod rebase;
mod result;
mod run;

pub use dry::{Outline, outline};
pub use fitting::Fitting;
pub use rebase::PlanFile;
pub use result::Outcome;
pub use run::{Options as RunOptions, run};
