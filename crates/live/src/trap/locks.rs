//! Memory that the program locks (`mlock`, `mlockall`, `MAP_LOCKED`) or populates.
//!
//! The kernel would keep locked pages present, and nothing would fault any more. So taken-over memory is never really
//! locked: we record what the program has locked, create the pages in the file as the kernel would, and enforce the
//! program's limit on locked memory. The stack's reserved room and the agent's memory do not count. Other memory is
//! locked as the program wants; later mappings under `MCL_FUTURE` are not.

use super::image::Image;
use super::limits::{mapped_bytes, may_lock, may_lock_nothing, own_mappings};
use super::space::{Lock, PAGE, TakenRange, whole_pages};
use super::verdict::{Verdict, refused};
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{Pid, errno, limit, map, number};
use memmap2::{Advice, MmapOptions};
use std::fs::File;
use std::io;

const MLOCK_ONFAULT: u64 = 1;
const MCL_CURRENT: u64 = 1;
const MCL_FUTURE: u64 = 2;
const MCL_ONFAULT: u64 = 4;

/// Handles a call that locks or unlocks.
///
/// # Errors
/// If the agent is lost, or the program cannot be read.
pub fn judge(image: &mut Image, pid: Pid, call: u64, arguments: [u64; 6]) -> io::Result<Verdict> {
    let [start, bytes, flags, ..] = arguments;
    match call {
        number::MLOCK => lock(image, pid, (start, bytes), Lock::Filled),
        number::MLOCK2 => match flags {
            0 => lock(image, pid, (start, bytes), Lock::Filled),
            MLOCK_ONFAULT => lock(image, pid, (start, bytes), Lock::OnFault),
            _ => Ok(refused(errno::EINVAL)),
        },
        number::MUNLOCK => unlock(image, (start, bytes)),
        number::MLOCKALL => lock_all(image, pid, start),
        _ => {
            image.locks_new = None;
            image.space.set_locked(0, u64::MAX, false);
            Ok(Verdict::Done(image.agent_call(number::MUNLOCKALL, [0; 6])?))
        }
    }
}

/// The whole pages of a range.
fn range((start, bytes): (u64, u64)) -> Option<(u64, u64)> {
    let begin = start / PAGE * PAGE;
    let length = whole_pages(bytes.checked_add(start - begin)?);
    begin.checked_add(length).map(|_| (begin, length))
}

fn lock(image: &mut Image, pid: Pid, wanted: (u64, u64), how: Lock) -> io::Result<Verdict> {
    if may_lock_nothing(pid)? {
        return Ok(refused(errno::EPERM));
    }
    let Some((start, bytes)) = range(wanted) else { return Ok(refused(errno::EINVAL)) };
    let held: u64 =
        image.space.within(start, bytes).iter().filter(|piece| piece.locked).map(|piece| piece.bytes()).sum();
    if !may_lock(image, pid, bytes - held)? {
        return Ok(refused(errno::ENOMEM));
    }
    let filled = lock_new(image, start, bytes, how)?;
    let flags = if how == Lock::OnFault { MLOCK_ONFAULT } else { 0 };
    let result = of_others(image, start, bytes, number::MLOCK2, flags)?;
    Ok(Verdict::Done(if result == 0 && !filled { -errno::EAGAIN } else { result }))
}

fn unlock(image: &mut Image, wanted: (u64, u64)) -> io::Result<Verdict> {
    let Some((start, bytes)) = range(wanted) else { return Ok(refused(errno::EINVAL)) };
    image.space.set_locked(start, bytes, false);
    of_others(image, start, bytes, number::MUNLOCK, 0).map(Verdict::Done)
}

/// Makes a call for the parts of a range that are not taken over: 0, or the error number of a range with holes.
fn of_others(image: &mut Image, start: u64, bytes: u64, call: u64, flags: u64) -> io::Result<i64> {
    let parts = image.parts(start, bytes)?;
    let covered: u64 = parts.iter().map(Mapping::bytes).sum();
    for part in &parts {
        for (from, length) in image.space.gaps(part.start, part.bytes()) {
            // Memory that cannot be locked works all the same.
            image.agent_call(call, [from, length, flags, 0, 0, 0])?;
        }
    }
    Ok(if covered == bytes { 0 } else { -errno::ENOMEM })
}

fn lock_all(image: &mut Image, pid: Pid, flags: u64) -> io::Result<Verdict> {
    if flags == 0 || flags == MCL_ONFAULT || flags & !(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0 {
        return Ok(refused(errno::EINVAL));
    }
    if may_lock_nothing(pid)? {
        return Ok(refused(errno::EPERM));
    }
    let current = flags & MCL_CURRENT != 0;
    let (most, _) = maps::limit_of(pid, limit::LOCKED)?;
    if current && mapped_bytes(image)? > most && !maps::may_lock_any(pid)? {
        return Ok(refused(errno::ENOMEM));
    }
    let how = if flags & MCL_ONFAULT != 0 { Lock::OnFault } else { Lock::Filled };
    image.locks_new = (flags & MCL_FUTURE != 0).then_some(how);
    if current {
        let reserve = image.reserve();
        for mapping in own_mappings(image)? {
            lock_new(image, mapping.start, mapping.bytes(), how)?;
            let flags = if how == Lock::OnFault { MLOCK_ONFAULT } else { 0 };
            of_others(image, mapping.start, mapping.bytes(), number::MLOCK2, flags)?;
        }
        image.space.set_locked(reserve.start, reserve.end - reserve.start, false);
    }
    Ok(Verdict::Done(0))
}

/// Records that a range's taken-over memory is locked, and creates its pages. Returns whether all could be created.
///
/// # Errors
/// If the mappings cannot be read.
pub fn lock_new(image: &mut Image, start: u64, bytes: u64, how: Lock) -> io::Result<bool> {
    image.space.set_locked(start, bytes, true);
    if how == Lock::OnFault { Ok(true) } else { fill(image, start, bytes) }
}

/// Creates the pages of a range's taken-over memory, where the program may access it. They stay absent: the kernel
/// creating a page is no reference of the program. Returns whether all could be created.
///
/// # Errors
/// If the mappings cannot be read.
pub fn fill(image: &Image, start: u64, bytes: u64) -> io::Result<bool> {
    let Some(agent) = &image.agent else { return Ok(true) };
    let reserve = image.reserve();
    let mut filled = true;
    for part in image.parts(start, bytes)? {
        if part.protection == 0 {
            continue;
        }
        for piece in image.space.within(part.start, part.bytes()) {
            let begin = if reserve.contains(&piece.start) { reserve.end } else { piece.start };
            if let Some(piece) = piece.cut(begin, u64::MAX) {
                filled &= make_pages(&agent.memory, piece).is_ok();
            }
        }
    }
    Ok(filled)
}

/// Creates the pages of a piece of the file, keeping their contents. Merely allocated pages would look absent to
/// `mincore`.
fn make_pages(memory: &File, piece: TakenRange) -> io::Result<()> {
    let here = MmapOptions::new().offset(piece.offset).len(piece.bytes() as usize).map_raw(memory)?;
    here.advise(Advice::PopulateWrite)
}

/// `MADV_POPULATE_READ` and `MADV_POPULATE_WRITE`: 0, or an error number below 0.
///
/// # Errors
/// If the agent is lost, or the mappings cannot be read.
pub fn populate(image: &mut Image, start: u64, bytes: u64, advice: u64, right: u64) -> io::Result<i64> {
    let parts = image.parts(start, bytes)?;
    let mut end = start;
    for part in parts {
        if part.start != end {
            return Ok(-errno::ENOMEM);
        }
        end = part.end;
        for (from, length) in image.space.gaps(part.start, part.bytes()) {
            let result = image.agent_call(number::MADVISE, [from, length, advice, 0, 0, 0])?;
            if result < 0 {
                return Ok(result);
            }
        }
        if part.protection & right == 0 && image.space.touches(part.start, part.bytes()) {
            return Ok(-errno::EINVAL);
        }
        if !fill(image, part.start, part.bytes())? {
            return Ok(-errno::ENOMEM);
        }
    }
    Ok(if end == start + bytes { 0 } else { -errno::ENOMEM })
}

/// Whether a new mapping is locked from the start, and whether it is populated.
pub fn of_new(image: &Image, flags: u64) -> (Option<Lock>, bool) {
    let lock = if flags & map::LOCKED != 0 { Some(Lock::Filled) } else { image.locks_new };
    let populated = flags & (map::POPULATE | map::NONBLOCK) == map::POPULATE;
    (lock, populated)
}
