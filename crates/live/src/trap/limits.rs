//! Enforces the program's own limits: the agent makes calls in its place, with the limits and rights of the moment it
//! started, and with memory of its own that must not count.

use super::image::Image;
use super::shared::{AGENT_END, TEXT_BASE};
use super::space::PAGE;
use crate::tracing::maps::{self, Mapping};
use crate::tracing::sys::{self, Pid, errno, limit, map};
use std::io;

/// Memory that a call is about to create.
#[derive(Clone, Copy, Debug)]
pub struct NewMemory {
    /// Its length.
    pub bytes: u64,
    /// Its rights.
    pub protection: u64,
    /// Whether it is locked from the start.
    pub locked: bool,
}

/// The error number with which the kernel would refuse more memory, if so.
///
/// # Errors
/// If the program's present memory cannot be read.
pub fn hinder(image: &Image, pid: Pid, coming: NewMemory) -> io::Result<Option<i64>> {
    let NewMemory { bytes, protection, locked } = coming;
    if locked && !may_lock(image, pid, bytes)? {
        return Ok(Some(errno::EAGAIN));
    }
    let addresses = maps::limit_of(pid, limit::ADDRESSES)?.0;
    let data = maps::limit_of(pid, limit::DATA)?.0;
    if addresses == sys::UNLIMITED && data == sys::UNLIMITED {
        return Ok(None);
    }
    let own = own_mappings(image)?;
    let sum = |held: &dyn Fn(&Mapping) -> bool| {
        let bytes: u64 = own.iter().filter(|mapping| held(mapping)).map(Mapping::bytes).sum();
        bytes.saturating_sub(image.reserve_bytes())
    };
    let is_data = |mapping: &Mapping| mapping.is_writable() && (!mapping.shared || image.owns(mapping));
    let is_over = |held: u64, limit: u64| held.saturating_add(bytes) > limit;
    let over =
        is_over(sum(&|_| true), addresses) || protection & map::WRITE != 0 && is_over(sum(&is_data), data);
    Ok(over.then_some(errno::ENOMEM))
}

/// The same for growing memory.
///
/// # Errors
/// If the program's present memory cannot be read.
pub fn hinder_growth(
    image: &Image,
    pid: Pid,
    (start, length): (u64, u64),
    bytes: u64,
) -> io::Result<Option<i64>> {
    if bytes == 0 {
        return Ok(None);
    }
    let locked = image.space.within(start, length).iter().any(|piece| piece.locked);
    hinder(image, pid, NewMemory { bytes, protection: map::WRITE, locked })
}

/// Whether the program may lock this many more bytes.
///
/// # Errors
/// If its locked bytes cannot be read.
pub fn may_lock(image: &Image, pid: Pid, bytes: u64) -> io::Result<bool> {
    let (most, _) = maps::limit_of(pid, limit::LOCKED)?;
    if most == sys::UNLIMITED || maps::may_lock_any(pid)? {
        return Ok(true);
    }
    let held = image.space.locked_bytes() + maps::locked_bytes(pid)?;
    Ok(held.saturating_add(bytes) / PAGE <= most / PAGE)
}

/// Whether the program may lock nothing at all.
///
/// # Errors
/// If its rights cannot be read.
pub fn may_lock_nothing(pid: Pid) -> io::Result<bool> {
    Ok(maps::limit_of(pid, limit::LOCKED)?.0 == 0 && !maps::may_lock_any(pid)?)
}

/// Bytes of all mappings of the program.
///
/// # Errors
/// If its mappings cannot be read.
pub fn mapped_bytes(image: &Image) -> io::Result<u64> {
    let all: u64 = own_mappings(image)?.iter().map(Mapping::bytes).sum();
    Ok(all.saturating_sub(image.reserve_bytes()))
}

/// The mappings without the agent's.
///
/// # Errors
/// If they cannot be read.
pub fn own_mappings(image: &Image) -> io::Result<Vec<Mapping>> {
    let Some(agent) = &image.agent else { return Ok(Vec::new()) };
    let mut mappings = maps::mappings(agent.pid())?;
    mappings.retain(|mapping| mapping.end <= TEXT_BASE || mapping.start >= AGENT_END);
    Ok(mappings)
}
