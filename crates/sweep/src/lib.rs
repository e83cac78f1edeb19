//! Studies: many machines, families of arrays and miss-ratio curves over many streams, described in one file.
//!
//! A [`Study`] is read from TOML; [`Sweep`] finds the unfinished work and does it; the result is a
//! [`pagewalk_report::sweep::SweepResult`]. `docs/reference/study-files.md` explains the files.
//!
//! Design constraints: a stream is decoded once for each job, and each stretch of it goes to all tasks of the
//! job on all threads; memory does not grow with a stream's length; results do not depend on the number of threads or
//! workers; a finished unit of work is kept and not repeated, but used only for exactly the same stream, machine and
//! program.

mod analyses;
mod board;
mod build;
mod cache_family;
mod compare;
mod counts;
mod data_side;
mod displacement;
mod error;
mod file;
mod gather;
mod groups;
mod jobs;
mod kernels;
mod layouts;
mod machine_task;
mod machines;
mod metrics;
mod names;
mod other_traces;
mod parcel;
mod pass;
mod plans;
mod plots;
mod progress;
mod rounds;
mod run;
mod selection;
mod source;
mod splits;
mod store;
mod stream;
mod structures;
mod study;
mod task;
mod together;
mod traps;
mod vary;
mod workloads;

pub use build::Build;
pub use data_side::{check_energy, uses};
pub use error::SweepError;
pub use jobs::{Claim, Claims, JOB_TASKS, Worker};
pub use metrics::{TRAPPED, add_structure, group_metrics, metrics, partition, unpriced};
pub use parcel::{Parcel, SentJob, StudySource, TraceKey};
pub use progress::Progress;
pub use run::{RemainingWork, Sweep, SweepOptions};
pub use source::StudyFiles;
pub use splits::add_splits;
pub use store::{Store, UNFINISHED, Units, write_whole};
pub use stream::Stream;
pub use study::{
    ComparisonSpec, CurveSpec, DrawFigure, FamilySpec, GivenFile, KernelKind, KernelVariant, LayoutSpec,
    MachineVariant, Precondition, StructureVariant, Study, TraceSpec, Workload,
};
pub use together::named as named_together;
pub use vary::varied;
