//! Errors of studies.

use crate::build::Build;
use std::path::PathBuf;

/// Why a study cannot be read or run. Each message names the place and the choices, if any.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The study file is wrong.
    #[error("{file}: {why}")]
    Study {
        /// The file's name.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A trace cannot be used.
    #[error("trace {path}: {why}")]
    Trace {
        /// The trace.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file of the results' folder cannot be read or written.
    #[error("{path}: {error}")]
    Folder {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// A job came to a worker of another build.
    #[error("the study's {study} sent a job to {worker}")]
    Build {
        /// The build that sent it.
        study: Build,
        /// The build that should run it.
        worker: Build,
    },
    /// The caller ended the study.
    #[error("the study was stopped")]
    Stopped,
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(String),
}
