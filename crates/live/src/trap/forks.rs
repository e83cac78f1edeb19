//! Handles forks: parent and child must stop sharing taken-over memory.
//!
//! The child inherits mappings of the parent's memory file, where private memory would have been copied on write. So
//! while the child stands at its first stop and the parent's thread in its fork, the file is copied for the child. All
//! of the parent's memory is absent meanwhile: its other threads wait at their next reference, so the copy is
//! consistent.

use super::agent::{Agent, AgentStart};
use super::image::{Image, Setting};
use super::space::{Space, TakenRange};
use super::tracee::{Injection, SyscallSite};
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{Pid, map, next_data, number};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A word of the parent that the kernel overwrites, taking it for the child's memory (`CLONE_CHILD_SETTID`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its offset in the file.
    pub offset: u64,
    /// Its value before.
    pub bytes: [u8; 4],
}

/// Bytes copied at a time.
const BLOCK: usize = 1 << 20;

/// Gives a forked child memory and an agent of its own.
///
/// # Errors
/// If that fails: the child still shares its parent's memory and must not run.
pub fn separate(
    parent: &mut Image,
    child: &mut Image,
    child_pid: Pid,
    word: Option<Word>,
    setting: Setting<'_>,
) -> io::Result<()> {
    let inode = parent.memory_inode()?;
    let Some(agent) = &mut parent.agent else { return Ok(()) };
    // A dead agent cannot hold anyone up; copy all the same.
    let frozen = agent.freeze().is_ok();
    let separated = copy(agent, &parent.space, child, child_pid, inode, setting);
    let restored = word.map_or(Ok(()), |word| agent.memory.write_all_at(&word.bytes, word.offset));
    if frozen {
        // Nor can one that has died since.
        let _ = agent.thaw();
    }
    separated.and(restored)
}

fn copy(
    parent: &mut Agent,
    space: &Space,
    child: &mut Image,
    child_pid: Pid,
    inode: u64,
    setting: Setting<'_>,
) -> io::Result<()> {
    let mut inherited = maps::mappings(child_pid)?;
    inherited.retain(|mapping| mapping.inode == inode && mapping.name.starts_with("/memfd:pagewalk ("));
    if let Some(obstacle) = child.obstacle(child_pid, setting) {
        child.leave(obstacle);
    } else if let Err(error) = child.begin(child_pid, AgentStart::Fork, setting) {
        child.leave(error);
    }
    child.space = Space::copy_of(space);
    let Some(agent) = &mut child.agent else {
        return make_private(&parent.memory, child_pid, &inherited);
    };
    for piece in space.pieces() {
        copy_held(&parent.memory, &agent.memory, piece)?;
    }
    for mapping in &inherited {
        let (start, bytes) = (mapping.start, mapping.bytes());
        if let Some(error) = child.place(start, bytes, mapping.protection, mapping.offset)? {
            return Err(error);
        }
    }
    Ok(())
}

/// Copies a piece of the file to the same place of another file.
fn copy_held(from: &File, to: &File, piece: TakenRange) -> io::Result<()> {
    let end = piece.offset + piece.bytes();
    let mut position = piece.offset;
    while let Some((data, hole)) = next_data(from, position, end)? {
        copy_range(from, data, hole, |bytes, at| to.write_all_at(bytes, at))?;
        position = hole;
    }
    Ok(())
}

fn copy_range(
    from: &File,
    start: u64,
    end: u64,
    mut to: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK.min((end - start) as usize)];
    let mut at = start;
    while at < end {
        let length = block.len().min((end - at) as usize);
        from.read_exact_at(&mut block[..length], at)?;
        to(&block[..length], at)?;
        at += length as u64;
    }
    Ok(())
}

/// Makes all inherited memory plain private memory, by the child's own system calls.
fn make_private(parent: &File, child: Pid, inherited: &[Mapping]) -> io::Result<()> {
    let mut injection = Injection::begin(child, SyscallSite::Agent)?;
    for mapping in inherited {
        let (start, bytes) = (mapping.start, mapping.bytes());
        let flags = map::PRIVATE | map::ANONYMOUS | map::FIXED | map::NORESERVE;
        let at = injection.call(number::MMAP, [start, bytes, mapping.protection, flags, u64::MAX, 0])?;
        if at != start as i64 {
            return Err(io::Error::from_raw_os_error(-at as i32));
        }
        let (mut position, end) = (mapping.offset, mapping.offset + bytes);
        while let Some((data, hole)) = next_data(parent, position, end)? {
            let place = |offset| start + (offset - mapping.offset);
            copy_range(parent, data, hole, |bytes, at| injection.memory.write_all_at(bytes, place(at)))?;
            position = hole;
        }
    }
    injection.end()
}
