//! Why a program could not be captured.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a program, or one of its processes, could not be captured. Each message names the cause and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// No such program.
    #[error("program `{name}` not found{}", if name.contains('/') { "" } else { " in PATH" })]
    ProgramNotFound {
        /// As the user gave it.
        name: String,
    },
    /// Not executable.
    #[error("{} is not executable: {why}", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// Executable but not readable.
    #[error("{} cannot be read, and the engine has to read it: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program for another processor.
    #[error("{} is a {found} program; only 64-bit x86-64 programs can be captured", path.display())]
    OtherArchitecture {
        /// The program.
        path: PathBuf,
        /// What it is made for.
        found: String,
    },
    /// A program that is loaded at the engine's addresses.
    #[error(
        "{} is not position independent and its image reaches up to {end:#x}, but the engine lies at {engine:#x}; \
         build it with -pie, or use `trap`, which runs it natively", path.display()
    )]
    NoPlace {
        /// The program.
        path: PathBuf,
        /// Where its image ends.
        end: u64,
        /// Where the engine begins.
        engine: u64,
    },
    /// Neither an ELF program nor a script.
    #[error("{} is not a program: {why}", path.display())]
    NotAProgram {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        why: &'static str,
    },
    /// A script with a broken `#!` line.
    #[error("the script {} needs the interpreter of its `#!` line: {source}", script.display())]
    Interpreter {
        /// The script.
        script: PathBuf,
        /// The interpreter's error.
        source: Box<CaptureError>,
    },
    /// A program that gains privileges.
    #[error(
        "{} gains privileges when it starts (set-user-ID, set-group-ID or capabilities), which no engine can \
         follow; capture a copy without them",
        path.display()
    )]
    Privileged {
        /// The program.
        path: PathBuf,
    },
    /// No place for the socket.
    #[error("cannot make a private directory for the run in {}: {source}; set TMPDIR to another place", path.display())]
    RunDirectory {
        /// Where it should have been.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel limits the path of a socket to 107 bytes.
    #[error("the path of the engine's socket is too long: {}; set TMPDIR to a shorter path", path.display())]
    SocketPath {
        /// The path.
        path: PathBuf,
    },
    /// A system call of the session failed.
    #[error("{what} failed: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The engine's program could not be started.
    #[error("cannot start the engine `{program}`: {source}")]
    Spawn {
        /// Its path.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The engine ended before it sent any stream.
    #[error("the engine ended ({status}) before it sent anything")]
    EngineSilent {
        /// How it ended.
        status: ExitStatus,
    },
    /// A connection that does not speak this version of the protocol.
    #[error("process {pid} connected to the session but {what}; it runs on untraced")]
    Refused {
        /// Its process id.
        pid: u32,
        /// What is wrong.
        what: String,
    },
    /// A started process never connected.
    #[error("process {pid} was started by the program but sent no stream; it runs on untraced")]
    NeverConnected {
        /// Its process id.
        pid: u32,
    },
}

impl CaptureError {
    /// For `map_err` on system calls.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> CaptureError {
        move |source| CaptureError::System { what, source: source.into() }
    }
}
