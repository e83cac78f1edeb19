//! Errors of machine files.

use pagewalk_setassoc::GeometryError;

/// Why a machine file does not describe a machine. Each message names the place and the choices.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Not TOML, an unknown key, a missing key, or a value of the wrong type.
    #[error("{file}: {message}")]
    Syntax {
        /// The file's name.
        file: String,
        /// What and where, with the line shown.
        message: String,
    },
    /// A TLB's geometry is impossible.
    #[error("{file}: tlb `{tlb}`: {why}")]
    TlbGeometry {
        /// The file's name.
        file: String,
        /// The array's name.
        tlb: String,
        /// Why it is impossible.
        why: GeometryError,
    },
    /// A walk cache's geometry is impossible.
    #[error("{file}: walker cache `{cache}`: {why}")]
    CacheGeometry {
        /// The file's name.
        file: String,
        /// The cache's key.
        cache: String,
        /// Why it is impossible.
        why: GeometryError,
    },
    /// A rule between several keys is broken.
    #[error("{file}: {why}")]
    Rule {
        /// The file's name.
        file: String,
        /// The rule, what breaks it, and the choices.
        why: String,
    },
}
