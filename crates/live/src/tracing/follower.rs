//! Follows a program's processes and threads, to work on images as they begin. Processes run at their own speed; only
//! those under work stop at system calls. Debuggers and their like are detached, as a process has only one tracer.

use super::stops::{self, StopEvent, WaitStatus};
use super::sys::{self, Pid, Resume, Usage, option};
use super::{ProcessEnd, image, maps};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

/// Traced stops. No EXITKILL: if we are killed, the programs run on.
pub const STOPS: u64 =
    option::CALLS_APART | option::FORK | option::VFORK | option::CLONE | option::EXEC | option::EXIT;

/// Work on process images. Images are numbered by exec, from 0; copies by fork belong to the image they copy.
pub trait Work {
    /// The work on one process, which stops at system calls meanwhile.
    type Job;

    /// A process became another program. Without a job, it runs at its own speed.
    fn begin(&mut self, image: usize, process: Pid) -> Option<Self::Job>;

    /// The beginning or the end of a system call.
    fn on_call(&mut self, image: usize, process: Pid, job: Self::Job) -> JobStep<Self::Job>;

    /// The last thread of a process begins to exit. The process still has its memory.
    fn at_end(&mut self, image: usize, thread: Pid);
}

/// How a job continues.
pub enum JobStep<Job> {
    /// At the next beginning or end of a system call.
    Job(Job),
    /// The job is done.
    Done,
    /// Detach: the process is seen again only at its end, if it is our child.
    LetGo,
}

/// A thread.
struct Task<Job> {
    process: Pid,
    job: Option<Job>,
    /// Whether it has begun to exit.
    ends: bool,
}

struct Process {
    image: usize,
    /// Threads that have not begun to exit.
    threads: usize,
    /// Whether its program traces others.
    traces: bool,
}

/// Follows processes. Use it only on the thread that traces them.
pub struct Follower<W: Work> {
    /// The work.
    pub work: W,
    /// Programs that trace others: detached, with all their children, once the work on them was done.
    pub tracers: Vec<String>,
    tasks: HashMap<Pid, Task<W::Job>>,
    processes: HashMap<Pid, Process>,
    /// Children that stopped before the event that names their parent.
    early: HashSet<Pid>,
    images: usize,
}

impl<W: Work> Follower<W> {
    /// Starts with a process at the end of its exec; [`Follower::run`] resumes it.
    pub fn begin(work: W, root: Pid) -> Follower<W> {
        let (tasks, processes, early) = (HashMap::new(), HashMap::new(), HashSet::new());
        let mut follower = Follower { work, tracers: Vec::new(), tasks, processes, early, images: 0 };
        follower.begin_image(root);
        follower
    }

    /// Runs until the first process ends; returns its end and usage. Then detaches from all others, which run on
    /// undisturbed.
    ///
    /// # Errors
    /// If processes cannot be waited for.
    pub fn run(&mut self, root: Pid) -> io::Result<(ProcessEnd, Usage)> {
        self.go_on(root);
        let end = self.follow(root)?;
        self.release();
        Ok(end)
    }

    fn follow(&mut self, root: Pid) -> io::Result<(ProcessEnd, Usage)> {
        loop {
            let at_work = self.tasks.values().any(|task| task.job.is_some());
            let (pid, status, used) = stops::wait_used(-1, at_work)?;
            match ProcessEnd::of(status) {
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

    /// Resumes a thread; ignores one that was killed meanwhile.
    fn resume(&self, pid: Pid, signal: i32) {
        let works = self.tasks.get(&pid).is_some_and(|task| task.job.is_some());
        let _ = sys::go(pid, if works { Resume::ToCall } else { Resume::On }, signal);
    }

    /// Resumes a thread; detaches from its process if the work is done and it traces others.
    fn go_on(&mut self, pid: Pid) {
        let is_done = |task: &&Task<W::Job>| task.job.is_none();
        let process = self.tasks.get(&pid).filter(is_done).and_then(|task| self.processes.get(&task.process));
        if process.is_some_and(|process| process.traces) { self.let_go(pid) } else { self.resume(pid, 0) }
    }

    /// A process has become another program.
    fn begin_image(&mut self, pid: Pid) {
        // The thread that called exec is the only one left, and has the process's id.
        self.tasks.retain(|_, task| task.process != pid);
        let image = self.images;
        self.images += 1;
        let job = self.work.begin(image, pid);
        // If it cannot be read, assume the common case.
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

    /// Detaches: the process is seen again only at its end, if it is our child.
    fn let_go(&mut self, pid: Pid) {
        // A process that was just killed stays traced to its end.
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

    /// A thread begins to exit; the last one of a process still has its memory.
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
            // The first thread's end is reported last.
            self.processes.remove(&pid);
        }
    }

    /// Detaches from all that are left.
    fn release(&mut self) {
        for child in self.early.drain() {
            let _ = sys::go(child, Resume::Alone, 0);
        }
        let mut left: HashSet<Pid> = self.tasks.drain().map(|(pid, _)| pid).collect();
        for &pid in &left {
            // Wait for it even if it had already stopped.
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

/// Kills a program before its first instruction.
pub fn end_unbegun(pid: Pid) {
    let _ = sys::kill(pid, sys::SIGKILL);
    while stops::wait(pid).is_ok_and(|(_, status)| ProcessEnd::of(status).is_none()) {
        // It ends by the signal wherever it stops; an exit stop must be left.
        let _ = sys::go(pid, Resume::On, 0);
    }
}

/// Relays signals to the running program. Before it runs, keeps the last signal and sends it at the start.
#[derive(Debug, Default)]
pub struct Relay(
    /// The process; if negative, the waiting signal.
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

    /// Keeps a signal for the program's start. If it already runs, returns its process.
    pub fn keep(&self, signal: i32) -> Option<Pid> {
        let kept = |process| (process <= 0).then_some(-signal);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, kept).err()
    }

    /// Whether the program runs.
    pub fn runs(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Forgets the kept signal.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Sets the process that gets signals; 0 is none.
    pub(crate) fn to(&self, process: Pid) {
        let waiting = -self.0.swap(process, Ordering::Relaxed);
        if waiting > 0 && process > 0 {
            _ = sys::kill(process, waiting);
        }
    }
}
