//! The main loop: handles every stop of every thread of the program.

use super::agent::{Agent, AgentError, AgentStart};
use super::array::TrapArray;
use super::calls;
use super::descriptors::RaisedLimit;
use super::filter::Filter;
use super::forks::Word;
use super::image::{Image, Setting};
use super::placement::{self, ProcessorPlacement};
use super::processors::Processors;
use super::report::{ImageOrigin, ImageReport};
use super::resident_pages;
use super::tracee;
use super::tracers::{PendingDetach, PtraceVerdict};
use super::verdict::{AfterCall, Verdict};
use super::{TrapError, TrapOptions, TrapRun};
use crate::tracing::launch::{self, BeforeExec, LaunchError};
use crate::tracing::stops::{self, StopEvent, WaitStatus};
use crate::tracing::sys::{self, Pid, Registers, Resume, number};
use crate::tracing::{Interrupt, ProcessEnd, maps};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

/// `ECHILD`.
const NO_CHILD: i32 = 10;

/// A thread of the program.
pub struct Task {
    /// Its image, by number.
    pub(super) image: u32,
    /// What to do at the end of its system call.
    pub(super) after: Option<AfterCall>,
    /// The word that its pending fork must leave unchanged.
    pub(super) fork_word: Option<Word>,
    /// Where the kernel writes a zero at its exit; 0 for nowhere.
    pub(super) ending_word: u64,
    /// Pages kept present while it exits or takes a lock.
    kept: Vec<u64>,
}

impl Task {
    pub(super) fn new(image: u32) -> Task {
        Task { image, after: None, fork_word: None, ending_word: 0, kept: Vec::new() }
    }
}

/// Traces one program and everything it starts.
pub struct Tracer<'a> {
    pub(super) setting: Setting<'a>,
    interrupt: &'a Interrupt,
    tasks: HashMap<Pid, Task>,
    /// First stops that came before the event that names the parent.
    pub(super) early: HashMap<Pid, WaitStatus>,
    pub(super) images: HashMap<u32, Image>,
    /// Threads at their exit stop until the agent has room to keep their pages present.
    pub(super) ending: VecDeque<Pid>,
    /// Processes that the program is about to trace itself.
    pub(super) leaving: Vec<PendingDetach>,
    /// Whether some have been detached for that.
    pub(super) some_left: bool,
    /// Threads that wait at their `ptrace` until a process is detached.
    pub(super) waiting: HashSet<Pid>,
    /// Processes that could not be detached for that.
    pub(super) staying: HashSet<Pid>,
    /// Processes that believe their parent traces them.
    pub(super) in_name: HashSet<Pid>,
    placement: &'a Mutex<ProcessorPlacement>,
    next_image: u32,
    ended: Vec<ImageReport>,
}

/// Runs a program and everything it starts to the end; it starts in this process group.
///
/// This thread traces all of them, and this process becomes the parent of their orphans.
pub fn trace(
    command: &[OsString],
    array: &TrapArray,
    options: TrapOptions,
    interrupt: &Interrupt,
    group: Pid,
) -> Result<TrapRun, TrapError> {
    sys::adopt_orphans().map_err(LaunchError::Io)?;
    let placement = Mutex::new(ProcessorPlacement::new());
    std::thread::scope(|scope| {
        let (end, ended) = mpsc::channel();
        let watched = &placement;
        std::thread::Builder::new()
            .name("placement".to_owned())
            .spawn_scoped(scope, move || placement::watch(watched, &ended))
            .map_err(LaunchError::Io)?;
        let run = follow(command, array, options, interrupt, &placement, group);
        drop(end);
        run
    })
}

fn follow(
    command: &[OsString],
    array: &TrapArray,
    options: TrapOptions,
    interrupt: &Interrupt,
    placement: &Mutex<ProcessorPlacement>,
    group: Pid,
) -> Result<TrapRun, TrapError> {
    let limit = RaisedLimit::raise();
    let filter = Filter::new();
    let install = || {
        limit.lower();
        // A group that is gone cannot be joined.
        let _ = sys::join_group(group);
        filter.install()
    };
    let before = Some(BeforeExec { does: &install, failed: LaunchError::Filter });
    let root = launch::launch(command, before, sys::option::ALL)?;
    let setting =
        Setting { array, check: options.check, filters: maps::filters(root).map_err(TrapError::Follow)? };
    let mut tracer = Tracer {
        setting,
        interrupt,
        tasks: HashMap::new(),
        early: HashMap::new(),
        images: HashMap::new(),
        ending: VecDeque::new(),
        leaving: Vec::new(),
        some_left: false,
        waiting: HashSet::new(),
        staying: HashSet::new(),
        in_name: HashSet::new(),
        placement,
        next_image: 0,
        ended: Vec::new(),
    };
    tracer.on_exec(root);
    interrupt.first_began(root);
    let end = tracer.run(root).map_err(TrapError::Follow)?;
    tracer.ended.sort_by_key(|image| image.number);
    Ok(TrapRun { end, images: tracer.ended })
}

impl<'a> Tracer<'a> {
    fn run(&mut self, root: Pid) -> io::Result<ProcessEnd> {
        let mut root_end = None;
        // Calls of detached processes must pass until their end; all are descendants of this process.
        while !self.tasks.is_empty() || self.some_left {
            let (pid, status) = match stops::wait(-1) {
                Err(error) if self.tasks.is_empty() && error.raw_os_error() == Some(NO_CHILD) => break,
                found => found?,
            };
            if let Some(end) = ProcessEnd::of(status) {
                self.on_end(pid);
                if pid == root {
                    self.interrupt.first_ended();
                    root_end = Some(end);
                }
            } else if self.tasks.contains_key(&pid) {
                self.on_stop(pid, status);
            } else {
                // A child whose parent has not reported it yet.
                self.early.insert(pid, status);
            }
        }
        root_end.ok_or_else(|| io::Error::other("the program's end was not seen"))
    }

    fn on_stop(&mut self, pid: Pid, status: WaitStatus) {
        match status {
            WaitStatus::Signal(signal) => resume(pid, Resume::On, signal),
            WaitStatus::Call => self.on_call_end(pid),
            WaitStatus::Event(StopEvent::Seccomp, _) => self.on_call(pid),
            WaitStatus::Event(StopEvent::Exec, _) => self.on_exec(pid),
            WaitStatus::Event(StopEvent::Fork | StopEvent::Vfork | StopEvent::Clone, _) => self.on_child(pid),
            WaitStatus::Event(StopEvent::Exit, _) => self.on_exit(pid),
            WaitStatus::Event(StopEvent::Stop, signal) if self.is_awaited(pid) => {
                self.on_standing(pid, signal)
            }
            WaitStatus::Event(StopEvent::Stop, signal) => resume(pid, stops::after_stop(signal), 0),
            WaitStatus::Event(..) | WaitStatus::Exited(_) | WaitStatus::Killed(_) => {
                resume(pid, Resume::On, 0)
            }
        }
    }

    // --- system calls -----------------------------------------------------------------------------------

    fn on_call(&mut self, pid: Pid) {
        let Ok(mut registers) = sys::registers(pid) else { return resume(pid, Resume::On, 0) };
        let verdict = match registers.orig_rax {
            number::SCHED_GETAFFINITY => self.before_affinity(pid, &registers, false),
            number::SCHED_SETAFFINITY => self.before_affinity(pid, &registers, true),
            number::FUTEX => self.before_lock(pid, &registers),
            number::SET_TID_ADDRESS => {
                self.task(pid).ending_word = registers.rdi;
                Verdict::Native
            }
            number::FORK | number::CLONE | number::CLONE3 => self.before_fork(pid, &mut registers),
            number::PTRACE => match self.before_ptrace(pid, &registers) {
                PtraceVerdict::Native => Verdict::Native,
                PtraceVerdict::Done(result) => Verdict::Done(result),
                PtraceVerdict::Waits => return,
            },
            _ => self.judge(pid, &registers),
        };
        match verdict {
            Verdict::Native => resume(pid, Resume::On, 0),
            Verdict::NativeThen(after) => {
                self.task(pid).after = Some(after);
                resume(pid, Resume::ToCall, 0);
            }
            Verdict::Done(result) => {
                registers.rax = result as u64;
                registers.orig_rax = u64::MAX;
                // On failure the thread has just been killed.
                let _ = sys::set_registers(pid, &registers);
                resume(pid, Resume::On, 0);
            }
        }
    }

    fn judge(&mut self, pid: Pid, registers: &Registers) -> Verdict {
        let Some(image) = self.image_of(pid).filter(|image| image.agent.is_some()) else {
            return Verdict::Native;
        };
        calls::judge(image, pid, registers).unwrap_or_else(|error| {
            image.note(&error);
            calls::unfollowed(image, registers)
        })
    }

    fn on_call_end(&mut self, pid: Pid) {
        match self.task(pid).after.take() {
            Some(AfterCall::Pin) => self.placement().put_back(self.task(pid).image, pid),
            Some(AfterCall::Release) => self.release(pid),
            Some(AfterCall::Hide) => self.put_hidden_back(pid),
            Some(after) => {
                if let (Ok(registers), Some(image)) = (sys::registers(pid), self.image_of(pid))
                    && let Err(error) = calls::complete(image, after, registers.rax as i64)
                {
                    image.note(&error);
                }
            }
            None => {}
        }
        resume(pid, Resume::On, 0);
    }

    /// A program that queries its processors gets the original ones; one that sets them gets its choice.
    fn before_affinity(&mut self, pid: Pid, registers: &Registers, chooses: bool) -> Verdict {
        let about = if registers.rdi == 0 { pid } else { registers.rdi as Pid };
        let Some(image) = self.tasks.get(&about).map(|task| task.image) else { return Verdict::Native };
        let mut placement = self.placement();
        if chooses {
            placement.leave_alone(image);
            return Verdict::Native;
        }
        match placement.own(image, pid).filter(|_| about == pid) {
            // On failure the thread has just been killed.
            Some(own) => drop(own.set(pid)),
            None => return Verdict::Native,
        }
        Verdict::NativeThen(AfterCall::Pin)
    }

    /// The kernel is about to change a lock without waiting for a fault.
    fn before_lock(&mut self, pid: Pid, registers: &Registers) -> Verdict {
        let Some(image) = self.image_of(pid) else { return Verdict::Native };
        // With a lost agent everything continues.
        let kept = resident_pages::for_lock(image, registers).ok().flatten().unwrap_or_default();
        if kept.is_empty() {
            return Verdict::Native;
        }
        self.task(pid).kept.extend(kept);
        Verdict::NativeThen(AfterCall::Release)
    }

    fn release(&mut self, pid: Pid) {
        let kept = std::mem::take(&mut self.task(pid).kept);
        if let Some(image) = self.image_of(pid) {
            resident_pages::release(image, &kept);
        }
        let image = self.task(pid).image;
        self.on_room(image);
    }

    // --- images --------------------------------------------------------------------------------------------

    /// A program without an agent runs anywhere.
    pub(super) fn begin_image(&mut self, number: u32, image: Image) {
        match &image.agent {
            Some(agent) => self.placement().has_agent(number, agent.pid()),
            None => self.placement().leave_alone(number),
        }
        self.images.insert(number, image);
    }

    /// Starts deciding where a multithreaded program runs by what it does.
    pub(super) fn watch(&mut self, number: u32) {
        let mut placement = self.placement();
        if placement.watches(number) {
            return;
        }
        let agent = self.images.get(&number).and_then(|image| image.agent.as_ref());
        match agent.map(Agent::another_control) {
            Some(Ok(control)) => placement.watch(number, control),
            // No agent, or a lost one.
            Some(Err(_)) | None => placement.leave_alone(number),
        }
    }

    // --- programs ----------------------------------------------------------------------------------------

    fn on_exec(&mut self, pid: Pid) {
        let number = self.new_number();
        let callers = self.put_off_leaving(pid);
        let own = self.leave_image(pid);
        self.begin_task(pid, Task::new(number));
        self.placement().begin(number, pid, own);
        let mut image = Image::new(number, pid, ImageOrigin::Exec);
        if let Some(obstacle) = image.obstacle(pid, self.setting) {
            image.leave(obstacle);
        } else if let Err(error) = begin_program(&mut image, pid, self.setting) {
            image.leave(error);
        }
        self.begin_image(number, image);
        resume(pid, Resume::On, 0);
        callers.into_iter().for_each(|caller| self.begin_leaving(pid, caller));
    }

    /// The thread that called exec is the only one left, and has the process's id. Returns its own processors.
    fn leave_image(&mut self, pid: Pid) -> Option<Processors> {
        let former = sys::event_message(pid).map_or(pid, |former| former as Pid);
        let mut own = None;
        for gone in [former, pid] {
            if let Some(task) = self.tasks.get(&gone) {
                own = own.or_else(|| self.placement().own(task.image, gone).cloned());
                self.on_end(gone);
            }
        }
        own
    }

    /// A thread begins to exit: the words that the kernel will write for it must be present, as it does not wait for
    /// faults of an exiting thread.
    fn on_exit(&mut self, pid: Pid) {
        let ending_word = self.task(pid).ending_word;
        if let Some(image) = self.image_of(pid).filter(|image| image.tasks > 1 && image.agent.is_some()) {
            match resident_pages::for_end(image, pid, ending_word) {
                Ok(Some(kept)) => self.task(pid).kept.extend(kept),
                Ok(None) => return self.ending.push_back(pid),
                // With a lost agent everything continues.
                Err(_) => {}
            }
        }
        resume(pid, Resume::On, 0);
    }

    /// An image's agent has room again: a waiting thread of it may exit.
    fn on_room(&mut self, image: u32) {
        let is_there = |pid: &Pid| self.tasks.get(pid).is_some_and(|task| task.image == image);
        if let Some(position) = self.ending.iter().position(is_there)
            && let Some(pid) = self.ending.remove(position)
        {
            self.on_exit(pid);
        }
    }

    /// A thread is gone: it has ended, or was detached.
    pub(super) fn on_end(&mut self, pid: Pid) {
        self.early.remove(&pid);
        self.ending.retain(|&other| other != pid);
        self.forget_leaving(pid);
        let Some(task) = self.tasks.remove(&pid) else { return };
        // Its id may be reused.
        self.staying.remove(&pid);
        self.in_name.remove(&pid);
        self.interrupt.ended(pid);
        self.placement().thread_ended(task.image, pid);
        let Some(image) = self.images.get_mut(&task.image) else { return };
        image.tasks -= 1;
        if image.tasks > 0 {
            resident_pages::release(image, &task.kept);
            return self.on_room(task.image);
        }
        self.placement().image_ended(task.image);
        if let Some(image) = self.images.remove(&task.image) {
            self.ended.push(image.end());
        }
    }

    // --- small ---------------------------------------------------------------------------------------------

    pub(super) fn begin_task(&mut self, pid: Pid, task: Task) {
        self.tasks.insert(pid, task);
        self.interrupt.began(pid);
    }

    pub(super) fn task(&mut self, pid: Pid) -> &mut Task {
        self.tasks.get_mut(&pid).expect("stops of unknown threads are kept apart")
    }

    pub(super) fn image_of(&mut self, pid: Pid) -> Option<&mut Image> {
        let number = self.tasks.get(&pid)?.image;
        self.images.get_mut(&number)
    }

    pub(super) fn image_number(&self, pid: Pid) -> Option<u32> {
        self.tasks.get(&pid).map(|task| task.image)
    }

    /// Whether this thread is traced.
    pub(super) fn follows(&self, pid: Pid) -> bool {
        self.tasks.contains_key(&pid)
    }

    /// Restores a thread's own processors.
    pub(super) fn unpin(&self, pid: Pid) {
        if let Some(image) = self.image_number(pid)
            && let Some(own) = self.placement().own(image, pid)
        {
            // On failure the thread has just been killed.
            let _ = own.set(pid);
        }
    }

    pub(super) fn placement(&self) -> MutexGuard<'a, ProcessorPlacement> {
        self.placement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn new_number(&mut self) -> u32 {
        self.next_image += 1;
        self.next_image - 1
    }
}

/// From the exec to the first instruction.
fn begin_program(image: &mut Image, pid: Pid, setting: Setting<'_>) -> Result<(), AgentError> {
    tracee::finish_exec(pid)?;
    image.begin(pid, AgentStart::Exec, setting)?;
    Ok(image.take_over_all(pid)?)
}

/// Resumes a thread; ignores one that was killed meanwhile.
pub fn resume(pid: Pid, how: Resume, signal: i32) {
    let _ = sys::go(pid, how, signal);
}
