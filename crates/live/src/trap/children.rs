//! Children and threads that a program starts: work before the call, and after they appear.

use super::filter::{CLONE_UNTRACED, CLONE_VM};
use super::forks::{Word, separate};
use super::image::Image;
use super::report::ImageOrigin;
use super::tracer::{Task, Tracer, resume};
use super::verdict::{AfterCall, Verdict};
use crate::tracing::stops::{self, WaitStatus};
use crate::tracing::sys::{self, Pid, Registers, Resume, number};

impl Tracer<'_> {
    /// Prepares a fork: the kernel will write the child's id into memory that parent and child still share. A task that
    /// asks not to be traced (a leak checker uses one to stop the program) is traced all the same: otherwise its calls
    /// would fail.
    pub fn before_fork(&mut self, pid: Pid, registers: &mut Registers) -> Verdict {
        const CHILD_SETTID: u64 = 0x0100_0000;
        let hides = self.set_hidden(pid, registers, false);
        let verdict = if hides { Verdict::NativeThen(AfterCall::Hide) } else { Verdict::Native };
        let Some((flags, child_word)) = self.clone_arguments(pid, registers) else { return verdict };
        let word = self.image_of(pid).and_then(|image| {
            let wanted = flags & CHILD_SETTID != 0 && flags & u64::from(CLONE_VM) == 0;
            let offset = image.space.offset_of(child_word).filter(|_| wanted)?;
            let mut bytes = [0; 4];
            image.read(pid, child_word, &mut bytes).ok()?;
            Some(Word { offset, bytes })
        });
        self.task(pid).fork_word = word;
        verdict
    }

    /// Removes or restores `CLONE_UNTRACED` in a clone's flags; returns whether it was, or is, set.
    fn set_hidden(&mut self, pid: Pid, registers: &mut Registers, hidden: bool) -> bool {
        let bit = u64::from(CLONE_UNTRACED);
        let changed = |flags: u64| if hidden { flags | bit } else { flags & !bit };
        match registers.orig_rax {
            number::CLONE if changed(registers.rdi) != registers.rdi => {
                registers.rdi = changed(registers.rdi);
                // On failure the thread has just been killed.
                sys::set_registers(pid, registers).is_ok()
            }
            number::CLONE3 => {
                let Some(image) = self.image_of(pid) else { return false };
                // If it cannot be read, the kernel cannot read it either.
                let Ok(flags) = image.word(pid, registers.rdi) else { return false };
                changed(flags) != flags && image.set_word(pid, registers.rdi, changed(flags)).is_ok()
            }
            _ => false,
        }
    }

    /// Restores the flags in registers and memory, even if the call failed or will restart.
    pub fn put_hidden_back(&mut self, pid: Pid) {
        if let Ok(mut registers) = sys::registers(pid) {
            self.set_hidden(pid, &mut registers, true);
        }
    }

    /// The same for the child, which is no longer in the call.
    fn put_hidden_back_in_child(&mut self, parent: Pid, child: Pid) {
        if let (Ok(of_parent), Ok(now)) = (sys::registers(parent), sys::registers(child)) {
            let mut of_child = Registers { orig_rax: of_parent.orig_rax, ..now };
            self.set_hidden(child, &mut of_child, true);
        }
    }

    /// A clone's flags, and where the child's id goes.
    fn clone_arguments(&mut self, pid: Pid, registers: &Registers) -> Option<(u64, u64)> {
        const CLONE_VFORK_VM: u64 = 0x4100;
        match registers.orig_rax {
            number::FORK => Some((0, 0)),
            number::CLONE => Some((registers.rdi, registers.r10)),
            number::CLONE3 => {
                let image = self.image_of(pid)?;
                // struct clone_args: flags, pidfd, child_tid.
                let word = |position: u64| image.word(pid, registers.rdi + 8 * position).ok();
                Some((word(0)?, word(2)?))
            }
            _ => Some((CLONE_VFORK_VM, 0)),
        }
    }

    pub fn on_child(&mut self, parent: Pid) {
        const CHILD_CLEARTID: u64 = 0x0020_0000;
        const VFORK: u64 = 0x4000;
        let hides = self.task(parent).after == Some(AfterCall::Hide);
        let how = if hides { Resume::ToCall } else { Resume::On };
        let arguments =
            sys::registers(parent).ok().and_then(|registers| self.clone_arguments(parent, &registers));
        let (Ok(child), Some((flags, child_word))) = (sys::event_message(parent), arguments) else {
            return resume(parent, how, 0);
        };
        let child = child as Pid;
        if self.early.remove(&child).is_none()
            && !matches!(stops::wait(child), Ok((_, WaitStatus::Event(..))))
        {
            // It was killed before its first stop.
            return resume(parent, how, 0);
        }
        let word = self.task(parent).fork_word.take();
        let shares = flags & u64::from(CLONE_VM) != 0;
        let image = if shares { self.join_image(parent) } else { self.new_number() };
        let mut task = Task::new(image);
        if flags & CHILD_CLEARTID != 0 {
            task.ending_word = child_word;
        }
        self.begin_task(child, task);
        if shares {
            self.placement().join(image, child, parent);
            if flags & VFORK == 0 {
                self.watch(image);
            }
        } else {
            let own = self.placement().own(self.task(parent).image, parent).cloned();
            self.placement().begin(image, child, own);
            self.fork_image(image, parent, child, word);
        }
        if hides {
            self.put_hidden_back_in_child(parent, child);
        }
        self.await_new(child);
        resume(child, Resume::On, 0);
        resume(parent, how, 0);
    }

    fn join_image(&mut self, parent: Pid) -> u32 {
        let number = self.task(parent).image;
        if let Some(image) = self.images.get_mut(&number) {
            image.tasks += 1;
        }
        number
    }

    fn fork_image(&mut self, number: u32, parent: Pid, child: Pid, word: Option<Word>) {
        let mut image = Image::new(number, child, ImageOrigin::Fork);
        let setting = self.setting;
        if let Some(parent) = self.image_of(parent) {
            if parent.agent.is_none() {
                image.leave("its parent ran by itself");
            } else if let Err(error) = separate(parent, &mut image, child, word, setting) {
                // Otherwise it would run on in its parent's memory, on the same stack.
                let _ = sys::kill(child, sys::SIGKILL);
                image.leave(format!("killed, as it could not be given memory of its own: {error}"));
            }
        }
        if let (Some(from), Some(_)) = (self.image_of(parent), &image.agent) {
            image.inherit(from);
        }
        self.begin_image(number, image);
    }
}
