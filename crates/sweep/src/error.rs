//! What can go wrong.

use std::path::PathBuf;

/// Why a study cannot be read or run. Each message names the place and, where there are any, the choices.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The study file is wrong.
    #[error("{file}: {why}")]
    Study {
        /// The file's name.
        file: String,
        /// What is wrong in it.
        why: String,
    },
    /// A trace cannot be used.
    #[error("trace {path}: {why}")]
    Trace {
        /// The trace.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file of the results' folder cannot be read or written.
    #[error("{path}: {error}")]
    Folder {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// No threads to be had.
    #[error("cannot start threads: {0}")]
    Threads(String),
}
