//! Moves taken-over memory, and gives it back.

use super::image::Image;
use super::limits;
use super::locks;
use super::shared::descriptor;
use super::space::{Lock, PAGE, TakenRange, whole_pages};
use super::verdict::{AfterCall, Verdict, refused};
use crate::tracing::maps::Mapping;
use crate::tracing::sys::{Pid, errno, map, number};
use std::io;

const MAYMOVE: u64 = 1;
const FIXED: u64 = 2;
const DONTUNMAP: u64 = 4;

/// `mremap` of memory that may be taken over. Growing memory needs a new place in the file, so the agent maps the new
/// part, and moves the old one piece by piece.
pub fn mremap(image: &mut Image, pid: Pid, arguments: [u64; 6]) -> io::Result<Verdict> {
    let [old, old_bytes, new_bytes, flags, new, _] = arguments;
    let (old_length, new_length) = (whole_pages(old_bytes), whole_pages(new_bytes));
    let ours = image.space.touches(old, old_length.max(PAGE));
    if !ours || !old.is_multiple_of(PAGE) || new_bytes == 0 {
        let fixed = flags & FIXED != 0;
        return Ok(if fixed {
            Verdict::NativeThen(AfterCall::Replaced { bytes: new_length })
        } else {
            Verdict::Native
        });
    }
    let pieces = image.space.within(old, old_length);
    let of_one_kind = pieces.iter().all(|piece| piece.locked == pieces[0].locked);
    // Partly locked memory is two mappings, which may move together but not change in length.
    if !image.space.gaps(old, old_length).is_empty() || old_length != new_length && !of_one_kind {
        return Ok(refused(errno::EFAULT));
    }
    let (fixed, stays) = (flags & FIXED != 0, flags & DONTUNMAP != 0);
    if (fixed || stays) && (flags & MAYMOVE == 0 || !new.is_multiple_of(PAGE)) {
        return Ok(refused(errno::EINVAL));
    }
    if stays && old_length != new_length {
        return Ok(refused(errno::EINVAL));
    }
    // Linux has never allowed a second view of the same private memory.
    if old_length == 0 {
        return Ok(refused(errno::EINVAL));
    }
    let grows = new_length.saturating_sub(old_length);
    if let Some(error) = limits::hinder_growth(image, pid, (old, old_length), grows)? {
        return Ok(refused(error));
    }
    if !fixed && !stays {
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
    let hint = if fixed || stays { new } else { 0 };
    relocate(image, Move { old, old_length, new_length, hint, fixed, stays })
}

/// A requested move.
struct Move {
    old: u64,
    old_length: u64,
    new_length: u64,
    hint: u64,
    /// Whether the hint is mandatory, whatever is there.
    fixed: bool,
    /// Whether the old place stays mapped, and empty.
    stays: bool,
}

fn overlap(one: u64, one_bytes: u64, other: u64, other_bytes: u64) -> bool {
    one < other.saturating_add(other_bytes) && other < one.saturating_add(one_bytes)
}

/// Rights of the last page before `end`.
fn rights_before(image: &Image, end: u64) -> io::Result<u64> {
    Ok(image.parts(end - PAGE, PAGE)?.first().map_or(map::READ | map::WRITE, |part| part.protection))
}

/// Maps new memory right after `end` if nothing is there, with the rights of the memory before.
fn grow(image: &mut Image, end: u64, bytes: u64) -> io::Result<bool> {
    let protection = rights_before(image, end)?;
    let grown = extend(image, end, bytes, protection, map::FIXED_NOREPLACE)?;
    if grown && image.space.within(end - PAGE, PAGE).iter().any(|piece| piece.locked) {
        locks::lock_new(image, end, bytes, Lock::Filled)?;
    }
    Ok(grown)
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
    image.register(start, bytes)?;
    Ok(true)
}

/// Moves a range to a new place and length.
fn relocate(image: &mut Image, wanted: Move) -> io::Result<Verdict> {
    let Move { old, old_length, new_length, hint, fixed, stays } = wanted;
    let moved = old_length.min(new_length);
    let protection = rights_before(image, old + old_length)?;
    let parts = image.parts(old, moved)?;
    // Reserves the whole new place first, so that little can fail half-way for lack of room.
    let placing = if fixed { map::FIXED } else { 0 };
    let reserved = map::PRIVATE | map::ANONYMOUS | map::NORESERVE | placing;
    let new = image.agent_call(number::MMAP, [hint, new_length, 0, reserved, u64::MAX, 0])?;
    if new < 0 {
        return Ok(Verdict::Done(new));
    }
    let new = new as u64;
    image.give_up(new, new_length)?;
    let growth = new_length - moved;
    let grown = growth == 0 || extend(image, new + moved, growth, protection, map::FIXED)?;
    let distance = new.wrapping_sub(old);
    let result = if grown { shift(image, &parts, distance, stays)? } else { -errno::ENOMEM };
    if result < 0 {
        image.agent_call(number::MUNMAP, [new, new_length, 0, 0, 0, 0])?;
        image.give_up(new, new_length)?;
        image.register(old, moved)?;
        return Ok(Verdict::Done(result));
    }
    // Moved memory keeps its place in the file. It must be registered for faults again.
    let was_locked = image.space.within(old, moved).iter().any(|piece| piece.locked);
    image.space.shift(old, moved, new);
    if stays {
        // Writes to the old place before it maps another part of the file count as before the call.
        for part in &parts {
            image.renew(part.start, part.bytes(), part.protection)?;
        }
    }
    if let Some(agent) = &mut image.agent {
        agent.forget(old, moved)?;
    }
    image.register(new, moved)?;
    if was_locked && growth > 0 {
        locks::lock_new(image, new + moved, growth, Lock::Filled)?;
    }
    let (rest, rest_length) = (old + moved, old_length - moved);
    if rest_length > 0 && image.agent_call(number::MUNMAP, [rest, rest_length, 0, 0, 0, 0])? == 0 {
        image.give_up(rest, rest_length)?;
    }
    Ok(Verdict::Done(new as i64))
}

/// Moves all of these by a distance: 0, or the error number of the first failure; then all are back where they were.
/// `stays`: the old places stay mapped, to the same part of the file.
fn shift(image: &mut Image, parts: &[Mapping], distance: u64, stays: bool) -> io::Result<i64> {
    let how = if stays { DONTUNMAP } else { 0 };
    for (position, part) in parts.iter().enumerate() {
        let result = transfer(image, part.start, part.bytes(), part.start.wrapping_add(distance), how)?;
        if result < 0 {
            for back in &parts[..position] {
                transfer(image, back.start.wrapping_add(distance), back.bytes(), back.start, 0)?;
            }
            return Ok(result);
        }
    }
    Ok(0)
}

/// Moves one mapping; returns its new address, or an error number below 0.
fn transfer(image: &mut Image, from: u64, bytes: u64, to: u64, how: u64) -> io::Result<i64> {
    image.agent_call(number::MREMAP, [from, bytes, bytes, MAYMOVE | FIXED | how, to, 0])
}

/// Makes taken-over memory the program's private memory again, with its contents, for what only that can do. Whoever
/// touches it meanwhile waits. Returns whether all of it succeeded; the rest stays taken over. `why`: for the report.
pub fn give_back(image: &mut Image, start: u64, bytes: u64, why: &str) -> io::Result<bool> {
    let given = restore(image, start, bytes)?;
    for piece in &given.pieces {
        let (kib, at) = (piece.bytes() / 1024, piece.start);
        image.left_alone.push(format!("{kib} KiB given back at {at:#x}: {why}"));
    }
    Ok(given.all)
}

/// Makes everything taken over private memory again, and ends the agent: from now on the image runs as if untouched.
///
/// # Errors
/// If not all of it succeeded: the image is unchanged, or has less taken over.
pub fn let_go(image: &mut Image, why: &str) -> io::Result<()> {
    if !restore(image, 0, u64::MAX)?.all {
        return Err(io::Error::from_raw_os_error(errno::ENOMEM as i32));
    }
    image.end_agent(why);
    Ok(())
}

/// Memory that became private again.
struct ReturnedMemory {
    pieces: Vec<TakenRange>,
    all: bool,
}

fn restore(image: &mut Image, start: u64, bytes: u64) -> io::Result<ReturnedMemory> {
    let pieces = image.space.within(start, bytes);
    let mut given = ReturnedMemory { pieces: Vec::new(), all: true };
    if pieces.is_empty() {
        return Ok(given);
    }
    let parts = image.parts(start, bytes)?;
    if let Some(agent) = &mut image.agent {
        agent.freeze()?;
    }
    let result = make_private(image, &parts, &pieces, &mut given.pieces);
    if let Some(agent) = &mut image.agent {
        agent.thaw()?;
    }
    given.all = result? == 0;
    Ok(given)
}

/// Makes all pieces private memory, with the rights of their parts: 0, or the error number of the first failure.
fn make_private(
    image: &mut Image,
    parts: &[Mapping],
    pieces: &[TakenRange],
    given: &mut Vec<TakenRange>,
) -> io::Result<i64> {
    for part in parts {
        for piece in pieces.iter().filter_map(|piece| piece.cut(part.start, part.end)) {
            let result = copy_back(image, piece, part.protection)?;
            if result < 0 {
                return Ok(result);
            }
            image.give_up(piece.start, piece.bytes())?;
            given.push(piece);
        }
    }
    Ok(0)
}

/// Replaces a piece with private memory of the same contents: 0, or an error number below 0 with the piece unchanged.
fn copy_back(image: &mut Image, piece: TakenRange, protection: u64) -> io::Result<i64> {
    let flags = map::PRIVATE | map::ANONYMOUS | map::NORESERVE;
    let writable = map::READ | map::WRITE;
    let aside = image.agent_call(number::MMAP, [0, piece.bytes(), writable, flags, u64::MAX, 0])?;
    if aside < 0 {
        return Ok(aside);
    }
    let aside = aside as u64;
    let result = fill_and_place(image, aside, piece, protection)?;
    if result < 0 {
        image.agent_call(number::MUNMAP, [aside, piece.bytes(), 0, 0, 0, 0])?;
        return Ok(result);
    }
    Ok(0)
}

fn fill_and_place(image: &mut Image, aside: u64, piece: TakenRange, protection: u64) -> io::Result<i64> {
    let (mut position, end) = (piece.offset, piece.offset + piece.bytes());
    // Untouched pages stay absent: a program that serves faults itself waits for those.
    while let Some((data, hole)) = image.next_data(position, end)? {
        position = data;
        while position < hole {
            let to = aside + (position - piece.offset);
            let from = [descriptor::MEMORY.into(), to, hole - position, position, 0, 0];
            match image.agent_call(number::PREAD64, from)? {
                more @ 1.. => position += more as u64,
                error => return Ok(error),
            }
        }
    }
    let result = image.agent_call(number::MPROTECT, [aside, piece.bytes(), protection, 0, 0, 0])?;
    if result < 0 { Ok(result) } else { transfer(image, aside, piece.bytes(), piece.start, 0) }
}
