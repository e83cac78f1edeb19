//! Guard regions (`MADV_GUARD_INSTALL`, Linux 6.13), which the C library puts below thread stacks: pages that fault
//! when touched, without a mapping of their own.
//!
//! The kernel keeps them in the page table and discards the pages' contents. A fork copies them only in private memory,
//! so that is where they are put; when they are removed, the memory is taken over again.

use super::filter::advice;
use super::image::Image;
use crate::tracing::sys::{map, number};
use std::io;

/// Installs guards: 0, or an error number below 0.
///
/// # Errors
/// If the agent is lost, or the mappings cannot be read.
pub fn install(image: &mut Image, start: u64, bytes: u64) -> io::Result<i64> {
    // Kernels without guards say so before anything is lost.
    let result = image.agent_call(number::MADVISE, [start, bytes, advice::GUARD_INSTALL, 0, 0, 0])?;
    if result < 0 {
        return Ok(result);
    }
    for part in image.parts(start, bytes)? {
        for piece in image.space.within(part.start, part.bytes()) {
            let flags = map::PRIVATE | map::ANONYMOUS | map::FIXED | map::NORESERVE;
            let place = [piece.start, piece.bytes(), part.protection, flags, u64::MAX, 0];
            let at = image.agent_call(number::MMAP, place)?;
            if at < 0 {
                return Ok(at);
            }
            image.give_up(piece.start, piece.bytes())?;
            image.guards.insert(piece.start, piece.bytes(), 0);
        }
    }
    image.agent_call(number::MADVISE, [start, bytes, advice::GUARD_INSTALL, 0, 0, 0])
}

/// Removes guards: 0, or an error number below 0.
///
/// # Errors
/// If the agent is lost, or the mappings cannot be read.
pub fn remove(image: &mut Image, start: u64, bytes: u64) -> io::Result<i64> {
    for part in image.parts(start, bytes)? {
        for guarded in image.guards.remove(part.start, part.bytes()) {
            image.renew(guarded.start, guarded.bytes(), part.protection)?;
        }
    }
    image.agent_call(number::MADVISE, [start, bytes, advice::GUARD_REMOVE, 0, 0, 0])
}
