//! Processes that the program traces itself: by debuggers, `strace`, and programs that detect these.
//!
//! A process has only one tracer. So one that the program is about to trace is detached: its threads stop, its memory
//! becomes private again, its agent ends, its calls pass from then on (`pass_through`), and the program's `ptrace`
//! works natively.

use super::filter::trace;
use super::pass_through;
use super::remap;
use super::tracee::{Injection, SyscallSite};
use super::tracer::Tracer;
use crate::tracing::sys::{self, Pid, Registers, Resume, errno};
use crate::tracing::{maps, stops};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

/// A process about to be detached.
pub struct PendingDetach {
    process: Pid,
    /// Threads whose `ptrace` waits for the detach.
    callers: Vec<Pid>,
    /// Its threads that have not stopped yet.
    awaited: HashSet<Pid>,
    /// Its stopped threads, with how to resume them if it stays.
    standing: Vec<(Pid, Resume)>,
}

/// What happens to a stopped `ptrace`.
pub enum PtraceVerdict {
    /// Let the program make it.
    Native,
    /// It has been made; the result.
    Done(i64),
    /// It waits until a process is detached.
    Waits,
}

const WHY: &str = "the program traces it itself (ptrace), so it ran by itself from then on";

impl Tracer<'_> {
    /// A program asks to trace, or to be traced.
    pub fn before_ptrace(&mut self, pid: Pid, registers: &Registers) -> PtraceVerdict {
        let (request, other) = (registers.rdi, registers.rsi as Pid);
        let Ok((own, parent)) = maps::process_and_parent(pid) else { return PtraceVerdict::Native };
        if request == trace::ME && parent == std::process::id() as Pid {
            return PtraceVerdict::Done(self.trace_in_name(pid, own));
        }
        let about = if request == trace::ME { pid } else { other };
        match maps::process_and_parent(about) {
            // The kernel itself refuses to trace the caller's own threads.
            Ok((process, _)) if process == own && request != trace::ME => PtraceVerdict::Native,
            Ok((process, _)) if self.follows(about) && !self.staying.contains(&process) => {
                self.begin_leaving(process, pid);
                PtraceVerdict::Waits
            }
            _ => PtraceVerdict::Native,
        }
    }

    /// Its parent started pagewalk, or adopted it, and would not react. A second request is refused, as natively.
    fn trace_in_name(&mut self, pid: Pid, process: Pid) -> i64 {
        if !self.in_name.insert(process) {
            return -errno::EPERM;
        }
        if let Some(image) = self.image_of(pid) {
            image.left_alone.push(
                "PTRACE_TRACEME: it was told that its parent traces it, as it would be natively, and nobody does"
                    .to_owned(),
            );
        }
        0
    }

    pub fn begin_leaving(&mut self, process: Pid, caller: Pid) {
        // It counts as stopped, also for those that wait for its own process. Two that ask for each other wait for
        // nobody.
        self.waiting.insert(caller);
        for leaving in &mut self.leaving {
            leaving.awaited.remove(&caller);
        }
        if let Some(leaving) = self.leaving.iter_mut().find(|leaving| leaving.process == process) {
            leaving.callers.push(caller);
            return self.leave_if_ready();
        }
        let mut leaving =
            PendingDetach { process, callers: vec![caller], awaited: HashSet::new(), standing: Vec::new() };
        for thread in self.threads_of(process) {
            // One at its exit or its `ptrace`, or just killed, need not stop.
            let stands = self.waiting.contains(&thread) || self.ending.contains(&thread);
            if !stands && sys::interrupt(thread).is_ok() {
                leaving.awaited.insert(thread);
            }
        }
        self.leaving.push(leaving);
        self.leave_if_ready();
    }

    /// A process's traced threads.
    fn threads_of(&self, process: Pid) -> Vec<Pid> {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
        let numbers = threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        numbers.filter(|&thread| self.follows(thread)).collect()
    }

    /// Whether this stop of a thread was requested.
    pub fn is_awaited(&self, pid: Pid) -> bool {
        self.leaving.iter().any(|leaving| leaving.awaited.contains(&pid))
    }

    /// A thread has stopped with this signal, so that its process can be detached.
    pub fn on_standing(&mut self, pid: Pid, signal: i32) {
        for leaving in &mut self.leaving {
            if leaving.awaited.remove(&pid) {
                leaving.standing.push((pid, stops::after_stop(signal)));
            }
        }
        self.leave_if_ready();
    }

    /// A process becomes another program: the detach is postponed. Returns the waiting callers.
    pub fn put_off_leaving(&mut self, process: Pid) -> Vec<Pid> {
        let position = self.leaving.iter().position(|leaving| leaving.process == process);
        let callers = position.map_or_else(Vec::new, |at| self.leaving.swap_remove(at).callers);
        // Its own threads are gone.
        callers.into_iter().filter(|&caller| !self.threads_of(process).contains(&caller)).collect()
    }

    /// A thread has ended.
    pub fn forget_leaving(&mut self, pid: Pid) {
        self.waiting.remove(&pid);
        for leaving in &mut self.leaving {
            leaving.awaited.remove(&pid);
            leaving.standing.retain(|&(other, _)| other != pid);
            leaving.callers.retain(|&other| other != pid);
        }
        self.leave_if_ready();
    }

    /// A new thread of a process that may be about to be detached.
    pub fn await_new(&mut self, pid: Pid) {
        if self.leaving.is_empty() {
            return;
        }
        let Ok((process, _)) = maps::process_and_parent(pid) else { return };
        for leaving in self.leaving.iter_mut().filter(|leaving| leaving.process == process) {
            if sys::interrupt(pid).is_ok() {
                leaving.awaited.insert(pid);
            }
        }
    }

    fn leave_if_ready(&mut self) {
        while let Some(position) = self.leaving.iter().position(|leaving| leaving.awaited.is_empty()) {
            let mut leaving = self.leaving.swap_remove(position);
            let left = self.leave(&mut leaving);
            if let Err(error) = &left {
                self.stay(&leaving, error);
            }
            for &caller in &leaving.callers {
                // A detached caller restarts its call.
                if self.waiting.remove(&caller) {
                    let _ = sys::go(caller, Resume::On, 0);
                }
            }
        }
    }

    /// Detaches a process, all threads of which are stopped. Restores its memory first: once its calls pass, nobody
    /// sees any more what it does to shared memory.
    fn leave(&mut self, leaving: &mut PendingDetach) -> io::Result<()> {
        let process = leaving.process;
        let threads = self.threads_of(process);
        let caller = threads.iter().copied().find(|thread| self.waiting.contains(thread));
        let Some(equipped) = caller.or(leaving.standing.first().map(|first| first.0)) else { return Ok(()) };
        if maps::filters(process)? > self.setting.filters {
            return Err(io::Error::other("it has a seccomp filter of its own"));
        }
        let passing = pass_through::begin()?;
        let Some(image) = self.image_of(equipped) else { return Ok(()) };
        // A vfork child has its parent's memory, which stays as it is.
        let owns = image.process() == process;
        let site = if image.agent.is_some() { SyscallSite::Agent } else { SyscallSite::Here };
        pass_through::may_install(process)?;
        if owns {
            remap::let_go(image, WHY)?;
        }
        match install(leaving, process, equipped, caller.is_some(), site) {
            Ok(listener) => passing.serve(listener),
            Err(error) => {
                self.run_alone(equipped, owns, &error);
                return Err(error);
            }
        }
        self.some_left = true;
        self.detach(&threads, owns);
        Ok(())
    }

    /// Its memory is private again, and nobody but us may trace it.
    fn run_alone(&mut self, pid: Pid, owns: bool, error: &io::Error) {
        let Some(number) = self.image_number(pid).filter(|_| owns) else { return };
        if let Some(image) = self.images.get_mut(&number) {
            image.leave(format!("it ran by itself from when the program was to trace it (ptrace): {error}"));
        }
        self.placement().leave_alone(number);
    }

    fn detach(&mut self, threads: &[Pid], with_memory: bool) {
        let image = threads.first().and_then(|first| self.image_number(*first));
        let mut gone = Vec::new();
        for &thread in threads {
            self.unpin(thread);
            // A process that was just killed stays traced to its end.
            if sys::go(thread, Resume::Alone, 0).is_ok() {
                gone.push(thread);
            }
        }
        if let Some(image) = image.filter(|_| with_memory) {
            self.placement().leave_alone(image);
        }
        for thread in gone {
            self.on_end(thread);
        }
    }

    /// A process cannot be detached: its threads resume, and the program's `ptrace` is refused.
    fn stay(&mut self, leaving: &PendingDetach, error: &io::Error) {
        const NO_PROCESS: i32 = 3;
        self.staying.insert(leaving.process);
        let first = self.threads_of(leaving.process).first().copied();
        if let Some(image) = first.and_then(|first| self.image_of(first))
            && error.raw_os_error() != Some(NO_PROCESS)
        {
            image.left_alone.push(format!("the program may not trace it itself (ptrace): {error}"));
        }
        for &(thread, how) in &leaving.standing {
            let _ = sys::go(thread, how, 0);
        }
    }
}

/// Lets calls pass from now on, installed through one of the stopped threads: at its call, or at a stop of its own.
fn install(
    leaving: &mut PendingDetach,
    process: Pid,
    equipped: Pid,
    at_call: bool,
    site: SyscallSite,
) -> io::Result<OwnedFd> {
    if at_call {
        let mut injection = Injection::begin_at_call(equipped, site)?;
        let listener = pass_through::install(&mut injection, process, site);
        return injection.end().and(listener);
    }
    let mut injection = Injection::begin(equipped, site)?;
    let mut goes_on = |how| {
        leaving.standing.iter_mut().filter(|(thread, _)| *thread == equipped).for_each(|it| it.1 = how);
    };
    // It may end meanwhile, and then stops elsewhere.
    goes_on(Resume::On);
    let listener = pass_through::install(&mut injection, process, site);
    goes_on(injection.end_amid()?);
    listener
}
