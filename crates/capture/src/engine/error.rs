//! Problems with a host's Valgrind.

use std::io;
use std::path::{Path, PathBuf};

/// Why the engine cannot be used on this host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Not x86-64 Linux.
    #[error("the Valgrind engine runs on x86-64 Linux only; this is {0}")]
    Host(String),
    /// The limit on open files is too low.
    #[error(
        "{limit} files may be open at a time (ulimit -Hn, RLIMIT_NOFILE); the engine needs {least}, most of them for \
         itself. Raise the limit, or start pagewalk where it is higher and lower it in the command: \
         pagewalk profile -- sh -c 'ulimit -n {limit}; exec CMD'"
    )]
    Files {
        /// The hard limit.
        limit: u64,
        /// The least sufficient limit.
        least: u64,
    },
    /// No `valgrind` program.
    #[error("no program `valgrind` in PATH ({path}); on Debian and Ubuntu: apt-get install valgrind")]
    NoValgrind {
        /// The value of `PATH`.
        path: String,
    },
    /// `valgrind --version` failed or printed something else.
    #[error("`{program} --version` printed {printed:?}, not a version of Valgrind")]
    Version {
        /// The program.
        program: PathBuf,
        /// Its output, or why there is none.
        printed: String,
    },
    /// Files for building tools are missing.
    #[error(
        "{valgrind} (version {version}) is here, but {missing} is not; looked in {looked_in}. \
         On Debian and Ubuntu the package `valgrind` has it: apt-get install --reinstall valgrind"
    )]
    Incomplete {
        /// The program found.
        valgrind: PathBuf,
        /// Its version.
        version: String,
        /// The file that is missing.
        missing: &'static str,
        /// The folders searched.
        looked_in: String,
    },
    /// No C compiler.
    #[error(
        "no C compiler (cc, gcc or clang) in PATH to build the engine with; \
         on Debian and Ubuntu: apt-get install gcc libc6-dev"
    )]
    NoCompiler,
    /// No `objcopy`.
    #[error(
        "no program `objcopy` in PATH, which the engine is built with; \
         on Debian and Ubuntu: apt-get install binutils"
    )]
    NoObjcopy,
    /// The compiler rejected the engine's sources.
    #[error(
        "the engine cannot be built for Valgrind {version} (tested: {tested}): `{compiler}` says\n{output}\n\
         If it misses a header of the C library, apt-get install libc6-dev; \
         if it does not know something of Valgrind's, install one of the tested versions"
    )]
    Build {
        /// The installed version.
        version: String,
        /// The versions known to work.
        tested: String,
        /// The compiler.
        compiler: PathBuf,
        /// The end of what it printed.
        output: String,
    },
    /// The core's library is not as expected.
    #[error(
        "the engine cannot be built with {library}, which lacks what it needs: {what}; \
         install one of the versions of Valgrind that `pagewalk doctor` lists as tested"
    )]
    Core {
        /// The library.
        library: PathBuf,
        /// What differs.
        what: String,
    },
    /// No cache folder.
    #[error("neither XDG_CACHE_HOME nor HOME is set: there is no place to keep the engine; set one of them")]
    NoCache,
    /// The cache folder is not writable.
    #[error("the engine cannot be kept in {folder}: {source}; set XDG_CACHE_HOME to a folder of yours")]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// The action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl EngineError {
    pub(super) fn file(action: &'static str, path: &Path, source: io::Error) -> EngineError {
        EngineError::File { action, path: path.to_owned(), source }
    }
}
