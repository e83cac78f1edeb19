//! Handles the system calls that the filter stops, where they affect taken-over memory.
//!
//! The agent makes most of them in the program's place, and the program only gets the result. So one stop suffices, and
//! our record of the memory changes in the same order as the memory, whichever threads are at work.

use super::filter::advice;
use super::guards;
use super::image::{COPY_BYTES_MAX, Image};
use super::limits::{self, NewMemory};
use super::locks;
use super::remap;
use super::shared::descriptor;
use super::space::{PAGE, whole_pages};
use super::verdict::{AfterCall, Verdict, refused};
use crate::tracing::sys::{self, Pid, Registers, errno, map, number};
use std::io;

/// Handles a stopped call in an image with an agent.
pub fn judge(image: &mut Image, pid: Pid, registers: &Registers) -> io::Result<Verdict> {
    let arguments = registers.arguments();
    match registers.orig_rax {
        number::MMAP => mmap(image, pid, arguments),
        number::MUNMAP => munmap(image, arguments),
        number::BRK => brk(image, pid, arguments[0]),
        number::MREMAP => remap::mremap(image, pid, arguments),
        number::MADVISE => madvise(image, arguments),
        number::MSEAL => seal(image, arguments),
        call @ (number::MLOCK | number::MLOCK2 | number::MUNLOCK | number::MLOCKALL | number::MUNLOCKALL) => {
            locks::judge(image, pid, call, arguments)
        }
        number::IOCTL => serve_itself(image, pid, arguments[2]),
        _ => Ok(Verdict::Native),
    }
}

/// The program wants to serve faults itself, which is impossible for memory whose faults we serve.
fn serve_itself(image: &mut Image, pid: Pid, asked: u64) -> io::Result<Verdict> {
    // If it cannot be read, the kernel refuses too.
    let word = |image: &Image, at| image.word(pid, asked.wrapping_add(at)).ok();
    if let Some((start, bytes)) = word(image, 0).zip(word(image, 8)) {
        image.serves = true;
        let given_back = remap::give_back(
            image,
            start,
            whole_pages(bytes),
            "the program serves its faults itself (userfaultfd)",
        )?;
        if !given_back {
            return Ok(refused(errno::ENOMEM));
        }
    }
    Ok(Verdict::Native)
}

/// Sealed memory can never be changed again, not even in a child: first make it the program's own.
fn seal(image: &mut Image, [start, bytes, ..]: [u64; 6]) -> io::Result<Verdict> {
    let given_back = remap::give_back(image, start, whole_pages(bytes), "the program seals it (mseal)")?;
    Ok(if given_back { Verdict::Native } else { refused(errno::ENOMEM) })
}

/// Handles a call that cannot be followed. What was taken over stays shared memory of the file: none of its pages may
/// be seen at two places, and advice affects it differently from private memory.
pub fn unfollowed(image: &Image, registers: &Registers) -> Verdict {
    let [start, bytes, asked, ..] = registers.arguments();
    let pieces = image.space.within(start, whole_pages(bytes).max(PAGE));
    match (registers.orig_rax, &image.agent) {
        (number::MREMAP, _) if !pieces.is_empty() => refused(errno::ENOMEM),
        (number::MADVISE, Some(agent)) if asked == advice::DONTNEED || asked == advice::DONTNEED_LOCKED => {
            let emptied = pieces.iter().all(|it| sys::punch(&agent.memory, it.offset, it.bytes()).is_ok());
            if emptied { Verdict::Native } else { refused(errno::ENOMEM) }
        }
        _ => Verdict::Native,
    }
}

fn mmap(image: &mut Image, pid: Pid, arguments: [u64; 6]) -> io::Result<Verdict> {
    let [_, bytes, protection, flags, ..] = arguments;
    let length = whole_pages(bytes);
    let fixed = replaces(flags);
    let is_private = flags & map::TYPE == map::PRIVATE;
    let odd = flags & (map::GROWSDOWN | map::HUGETLB) != 0;
    let native =
        if fixed { Verdict::NativeThen(AfterCall::Replaced { bytes: length }) } else { Verdict::Native };
    if bytes == 0 || !is_private {
        return Ok(native);
    }
    if odd {
        image.left_alone.push(format!("{} KiB: huge pages, or a stack that grows", length / 1024));
        return Ok(native);
    }
    if flags & map::ANONYMOUS != 0 {
        return Ok(anonymous(image, pid, arguments)?.unwrap_or(native));
    }
    if protection & map::WRITE == 0 {
        return Ok(native);
    }
    if length > COPY_BYTES_MAX {
        image.left_alone.push(format!("{} KiB: a large file mapped to be changed in memory", length / 1024));
        return Ok(native);
    }
    let (lock, _) = locks::of_new(image, flags);
    Ok(Verdict::NativeThen(AfterCall::TakeOver { bytes: length, protection, fixed, lock }))
}

/// Maps plain private memory. None if the file is used up.
fn anonymous(image: &mut Image, pid: Pid, arguments: [u64; 6]) -> io::Result<Option<Verdict>> {
    let [address, bytes, protection, flags, ..] = arguments;
    let length = whole_pages(bytes);
    let fixed = replaces(flags);
    let (lock, populated) = locks::of_new(image, flags);
    if flags & map::LOCKED != 0 && limits::may_lock_nothing(pid)? {
        return Ok(Some(refused(errno::EPERM)));
    }
    if let Some(error) =
        limits::hinder(image, pid, NewMemory { bytes: length, protection, locked: lock.is_some() })?
    {
        return Ok(Some(refused(error)));
    }
    if fixed && image.serves && !image.space.gaps(address, length).is_empty() {
        return Ok(Some(Verdict::NativeThen(AfterCall::TakeOverPlain { bytes: length, protection })));
    }
    let Some(place) = image.space.allot(length) else { return Ok(None) };
    let at = map_file(image, [address, bytes, protection, flags], place)?;
    if at < 0 {
        return Ok(Some(Verdict::Done(at)));
    }
    image.give_up(at as u64, length)?;
    image.space.insert(at as u64, length, place);
    image.register(at as u64, length)?;
    if let Some(how) = lock {
        locks::lock_new(image, at as u64, length, how)?;
    }
    if populated {
        locks::fill(image, at as u64, length)?;
    }
    Ok(Some(Verdict::Done(at)))
}

/// Whether a mapping replaces what is there.
fn replaces(flags: u64) -> bool {
    flags & map::FIXED != 0 && flags & map::FIXED_NOREPLACE == 0
}

/// Maps the file from `place` where the kernel puts anonymous memory. The kernel aligns only anonymous memory to huge
/// pages (Linux from 6.7 on), not files. So first map plain memory, then replace it with the file.
fn map_file(image: &mut Image, [address, bytes, protection, flags]: [u64; 4], place: u64) -> io::Result<i64> {
    const NO_FILE: u64 = u64::MAX;
    let mut at = address;
    if !replaces(flags) {
        let placing = flags & (map::FIXED | map::FIXED_NOREPLACE | map::BIT32 | map::STACK);
        let plain = map::PRIVATE | map::ANONYMOUS | map::NORESERVE | placing;
        let placed = image.agent_call(number::MMAP, [address, bytes, 0, plain, NO_FILE, 0])?;
        if placed < 0 {
            return Ok(placed);
        }
        at = placed as u64;
    }
    let over = map::SHARED | map::NORESERVE | map::FIXED;
    let mapped =
        image.agent_call(number::MMAP, [at, bytes, protection, over, descriptor::MEMORY.into(), place])?;
    if mapped < 0 && !replaces(flags) {
        image.agent_call(number::MUNMAP, [at, bytes, 0, 0, 0, 0])?;
    }
    Ok(mapped)
}

/// After a call that the program made itself.
pub fn complete(image: &mut Image, after: AfterCall, result: i64) -> io::Result<()> {
    const ERRORS: std::ops::Range<i64> = -4095..0;
    if ERRORS.contains(&result) {
        return Ok(());
    }
    let start = result as u64;
    match after {
        AfterCall::Replaced { bytes } => image.give_up(start, bytes),
        AfterCall::TakeOver { bytes, protection, fixed, lock } => {
            if fixed {
                image.give_up(start, bytes)?;
            }
            image.take_over(start, bytes, protection)?;
            if lock.is_some() {
                image.space.set_locked(start, bytes, true);
            }
            Ok(())
        }
        AfterCall::TakeOverPlain { bytes, protection } => {
            image.give_up(start, bytes)?;
            image.renew(start, bytes, protection)
        }
        AfterCall::Pin | AfterCall::Release | AfterCall::Hide => Ok(()),
    }
}

fn munmap(image: &mut Image, arguments: [u64; 6]) -> io::Result<Verdict> {
    let [start, bytes, ..] = arguments;
    let length = whole_pages(bytes);
    let ours = image.space.touches(start, length) || image.guards.touches(start, length);
    if !start.is_multiple_of(PAGE) || bytes == 0 || !ours {
        return Ok(Verdict::Native);
    }
    if image.serves && !image.space.gaps(start, length).is_empty() {
        // The call waits for the thread that serves the program's own faults, which may need the agent.
        image.give_up(start, length)?;
        return Ok(Verdict::Native);
    }
    let result = image.agent_call(number::MUNMAP, arguments)?;
    if result == 0 {
        image.give_up(start, length)?;
    }
    Ok(Verdict::Done(result))
}

fn brk(image: &mut Image, pid: Pid, wanted: u64) -> io::Result<Verdict> {
    let before = image.heap_end;
    let growth = whole_pages(wanted).saturating_sub(whole_pages(before));
    let coming =
        NewMemory { bytes: growth, protection: map::READ | map::WRITE, locked: image.locks_new.is_some() };
    if growth > 0 && limits::hinder(image, pid, coming)?.is_some() {
        return Ok(Verdict::Done(before as i64));
    }
    let now = image.agent_call(number::BRK, [wanted, 0, 0, 0, 0, 0])? as u64;
    image.heap_end = now;
    let (old, new) = (whole_pages(before), whole_pages(now));
    if new > old {
        image.take_over_heap(old, new)?;
        if let Some(how) = image.locks_new {
            locks::lock_new(image, old, new - old, how)?;
        }
    } else if new < old {
        image.give_up(new, old - new)?;
    }
    Ok(Verdict::Done(now as i64))
}

/// Advice that affects private and shared memory differently.
fn madvise(image: &mut Image, arguments: [u64; 6]) -> io::Result<Verdict> {
    let [start, bytes, asked, ..] = arguments;
    let length = whole_pages(bytes);
    let pieces = image.space.within(start, length);
    let guarded = asked == advice::GUARD_REMOVE && image.guards.touches(start, length);
    let ours = !pieces.is_empty() || guarded;
    // The kernel refuses ranges that no memory can have.
    if !start.is_multiple_of(PAGE) || start.checked_add(length).is_none() || !ours {
        return Ok(Verdict::Native);
    }
    let gaps = image.space.gaps(start, length);
    let is_locked = pieces.iter().any(|piece| piece.locked);
    match asked {
        advice::DONTNEED | advice::FREE if is_locked => return Ok(refused(errno::EINVAL)),
        // Private memory would read as zeros from now on.
        advice::DONTNEED | advice::DONTNEED_LOCKED => image.empty(&pieces)?,
        // The call would wait for the thread that serves the program's own faults, which may need the agent.
        advice::FREE if image.serves && !gaps.is_empty() => return Ok(refused(errno::EINVAL)),
        // The memory may keep its contents, and does; nothing is short.
        advice::FREE => {}
        advice::WIPE_ON_FORK => {
            let given_back = remap::give_back(image, start, length, "it is to be wiped in children")?;
            return Ok(if given_back { Verdict::Native } else { refused(errno::ENOMEM) });
        }
        advice::POPULATE_READ => {
            return locks::populate(image, start, length, asked, map::READ).map(Verdict::Done);
        }
        advice::POPULATE_WRITE => {
            return locks::populate(image, start, length, asked, map::WRITE).map(Verdict::Done);
        }
        advice::GUARD_INSTALL if is_locked => return Ok(refused(errno::EINVAL)),
        advice::GUARD_INSTALL => return guards::install(image, start, length).map(Verdict::Done),
        advice::GUARD_REMOVE => return guards::remove(image, start, length).map(Verdict::Done),
        // Only for memory of files; and a huge page would become present all at once.
        advice::REMOVE | advice::COLLAPSE => return Ok(refused(errno::EINVAL)),
        _ => return Ok(Verdict::Native),
    }
    if image.serves && !gaps.is_empty() {
        // For taken-over memory this only drops pages, which return.
        return Ok(Verdict::Native);
    }
    let mut result = 0;
    for (from, length) in gaps {
        match image.agent_call(number::MADVISE, [from, length, asked, 0, 0, 0])? {
            0 => {}
            error => result = error,
        }
    }
    Ok(Verdict::Done(result))
}
