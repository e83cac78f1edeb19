//! Plans of huge pages: applying them, measuring what they save, and reporting.

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
