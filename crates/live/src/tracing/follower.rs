//! Programs whose images are worked on as they begin, and which otherwise run at their own speed: every process and
//! thread is followed, and only those stop at system calls that something is being done to. Debuggers and their like
//! are let go, as a process has one tracer.

use super::stops::{self, StopEvent, WaitStatus};
use super::sys::{self, Pid, Resume, Usage, option};
use super::{End, image, maps};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

/// What stops. No EXITKILL: if we are killed, the programs run on.
pub const STOPS: u64 =
    option::CALLS_APART | option::FORK | option::VFORK | option::CLONE | option::EXEC | option::EXIT;

/// What is done to images. They are numbered by their execs, from 0 on; copies that fork makes belong to the one they
/// are of.
pub trait Work {
    /// What is being done to a process; it stops at system calls meanwhile.
    type Job;

    /// A process has become another program. No job: it runs at its own speed.
    fn begin(&mut self, image: usize, process: Pid) -> Option<Self::Job>;

    /// The beginning or the end of a system call.
    fn on_call(&mut self, image: usize, process: Pid, job: Self::Job) -> JobStep<Self::Job>;

    /// The last thread of a process begins to end. The process still has its memory.
    fn at_end(&mut self, image: usize, thread: Pid);
}

/// How a job goes on.
pub enum JobStep<Job> {
    /// At the next beginning or end of a system call.
    Job(Job),
    /// It is done.
    Done,
    /// The process is let go: it is seen again only when it ends, if it is our own child.
    LetGo,
}

/// A thread.
struct Task<Job> {
    process: Pid,
    job: Option<Job>,
    /// Whether it has begun to end.
    ends: bool,
}

struct Process {
    image: usize,
    /// Threads that have not begun to end.
    threads: usize,
    /// Whether its program traces others.
    traces: bool,
}

/// Follows processes. All is to happen on the thread that traces them.
pub struct Follower<W: Work> {
    /// What is done to them.
    pub work: W,
    /// Programs that trace others: they were let go when what was done to them was done, and all that they started.
    pub tracers: Vec<String>,
    tasks: HashMap<Pid, Task<W::Job>>,
    processes: HashMap<Pid, Process>,
    /// Children that stopped before the event that tells whose they are.
    early: HashSet<Pid>,
    images: usize,
}

impl<W: Work> Follower<W> {
    /// Begins with a process that stands at the end of its exec; [`Follower::run`] lets it go on.
    pub fn begin(work: W, root: Pid) -> Follower<W> {
        let (tasks, processes, early) = (HashMap::new(), HashMap::new(), HashSet::new());
        let mut follower = Follower { work, tracers: Vec::new(), tasks, processes, early, images: 0 };
        follower.begin_image(root);
        follower
    }

    /// Until the first process ends, and what it used; then lets go of all others, which run on as if we had never
    /// been there.
    ///
    /// # Errors
    /// If processes cannot be waited for.
    pub fn run(&mut self, root: Pid) -> io::Result<(End, Usage)> {
        self.go_on(root);
        let end = self.follow(root)?;
        self.release();
        Ok(end)
    }

    fn follow(&mut self, root: Pid) -> io::Result<(End, Usage)> {
        loop {
            let at_work = self.tasks.values().any(|task| task.job.is_some());
            let (pid, status, used) = stops::wait_used(-1, at_work)?;
            match End::of(status) {
                Some(end) => {
                    self.on_end(pid);
                    if pid == root {
                        return Ok((end, used));
                    }
                }
                None if self.tasks.contains_key(&pid) => self.on_stop(pid, status),
                None => _ = self.early.insert(pid),
            }
        }
    }

    fn on_stop(&mut self, pid: Pid, status: WaitStatus) {
        match status {
            WaitStatus::Signal(signal) => self.resume(pid, signal),
            WaitStatus::Call => self.on_call(pid),
            WaitStatus::Event(StopEvent::Exec, _) => {
                self.begin_image(pid);
                self.go_on(pid);
            }
            WaitStatus::Event(StopEvent::Fork | StopEvent::Vfork | StopEvent::Clone, _) => self.on_child(pid),
            WaitStatus::Event(StopEvent::Exit, _) => {
                self.on_exit(pid);
                self.resume(pid, 0);
            }
            WaitStatus::Event(StopEvent::Stop, signal) if stops::is_group_stop(signal) => {
                _ = sys::go(pid, Resume::Listen, 0)
            }
            WaitStatus::Event(..) | WaitStatus::Exited(_) | WaitStatus::Killed(_) => self.resume(pid, 0),
        }
    }

    /// Lets a thread go on; one that was killed meanwhile is past it.
    fn resume(&self, pid: Pid, signal: i32) {
        let works = self.tasks.get(&pid).is_some_and(|task| task.job.is_some());
        let _ = sys::go(pid, if works { Resume::ToCall } else { Resume::On }, signal);
    }

    /// Lets a thread go on, or its process go, where nothing more is to be done to it and it traces others.
    fn go_on(&mut self, pid: Pid) {
        let is_done = |task: &&Task<W::Job>| task.job.is_none();
        let process = self.tasks.get(&pid).filter(is_done).and_then(|task| self.processes.get(&task.process));
        if process.is_some_and(|process| process.traces) { self.let_go(pid) } else { self.resume(pid, 0) }
    }

    /// A process has become another program.
    fn begin_image(&mut self, pid: Pid) {
        // The thread that called exec is the only one left, under its process's number.
        self.tasks.retain(|_, task| task.process != pid);
        let image = self.images;
        self.images += 1;
        let job = self.work.begin(image, pid);
        // What cannot be read is as most programs are.
        let traces = image::imports(pid, "ptrace").unwrap_or(false);
        self.processes.insert(pid, Process { image, threads: 1, traces });
        let program = maps::program(pid);
        if traces && !self.tracers.contains(&program) {
            self.tracers.push(program);
        }
        self.tasks.insert(pid, Task { process: pid, job, ends: false });
    }

    /// The beginning or the end of a system call.
    fn on_call(&mut self, pid: Pid) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        if let Some(job) = task.job.take()
            && let Some(process) = self.processes.get(&task.process)
        {
            task.job = match self.work.on_call(process.image, pid, job) {
                JobStep::Job(job) => Some(job),
                JobStep::Done => None,
                JobStep::LetGo => return self.let_go(pid),
            };
        }
        self.go_on(pid);
    }

    /// From now on a process is seen only when it ends, if it is our own child.
    fn let_go(&mut self, pid: Pid) {
        // One that has just been killed stays traced, and is seen to its end.
        if sys::go(pid, Resume::Alone, 0).is_ok() {
            self.tasks.remove(&pid);
            self.processes.remove(&pid);
        }
    }

    fn on_child(&mut self, parent: Pid) {
        let child = sys::event_message(parent).map(|child| child as Pid);
        let of = self.tasks.get(&parent).map(|task| task.process);
        let image = of.and_then(|of| self.processes.get(&of)).map(|process| process.image);
        if let (Ok(child), Some(of), Some(image)) = (child, of, image) {
            let is_thread = Path::new(&format!("/proc/{of}/task/{child}")).exists();
            let process = if is_thread { of } else { child };
            self.processes.entry(process).or_insert(Process { image, threads: 0, traces: false }).threads +=
                1;
            self.tasks.insert(child, Task { process, job: None, ends: false });
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
        if process.threads == 0 {
            self.work.at_end(process.image, pid);
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

    /// Lets go of all that are left.
    fn release(&mut self) {
        for child in self.early.drain() {
            let _ = sys::go(child, Resume::Alone, 0);
        }
        let mut left: HashSet<Pid> = self.tasks.drain().map(|(pid, _)| pid).collect();
        for &pid in &left {
            // One that has stopped already is waited for all the same.
            let _ = sys::interrupt(pid);
        }
        while !left.is_empty() {
            let Ok((pid, status)) = stops::wait(-1) else { return };
            if let WaitStatus::Event(StopEvent::Fork | StopEvent::Vfork | StopEvent::Clone, _) = status {
                left.extend(sys::event_message(pid).map(|child| child as Pid));
            }
            let signal = if let WaitStatus::Signal(signal) = status { signal } else { 0 };
            let _ = sys::go(pid, Resume::Alone, signal);
            left.remove(&pid);
        }
    }
}

/// Ends a program that stands before its first instruction.
pub fn end_unbegun(pid: Pid) {
    let _ = sys::kill(pid, sys::SIGKILL);
    while stops::wait(pid).is_ok_and(|(_, status)| End::of(status).is_none()) {
        // It ends by the signal whatever it stops at before; a stop of its end would need to be left.
        let _ = sys::go(pid, Resume::On, 0);
    }
}

/// Hands signals on to the running program. Before it runs, the last signal is kept and sent at its start.
#[derive(Debug, Default)]
pub struct Relay(
    /// The process; if negative, the signal that waits.
    AtomicI32,
);

impl Relay {
    /// Nothing runs yet.
    pub const fn new() -> Relay {
        Relay(AtomicI32::new(0))
    }

    /// Sends the program this signal.
    pub fn send(&self, signal: i32) {
        if let Some(process) = self.keep(signal) {
            // It may be about to end by itself.
            _ = sys::kill(process, signal);
        }
    }

    /// Keeps a signal for the start of the program. If that runs already, which?
    pub fn keep(&self, signal: i32) -> Option<Pid> {
        let kept = |process| (process <= 0).then_some(-signal);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, kept).err()
    }

    /// Whether the program runs.
    pub fn runs(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Forgets what was kept.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// From now on this process gets them; 0 is none.
    pub(crate) fn to(&self, process: Pid) {
        let waiting = -self.0.swap(process, Ordering::Relaxed);
        if waiting > 0 && process > 0 {
            _ = sys::kill(process, waiting);
        }
    }
}
