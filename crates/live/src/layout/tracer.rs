//! The loop: waits for new programs, puts the code into each, and looks at what became of it.

use super::install::{Installing, Next};
use super::landing::{State, landings};
use super::loader::Known;
use super::{Image, LayoutError, Obstacle, Options, Relay, Run};
use crate::tracing::launch::{BeforeExec, LaunchError, launch};
use crate::tracing::sys::{self, Event, Go, Pid, Status, option};
use crate::tracing::{End, maps};
use pagewalk_layout::files::Object;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// What stops. No EXITKILL: if we are killed, the programs run on.
const STOPS: u64 =
    option::CALLS_APART | option::FORK | option::VFORK | option::CLONE | option::EXEC | option::EXIT;

/// A thread.
struct Task {
    process: Pid,
    stage: Stage,
    /// Whether it has begun to end.
    ends: bool,
}

enum Stage {
    /// Runs at its own speed.
    Free,
    /// Gets the code.
    Installing(Box<Installing>),
    /// Has it, and loads its libraries; stops at system calls.
    Loading(Box<Installing>),
}

impl Stage {
    fn go(&self) -> Go {
        match self {
            Stage::Free => Go::On,
            Stage::Installing(_) | Stage::Loading(_) => Go::ToCall,
        }
    }
}

struct Process {
    /// By position.
    image: usize,
    /// Threads that have not begun to end.
    threads: usize,
}

struct Tracer<'a> {
    objects: &'a [Object],
    options: Options,
    loaded: &'a mut dyn FnMut(&Image),
    known: Known,
    tasks: HashMap<Pid, Task>,
    processes: HashMap<Pid, Process>,
    /// Children that stopped before the event that tells whose they are.
    early: HashSet<Pid>,
    images: Vec<Image>,
}

/// Runs a program to its end.
pub fn trace(
    command: &[OsString],
    objects: &[Object],
    options: Options,
    relay: &Relay,
    loaded: &mut dyn FnMut(&Image),
) -> Result<Run, LayoutError> {
    let fixed = BeforeExec { does: &sys::switch_off_randomisation, failed: LaunchError::Randomisation };
    let root = launch(command, options.no_randomise.then_some(fixed), STOPS)?;
    relay.0.store(root, Ordering::Relaxed);
    let mut tracer = Tracer {
        objects,
        options,
        loaded,
        known: Known::default(),
        tasks: HashMap::new(),
        processes: HashMap::new(),
        early: HashSet::new(),
        images: Vec::new(),
    };
    let begun = tracer.begin_image(root);
    if let Some(obstacle) = begun.err().filter(|_| !options.or_default) {
        let program = tracer.images.swap_remove(0).program;
        end_unbegun(root);
        return Err(LayoutError::Program { program, obstacle });
    }
    tracer.resume(root, 0);
    let end = tracer.run(root).map_err(LaunchError::Io)?;
    relay.0.store(0, Ordering::Relaxed);
    tracer.release();
    Ok(Run { end, images: tracer.images })
}

/// Ends a program that stands before its first instruction.
fn end_unbegun(pid: Pid) {
    let _ = sys::kill(pid, sys::SIGKILL);
    while sys::wait(pid).is_ok_and(|(_, status)| End::of(status).is_none()) {
        let _ = sys::go(pid, Go::On, 0);
    }
}

impl Tracer<'_> {
    fn run(&mut self, root: Pid) -> io::Result<End> {
        loop {
            let (pid, status) = sys::wait(-1)?;
            match End::of(status) {
                Some(end) => {
                    self.on_end(pid);
                    if pid == root {
                        return Ok(end);
                    }
                }
                None if self.tasks.contains_key(&pid) => self.on_stop(pid, status),
                None => _ = self.early.insert(pid),
            }
        }
    }

    fn on_stop(&mut self, pid: Pid, status: Status) {
        match status {
            Status::Signal(signal) => self.resume(pid, signal),
            Status::Call => self.on_call(pid),
            Status::Event(Event::Exec, _) => {
                // What stands in the way of a child is told with its image.
                let _ = self.begin_image(pid);
                self.resume(pid, 0);
            }
            Status::Event(Event::Fork | Event::Vfork | Event::Clone, _) => self.on_child(pid),
            Status::Event(Event::Exit, _) => {
                self.on_exit(pid);
                self.resume(pid, 0);
            }
            Status::Event(Event::Stop, signal) if sys::is_group_stop(signal) => {
                _ = sys::go(pid, Go::Listen, 0)
            }
            Status::Event(..) | Status::Exited(_) | Status::Killed(_) => self.resume(pid, 0),
        }
    }

    /// Lets a thread go on; one that was killed meanwhile is past it.
    fn resume(&self, pid: Pid, signal: i32) {
        let how = self.tasks.get(&pid).map_or(Go::On, |task| task.stage.go());
        let _ = sys::go(pid, how, signal);
    }

    /// A process has become another program.
    fn begin_image(&mut self, pid: Pid) -> Result<(), Obstacle> {
        // The thread that called exec is the only one left, under its process's number.
        self.tasks.retain(|_, task| task.process != pid);
        let begun = Installing::begin(pid, self.objects, &mut self.known);
        let (obstacle, slid_bytes) = match &begun {
            Ok(installing) => (None, installing.slid_bytes),
            Err(obstacle) => (Some(obstacle.to_string()), 0),
        };
        self.processes.insert(pid, Process { image: self.images.len(), threads: 1 });
        let program = maps::program(pid);
        self.images.push(Image { process: pid, program, obstacle, slid_bytes, at_start: None, at_end: None });
        let (stage, outcome) = match begun {
            Ok(installing) => (Stage::Installing(Box::new(installing)), Ok(())),
            Err(obstacle) => (Stage::Free, Err(obstacle)),
        };
        self.tasks.insert(pid, Task { process: pid, stage, ends: false });
        outcome
    }

    /// The beginning or the end of a system call.
    fn on_call(&mut self, pid: Pid) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        let stage = std::mem::replace(&mut task.stage, Stage::Free);
        let Some(process) = self.processes.get(&task.process) else { return self.resume(pid, 0) };
        let image = &mut self.images[process.image];
        task.stage = match stage {
            Stage::Installing(mut installing) => match installing.step(pid) {
                Ok(Next::Step) => Stage::Installing(installing),
                Ok(Next::Installed) if self.options.verify || self.options.release => {
                    Stage::Loading(installing)
                }
                Ok(Next::Installed) => Stage::Free,
                Err(obstacle) => {
                    image.obstacle = Some(obstacle.to_string());
                    Stage::Free
                }
            },
            Stage::Loading(installed)
                if sys::registers(pid).is_ok_and(|registers| installed.is_loaders(registers.rip)) =>
            {
                Stage::Loading(installed)
            }
            Stage::Loading(_) => {
                // The first call of the program's own, or of its libraries': all have been mapped.
                image.at_start = landings(pid, self.objects, image.slid_bytes);
                (self.loaded)(image);
                if self.options.release {
                    return self.let_go(pid);
                }
                Stage::Free
            }
            Stage::Free => Stage::Free,
        };
        self.resume(pid, 0);
    }

    /// From now on a process is seen only when it ends, if it is our own child.
    fn let_go(&mut self, pid: Pid) {
        let _ = sys::go(pid, Go::Alone, 0);
        self.tasks.remove(&pid);
        self.processes.remove(&pid);
    }

    fn on_child(&mut self, parent: Pid) {
        let child = sys::event_message(parent).map(|child| child as Pid);
        let of = self.tasks.get(&parent).map(|task| task.process);
        let image = of.and_then(|of| self.processes.get(&of)).map(|process| process.image);
        if let (Ok(child), Some(of), Some(image)) = (child, of, image) {
            let is_thread = Path::new(&format!("/proc/{of}/task/{child}")).exists();
            let process = if is_thread { of } else { child };
            self.processes.entry(process).or_insert(Process { image, threads: 0 }).threads += 1;
            self.tasks.insert(child, Task { process, stage: Stage::Free, ends: false });
            if self.early.remove(&child) {
                self.resume(child, 0);
            }
        }
        self.resume(parent, 0);
    }

    /// A thread begins to end; the last one of a process still has its memory.
    fn on_exit(&mut self, pid: Pid) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        task.ends = true;
        let Some(process) = self.processes.get_mut(&task.process) else { return };
        process.threads -= 1;
        if process.threads > 0 {
            return;
        }
        let image = &mut self.images[process.image];
        let misses = |landings: &[super::Landing]| {
            landings.iter().any(|landing| matches!(landing.state, State::Elsewhere(_)))
        };
        if !image.at_end.as_deref().is_some_and(misses)
            && let Some(found) = landings(pid, self.objects, image.slid_bytes)
        {
            image.at_end = Some(found);
        }
    }

    fn on_end(&mut self, pid: Pid) {
        self.early.remove(&pid);
        let Some(task) = self.tasks.remove(&pid) else { return };
        if !task.ends
            && let Some(process) = self.processes.get_mut(&task.process)
        {
            process.threads -= 1;
        }
        if task.process == pid {
            // The first thread's end is told last.
            self.processes.remove(&pid);
        }
    }

    /// Lets go of all that are left: they run on as if we had never been there.
    fn release(&mut self) {
        for child in self.early.drain() {
            let _ = sys::go(child, Go::Alone, 0);
        }
        let mut left: HashSet<Pid> = self.tasks.drain().map(|(pid, _)| pid).collect();
        for &pid in &left {
            // One that has stopped already is waited for all the same.
            let _ = sys::interrupt(pid);
        }
        while !left.is_empty() {
            let Ok((pid, status)) = sys::wait(-1) else { return };
            if let Status::Event(Event::Fork | Event::Vfork | Event::Clone, _) = status {
                left.extend(sys::event_message(pid).map(|child| child as Pid));
            }
            let signal = if let Status::Signal(signal) = status { signal } else { 0 };
            let _ = sys::go(pid, Go::Alone, signal);
            left.remove(&pid);
        }
    }
}
