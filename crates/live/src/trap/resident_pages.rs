//! Keeps pages present where the kernel changes words without waiting for a fault.
//!
//! - An exiting thread writes words: a zero for `pthread_join`, and a mark in each robust mutex that it holds. The
//!   kernel writes them when the thread is already exiting: a word in an absent page would never be written, and
//!   waiters would wait forever. So those pages are kept until the thread is gone.
//! - The kernel itself changes priority-inheritance locks, and words of `FUTEX_WAKE_OP`. With an absent page the call
//!   would fail. So the page is kept until the call has ended.

use super::filter::{FUTEX_OPERATION, futex};
use super::image::Image;
use super::space::PAGE;
use crate::tracing::sys::{self, Pid, Registers, errno};
use std::io;

/// Most robust mutexes of one thread to look at; the kernel's limit is 2,048.
const MUTEXES_MAX: usize = 256;

/// Keeps the pages present that the exit of `pid` needs; returns their addresses. None if so many threads exit right
/// now that the agent cannot keep more.
pub fn for_end(image: &mut Image, pid: Pid, ending_word: u64) -> io::Result<Option<Vec<u64>>> {
    let words = words(image, pid, ending_word);
    keep(image, &words)
}

/// Keeps the page present in which the kernel will change a lock; returns its address. None as above.
pub fn for_lock(image: &mut Image, registers: &Registers) -> io::Result<Option<Vec<u64>>> {
    let [first, operation, _, _, second, _] = registers.arguments();
    let changes_first = futex::FIRST.contains(&(operation & FUTEX_OPERATION));
    keep(image, &[if changes_first { first } else { second }])
}

fn keep(image: &mut Image, words: &[u64]) -> io::Result<Option<Vec<u64>>> {
    let mut pages: Vec<u64> = words.iter().map(|address| address / PAGE * PAGE).collect();
    pages.sort_unstable();
    pages.dedup();
    pages.retain(|&page| image.space.offset_of(page).is_some());
    let Some(agent) = &mut image.agent else { return Ok(Some(Vec::new())) };
    for (position, &page) in pages.iter().enumerate() {
        // Any other failure means that nothing was ever there, and the kernel has nothing to change.
        if agent.keep(page)? == -errno::EAGAIN {
            release(image, &pages[..position]);
            return Ok(None);
        }
    }
    Ok(Some(pages))
}

/// The words that the kernel will read and write.
fn words(image: &Image, pid: Pid, ending_word: u64) -> Vec<u64> {
    let mut words: Vec<u64> = (ending_word != 0).then_some(ending_word).into_iter().collect();
    let Some(head) = sys::robust_list(pid).ok().filter(|&head| head != 0) else { return words };
    // struct robust_list_head: the list, the offset from an entry to its mutex, the pending entry.
    words.extend([head, head.wrapping_add(8), head.wrapping_add(16)]);
    let read = |address| image.word(pid, address).unwrap_or(0);
    let distance = read(head.wrapping_add(8));
    let mut entries = vec![read(head.wrapping_add(16))];
    let mut entry = read(head);
    while entry != head && entry & !1 != 0 && entries.len() < MUTEXES_MAX {
        entries.push(entry);
        entry = read(entry & !1);
    }
    for entry in entries.into_iter().map(|entry| entry & !1).filter(|&entry| entry != 0) {
        words.extend([entry, entry.wrapping_add(distance)]);
    }
    words
}

/// The thread is gone, or its call has ended.
pub fn release(image: &mut Image, kept: &[u64]) {
    let Some(agent) = &mut image.agent else { return };
    for &page in kept {
        // A lost agent has nothing to release.
        if agent.release(page).is_err() {
            return;
        }
    }
}
