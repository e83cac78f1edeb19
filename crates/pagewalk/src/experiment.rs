//! An experiment: streams in one arrangement, through machines under kernels, and its result.

mod cores;
mod data_side;
mod groups;
mod kernels;
mod profile;
mod readings;
mod replays;
mod rivals;
mod rows;
mod run;
mod spec;
mod structure;
mod survey;
mod traps;
mod turns;

pub use kernels::policies;
pub use pagewalk_sim::Sharing;
pub use run::ExperimentOutcome;
pub use spec::{Experiment, sharing};
