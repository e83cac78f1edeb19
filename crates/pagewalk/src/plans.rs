//! Plans of huge pages: doing what they say, measuring what they bring, and telling what came of it.

mod dry;
pub(crate) mod fitting;
pub mod history;
mod outcome;
mod pairs;
mod process;
mod run;
pub(crate) mod trial;

pub use dry::{PlanPreview, outline};
pub use pairs::{PairOptions, Pairs, Verification};
pub use process::{CollapsedProcess, SplitProcess};
pub use run::{AppliedPlan, RunOptions, run};
