//! pagewalk as a library: what the command does, to be called from programs.
//!
//! An [`Experiment`] simulates machines under kernels over recorded traces ([`Experiment::traces`]) or over a running
//! program ([`Experiment::program`]). A [`Listener`] hears of progress and warnings; [`SilentListener`] drops them.
//! Nothing here prints or ends the process. Failures are [`Error`]s.
//!
//! ```no_run
//! use pagewalk::{Experiment, SilentListener, machines};
//!
//! let experiment = Experiment::new(vec![machines::load("golden_cove")?]);
//! let traces = ["T.pwt".into()];
//! experiment.check(&traces)?;
//! let result = experiment.traces(&traces, &SilentListener)?.result;
//! assert_eq!(result.machines[0].name, "golden_cove");
//! # Ok::<(), pagewalk::Error>(())
//! ```
//!
//! The crates underneath are re-exported as modules: [`report`] has the result types, [`trace`] streams, [`translate`]
//! machines.

mod colors;
mod error;
mod findings;
mod folders;
mod listener;
mod makers;
mod native;
mod program;
mod waits;

pub mod advice;
pub mod conflicts;
pub mod contiguity;
pub mod doctor;
pub mod engine;
pub mod experiment;
pub mod machines;
pub mod output;
pub mod own_process;
pub mod placement;
pub mod plans;
pub mod probe;
pub mod promotion;
pub mod recording;
pub mod samples;
pub mod shell;
pub mod stream;
pub mod study;
pub mod traces;
pub mod trap;

pub use error::{Error, Fault};
pub use experiment::Experiment;
pub use listener::{Bar, CountingReader, Listener, RelayGuard, SignalRelay, SilentListener};

pub use pagewalk_capture as capture;
pub use pagewalk_layout as layout;
pub use pagewalk_live as live;
pub use pagewalk_mm as mm;
pub use pagewalk_plan as plan;
pub use pagewalk_report as report;
pub use pagewalk_setassoc as setassoc;
pub use pagewalk_sim as sim;
pub use pagewalk_sweep as sweep;
pub use pagewalk_trace as trace;
pub use pagewalk_translate as translate;
pub use pagewalk_units as units;
