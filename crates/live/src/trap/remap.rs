//! Moving taken-over memory, and giving it back.

use super::calls::{Verdict, parts, refused, register};
use super::image::Image;
use super::shared::descriptor;
use super::space::{PAGE, whole_pages};
use crate::tracing::sys::{errno, map, number};
use std::io;

const MAYMOVE: u64 = 1;
const FIXED: u64 = 2;
const DONTUNMAP: u64 = 4;

/// `mremap` of memory that may be taken over. What grows needs a place in the file of its own, so the agent makes the
/// new part, and moves the old one piece by piece.
pub fn mremap(image: &mut Image, arguments: [u64; 6]) -> io::Result<Verdict> {
    let [old, old_bytes, new_bytes, flags, new, _] = arguments;
    let (old_length, new_length) = (whole_pages(old_bytes), whole_pages(new_bytes));
    let ours = image.space.touches(old, old_length.max(PAGE));
    if !ours || !old.is_multiple_of(PAGE) || new_bytes == 0 {
        let fixed = flags & FIXED != 0;
        return Ok(if fixed {
            Verdict::NativeThen(super::calls::After::Replaced { bytes: new_length })
        } else {
            Verdict::Native
        });
    }
    if !image.space.gaps(old, old_length).is_empty() {
        return Ok(refused(errno::EFAULT));
    }
    // To leave the old place mapped and empty is for private memory; programs that ask for it know how to do without.
    if flags & DONTUNMAP != 0 || flags & FIXED != 0 && (flags & MAYMOVE == 0 || !new.is_multiple_of(PAGE)) {
        return Ok(refused(errno::EINVAL));
    }
    // A second view of the same private memory is something that Linux has never given.
    if old_length == 0 {
        return Ok(refused(errno::EINVAL));
    }
    if flags & FIXED == 0 {
        if new_length < old_length {
            let (tail, length) = (old + new_length, old_length - new_length);
            let result = image.agent_call(number::MUNMAP, [tail, length, 0, 0, 0, 0])?;
            if result < 0 {
                return Ok(Verdict::Done(result));
            }
            image.give_up(tail, length)?;
        }
        if new_length <= old_length || grow(image, old + old_length, new_length - old_length)? {
            return Ok(Verdict::Done(old as i64));
        }
        if flags & MAYMOVE == 0 {
            return Ok(refused(errno::ENOMEM));
        }
    } else if overlap(old, old_length, new, new_length) {
        return Ok(refused(errno::EINVAL));
    }
    relocate(image, (old, old_length), new_length, (flags & FIXED != 0).then_some(new))
}

fn overlap(one: u64, one_bytes: u64, other: u64, other_bytes: u64) -> bool {
    one < other.saturating_add(other_bytes) && other < one.saturating_add(one_bytes)
}

/// Rights of the last page before `end`.
fn rights_before(image: &Image, end: u64) -> io::Result<u64> {
    Ok(parts(image, end - PAGE, PAGE)?.first().map_or(map::READ | map::WRITE, |part| part.protection))
}

/// Maps new memory right behind `end` if nothing is there; with the rights of what is before.
fn grow(image: &mut Image, end: u64, bytes: u64) -> io::Result<bool> {
    let protection = rights_before(image, end)?;
    extend(image, end, bytes, protection, map::FIXED_NOREPLACE)
}

fn extend(image: &mut Image, start: u64, bytes: u64, protection: u64, placing: u64) -> io::Result<bool> {
    let Some(place) = image.space.allot(bytes) else { return Ok(false) };
    let flags = map::SHARED | map::NORESERVE | placing;
    let arguments = [start, bytes, protection, flags, descriptor::MEMORY.into(), place];
    let at = image.agent_call(number::MMAP, arguments)?;
    if at != start as i64 {
        return Ok(false);
    }
    image.space.insert(start, bytes, place);
    register(image, start, bytes)?;
    Ok(true)
}

/// Moves a range to a new place and length.
fn relocate(
    image: &mut Image,
    (old, old_length): (u64, u64),
    new_length: u64,
    wanted: Option<u64>,
) -> io::Result<Verdict> {
    // The whole of the new place first, so that nothing fails half-way for want of room.
    let placing = if wanted.is_some() { map::FIXED } else { 0 };
    let reserved = map::PRIVATE | map::ANONYMOUS | map::NORESERVE | placing;
    let hint = wanted.unwrap_or(0);
    let new = image.agent_call(number::MMAP, [hint, new_length, 0, reserved, u64::MAX, 0])?;
    if new < 0 {
        return Ok(Verdict::Done(new));
    }
    let new = new as u64;
    image.give_up(new, new_length)?;
    let protection = rights_before(image, old + old_length)?;
    let moved = old_length.min(new_length);
    for part in parts(image, old, moved)? {
        let (length, to) = (part.bytes(), new + (part.start - old));
        let arguments = [part.start, length, length, MAYMOVE | FIXED, to, 0];
        let result = image.agent_call(number::MREMAP, arguments)?;
        if result < 0 {
            return Ok(Verdict::Done(result));
        }
    }
    // What moved keeps its place in the file. It faults no more until that is asked for again.
    let pieces = image.space.remove(old, moved);
    if let Some(agent) = &mut image.agent {
        agent.forget(old, moved)?;
    }
    for piece in pieces {
        image.space.insert(new + (piece.start - old), piece.bytes(), piece.offset);
    }
    register(image, new, moved)?;
    if new_length > moved {
        extend(image, new + moved, new_length - moved, protection, map::FIXED)?;
    } else if old_length > moved {
        image.agent_call(number::MUNMAP, [old + moved, old_length - moved, 0, 0, 0, 0])?;
        image.give_up(old + moved, old_length - moved)?;
    }
    Ok(Verdict::Done(new as i64))
}

/// Makes taken-over memory the program's own private memory again, with its contents: for what only that can do. Who
/// touches it meanwhile waits.
pub fn give_back(image: &mut Image, start: u64, bytes: u64) -> io::Result<()> {
    if !image.space.touches(start, bytes) {
        return Ok(());
    }
    let shown = image.space.within(start, bytes);
    if let Some(agent) = &mut image.agent {
        agent.freeze()?;
    }
    for part in parts(image, start, bytes)? {
        for piece in shown.iter().filter(|piece| piece.start < part.end && part.start < piece.end) {
            let (from, to) = (piece.start.max(part.start), piece.end.min(part.end));
            copy_back(image, from, to - from, piece.offset + (from - piece.start), part.protection)?;
        }
    }
    image.give_up(start, bytes)?;
    image
        .left_alone
        .push(format!("{} KiB given back, as the program wants its own private memory", bytes / 1024));
    match &mut image.agent {
        Some(agent) => agent.thaw(),
        None => Ok(()),
    }
}

fn copy_back(image: &mut Image, start: u64, bytes: u64, offset: u64, protection: u64) -> io::Result<()> {
    let flags = map::PRIVATE | map::ANONYMOUS;
    let writable = map::READ | map::WRITE;
    let aside = image.agent_call(number::MMAP, [0, bytes, writable, flags, u64::MAX, 0])?;
    if aside < 0 {
        return Err(io::Error::from_raw_os_error(-aside as i32));
    }
    let aside = aside as u64;
    let mut copied = 0;
    while copied < bytes {
        let rest = [descriptor::MEMORY.into(), aside + copied, bytes - copied, offset + copied, 0, 0];
        match image.agent_call(number::PREAD64, rest)? {
            more @ 1.. => copied += more as u64,
            error => return Err(io::Error::from_raw_os_error(-error as i32)),
        }
    }
    image.agent_call(number::MPROTECT, [aside, bytes, protection, 0, 0, 0])?;
    image.agent_call(number::MREMAP, [aside, bytes, bytes, MAYMOVE | FIXED, start, 0])?;
    Ok(())
}
