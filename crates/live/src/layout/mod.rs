//! Runs an unmodified program with its libraries at planned addresses.
//!
//! At each exec, before the first instruction, a stub is put in front of the loader's call of `mmap` (`loader`,
//! `stub`): it maps the plan's files at their places, and everything else as before. From then on the program does not
//! stop, neither at start nor when it opens a library later; copies by fork have the stub too.
//!
//! The stub needs us no longer, and if we are killed at any moment before, the program runs as usual: each change
//! becomes visible as a whole (`install`). The tracer only waits for new programs (`tracer`).
//!
//! Four other ways were rejected. A filter that stops `mmap` for a tracer outlives it, and then every `mmap` of a file
//! fails. Stops at all system calls miss libraries that are opened later, and start 100 libraries 20 to 50 ms later.
//! Address hints need 2 MiB free behind large files. Changed copies are other builds.

mod host;
mod install;
mod landing;
mod loader;
mod stub;
pub(crate) mod tracer;

pub use host::{HostError, check_host};
pub use landing::{Landing, State};

pub use crate::tracing::follower::Relay;
use crate::tracing::sys::Pid;
use crate::tracing::{LaunchError, ProcessEnd};
use pagewalk_layout::files::Object;
use std::ffi::OsString;
use std::io;

/// How to run a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlacementOptions {
    /// Whether to check each process image when its loader is done; until then its system calls stop.
    pub verify: bool,
    /// Whether to detach from each process when its loader is done, after that check: a debugger can attach then, and
    /// programs that it starts have no plan.
    pub release: bool,
    /// Whether everything that the plan does not place gets the same addresses each time.
    pub no_randomise: bool,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct LayoutRun {
    /// The end of the first process.
    pub end: ProcessEnd,
    /// All process images that began by exec, in order of start; copies by fork belong to the image they copy.
    pub images: Vec<LayoutImage>,
    /// Programs that trace others, with everything they started: we detached from them.
    pub tracers: Vec<String>,
}

/// A process image, from its exec on.
#[derive(Clone, Debug)]
pub struct LayoutImage {
    /// Its process.
    pub process: Pid,
    /// Path of its program.
    pub program: String,
    /// Why it runs without the plan, if it does.
    pub obstacle: Option<String>,
    /// How far the plan was moved up for it, in bytes, to free addresses.
    pub slid_bytes: u64,
    /// The plan's loaded objects when the loader was done, in the plan's order; none if not checked.
    pub at_start: Option<Vec<Landing>>,
    /// The same at its end; of several processes, the first that misses a place, else the last. None if it became
    /// another program, was killed, or still runs.
    pub at_end: Option<Vec<Landing>>,
}

/// Why a process image cannot have the plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Not x86-64.
    #[error("it is no 64-bit program")]
    Not64Bit,
    /// Nothing loads libraries.
    #[error("it is linked statically: nothing loads libraries")]
    Static,
    /// Unknown code.
    #[error("its loader {0} does not map files in the way that is known of glibc's")]
    UnknownLoader(String),
    /// No unused bytes.
    #[error(
        "neither its loader nor it has {} unused bytes behind its code",
        crate::tracing::image::ROOM_BYTES
    )]
    NoRoom,
    /// The plan's addresses are taken, however far it moves.
    #[error("the plan's places are taken by {0}")]
    Taken(String),
    /// Anything else.
    #[error("its memory cannot be changed: {0}")]
    Io(#[from] io::Error),
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The program did not start.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The program cannot have the plan. It did not begin.
    #[error("{program} cannot have its libraries placed: {obstacle}")]
    Program {
        /// Its path.
        program: String,
        /// Why.
        obstacle: Obstacle,
    },
}

/// Runs a program to its end with a plan's objects at their places; so too the programs it starts. `loaded` gets each
/// image whose loader is done, if [`PlacementOptions::verify`] is set.
///
/// Call this on the thread that traces them; it waits there. Processes that outlive the first one run on, no longer
/// traced.
///
/// # Errors
/// If this host does not permit it, or the program cannot be started or placed. Then it was not started.
pub fn run(
    command: &[OsString],
    objects: &[Object],
    options: PlacementOptions,
    relay: &Relay,
    loaded: &mut dyn FnMut(&LayoutImage),
) -> Result<LayoutRun, LayoutError> {
    tracer::trace(command, objects, options, relay, loaded)
}
