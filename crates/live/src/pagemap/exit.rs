//! Runs a program and reads its page map at its peak: while it grows, and at its exit, where it is stopped with all its
//! memory.

use super::{PagemapError, Snapshot, command_line, peak_resident_bytes, program, snapshot};
use crate::tracing::launch::{LaunchError, launch};
use crate::tracing::stops::{self, StopEvent, WaitStatus};
use crate::tracing::sys::{self, Pid, Resume, option};
use crate::tracing::{Interrupt, ProcessEnd};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often to check the program's size.
const PERIOD: Duration = Duration::from_millis(10);
/// Time after a reading at which to read again even after little growth.
const RESTING: Duration = Duration::from_millis(50);

/// When a snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SnapshotTime {
    /// At exit, with the program stopped.
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
    /// When it was taken.
    pub moment: SnapshotTime,
    /// Seconds that reading took.
    pub seconds: f64,
    /// The program; an exec starts over.
    pub program: String,
    /// Its command line.
    pub command_line: Vec<String>,
}

/// A program that ended.
#[derive(Debug)]
pub struct Exit {
    /// Its process id.
    pub pid: Pid,
    /// How it ended.
    pub end: ProcessEnd,
    /// Its memory; none if it was killed before anything could be read.
    pub kept: Option<PeakSnapshot>,
    /// Its peak memory by the kernel's count; none if its exit was not seen.
    pub peak_resident_bytes: Option<u64>,
}

/// State shared by the tracer and the thread that checks the size.
struct WatchedProgram {
    pid: Pid,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: Option<PeakSnapshot>,
    /// Execs so far: each drops the readings of the program before.
    execs: u64,
    ended: bool,
    peak_resident_bytes: Option<u64>,
}

impl WatchedProgram {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the page map through one of the threads, and keeps it if it is the largest.
    fn read(&self, thread: Pid, moment: SnapshotTime) -> Result<(), PagemapError> {
        let execs = self.state().execs;
        let begun = Instant::now();
        let snapshot = snapshot(thread)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (program, command_line) = (program(thread), command_line(thread));
        let mut state = self.state();
        // A reading from before the exit may finish after the one at the exit.
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

/// Runs a program to its end; does not read its children.
///
/// Call this on the thread that traces the program; it waits there.
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

/// Reads the page map whenever the program has grown by a tenth, which in total costs about ten times the last reading,
/// alongside the program; and from time to time after less growth.
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
            // If it has just ended, the reading at its exit counts.
            let _ = watched
                .read(watched.pid, SnapshotTime::Running { seconds: watched.begun.elapsed().as_secs_f64() });
        }
    }
}

/// Resident pages by the kernel's count; 0 after its end.
fn resident_pages(pid: Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Follows every thread; the last one to exit still has the memory.
fn follow(watched: &WatchedProgram) -> io::Result<ProcessEnd> {
    let root = watched.pid;
    let is_thread = |pid: Pid| Path::new(&format!("/proc/{root}/task/{pid}")).exists();
    let mut alive = HashSet::from([root]);
    loop {
        let (pid, status) = stops::wait(-1)?;
        // A thread that was killed meanwhile does not resume; its end comes next.
        let resume = |how, signal| _ = sys::go(pid, how, signal);
        if let Some(end) = ProcessEnd::of(status) {
            alive.remove(&pid);
            if pid == root {
                return Ok(end);
            }
            continue;
        }
        match status {
            // A child of clone with an exit signal of its own: not a thread, so not followed.
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
                    // After a failure the last reading stays, or none, which the caller reports.
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
