//! Moving taken-over memory, and giving it back.

use super::calls::{Verdict, parts, refused};
use super::image::Image;
use super::shared::descriptor;
use super::space::{PAGE, Piece, whole_pages};
use crate::tracing::maps::Mapping;
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
    image.register(start, bytes)?;
    Ok(true)
}

/// Moves a range to a new place and length.
fn relocate(
    image: &mut Image,
    (old, old_length): (u64, u64),
    new_length: u64,
    wanted: Option<u64>,
) -> io::Result<Verdict> {
    let moved = old_length.min(new_length);
    let protection = rights_before(image, old + old_length)?;
    let parts = parts(image, old, moved)?;
    // The whole of the new place first, so that little can fail half-way for want of room.
    let placing = if wanted.is_some() { map::FIXED } else { 0 };
    let reserved = map::PRIVATE | map::ANONYMOUS | map::NORESERVE | placing;
    let hint = wanted.unwrap_or(0);
    let new = image.agent_call(number::MMAP, [hint, new_length, 0, reserved, u64::MAX, 0])?;
    if new < 0 {
        return Ok(Verdict::Done(new));
    }
    let new = new as u64;
    image.give_up(new, new_length)?;
    let growth = new_length - moved;
    let grown = growth == 0 || extend(image, new + moved, growth, protection, map::FIXED)?;
    let result = if grown { shift(image, &parts, new.wrapping_sub(old))? } else { -errno::ENOMEM };
    if result < 0 {
        image.agent_call(number::MUNMAP, [new, new_length, 0, 0, 0, 0])?;
        image.give_up(new, new_length)?;
        image.register(old, moved)?;
        return Ok(Verdict::Done(result));
    }
    // What moved keeps its place in the file. It faults no more until that is asked for again.
    let pieces = image.space.remove(old, moved);
    if let Some(agent) = &mut image.agent {
        agent.forget(old, moved)?;
    }
    for piece in pieces {
        image.space.insert(new + (piece.start - old), piece.bytes(), piece.offset);
    }
    image.register(new, moved)?;
    let (rest, rest_length) = (old + moved, old_length - moved);
    if rest_length > 0 && image.agent_call(number::MUNMAP, [rest, rest_length, 0, 0, 0, 0])? == 0 {
        image.give_up(rest, rest_length)?;
    }
    Ok(Verdict::Done(new as i64))
}

/// Moves all of these by a distance: 0, or the error number of the first that could not; then all are where they were.
fn shift(image: &mut Image, parts: &[Mapping], distance: u64) -> io::Result<i64> {
    for (position, part) in parts.iter().enumerate() {
        let result = transfer(image, part.start, part.bytes(), part.start.wrapping_add(distance))?;
        if result < 0 {
            for back in &parts[..position] {
                transfer(image, back.start.wrapping_add(distance), back.bytes(), back.start)?;
            }
            return Ok(result);
        }
    }
    Ok(0)
}

/// Moves one mapping; its new address, or an error number below 0.
fn transfer(image: &mut Image, from: u64, bytes: u64, to: u64) -> io::Result<i64> {
    image.agent_call(number::MREMAP, [from, bytes, bytes, MAYMOVE | FIXED, to, 0])
}

/// Makes taken-over memory the program's own private memory again, with its contents: for what only that can do. Who
/// touches it meanwhile waits. Whether all of it could be; what could not stays taken over.
pub fn give_back(image: &mut Image, start: u64, bytes: u64) -> io::Result<bool> {
    let pieces = image.space.within(start, bytes);
    if pieces.is_empty() {
        return Ok(true);
    }
    let parts = parts(image, start, bytes)?;
    if let Some(agent) = &mut image.agent {
        agent.freeze()?;
    }
    let result = make_private(image, &parts, &pieces);
    if let Some(agent) = &mut image.agent {
        agent.thaw()?;
    }
    Ok(result? == 0)
}

/// Makes private memory of all pieces, with the rights of the parts that they lie in: 0, or the error number of the
/// first for which it could not be done.
fn make_private(image: &mut Image, parts: &[Mapping], pieces: &[Piece]) -> io::Result<i64> {
    for part in parts {
        for piece in pieces.iter().filter_map(|piece| piece.cut(part.start, part.end)) {
            let result = copy_back(image, piece, part.protection)?;
            if result < 0 {
                return Ok(result);
            }
            image.give_up(piece.start, piece.bytes())?;
            let kib = piece.bytes() / 1024;
            image
                .left_alone
                .push(format!("{kib} KiB given back, as the program wants its own private memory"));
        }
    }
    Ok(0)
}

/// Puts private memory with the same contents in the place of a piece: 0, or an error number below 0; then the piece is
/// as it was.
fn copy_back(image: &mut Image, piece: Piece, protection: u64) -> io::Result<i64> {
    let flags = map::PRIVATE | map::ANONYMOUS;
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

fn fill_and_place(image: &mut Image, aside: u64, piece: Piece, protection: u64) -> io::Result<i64> {
    let mut copied = 0;
    while copied < piece.bytes() {
        let (to, rest) = (aside + copied, piece.bytes() - copied);
        let from = [descriptor::MEMORY.into(), to, rest, piece.offset + copied, 0, 0];
        match image.agent_call(number::PREAD64, from)? {
            more @ 1.. => copied += more as u64,
            error => return Ok(error),
        }
    }
    let result = image.agent_call(number::MPROTECT, [aside, piece.bytes(), protection, 0, 0, 0])?;
    if result < 0 { Ok(result) } else { transfer(image, aside, piece.bytes(), piece.start) }
}
