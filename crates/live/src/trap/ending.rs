//! The end of a thread whose memory others go on using.
//!
//! A thread that ends leaves words behind: a zero where `pthread_join` waits for it, and a mark in each robust mutex
//! that it holds. The kernel writes them when the thread is already ending, and then it does not wait for a fault: a
//! word in an absent page would never be written, and who waits for it would wait for ever. So those pages are kept
//! present until the thread is gone.

use super::image::Image;
use super::space::PAGE;
use crate::tracing::sys::{self, Pid};
use std::io;

/// Robust mutexes of one thread that are looked at; the kernel's own limit is 2,048.
const MUTEXES_MAX: usize = 256;

/// Keeps the pages present that the end of `pid` needs; their addresses.
pub fn keep(image: &mut Image, pid: Pid, ending_word: u64) -> io::Result<Vec<u64>> {
    let mut pages: Vec<u64> =
        words(image, pid, ending_word).into_iter().map(|address| address / PAGE * PAGE).collect();
    pages.sort_unstable();
    pages.dedup();
    pages.retain(|&page| image.space.offset_of(page).is_some());
    let Some(agent) = &mut image.agent else { return Ok(Vec::new()) };
    let mut kept = Vec::new();
    for page in pages {
        agent.keep(page)?;
        kept.push(page);
    }
    Ok(kept)
}

/// The words that the kernel will read and write.
fn words(image: &Image, pid: Pid, ending_word: u64) -> Vec<u64> {
    let mut words: Vec<u64> = (ending_word != 0).then_some(ending_word).into_iter().collect();
    let Some(head) = sys::robust_list(pid).ok().filter(|&head| head != 0) else { return words };
    // struct robust_list_head: the list, the distance from an entry to its mutex, the entry in the making.
    words.extend([head, head + 8, head + 16]);
    let read = |address| image.word(pid, address).unwrap_or(0);
    let distance = read(head + 8);
    let mut entries = vec![read(head + 16)];
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

/// The thread is gone.
pub fn release(image: &mut Image, kept: &[u64]) {
    let Some(agent) = &mut image.agent else { return };
    for &page in kept {
        // A lost agent has nothing to release.
        if agent.release(page).is_err() {
            return;
        }
    }
}
