//! Starts a program traced, and stopped before its first instruction.

use super::stops::{self, StopEvent, WaitStatus};
use super::sys::{self, Pid, Resume};
use pagewalk_units::inheritance::ignores_broken_pipes;
use std::ffi::{CString, OsString, c_char, c_int};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;

/// A signal's default action.
const DEFAULT_ACTION: usize = 0;
/// No action.
const IGNORED: usize = 1;

unsafe extern "C" {
    /// `fork(2)`.
    pub fn fork() -> c_int;
    fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int;
    fn _exit(status: c_int) -> !;
    fn signal(number: c_int, handler: usize) -> usize;
}

/// Exits at once, without destructors or flushing.
pub fn end(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { _exit(status) }
}

/// Why the program could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A zero byte in a name.
    #[error("{0:?} has a zero byte in it")]
    ZeroByte(OsString),
    /// Tracing is not permitted.
    #[error("may not trace the program that it starts: {0}")]
    Trace(io::Error),
    /// Filters are not permitted.
    #[error("cannot put a seccomp filter on the program: {0}")]
    Filter(io::Error),
    /// Disabling address randomisation is not permitted.
    #[error("cannot switch off the randomisation of addresses: {0}")]
    Randomisation(io::Error),
    /// No such program, or not executable.
    #[error("cannot start {program:?}: {error}")]
    #[allow(missing_docs)]
    Exec { program: OsString, error: io::Error },
    /// The kernel killed it as it loaded it.
    #[error("cannot start {program:?}: it dies as it is loaded, as a file does that is cut short")]
    #[allow(missing_docs)]
    Broken { program: OsString },
    /// Anything else.
    #[error("starting the program: {0}")]
    Io(#[from] io::Error),
}

/// What the new process does before exec.
#[derive(Clone, Copy)]
pub struct BeforeExec<'a> {
    /// Makes only system calls: other threads of the parent may have left locks held.
    pub does: &'a dyn Fn() -> io::Result<()>,
    /// The error if that fails.
    pub failed: fn(io::Error) -> LaunchError,
}

/// Marks, in the pipe, of the step that failed in the child.
const BEFORE_EXEC: u8 = b'b';
const AT_EXEC: u8 = b'e';

/// Starts `command`, traced with these options (of [`sys::option`], including `EXEC`); it is stopped at the end of its
/// exec.
pub fn launch(
    command: &[OsString],
    before: Option<BeforeExec<'_>>,
    options: u64,
) -> Result<Pid, LaunchError> {
    let zero_byte = |word: &OsString| LaunchError::ZeroByte(word.clone());
    let words: Vec<CString> = command
        .iter()
        .map(|word| CString::new(word.as_bytes()).map_err(|_| zero_byte(word)))
        .collect::<Result<_, _>>()?;
    let mut pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let (may_go, let_go) = io::pipe()?;
    let (failure, failed) = io::pipe()?;
    // SAFETY: the child makes only system calls, so no lock of another thread matters.
    let child = unsafe { fork() };
    if child < 0 {
        return Err(io::Error::last_os_error().into());
    }
    if child == 0 {
        // We keep the only write end: if we are killed, the child reads end of file instead of waiting on.
        drop((let_go, failure));
        in_child(may_go, failed, before, &pointers);
    }
    drop((may_go, failed));
    if let Err(error) = sys::seize(child, options) {
        let _ = sys::kill(child, sys::SIGKILL);
        let _ = stops::wait(child);
        return Err(LaunchError::Trace(error));
    }
    (&let_go).write_all(&[1])?;
    to_exec(child, failure, &command[0], before)
}

/// The child: waits until it is traced, then executes the program.
fn in_child(
    mut may_go: PipeReader,
    failed: PipeWriter,
    before: Option<BeforeExec<'_>>,
    arguments: &[*const c_char],
) -> ! {
    let mut word = [0];
    let outcome = may_go.read_exact(&mut word).and_then(|()| before.map_or(Ok(()), |before| (before.does)()));
    let (mark, error) = match outcome {
        Err(error) => (BEFORE_EXEC, error),
        Ok(()) => {
            // Rust programs ignore SIGPIPE, whatever their parents did.
            let action = if ignores_broken_pipes() { IGNORED } else { DEFAULT_ACTION };
            // SAFETY: neither is a function of ours.
            unsafe { signal(sys::SIGPIPE, action) };
            // SAFETY: a list of C strings that ends with a null pointer.
            unsafe { execvp(arguments[0], arguments.as_ptr()) };
            (AT_EXEC, io::Error::last_os_error())
        }
    };
    let number = error.raw_os_error().unwrap_or(0).to_le_bytes();
    // A failure here cannot be reported.
    let _ = (&failed).write_all(&[mark, number[0], number[1], number[2], number[3]]);
    end(127)
}

fn to_exec(
    child: Pid,
    mut failure: PipeReader,
    program: &OsString,
    before: Option<BeforeExec<'_>>,
) -> Result<Pid, LaunchError> {
    loop {
        match stops::wait_awake(child)?.1 {
            WaitStatus::Event(StopEvent::Exec, _) => return Ok(child),
            WaitStatus::Exited(_) | WaitStatus::Killed(_) => {
                let mut said = [0; 5];
                if failure.read_exact(&mut said).is_err() {
                    return Err(LaunchError::Broken { program: program.clone() });
                }
                let number = i32::from_le_bytes([said[1], said[2], said[3], said[4]]);
                let error = io::Error::from_raw_os_error(number);
                return Err(match (said[0], before) {
                    (BEFORE_EXEC, Some(before)) => (before.failed)(error),
                    (BEFORE_EXEC, None) => LaunchError::Io(error),
                    _ => LaunchError::Exec { program: program.clone(), error },
                });
            }
            WaitStatus::Signal(signal) => sys::go(child, Resume::On, signal)?,
            WaitStatus::Call | WaitStatus::Event(..) => sys::go(child, Resume::On, 0)?,
        }
    }
}
