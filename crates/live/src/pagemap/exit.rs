//! Running a program and reading its page map when there is most of it: while it grows, and at its exit, where it is
//! stopped with all its memory.

use super::{PagemapError, Snapshot, command_line, peak_resident_bytes, program, snapshot};
use crate::tracing::launch::{LaunchError, launch};
use crate::tracing::stops::{self, StopEvent, WaitStatus};
use crate::tracing::sys::{self, Pid, Resume, option};
use crate::tracing::{End, Interrupt};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the program's size is looked at.
const PERIOD: Duration = Duration::from_millis(10);
/// How long after a reading it is read again where it has grown by a little.
const RESTING: Duration = Duration::from_millis(50);

/// When a snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SnapshotTime {
    /// At the end, with the program stopped.
    Exit,
    /// While it ran.
    Running {
        /// Since its start.
        seconds: f64,
    },
}

/// The snapshot with most pages.
#[derive(Clone, Debug)]
pub struct PeakSnapshot {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// When.
    pub moment: SnapshotTime,
    /// Time that reading took.
    pub seconds: f64,
    /// The program that it is of: an exec begins anew.
    pub program: String,
    /// Its command line.
    pub command_line: Vec<String>,
}

/// A program that ran.
#[derive(Debug)]
pub struct Exit {
    /// Its number.
    pub pid: Pid,
    /// How it ended.
    pub end: End,
    /// What is known of its memory; none if it was killed before anything could be read.
    pub kept: Option<PeakSnapshot>,
    /// The most memory that it had at one time, as the kernel counted it; none if its exit was not seen.
    pub peak_resident_bytes: Option<u64>,
}

/// What the tracer and the one who looks at the program's size share.
struct WatchedProgram {
    pid: Pid,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: Option<PeakSnapshot>,
    /// Execs until now: what was read of the program before is dropped.
    execs: u64,
    ended: bool,
    peak_resident_bytes: Option<u64>,
}

impl WatchedProgram {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the page map by one of its threads, and keeps what was found if there is more than before.
    fn read(&self, thread: Pid, moment: SnapshotTime) -> Result<(), PagemapError> {
        let execs = self.state().execs;
        let begun = Instant::now();
        let snapshot = snapshot(thread)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (program, command_line) = (program(thread), command_line(thread));
        let mut state = self.state();
        // A reading that began before the exit may end after the one at the exit.
        let rank = |snapshot: &Snapshot, moment: SnapshotTime| {
            (snapshot.distinct_pages, moment == SnapshotTime::Exit)
        };
        let is_new = state
            .kept
            .as_ref()
            .is_none_or(|kept| rank(&kept.snapshot, kept.moment) <= rank(&snapshot, moment));
        if is_new && state.execs == execs {
            state.kept = Some(PeakSnapshot { snapshot, moment, seconds, program, command_line });
        }
        Ok(())
    }

    fn on_exec(&self) {
        let mut state = self.state();
        state.kept = None;
        state.execs += 1;
    }
}

/// Runs a program to its end. Its children are not read.
///
/// Must be called on the thread that is to trace it; it waits for it there.
///
/// # Errors
/// If the program cannot be started.
pub fn run_to_exit(command: &[OsString], interrupt: &Interrupt) -> Result<Exit, LaunchError> {
    let pid = launch(command, None, option::CLONE | option::EXEC | option::EXIT)?;
    interrupt.began(pid);
    interrupt.first_began(pid);
    let watched = WatchedProgram { pid, begun: Instant::now(), state: Mutex::default() };
    let end = std::thread::scope(|scope| {
        let size = scope.spawn(|| watch_size(&watched));
        let end = sys::go(pid, Resume::On, 0).and_then(|()| follow(&watched));
        watched.state().ended = true;
        size.thread().unpark();
        end
    })?;
    interrupt.ended(pid);
    interrupt.first_ended();
    let State { kept, peak_resident_bytes, .. } =
        watched.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Exit { pid, end, kept, peak_resident_bytes })
}

/// Reads the page map each time that the program has grown by a tenth, which together costs some ten times what the
/// last reading does, beside the program; and, now and then, when it has grown by less and rests.
fn watch_size(watched: &WatchedProgram) {
    let (mut last, mut before, mut execs) = (0, 0, 0);
    let mut read = watched.begun;
    loop {
        std::thread::park_timeout(PERIOD);
        let state = watched.state();
        if state.ended {
            return;
        }
        if state.execs != execs {
            (last, execs) = (0, state.execs);
        }
        drop(state);
        let resident = resident_pages(watched.pid);
        let rests = resident == std::mem::replace(&mut before, resident) && read.elapsed() > RESTING;
        if resident > last + last / 10 || resident > last && rests {
            (last, read) = (resident, Instant::now());
            // If it has just ended there is the reading at its exit.
            let _ = watched
                .read(watched.pid, SnapshotTime::Running { seconds: watched.begun.elapsed().as_secs_f64() });
        }
    }
}

/// Pages that the kernel counts as the process's; 0 if it has ended.
fn resident_pages(pid: Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Follows every thread; the last one to exit still has the memory.
fn follow(watched: &WatchedProgram) -> io::Result<End> {
    let root = watched.pid;
    let is_thread = |pid: Pid| Path::new(&format!("/proc/{root}/task/{pid}")).exists();
    let mut alive = HashSet::from([root]);
    loop {
        let (pid, status) = stops::wait(-1)?;
        // A thread that was killed in the meantime does not go on; its end comes next.
        let resume = |how, signal| _ = sys::go(pid, how, signal);
        if let Some(end) = End::of(status) {
            alive.remove(&pid);
            if pid == root {
                return Ok(end);
            }
            continue;
        }
        match status {
            // A child that was made by clone with a signal of its own: no thread, and not ours to follow.
            _ if !is_thread(pid) => _ = sys::go(pid, Resume::Alone, 0),
            WaitStatus::Event(StopEvent::Exec, _) => {
                alive = HashSet::from([root]);
                watched.on_exec();
                resume(Resume::On, 0);
            }
            WaitStatus::Event(StopEvent::Clone, _) => {
                let child = sys::event_message(pid).map_or(pid, |child| child as Pid);
                if is_thread(child) {
                    alive.insert(child);
                }
                resume(Resume::On, 0);
            }
            WaitStatus::Event(StopEvent::Exit, _) => {
                alive.remove(&pid);
                if alive.is_empty() {
                    // What fails here leaves the last reading, or none, which the caller tells.
                    let _ = watched.read(pid, SnapshotTime::Exit);
                    watched.state().peak_resident_bytes = peak_resident_bytes(pid);
                }
                resume(Resume::On, 0);
            }
            WaitStatus::Event(StopEvent::Stop, signal) if stops::is_group_stop(signal) => {
                resume(Resume::Listen, 0)
            }
            WaitStatus::Event(StopEvent::Stop, _) => {
                alive.insert(pid);
                resume(Resume::On, 0);
            }
            WaitStatus::Signal(signal) => resume(Resume::On, signal),
            _ => resume(Resume::On, 0),
        }
    }
}
