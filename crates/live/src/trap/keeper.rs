//! The keeper: the process that traces the program, apart from the one that the user sees.
//!
//! A program under faults depends on its tracer: without one, calls that the filter stops would fail, and forks would
//! share memory. A separate process keeps it independent of pagewalk: if pagewalk is killed at any moment, the program
//! still runs to its end, and only the counts are lost. The keeper has its own process group and name, and none of
//! pagewalk's files.

use super::array::TrapArray;
use super::{TrapError, TrapOptions, TrapRun, agent, tracer};
use crate::tracing::launch::{self, LaunchError};
use crate::tracing::stops::{self, WaitStatus};
use crate::tracing::sys::{self, Pid};
use crate::tracing::{Interrupt, ProcessEnd, maps};
use rustix::io::{FdFlags, fcntl_getfd};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

/// The exit code of a keeper that cannot start threads.
const NO_THREADS: i32 = 75;
/// How long the first keeper waits for a thread to start; each further one waits twice as long.
const PATIENCE: Duration = Duration::from_secs(1);

/// The keeper's final message.
#[derive(Serialize, Deserialize)]
enum KeeperMessage {
    Ended(TrapRun),
    Failed(Failure),
}

/// A serialisable error.
#[derive(Serialize, Deserialize)]
struct Failure {
    at: FailedStep,
    number: Option<i32>,
    text: String,
}

/// The failed step.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum FailedStep {
    ZeroByte,
    Trace,
    Filter,
    Exec,
    Load,
    Launch,
    Follow,
}

impl Failure {
    fn of(error: &TrapError) -> Failure {
        let (at, number) = match error {
            TrapError::Launch(LaunchError::ZeroByte(_)) => (FailedStep::ZeroByte, None),
            TrapError::Launch(LaunchError::Trace(error)) => (FailedStep::Trace, error.raw_os_error()),
            TrapError::Launch(LaunchError::Filter(error)) => (FailedStep::Filter, error.raw_os_error()),
            TrapError::Launch(LaunchError::Exec { error, .. }) => (FailedStep::Exec, error.raw_os_error()),
            TrapError::Launch(LaunchError::Broken { .. }) => (FailedStep::Load, None),
            TrapError::Launch(LaunchError::Io(error)) => (FailedStep::Launch, error.raw_os_error()),
            TrapError::Follow(error) => (FailedStep::Follow, error.raw_os_error()),
            _ => (FailedStep::Launch, None),
        };
        Failure { at, number, text: error.to_string() }
    }

    fn into_error(self, command: &[OsString]) -> TrapError {
        let error = self.number.map_or_else(|| io::Error::other(self.text), io::Error::from_raw_os_error);
        let has_zero = |word: &&OsString| word.as_encoded_bytes().contains(&0);
        let program = command[0].clone();
        TrapError::Launch(match self.at {
            FailedStep::ZeroByte => {
                LaunchError::ZeroByte(command.iter().find(has_zero).cloned().unwrap_or(program))
            }
            FailedStep::Trace => LaunchError::Trace(error),
            FailedStep::Filter => LaunchError::Filter(error),
            FailedStep::Exec => LaunchError::Exec { program, error },
            FailedStep::Load => LaunchError::Broken { program },
            FailedStep::Launch => LaunchError::Io(error),
            FailedStep::Follow => return TrapError::Follow(error),
        })
    }
}

/// Starts a keeper, and waits for its message. One that cannot start threads is replaced.
pub fn run(
    command: &[OsString],
    array: &TrapArray,
    options: TrapOptions,
    interrupt: &Interrupt,
) -> Result<TrapRun, TrapError> {
    let mut patience = PATIENCE;
    loop {
        if let Some(run) = run_once(command, array, options, interrupt, patience)? {
            return Ok(run);
        }
        patience *= 2;
    }
}

/// Starts one keeper, which waits as long as `patience` for its first thread. `None` if that did not start.
fn run_once(
    command: &[OsString],
    array: &TrapArray,
    options: TrapOptions,
    interrupt: &Interrupt,
    patience: Duration,
) -> Result<Option<TrapRun>, TrapError> {
    let (result, tell) = io::pipe().map_err(LaunchError::Io)?;
    let (heard, orders) = io::pipe().map_err(LaunchError::Io)?;
    // SAFETY: the child goes on in a copy of this thread alone; what it needs of the C library (memory) is ready for
    // that, what it needs of the standard library it finds out, and it ends without a return.
    let keeper = unsafe { launch::fork() };
    if keeper < 0 {
        return Err(LaunchError::Io(io::Error::last_os_error()).into());
    }
    if keeper == 0 {
        drop((result, orders));
        let group = stand_apart(&[tell.as_raw_fd(), heard.as_raw_fd()]);
        if !starts_threads(patience) {
            launch::end(NO_THREADS);
        }
        keep(command, array, options, group, tell, heard);
    }
    drop((tell, heard));
    interrupt.set_remote(orders);
    let told = read(result);
    let end = stops::wait_for_child(keeper).map_err(TrapError::Follow)?.0;
    match told {
        Some(KeeperMessage::Ended(run)) => Ok(Some(run)),
        Some(KeeperMessage::Failed(failure)) => Err(failure.into_error(command)),
        None if end == WaitStatus::Exited(NO_THREADS) => Ok(None),
        None => Err(TrapError::Keeper(match end {
            WaitStatus::Killed(signal) => ProcessEnd::Signal(signal),
            WaitStatus::Exited(status) => ProcessEnd::Exit(status),
            _ => ProcessEnd::Exit(0),
        })),
    }
}

/// Whether this copy of one thread can start others. Not if another thread of its process began or ended just then: it
/// held a lock of the standard library, which nobody releases here.
fn starts_threads(patience: Duration) -> bool {
    let (tell, told) = mpsc::channel();
    let begun = std::thread::Builder::new().spawn(move || _ = tell.send(()));
    begun.map_or(true, |thread| told.recv_timeout(patience).is_ok() && thread.join().is_ok())
}

fn read(mut result: PipeReader) -> Option<KeeperMessage> {
    let mut text = Vec::new();
    result.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The keeper's work. `group`: the program's process group.
fn keep(
    command: &[OsString],
    array: &TrapArray,
    options: TrapOptions,
    group: Pid,
    mut tell: PipeWriter,
    heard: PipeReader,
) -> ! {
    // Lives as long as the process, which ends below.
    let interrupt: &'static Interrupt = Box::leak(Box::new(Interrupt::new()));
    let listens = std::thread::Builder::new().name("orders".to_owned());
    // Without this thread the program still ends by itself.
    let _ = listens.spawn(move || obey(heard, interrupt));
    // A panic prints its own message. It must neither unwind into the caller's code nor wait for the listener.
    let run = catch_unwind(AssertUnwindSafe(|| tracer::trace(command, array, options, interrupt, group)));
    let Ok(run) = run else { launch::end(101) };
    let told = run.map_or_else(|error| KeeperMessage::Failed(Failure::of(&error)), KeeperMessage::Ended);
    // If nobody reads it, pagewalk is gone.
    let _ = tell.write_all(&serde_json::to_vec(&told).unwrap_or_default());
    launch::end(0)
}

/// Relays signals to the program as pagewalk says, and kills it on request; does nothing if pagewalk disappears. After
/// the program's end, ending signals go to the processes that it left.
fn obey(mut heard: PipeReader, interrupt: &Interrupt) {
    const ENDING: [i32; 4] = [1, 2, 3, 15];
    let mut word = [0];
    while heard.read_exact(&mut word).is_ok() {
        let signal = word[0].into();
        if signal == sys::SIGKILL || !interrupt.send(signal) && ENDING.contains(&signal) {
            interrupt.kill();
            kill_descendants();
        }
    }
}

/// Kills detached processes, which nobody traces here: all descendants that are no agent. Repeats as long as new ones
/// appear; a signalled process starts nothing.
fn kill_descendants() {
    let mut killed = HashSet::new();
    loop {
        let mut found = descendants();
        found.retain(|process| !agent::is_agent(*process) && killed.insert(*process));
        if found.is_empty() {
            return;
        }
        // It may have ended.
        found.into_iter().for_each(|process| _ = sys::kill(process, sys::SIGKILL));
    }
}

/// All present descendants of this process.
fn descendants() -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse::<Pid>().ok());
    let parents: Vec<(Pid, Pid)> =
        numbers.filter_map(|process| Some((process, maps::process_and_parent(process).ok()?.1))).collect();
    let (mut found, mut next) = (vec![std::process::id() as Pid], 0);
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| process));
        next += 1;
    }
    found.split_off(1)
}

/// Leaves pagewalk's process group, files and name. Returns the group, which becomes the program's.
fn stand_apart(kept: &[RawFd]) -> Pid {
    let group = sys::own_group();
    // On failure it shares pagewalk's fate.
    let _ = sys::join_group(0);
    let _ = sys::set_name(c"trap-keeper");
    let Ok(files) = fs::read_dir("/proc/self/fd") else { return group };
    let open: Vec<RawFd> =
        files.flatten().filter_map(|file| file.file_name().to_str()?.parse().ok()).collect();
    for file in open.into_iter().filter(|file| *file > 2 && !kept.contains(file)) {
        // SAFETY: it is only asked about; the list itself was closed when it was read.
        let borrowed = unsafe { BorrowedFd::borrow_raw(file) };
        // Inheritable files stay for the program.
        if fcntl_getfd(borrowed).is_ok_and(|flags| flags.contains(FdFlags::CLOEXEC)) {
            // SAFETY: a copy of a file of the process that this one was made of: nothing here uses it, and nothing
            // here will be dropped.
            drop(unsafe { OwnedFd::from_raw_fd(file) });
        }
    }
    group
}
